"""Saving and loading an ensemble."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from colangevin.ensemble.removing import Removal, select

if TYPE_CHECKING:
    from colangevin.ensemble.ensemble import Ensemble


def pack(ensemble: Ensemble) -> dict[str, Any]:
    """Copies of all tensors, and plain values."""
    parts = ensemble._store.parts()
    return {
        "seeds": list(ensemble.seeds),
        "active": list(ensemble.active),
        "removed": [tuple(removal) for removal in ensemble.removed],
        "steps": ensemble.steps,
        "epochs": ensemble.epochs,
        "options": {name: _plain(value) for name, value in ensemble._options.items()},
        "random_state": ensemble._stepper.random_state.clone(),
        "random": ensemble._stepper.random,
        "store": {part: {n: t.clone() for n, t in named.items()} for part, named in parts.items()},
        "coupled": [coupled.state_dict() for coupled in ensemble._coupled],
    }


def _plain(value: Any) -> Any:
    """Numbers of the members as a list, which loads with ``weights_only``."""
    several = isinstance(value, (list, tuple, range, Tensor))
    return torch.as_tensor(value, dtype=torch.float64).tolist() if several else value


def unpack(ensemble: Ensemble, state: dict[str, Any]) -> None:
    """Check everything, then take it over."""
    if state["seeds"] != ensemble.seeds:
        raise ValueError(f"the state is of the seeds {state['seeds']}, not {ensemble.seeds}")
    if not set(state["active"]) <= set(ensemble.active):
        raise ValueError("members were removed that the state has: load it into a new ensemble")
    names = ("_options", "_first", "_later")  # the last two are there once there are options
    before = {name: vars(ensemble)[name] for name in names if name in vars(ensemble)}
    store = copy.copy(ensemble._store)
    store.momentum, store.slack_momentum = dict(store.momentum), dict(store.slack_momentum)
    if state.get("options"):
        ensemble._settle(state["options"])
    try:
        _check(ensemble, state)
    except ValueError:
        vars(ensemble).update(before, _store=store)
        raise
    _take(ensemble, state)


def _check(ensemble: Ensemble, state: dict[str, Any]) -> None:
    parts = ensemble._store.parts()
    for part, named in parts.items():
        saved = state["store"][part]
        if {n: t.shape[1:] for n, t in saved.items()} != {n: t.shape[1:] for n, t in named.items()}:
            raise ValueError(
                f"the state's {part} has other names or shapes: {sorted(saved)} instead of "
                f"{sorted(named)}"
            )
    coupled_names = [set(coupled.state_dict()) for coupled in ensemble._coupled]
    if [set(saved) for saved in state["coupled"]] != coupled_names:
        raise ValueError("the state is of other constraints")


def _take(ensemble: Ensemble, state: dict[str, Any]) -> None:
    rows = [ensemble.active.index(i) for i in state["active"]]
    if len(rows) < len(ensemble.active):
        keep = torch.zeros(len(ensemble.active), dtype=torch.bool)
        keep[rows] = True
        ensemble.active = list(state["active"])
        select(ensemble, keep)
    with torch.no_grad():
        for part, named in ensemble._store.parts().items():
            for name, tensor in named.items():
                tensor.copy_(state["store"][part][name])
    for coupled, saved in zip(ensemble._coupled, state["coupled"], strict=True):
        coupled.load_state_dict(saved)
    ensemble.removed = [Removal(*removal) for removal in state["removed"]]
    ensemble.steps, ensemble.epochs = state["steps"], state["epochs"]
    ensemble._stepper.random_state = state["random_state"].clone()
    ensemble._stepper.random = state["random"]
