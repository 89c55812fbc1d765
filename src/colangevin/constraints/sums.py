"""Sums that make up for cuts: a weight may lie in parts in several processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import torch
from torch import Tensor


class Cut(Enum):
    """What it means to a geometry that a weight is cut along one of its dimensions.

    BETWEEN: every part has copies of the manifold of its own. THROUGH: every part has a share of
    all copies, and sums over the parts make up for it. NEVER: the geometry needs the whole weight.
    """

    BETWEEN = "between"
    THROUGH = "through"
    NEVER = "never"


def part_of(
    numbers: Tensor, shape: torch.Size, first: Sequence[int], size: Sequence[int]
) -> Tensor:
    """The part of numbers that broadcast to a weight which belongs to a part of the weight.

    Args:
        numbers: such as radii.
        shape: of the whole weight.
        first: where the part begins, in each dimension.
        size: how far it reaches.

    Example:
        >>> part_of(torch.tensor([[1.0], [2.0]]), torch.Size([2, 3]), [1, 0], [1, 2])
        tensor([[2., 2.]])
    """
    found = numbers.expand(shape)
    for dim, place in enumerate(zip(first, size, strict=True)):
        found = found.narrow(dim, *place)
    return found


class Alone:
    """The parts of a batch that is whole: nothing has to be added.

    Example:
        >>> float(ALONE.sum(torch.tensor(2.0)))
        2.0
    """

    def sums(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Tensors of one shape, each added up over all parts, in one message."""
        return tensors

    def sum(self, tensor: Tensor) -> Tensor:
        """A tensor added up over all parts."""
        return self.sums(tensor)[0]

    def largest(self, matrix: Tensor) -> Tensor:
        """The largest size of an entry in each matrix of a batch: [matrices, 1, 1]."""
        return matrix.abs().amax(dim=(-2, -1), keepdim=True)

    def apply(self, function: Callable[[Tensor], Tensor], matrix: Tensor) -> Tensor:
        """A function of whole matrices: the rows of its result that belong to this part."""
        return function(matrix)


ALONE = Alone()
