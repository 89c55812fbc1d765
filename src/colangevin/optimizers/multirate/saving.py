"""State dicts of ``Multirate`` in torch's form: all that has to survive is state of a parameter.

So ``torch.distributed.checkpoint`` can save and load them. The names of what ``Multirate`` adds to
the entries of its optimizers begin with ``multirate``. They are the same at every step, because a
checkpoint is loaded by the names that a new optimizer has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from torch import Tensor
from torch.optim.optimizer import Optimizer

from colangevin import checks
from colangevin.optimizers.cola import CoLA
from colangevin.optimizers.multirate.spread import PREFIX, Spread
from colangevin.optimizers.saving.state_dict import checked_form, copied

if TYPE_CHECKING:
    from colangevin.optimizers.multirate.multirate import Multirate

Entries: TypeAlias = dict[Tensor, dict[str, Any]]
Path: TypeAlias = "list[tuple[Multirate, bool]]"
"""From the outermost ``Multirate`` to an optimizer: each, and whether its slow part is next."""


def leaves(multirate: Multirate, above: Path | None = None) -> Iterator[tuple[Spread, Path]]:
    """The optimizers at the ends, in the order of the groups, with the path to each."""
    for part, slow in ((multirate._fast, False), (multirate._slow, True)):
        path = [*(above or []), (multirate, slow)]
        if isinstance(part, Spread):
            yield part, path
        else:
            yield from leaves(part, path)


def _is_spread(path: Path, place_of: Mapping[Multirate, Mapping[str, Any]]) -> bool:
    """Whether the steps of the optimizer at the end of a path are spread."""
    places = [place_of[multirate] for multirate, slow in path if slow]
    return any(place["drift"] and place["period"] > 1 for place in places)


def _name(level: int, name: str) -> str:
    return f"{PREFIX}{level}_{name}"


def entries(multirate: Multirate) -> Entries:
    """What is to be saved for each parameter besides the state of its optimizer."""
    found: Entries = {}
    for leaf, path in leaves(multirate):
        place_of = {own: own._place for own, _ in path}
        numbers = {
            _name(level, name): value
            for level, place in enumerate(place_of.values())
            for name, value in place.items()
        }
        own = leaf.entries() if _is_spread(path, place_of) else {}
        found.update({p: {**numbers, **own.get(p, {})} for p in leaf.parameters()})
    return found


def states(multirate: Multirate) -> Entries:
    """The state of every parameter, as its optimizer has it, with what is saved besides."""
    kept = {p: entry for leaf, _ in leaves(multirate) for p, entry in leaf.optimizer.state.items()}
    return {p: {**kept.get(p, {}), **own} for p, own in entries(multirate).items()}


def packed(multirate: Multirate) -> dict[str, Any]:
    """The state of all optimizers as one state dict."""
    groups: list[dict[str, Any]] = []
    state: dict[int, dict[str, Any]] = {}
    own = entries(multirate)
    for leaf, _ in leaves(multirate):
        first = len(state)
        saved = leaf.optimizer.state_dict()
        for group in saved["param_groups"]:
            groups.append({**group, "params": [first + key for key in group["params"]]})
        for index, parameter in enumerate(leaf.parameters()):
            state[first + index] = {**saved["state"].get(index, {}), **own[parameter]}
    whole: dict[str, Any] = copied({"state": state, "param_groups": groups})
    return whole


# --- loading --------------------------------------------------------------------------------


def load(multirate: Multirate, state_dict: Mapping[str, Any]) -> None:
    """Load all of a state dict or nothing.

    Raises:
        ValueError, TypeError: if it is not of such an optimizer.
    """
    parts = list(_parts(multirate, state_dict))
    saved = {parameter: entry for _, _, found in parts for parameter, entry in found.items()}
    place_of: dict[Multirate, dict[str, Any]] = {}
    resumed = []
    for leaf, path in leaves(multirate):
        for level, (own, _) in enumerate(path):
            if own not in place_of:
                place_of[own] = _place(own, saved, level)
        resumed.append(leaf.resume(saved if _is_spread(path, place_of) else None))
    before = []
    try:
        for optimizer, own_state, _ in parts:
            before.append((optimizer, copied(optimizer.state_dict())))
            optimizer.load_state_dict(own_state)
    except Exception:
        for optimizer, former in before[:-1]:
            optimizer.load_state_dict(former)
        raise
    for take_over in resumed:
        take_over()
    for own in reversed(place_of):  # the innermost first
        own._resume(place_of[own])


def _parts(
    multirate: Multirate, state_dict: Mapping[str, Any]
) -> Iterator[tuple[Optimizer, dict[str, Any], Entries]]:
    """Each optimizer with its state dict, and what its parameters have besides."""
    groups, states = checked_form(state_dict, multirate.param_groups)
    for leaf, _ in leaves(multirate):
        count = len(leaf.optimizer.param_groups)
        own, groups = groups[:count], groups[count:]
        state: dict[Any, Any] = {}
        found: Entries = {}
        for saved, group in zip(own, leaf.optimizer.param_groups, strict=True):
            for key, parameter in zip(saved["params"], group["params"], strict=True):
                entry = states.get(key) or {}
                found[parameter] = {k: v for k, v in entry.items() if k.startswith(PREFIX)}
                rest = {k: v for k, v in entry.items() if not k.startswith(PREFIX)}
                if rest:
                    state[key] = rest
        yield leaf.optimizer, {"state": state, "param_groups": own}, found


def _place(multirate: Multirate, saved: Entries, level: int) -> dict[str, Any]:
    """Period, drift and steps, which all parameters of an optimizer must agree on."""
    found = {}
    for name in multirate._place:
        key = _name(level, name)
        own = [p for group in multirate.param_groups for p in group["params"]]
        values = [saved[p][key] for p in own if key in saved.get(p, {})]
        if not values:
            raise ValueError(f"the state dict is of another optimizer: it lacks {key}")
        if any(value != values[0] for value in values):
            raise ValueError(f"{key} differs between the parameters of the state dict")
        found[name] = values[0]
    checks.count("period", found["period"])
    checks.count("steps", found["steps"], least=0)
    if not isinstance(found["drift"], bool):
        raise TypeError(f"drift must be True or False, got {found['drift']!r}")
    return found


# --- preparing ------------------------------------------------------------------------------


def unprepared(multirate: Multirate) -> list[Optimizer]:
    """Optimizers that make their state at the first step: ``CoLA`` has it from the start."""
    found = [leaf.optimizer for leaf, _ in leaves(multirate)]
    return [optimizer for optimizer in found if not isinstance(optimizer, CoLA)]


def is_rehearsal(groups: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a step is one that ``torch.distributed.checkpoint`` makes to get state to load into.

    It sets all learning rates and all gradients to 0. Nothing may move or be counted then.
    """
    if any(float(group.get("lr", 1.0)) != 0.0 for group in groups):
        return False
    gradients = [p.grad for group in groups for p in group["params"] if p.grad is not None]
    return not any(bool(gradient.any()) for gradient in gradients)
