"""Saving and loading an ensemble."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from colangevin.constraints.base import same_values
from colangevin.ensemble.diverging import Removal
from colangevin.optimizers.saving.state_dict import copied

if TYPE_CHECKING:
    from colangevin.ensemble.ensemble import Ensemble

SAVED = ("lr", "momentum", "temperature", "weight_decay", "scheme", "delayed_gradient", "friction")
"""The settings of a group that a state brings, of those members that it has."""
COUNTS = ("iterations", "fallbacks")
"""What a group counts; states of before have no counts by group."""
PLAIN = ("seeds", "active", "removed", "steps", "epochs", "fallbacks")


def pack(ensemble: Ensemble) -> dict[str, Any]:
    """Copies of all tensors, and plain values."""
    return {
        **{name: list(getattr(ensemble, name)) for name in ("seeds", "active")},
        "removed": [tuple(removal) for removal in ensemble.removed],
        **{name: getattr(ensemble, name) for name in ("steps", "epochs", "fallbacks")},
        "options": {name: _plain(value) for name, value in ensemble._options.items()},
        "random_state": ensemble._gradients.random_state.clone(),
        "random": ensemble._gradients.random,
        "weights": copied(ensemble._learned),
        "buffers": copied(ensemble._buffers),
        "state": {name: copied(ensemble._state[t]) for name, t in ensemble._learned.items()},
        "groups": [_group(part) for part in ensemble._groups],
    }


def _group(part: Any) -> dict[str, Any]:
    settings = [
        {name: group[name] for name in (*SAVED, "steps") if name in group} for group in part.options
    ]
    constraints = copied(part.describe())
    return {
        "constraints": constraints,
        "settings": copied(settings),
        **{name: getattr(part, name) for name in COUNTS},
    }


def _plain(value: Any) -> Any:
    """Numbers of the members as a list, which loads with ``weights_only``."""
    several = isinstance(value, (list, tuple, range, Tensor))
    return torch.as_tensor(value, dtype=torch.float64).tolist() if several else value


def unpack(ensemble: Ensemble, state: dict[str, Any]) -> None:
    """Check everything, then take it over."""
    _check(ensemble, state)
    if state["options"]:
        ensemble._settle(dict(state["options"]), state["options"])
    rows = [ensemble.active.index(i) for i in state["active"]]
    if len(rows) < len(ensemble.active):
        ensemble._select(rows)
    with torch.no_grad():
        for table, name in ((ensemble._learned, "weights"), (ensemble._buffers, "buffers")):
            for key, tensor in table.items():
                tensor.copy_(state[name][key])
        for key, tensor in ensemble._learned.items():
            for field, value in state["state"][key].items():
                entry = ensemble._state[tensor]
                if field in entry:
                    entry[field].copy_(value)
                else:
                    entry[field] = value.to(tensor.device).clone()
    ensemble.removed = [Removal(*removal) for removal in state["removed"]]
    for name in ("steps", "epochs", "fallbacks"):
        setattr(ensemble, name, state[name])
    for part, saved in zip(ensemble._groups, state["groups"], strict=True):
        if saved.get("friction") is not None:  # states of before have it here
            part.plan.friction.copy_(saved["friction"])
        part.set(saved["settings"])
        for name in COUNTS:
            setattr(part, name, saved.get(name, 0))
    ensemble._gradients.random_state = state["random_state"].clone()
    ensemble._gradients.random = state["random"]


def _check(ensemble: Ensemble, state: Mapping[str, Any]) -> None:
    needed = {*PLAIN, "options", "random_state", "random", "weights", "buffers", "state", "groups"}
    missing = needed - set(state) if isinstance(state, Mapping) else needed
    if missing:
        raise ValueError(f"no state of an ensemble: it lacks {', '.join(sorted(missing))}")
    if state["seeds"] != ensemble.seeds:
        raise ValueError(f"the state is of the seeds {state['seeds']}, not {ensemble.seeds}")
    if not set(state["active"]) <= set(ensemble.active):
        raise ValueError("members were removed that the state has: load it into a new ensemble")
    for table, name in ((ensemble._learned, "weights"), (ensemble._buffers, "buffers")):
        _check_names(name, table, state[name])
    if set(state["state"]) != set(ensemble._learned):
        raise ValueError("the state has other names or shapes: it is of other parameters")
    _check_groups(ensemble, state["groups"])


def _check_names(what: str, own: Mapping[str, Tensor], saved: Mapping[str, Any]) -> None:
    shapes = {name: tensor.shape[1:] for name, tensor in own.items()}
    if {name: tensor.shape[1:] for name, tensor in saved.items()} != shapes:
        raise ValueError(
            f"the state's {what} has other names or shapes: {sorted(saved)} instead of "
            f"{sorted(own)}"
        )


def _check_groups(ensemble: Ensemble, saved: Any) -> None:
    own = [part.describe() for part in ensemble._groups]
    found = [group["constraints"] for group in saved]
    agree = len(own) == len(found) and all(
        len(one) == len(other) and all(map(same_values, one, other))
        for one, other in zip(own, found, strict=True)
    )
    if not agree:
        raise ValueError(f"the state is of other constraints: {found}, the ensemble has {own}")
