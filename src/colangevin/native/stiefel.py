"""Langevin steps of many small orthogonal matrices at once, in place."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from colangevin.native.table import DTYPES, Fields, Kinds, Rows, signed

LARGEST_SIDE = 128
"""Smaller side of a matrix up to which its products are faster here than in a library call."""
LARGEST_MATRIX = 1 << 16
"""Entries of a matrix up to which it stays in the cache."""

DONE, FAILED, FAR, NO_MEMORY = 0, 1, 2, 3
"""Outcomes: a matrix that is not done has been left as it was."""


def is_small(rows: int, columns: int) -> bool:
    """Whether the kernel is for matrices of this shape.

    Example:
        >>> is_small(64, 32), is_small(2000, 2000)
        (True, False)
    """
    return min(rows, columns) <= LARGEST_SIDE and rows * columns <= LARGEST_MATRIX


class Result(NamedTuple):
    """What happened to each matrix, in the order of the stacks.

    Attributes:
        iterations: of the projection that needed most of them.
        outcomes: ``DONE``, ``FAILED`` (no convergence, or not finite), ``FAR`` (a proposal so
            far off that the multiplier has lost digits) or ``NO_MEMORY``.
    """

    iterations: Sequence[int]
    outcomes: Sequence[int]


class Stacks(Rows):
    """Stacks of matrices with orthonormal columns (or rows, if they are wide).

    Momenta are kept modulo the normal space, as ``Orthogonal`` does.

    Example:
        >>> stacks = Stacks(torch.float32)
        >>> stacks.add(torch.eye(3), torch.zeros(3, 3), rows=3, columns=3, ordinal=0)
        >>> len(stacks), stacks.is_current()
        (1, True)
    """

    # As in ``Stack`` of stiefel.c.
    fields: ClassVar[Fields] = Fields(gradient=2, seed=8, step=10, draw=11, length=13)
    fixed_numbers: ClassVar[int] = 4

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(dtype)
        self._matrices: list[int] = []
        self._results: array[int] = array("q")

    def add(
        self,
        position: Tensor,
        momentum: Tensor | None,
        *,
        rows: int,
        columns: int,
        ordinal: int,
        seed: int = 0,
        row: int = 0,
        first: int = 0,
    ) -> None:
        """Add a parameter; its tensors are kept, and steps write over them.

        Args:
            position: one matrix after the other, each row by row.
            momentum: likewise; None if all steps are overdamped.
            rows: of each matrix.
            columns: of each matrix.
            ordinal: number of the parameter, for its noise.
            seed: of the noise.
            row: which row of the numbers of a step it takes.
            first: flat index of its first number in the whole parameter.

        Raises:
            ValueError: for a tensor that does not suit.
        """
        for name, value, least in (
            *(("rows", rows, 1), ("columns", columns, 1)),
            *(("row", row, 0), ("first", first, 0)),
        ):
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        size = position.numel()
        if size % (rows * columns):
            raise ValueError(f"position must be matrices of {rows} × {columns}, got {size} entries")
        kept = [self._keep("position", position, size)]
        if momentum is not None:
            kept.append(self._keep("momentum", momentum, size))
        pointers = [kept[0].pointer, kept[1].pointer if momentum is not None else 0]
        self._matrices.append(size // (rows * columns))
        line = [*pointers, 0, 0, self._matrices[-1], rows, columns, first]
        line += [signed(seed), signed(ordinal), 0, 0, row]
        self._append(line, kept, row, momentum is not None)

    def run(
        self,
        gradients: Sequence[Tensor],
        kinds: Sequence[int],
        numbers: Sequence[float] | array[float],
        *,
        steps: Sequence[int],
        draw: int = 0,
        seeds: Sequence[int] | None = None,
    ) -> Result:
        """Do the actions on every matrix, in place. The table must be current.

        A matrix of which any projection does not succeed is left as it was.

        Args:
            gradients: one for each stack, of as many entries; they are not changed.
            kinds: of the actions.
            numbers: for each row weight decay, scale, tolerance, limit of iterations and three
                for each action.
            steps: count of steps for each stack, for its noise.
            draw: number of the first draw in this step.
            seeds: one for each stack, in the place of those it was added with.

        Raises:
            ValueError: for what does not fit; then no tensor has been changed.
            RuntimeError: where there are no kernels.
        """
        self._point_to_results()
        self._run(self._call, gradients, kinds, numbers, steps, draw, seeds)
        return Result(self._results[::2], self._results[1::2])

    def _point_to_results(self) -> None:
        """Give each stack the memory for two integers for each of its matrices."""
        if len(self._results) == 2 * sum(self._matrices):
            return
        self._results = array("q", bytes(16 * sum(self._matrices)))
        address = self._results.buffer_info()[0]
        for index, count in enumerate(self._matrices):
            self._table[index * self.fields.length + 3] = address
            address += 16 * count

    def _call(self, plan: Kinds, numbers: array[float], width: int) -> None:
        self._load("stiefel", "cola_stiefel")(
            DTYPES[self.dtype],
            len(self._sizes),
            self._table.buffer_info()[0],
            len(plan.array),
            plan.address,
            numbers.buffer_info()[0],
            width,
            torch.get_num_threads(),
        )
