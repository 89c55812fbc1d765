"""What the rest of the library relies on in a geometry's layout, checked with words."""

from __future__ import annotations

import torch
from torch import Tensor

from colangevin.constraints.base import Constraint
from colangevin.errors import ConstraintError


def check_contract(
    constraint: Constraint, shape: torch.Size, device: torch.device | None = None
) -> None:
    """Refuse a geometry whose ``to_batch`` or ``from_batch`` is not what the library relies on.

    Without it such a geometry works for one weight and fails, or is wrong, for several weights, in
    an ``Ensemble`` or in ``sample``. Only shapes are looked at, so it takes no memory and little
    time whatever the weight is.

    Args:
        constraint: the geometry, bound to the shape.
        shape: of a weight.
        device: of the weight.

    Raises:
        ConstraintError: naming the method, what it returned and what is expected.

    Example:
        >>> from colangevin import Sphere
        >>> check_contract(Sphere(1.0), torch.Size([3, 4]))
    """
    name, one = type(constraint).__name__, torch.zeros((), device=device).expand(shape)
    batch = constraint.to_batch(one)
    back = constraint.from_batch(batch, shape)
    if back.shape != shape:
        raise ConstraintError(
            f"{name}.from_batch must undo to_batch and return the shape {tuple(shape)} that it is "
            f"given, got {tuple(back.shape)}"
        )
    if constraint.elementwise:
        return
    if batch.dim() < 2:
        raise ConstraintError(
            f"{name}.to_batch must return [copies, ...] with at least 2 dimensions, got "
            f"{tuple(batch.shape)} for a weight of shape {tuple(shape)}; set elementwise = True if "
            "every entry is a manifold of its own"
        )
    merged, apart = (2 * batch.shape[0], *batch.shape[1:]), (2, *batch.shape)
    stack = _stack(constraint, one)
    if stack.shape not in (merged, apart):
        raise ConstraintError(
            f"{name}.to_batch(tensor, batch_dims=1) must lay a stack of two weights of shape "
            f"{tuple(shape)} out as {merged} or {apart}, one batch after the other, got "
            f"{tuple(stack.shape)}"
        )


def _stack(constraint: Constraint, one: Tensor) -> Tensor:
    try:
        return constraint.to_batch(one.expand(2, *one.shape), 1)
    except Exception as error:
        raise ConstraintError(
            f"{type(constraint).__name__}.to_batch(tensor, batch_dims=1) must take a stack of "
            f"weights, got {type(error).__name__}: {error}"
        ) from error
