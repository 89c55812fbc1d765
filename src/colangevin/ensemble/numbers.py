"""The members' settings as actions of one kind with a row of numbers a member."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from colangevin.integrators.dynamics import Action
from colangevin.optimizers.options import dynamics, resolve

NUMBERS = ("lr", "momentum", "step_size", "friction", "temperature", "weight_decay")
"""What may differ between members: a number, or one a member."""
OPTIONS = (*NUMBERS, "scheme", "delayed_gradient")
"""All that an ensemble can be set to."""


class Moves(NamedTuple):
    """The actions of a step: their types, which of their numbers they have, and the numbers.

    Attributes:
        kinds: type and presence of each number, an action each.
        values: [members, numbers], the weight decay first.
        overdamped: whether there is no momentum.
        decays: whether any member has weight decay.
    """

    kinds: tuple[tuple[Any, tuple[bool, ...]], ...]
    values: Tensor
    overdamped: bool
    decays: bool

    def actions(self, numbers: Sequence[Any]) -> tuple[Action, ...]:
        """The actions with ``numbers`` in their places, those after the weight decay."""
        rest = iter(numbers)
        return tuple(
            kind(*[next(rest) if there else None for there in present])
            for kind, present in self.kinds
        )

    @property
    def draws(self) -> int:
        """How many tensors of noise the actions ask for, for a weight without slack."""
        scaled = (dict(zip(kind._fields, present, strict=True)) for kind, present in self.kinds)
        return sum(found.get("scale", False) for found in scaled)


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
        several = isinstance(value, (list, tuple, range)) or (
            isinstance(value, Tensor) and value.dim() == 1
        )
        if several and name not in NUMBERS:
            raise ValueError(f"{name} cannot differ between members, got {value!r}")
        column = [v.item() if isinstance(v, Tensor) else v for v in value] if several else []
        if several and len(column) != members:
            raise ValueError(f"{name} has {len(column)} values for {members} members")
        columns[name] = column or [value] * members
    return [{name: columns[name][i] for name in columns} for i in range(members)]


def moves_of(options: Sequence[Mapping[str, Any]], first: bool) -> Moves:
    """The members' actions in one form.

    Raises:
        ValueError: if the members' steps are of different kinds, or options are wrong.

    Example:
        >>> moves_of([{"lr": 0.25, "momentum": 0.5}, {"lr": 1.0, "momentum": 0.5}], False).values
        tensor([[ 0.0000,  0.5000,  1.0000, -0.2500],
                [ 0.0000,  0.5000,  1.0000, -1.0000]], dtype=torch.float64)
    """
    known: dict[tuple[Any, ...], tuple[float, bool, tuple[Action, ...]]] = {}
    rows = []
    for option in options:
        key = tuple(option.values())
        if key not in known:
            group = resolve({k: v for k, v in option.items() if v is not None}, {})
            settings = dynamics(group)
            known[key] = group["weight_decay"], settings.is_overdamped, settings.actions(first)
        rows.append(known[key])
    if len({(damped, *map(type, actions)) for _, damped, actions in rows}) > 1:
        raise ValueError(
            "the members' steps are of different kinds: all must be overdamped, or none, "
            "and with the same scheme"
        )
    kinds = []
    for actions in zip(*(actions for _, _, actions in rows), strict=True):
        # A number that any member has, all have: what is left out elsewhere is 0.
        present = tuple(any(v is not None for v in values) for values in zip(*actions, strict=True))
        kinds.append((type(actions[0]), present))
    numbers = [[decay, *_numbers(actions, kinds)] for decay, _, actions in rows]
    return Moves(
        tuple(kinds),
        torch.tensor(numbers, dtype=torch.float64),
        rows[0][1],
        any(decay for decay, _, _ in rows),
    )


def _numbers(actions: Sequence[Action], kinds: Sequence[tuple[type, Any]]) -> Iterator[float]:
    for action, (_, present) in zip(actions, kinds, strict=True):
        yield from (float(v or 0.0) for v, there in zip(action, present, strict=True) if there)
