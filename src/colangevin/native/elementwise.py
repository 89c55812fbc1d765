"""Langevin steps of many free or circle-constrained parameters at once, in place."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from colangevin.native.table import DTYPES, Fields, Kinds, Rows, read_kinds, signed

GEOMETRIES = {"free": 0, "circle": 1}
COLUMNS = 13
"""Where a row has the columns of a gradient that is turned."""


class Table(Rows):
    """The segments of a step, laid out once and reused while nothing moves in memory.

    A segment is a parameter, or the part of one from the flat index ``first`` on. All have one
    geometry, ``"free"`` or ``"circle"``, and one dtype.

    Example:
        >>> table = Table("free", torch.float32)
        >>> weight, momentum = torch.zeros(3), torch.zeros(3)
        >>> table.add(weight, momentum, None, ordinal=0)
        >>> table.is_current()
        True
        >>> weight.data = torch.ones(3)
        >>> table.is_current()
        False
    """

    # As in ``Segment`` of kernels.c.
    fields: ClassVar[Fields] = Fields(gradient=3, seed=7, step=9, draw=10, length=14)
    fixed_numbers: ClassVar[int] = 2

    def __init__(self, geometry: str, dtype: torch.dtype) -> None:
        super().__init__(dtype)
        if geometry not in GEOMETRIES:
            raise ValueError(f"geometry must be one of {sorted(GEOMETRIES)}, got {geometry!r}")
        self.geometry = geometry
        self._seeds: array[int] = array("q")
        self._pointed = False
        self._turned = False

    def add(
        self,
        position: Tensor,
        momentum: Tensor | None,
        slack: Tensor | None,
        *,
        ordinal: int,
        seed: int = 0,
        radius: Tensor | None = None,
        row: int = 0,
        first: int = 0,
        members: int = 1,
    ) -> None:
        """Add a segment; its tensors are kept, and steps write over the first three.

        Stacked parameters of an ensemble are as many segments, with a row of numbers each.

        Args:
            position: θ.
            momentum: v, or ω on a circle; None if all steps are overdamped.
            slack: on a circle the angle φ, θ = r sin φ, from −π to π.
            ordinal: number of the parameter, for its noise.
            seed: of the noise.
            radius: one for each weight; otherwise it is in the numbers of a step.
            row: which row of those numbers the segment takes.
            first: flat index of its first number in the whole parameter.
            members: how many parameters are stacked in the tensors, along their first dimension.

        Raises:
            ValueError: for a tensor that does not suit, or is missing.
        """
        circle = self.geometry == "circle"
        if (slack is not None) != circle:
            raise ValueError(f"slack is needed on a circle and nowhere else, got {slack!r}")
        if radius is not None and not circle:
            raise ValueError(f"radius is for circles only, got {radius!r}")
        for name, value in (("row", row), ("first", first)):
            if value < 0:
                raise ValueError(f"{name} must not be negative, got {value}")
        size = position.numel()
        given = {"position": position, "momentum": momentum, "slack": slack, "radius": radius}
        kept = {name: self._keep(name, t, size) for name, t in given.items() if t is not None}
        if members < 1 or size % members:
            raise ValueError(f"members must divide the {size} entries, got {members}")
        *pointers, radii = (kept[name].pointer if name in kept else 0 for name in given)
        place = (size // members, first, 0, signed(ordinal), 0, 0, row, members, 0)
        self._seeds.extend([signed(seed)] * members)
        self._pointed = False
        last, moves = row + members - 1, momentum is not None
        self._append([*pointers, 0, radii, *place], list(kept.values()), last, moves, members)

    def run(
        self,
        gradients: Sequence[Tensor],
        kinds: Sequence[int],
        numbers: Sequence[float] | array[float],
        *,
        steps: Sequence[int],
        draw: int = 0,
        seeds: Sequence[int] | None = None,
    ) -> None:
        """Do the actions on every segment, in place. The table must be current.

        Args:
            gradients: one for each tensor that was added, of as many entries; they are not changed.
            kinds: of the actions.
            numbers: for each row weight decay, radius and three for each action.
            steps: count of steps for each tensor, for its noise.
            draw: number of the first draw in this step.
            seeds: one for each segment, in the place of those it was added with.

        Raises:
            ValueError: for what does not fit; then no tensor has been changed.
            RuntimeError: where there are no kernels.
        """
        self._run(self._call, gradients, kinds, numbers, steps, draw, seeds)

    def repeat(self, memory: array[int], steps: Sequence[int]) -> None:
        """Do what the last ``run`` did, with the numbers that it was given.

        Args:
            memory: where the gradients lie, each contiguous and of its weight's dtype.
            steps: count of steps for each tensor.

        Raises:
            RuntimeError: if there has been no ``run``.

        Example:
            >>> from colangevin.native import library
            >>> weight, table = torch.zeros(2), Table("free", torch.float32)
            >>> table.add(weight, torch.zeros(2), None, ordinal=0)
            >>> if library.load() is not None:
            ...     table.run([torch.ones(2)], [1, 2], [0, 0, 0, 1, 0, -0.5, 0, 0], steps=[0])
            ...     slope = 3 * torch.ones(2)
            ...     table.repeat(array("q", [slope.data_ptr()]), [1])
            ...     assert weight.tolist() == [-2.0, -2.0]
        """
        if self._last is None:
            raise RuntimeError("there is no run to repeat")
        table, fields = self._table, self.fields
        table[fields.step :: fields.length] = array("q", steps)
        table[fields.gradient :: fields.length] = memory
        if self._turned:
            table[COLUMNS :: fields.length] = array("q", bytes(8 * len(memory)))
            self._turned = False
        self._call(*self._last)
        increment_version(self._positions)

    def retune(self, kinds: Sequence[int], numbers: array[float]) -> None:
        """Let the next ``repeat`` do other actions, or the same ones with other numbers.

        Raises:
            ValueError: for what does not fit.
        """
        plan, count = read_kinds(tuple(kinds)), len(self._sizes)
        self._last = plan, numbers, self._check(plan, count, count, len(numbers))

    def _pointers(self, gradients: Sequence[Tensor]) -> tuple[array[int], list[Tensor]]:
        """As for all tables; matrices, one per member, may also be given column by column."""
        given, columns = list(gradients), array("q", bytes(8 * len(gradients)))
        for index, (gradient, members) in enumerate(zip(given, self._members, strict=True)):
            if _is_turned(gradient, members):
                given[index], columns[index] = gradient.mT, gradient.shape[-1]
        self._table[COLUMNS :: self.fields.length] = columns
        self._turned = any(columns)
        return super()._pointers(given)

    def _set_seeds(self, seeds: Sequence[int] | None) -> None:
        if seeds is not None:
            if len(seeds) != len(self._seeds):
                raise ValueError(f"seeds must be {len(self._seeds)}, got {len(seeds)}")
            self._seeds[:] = array("q", map(signed, seeds))
        if not self._pointed:
            address, fields = self._seeds.buffer_info()[0], self.fields
            for index, members in enumerate(self._members):
                self._table[index * fields.length + fields.seed] = address
                address += self._seeds.itemsize * members
            self._pointed = True

    def _call(self, plan: Kinds, numbers: array[float], width: int) -> None:
        self._load("kernels", "cola_step")(
            DTYPES[self.dtype],
            GEOMETRIES[self.geometry],
            len(self._sizes),
            self._table.buffer_info()[0],
            len(plan.array),
            plan.address,
            numbers.buffer_info()[0],
            width,
            torch.get_num_threads(),
        )


def _is_turned(gradient: Tensor, members: int) -> bool:
    """Whether a tensor is a matrix, or one per member, with rows and columns exchanged."""
    if gradient.layout is not torch.strided or gradient.is_contiguous() or gradient.dim() < 2:
        return False
    return gradient.mT.is_contiguous() and gradient.shape[:-2].numel() == members
