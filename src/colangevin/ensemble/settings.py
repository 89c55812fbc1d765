"""The settings of an ensemble: a number for all members, or one per member."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from torch import Tensor

from colangevin.integrators.scheme import parse
from colangevin.optimizers.options import resolve

One = TypeVar("One")
Made = TypeVar("Made")

NUMBERS = ("lr", "momentum", "step_size", "friction", "temperature", "weight_decay")
"""What may differ between members: a number, or one per member."""
OPTIONS = (*NUMBERS, "scheme", "delayed_gradient")
"""All that an ensemble can be set to."""


def spread(options: Mapping[str, Any], members: int) -> list[dict[str, Any]]:
    """The options of each member.

    Raises:
        ValueError: if an option has another number of values than there are members.

    Example:
        >>> spread({"lr": [0.1, 0.2], "scheme": "OBA"}, 2)[1]
        {'lr': 0.2, 'scheme': 'OBA'}
    """
    columns: dict[str, list[Any]] = {}
    for name, value in options.items():
        columns[name] = [value] * members
        if is_column(name, value, members):
            columns[name] = [v.item() if isinstance(v, Tensor) else v for v in value]
    return [{name: columns[name][i] for name in columns} for i in range(members)]


def is_column(name: str, value: Any, members: int) -> bool:
    """Whether an option has one value for each member.

    Raises:
        ValueError: if it cannot differ between members, or has another number of values.
    """
    if not isinstance(value, (list, tuple, range, Tensor)):
        return False
    if isinstance(value, Tensor) and value.dim() != 1:
        return False
    if name not in NUMBERS:
        raise ValueError(f"{name} cannot differ between members, got {value!r}")
    if len(value) != members:
        raise ValueError(f"{name} has {len(value)} values for {members} members")
    return True


STEP = ("lr", "momentum", "friction", "scheme", "delayed_gradient")
"""What a group knows of its step."""


def wanted(
    named: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]], ready: bool
) -> list[dict[str, Any]]:
    """The settings that each member's group gets; what is not named stays as it is.

    Members with the same options share the work.

    Args:
        named: options of each member; None is no wish.
        groups: their present settings, which a scheduler may have changed.
        ready: whether the groups have a step of their own already.

    Raises:
        ValueError, TypeError: naming the option.

    Example:
        >>> group = {"lr": 0.25, "momentum": 0.9, "friction": None, "scheme": "OBA"}
        >>> found = wanted([{"temperature": 0.5}] * 2, [group] * 2, ready=True)
        >>> [settings["temperature"] for settings in found]
        [0.5, 0.5]
    """

    def one(pair: tuple[Mapping[str, Any], Mapping[str, Any]]) -> dict[str, Any]:
        given = {name: value for name, value in pair[0].items() if value is not None}
        rest = {k: v for k, v in pair[1].items() if k not in ("constraint", "seed", *STEP[:3])}
        if given.keys() & {*STEP, "step_size"}:
            return resolve(given, {**(step_of(pair[1]) if ready else {}), **rest})
        # An lr of 0 may come from a scheduler, but cannot be given.
        found = resolve(given, {"lr": 1.0, **rest})
        return {name: value for name, value in found.items() if name not in STEP}

    pairs = list(zip(named, groups, strict=True))
    return shared(one, pairs, lambda pair: (*pair[0].items(), *plain(pair[1])))


OWN = ("params", "names", "param_names", "constraint", "seed")
"""What a group has of its own, and no recipe depends on."""


def plain(group: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells the options of groups apart, but for what is its own."""
    return tuple(item for item in group.items() if item[0] not in OWN)


def shared(
    make: Callable[[One], Made], items: Sequence[One], key_of: Callable[[One], Hashable]
) -> list[Made]:
    """``make`` of each item, called once for those with one key, if keys can be compared.

    Example:
        >>> shared(lambda name: [name], ["a", "b", "a"], lambda name: name)
        [['a'], ['b'], ['a']]
    """
    known: dict[Hashable, Made] = {}
    found = []
    for item in items:
        try:
            key = key_of(item)
            if key not in known:
                known[key] = make(item)
            found.append(known[key])
        except TypeError:  # a value that is no number, which ``make`` takes or refuses
            found.append(make(item))
    return found


def step_of(group: Mapping[str, Any]) -> dict[str, Any]:
    """The step of a group as it was named: ``lr`` and ``momentum``, or in the paper's way.

    Example:
        >>> step_of({"lr": 0.25, "momentum": None, "friction": 2.0, "scheme": "BAOAB"})
        {'step_size': 0.5, 'friction': 2.0}
    """
    if group["momentum"] is not None:
        return {"lr": group["lr"], "momentum": group["momentum"]}
    friction, lr = float(group["friction"]), float(group["lr"])
    word = parse(group["scheme"], bool(group.get("delayed_gradient")))
    euler = math.isinf(friction) and not word.has_limit
    return {"step_size": lr if euler else math.sqrt(lr), "friction": friction}
