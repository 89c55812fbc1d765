"""What an ensemble keeps: moving, saving and loading it, and members that diverge and leave it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from colangevin.constraints.base import same_values
from colangevin.ensemble.groups import ALIKE, MemberGroup, finite_members
from colangevin.ensemble.members import DECAYS
from colangevin.optimizers.directions import Direction
from colangevin.optimizers.saving.state_dict import copied
from colangevin.optimizers.step.friction import FRICTION

if TYPE_CHECKING:
    from colangevin.ensemble.ensemble import Ensemble

SAVED = ("lr", "momentum", "temperature", *DECAYS, "scheme", "delayed_gradient", "friction")
"""The settings of a group that a state brings, of those members that it has."""
COUNTS = ("iterations", "fallbacks")
"""What a group counts; states of before have no counts by group."""
PLAIN = ("steps", "epochs", "fallbacks")
"""What an ensemble counts."""


class Removal(NamedTuple):
    """A member that was removed because its loss or its weights were no longer finite."""

    member: int
    seed: int
    step: int


# --- members that go --------------------------------------------------------------------------


def sound(losses: Tensor, stacked: Iterable[Tensor], groups: Iterable[MemberGroup]) -> Tensor:
    """Which members go on: their losses, weights and gradients are finite.

    A gradient of the last step that is not finite shows in no loss yet. It shows in the weights,
    and where a projection would fail, in the members that rest.

    Example:
        >>> sound(torch.ones(2), [torch.tensor([[1.0], [torch.nan]])], [])
        tensor([ True, False])
    """
    keep = losses.isfinite().cpu()
    for tensor in stacked:
        if (own := finite_members(tensor)) is not None:
            keep = keep & own.cpu()
    for group in groups:
        if group.resting is not None:
            keep = keep & ~group.resting.cpu()
    return keep


def select(ensemble: Ensemble, rows: Sequence[int]) -> None:
    """Keep the members in these rows."""
    count, chosen, learned = len(ensemble.active), list(rows), ensemble._learned

    def part(tensor: Tensor) -> Tensor:
        """The members' part of a tensor whose first dimension is members, or members · rows."""
        return tensor.unflatten(0, (count, -1))[chosen].flatten(0, 1) if tensor.dim() else tensor

    entries = {name: ensemble._state[tensor] for name, tensor in learned.items()}
    for table in (learned, ensemble._frozen, ensemble._buffers):
        table.update({name: tensor[chosen].contiguous() for name, tensor in table.items()})
    ensemble._state = {
        learned[name]: {key: part(value).contiguous() for key, value in entry.items()}
        for name, entry in entries.items()
    }
    ensemble.active = [ensemble.active[row] for row in chosen]
    ensemble._own_seeds = [ensemble.seeds[i] for i in ensemble.active]
    for group in ensemble._groups:
        group.select(chosen)
    if ensemble.active:
        ensemble._lay_out()


@torch.no_grad()
def move(ensemble: Ensemble, convert: Callable[[Tensor], Tensor]) -> None:
    """Put all tensors somewhere else: all of them, or none if one cannot be moved."""
    tables = (ensemble._learned, ensemble._frozen, ensemble._buffers)
    moved = [{name: convert(tensor) for name, tensor in table.items()} for table in tables]
    state = {
        moved[0][name]: {
            key: convert(value) if value.dim() and key != FRICTION else value  # laying out moves it
            for key, value in ensemble._state[tensor].items()
        }
        for name, tensor in ensemble._learned.items()
    }
    ensemble._template._apply(convert)
    for table, new in zip(tables, moved, strict=True):
        table.update(new)
    ensemble._state = state
    ensemble._gradients.forget()
    if ensemble.active:
        ensemble._lay_out()


# --- saving -----------------------------------------------------------------------------------


def pack(ensemble: Ensemble) -> dict[str, Any]:
    """Copies of all tensors, and plain values."""
    return {
        "seeds": list(ensemble.seeds),
        "active": list(ensemble.active),
        "removed": [tuple(removal) for removal in ensemble.removed],
        **{name: getattr(ensemble, name) for name in PLAIN},
        "options": {k: _plain(v) for k, v in ensemble._options.items() if k != "direction"},
        "random_state": ensemble._gradients.random_state.clone(),
        "random": ensemble._gradients.random,
        "weights": copied(ensemble._learned),
        "buffers": copied(ensemble._buffers),
        "state": {name: copied(ensemble._state[t]) for name, t in ensemble._learned.items()},
        "groups": [_group(part) for part in ensemble._groups],
    }


def _group(part: MemberGroup) -> dict[str, Any]:
    settings = [
        {name: group[name] for name in (*SAVED, "steps") if name in group} for group in part.options
    ]
    found: dict[str, Any] = copied({"constraints": part.describe(), "settings": settings})
    counts = {name: getattr(part, name) for name in COUNTS}
    return {**found, **counts, **_kinds(part)}


def _kinds(part: MemberGroup) -> dict[str, Any]:
    """What is chosen when an ensemble is made, as plain values."""
    own = part.options[0] if part.options else {}
    found = {name: own[name] for name in ALIKE if name in own}
    return {k: v.describe() if isinstance(v, Direction) else v for k, v in found.items()}


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
            entry = ensemble._state[tensor]
            for field, value in state["state"][key].items():
                if field in entry:
                    entry[field].copy_(value)
                else:
                    entry[field] = value.to(tensor.device).clone()
    ensemble.removed = [Removal(*removal) for removal in state["removed"]]
    for name in PLAIN:
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
    needed = {"seeds", "active", "removed", *PLAIN, "options", "random_state", "random", "groups"}
    needed |= {"weights", "buffers", "state"}
    missing = needed - set(state) if isinstance(state, Mapping) else needed
    if missing:
        raise ValueError(f"no state of an ensemble: it lacks {', '.join(sorted(missing))}")
    if state["seeds"] != ensemble.seeds:
        raise ValueError(f"the state is of the seeds {state['seeds']}, not {ensemble.seeds}")
    if not set(state["active"]) <= set(ensemble.active):
        raise ValueError("members were removed that the state has: load it into a new ensemble")
    for own, what in ((ensemble._learned, "weights"), (ensemble._buffers, "buffers")):
        saved = state[what]
        if {n: t.shape[1:] for n, t in saved.items()} != {n: t.shape[1:] for n, t in own.items()}:
            raise ValueError(
                f"the state's {what} has other names or shapes: {sorted(saved)} instead of "
                f"{sorted(own)}"
            )
    if set(state["state"]) != set(ensemble._learned):
        raise ValueError("the state has other names or shapes: it is of other parameters")
    for part, saved in zip(ensemble._groups, state["groups"], strict=False):
        for name, own in _kinds(part).items():
            if not same_values({name: saved.get(name, own)}, {name: own}):
                raise ValueError(f"the state has the {name} {saved[name]}, not {own}")
    geometries = [part.describe() for part in ensemble._groups]
    found = [group["constraints"] for group in state["groups"]]
    counts = [[*map(len, each)] for each in (found, geometries)]
    if counts[0] != counts[1] or not all(map(same_values, chain(*found), chain(*geometries))):
        raise ValueError(
            f"the state is of other constraints: {found}, the ensemble has {geometries}"
        )
