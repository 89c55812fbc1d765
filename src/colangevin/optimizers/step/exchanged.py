"""What may be exchanged between two steps: parameters, and the constraint of a group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from torch import Tensor

from colangevin.constraints import Constraint
from colangevin.constraints.base import same_values
from colangevin.optimizers.step.friction import FRICTION
from colangevin.optimizers.step.layout import STEP, StateOf
from colangevin.torch_compat import is_sharded

if TYPE_CHECKING:
    from colangevin.optimizers.step.plan import Marks, Plan

Held: TypeAlias = "dict[Tensor, Constraint]"
"""The constraint that each parameter was last put on."""


def follow(
    groups: Sequence[dict[str, Any]], plans: Mapping[int, Plan], state_of: StateOf, held: Held
) -> None:
    """Let state go along with parameters that were exchanged, as Accelerate does for FSDP2.

    A parameter of the same shape in the same place takes over the state of the former one.
    """
    current = {parameter for group in groups for parameter in group["params"]}
    for index, group in enumerate(groups):
        plan = plans.get(index)
        olds, news = plan.parameters if plan else [], group["params"]
        for old, new in zip(olds, news, strict=False):
            if old in current or old not in state_of:
                continue
            entry = state_of.pop(old)
            if new not in state_of and old.shape == new.shape:
                state_of[new] = _moved(entry, new)
                held[new] = held.pop(old, group["constraint"])
    for lost in [p for p in state_of if p not in current]:
        del state_of[lost]


def _moved(entry: Mapping[str, Any], parameter: Tensor) -> dict[str, Any]:
    """The state of a parameter for another one, which may be sharded."""
    if is_sharded(parameter):
        return dict(entry)  # its part is taken when it is needed
    return {k: v.full_tensor() if is_sharded(v) else v for k, v in entry.items()}


def reset_replaced(
    group: dict[str, Any],
    state_of: StateOf,
    held: Held,
    marks: Marks,
    undo: list[Callable[[], None]],
) -> None:
    """Parameters whose constraint has been replaced are at rest.

    Args:
        group: with the constraint of now.
        state_of: the optimizer's state.
        held: by all of its parameters.
        marks: of the parameters.
        undo: is given what takes this back.
    """
    constraint = group["constraint"]
    for parameter in group["params"]:
        before = held.setdefault(parameter, constraint)
        if before is constraint:
            continue
        held[parameter] = constraint
        entry = state_of.get(parameter)
        # A copy of the constraint, as ZeroRedundancyOptimizer has it, is no other one.
        if entry is None or same_rule(before, constraint):
            continue
        kept = (STEP, FRICTION)
        state_of[parameter] = {k: entry[k].clone() for k in kept if k in entry}
        tables: list[tuple[Any, Any]] = [(state_of, entry), (held, before)]
        if parameter in marks:  # it was on another manifold
            tables.append((marks, marks.pop(parameter)))
        undo += [_put(table, parameter, value) for table, value in tables]


def _put(table: dict[Tensor, Any], parameter: Tensor, value: Any) -> Callable[[], None]:
    return lambda: table.update({parameter: value})


def same_rule(one: Constraint, other: Constraint) -> bool:
    """Whether two constraints are the same, or copies; descriptions cannot tell functions apart."""
    if one is other:
        return True
    if type(one) is not type(other) or getattr(one, "g", None) is not getattr(other, "g", None):
        return False
    return same_values(one.describe(), other.describe())
