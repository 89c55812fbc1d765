"""State dicts of ``Multirate`` in torch's form: all that has to survive is state of a parameter.

So ``torch.distributed.checkpoint`` can save and load them. The names of what ``Multirate`` adds to
the entries of its optimizers begin with ``multirate``. They are the same at every step, because a
checkpoint is loaded by the names that a new optimizer has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.optim.optimizer import Optimizer

from colangevin import checks
from colangevin.optimizers.cola import CoLA
from colangevin.optimizers.multirate.spread import PREFIX, Spread
from colangevin.optimizers.saving.state_dict import copied

if TYPE_CHECKING:
    from colangevin.optimizers.multirate.multirate import Multirate

Entries = dict[Tensor, dict[str, Any]]
OLD_FORM = {"fast", "slow", "period", "drift", "steps"}


def leaves(multirate: Multirate) -> Iterator[Spread]:
    """The optimizers at the ends, in the order of the groups."""
    for walk in (multirate._fast, multirate._slow):
        if isinstance(walk, Spread):
            yield walk
        else:
            yield from leaves(walk)


def entries(multirate: Multirate, ways: bool = False, level: int = 0) -> Entries:
    """What is to be saved for each parameter besides the state of its optimizer.

    Args:
        multirate: the optimizer.
        ways: whether its own steps are spread, as the slow part of another one.
        level: how many others it is a part of.
    """
    found: Entries = {}
    slow = ways or (multirate.drift and multirate.period > 1)
    for walk, spread in ((multirate._fast, ways), (multirate._slow, slow)):
        if isinstance(walk, Spread):
            own = walk.entries() if spread else {p: {} for p in walk.parameters()}
        else:
            own = entries(walk, spread, level + 1)
        found.update(own)
    numbers = {_name(level, name): value for name, value in multirate._place.items()}
    return {parameter: {**numbers, **entry} for parameter, entry in found.items()}


def _name(level: int, name: str) -> str:
    return f"{PREFIX}{level}_{name}"


def states(multirate: Multirate) -> Entries:
    """The state of every parameter, as its optimizer has it, with what is saved besides."""
    kept = {p: entry for leaf in leaves(multirate) for p, entry in leaf.optimizer.state.items()}
    return {p: {**kept.get(p, {}), **own} for p, own in entries(multirate).items()}


def packed(multirate: Multirate) -> dict[str, Any]:
    """The state of all optimizers as one state dict."""
    groups: list[dict[str, Any]] = []
    state: dict[int, dict[str, Any]] = {}
    own = entries(multirate)
    for leaf in leaves(multirate):
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
    moves = _moves(multirate, saved, ways=False, level=0)
    before = []
    try:
        for optimizer, own, _ in parts:
            before.append((optimizer, copied(optimizer.state_dict())))
            optimizer.load_state_dict(own)
    except Exception:
        for optimizer, former in before[:-1]:
            optimizer.load_state_dict(former)
        raise
    for move in moves:
        move()


def _parts(
    multirate: Multirate, state_dict: Mapping[str, Any]
) -> Iterator[tuple[Optimizer, dict[str, Any], Entries]]:
    """Each optimizer with its state dict, and what its parameters have besides."""
    groups, states = _checked(multirate, state_dict)
    for leaf in leaves(multirate):
        count = len(leaf.optimizer.param_groups)
        own, groups = groups[:count], groups[count:]
        state: dict[Any, Any] = {}
        found: Entries = {}
        for saved, group in zip(own, leaf.optimizer.param_groups, strict=True):
            for key, parameter in zip(saved["params"], group["params"], strict=True):
                entry = states.get(key, {})
                if not isinstance(entry, Mapping):
                    kind = type(entry).__name__
                    raise ValueError(f"the state dict has {kind} as the state of a parameter")
                found[parameter] = {k: v for k, v in entry.items() if k.startswith(PREFIX)}
                rest = {k: v for k, v in entry.items() if not k.startswith(PREFIX)}
                if rest:
                    state[key] = rest
        yield leaf.optimizer, {"state": state, "param_groups": own}, found


def _checked(
    multirate: Multirate, state_dict: Mapping[str, Any]
) -> tuple[list[Any], Mapping[Any, Any]]:
    """Groups and state of a state dict whose groups have as many parameters as the optimizer's."""
    needed = {"state", "param_groups"}
    missing = needed - state_dict.keys() if isinstance(state_dict, Mapping) else needed
    if missing:
        old = isinstance(state_dict, Mapping) and state_dict.keys() >= OLD_FORM
        why = "; it was saved by an earlier version, whose form is not read any more" if old else ""
        raise ValueError(f"the state dict lacks {', '.join(sorted(missing))}{why}")
    groups, states = state_dict["param_groups"], state_dict["state"]
    if not isinstance(groups, list) or not isinstance(states, Mapping):
        raise ValueError("no state dict of an optimizer: param_groups must be a list, state a dict")
    sizes = [len(group["params"]) for group in multirate.param_groups]
    found = [_size(group) for group in groups]
    if found != sizes:
        raise ValueError(
            f"the groups of the state dict have {found} parameters, those of the optimizer {sizes}"
        )
    return groups, states


def _size(group: object) -> int:
    if not isinstance(group, Mapping) or not isinstance(group.get("params"), list):
        raise ValueError(f"a group of the state dict is damaged: {group!r:.100}")
    return len(group["params"])


def _moves(
    multirate: Multirate, saved: Entries, ways: bool, level: int
) -> list[Callable[[], None]]:
    """What is to be done when the optimizers are loaded; the innermost first."""
    place = _place(multirate, saved, level)
    moves: list[Callable[[], None]] = []
    slow = ways or (place["drift"] and place["period"] > 1)
    for walk, spread in ((multirate._fast, ways), (multirate._slow, slow)):
        if isinstance(walk, Spread):
            moves.append(walk.continued(saved if spread else None))
        else:
            moves += _moves(walk, saved, spread, level + 1)
    return [*moves, lambda: multirate._continue_at(place)]


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


def has_state(multirate: Multirate) -> bool:
    """Whether every optimizer has the state that it will have: ``CoLA`` has it from the start."""
    return all(isinstance(leaf.optimizer, CoLA) for leaf in leaves(multirate))


def is_rehearsal(groups: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a step is one that ``torch.distributed.checkpoint`` makes to get state to load into.

    It sets all learning rates and all gradients to 0. Nothing may move or be counted then.
    """
    if any(float(group.get("lr", 1.0)) != 0.0 for group in groups):
        return False
    gradients = [p.grad for group in groups for p in group["params"] if p.grad is not None]
    return not any(bool(gradient.any()) for gradient in gradients)


def rehearse(multirate: Multirate) -> None:
    """Let optimizers that make their state at the first step make it."""
    for leaf in leaves(multirate):
        if not isinstance(leaf.optimizer, CoLA):
            leaf.optimizer.step()
