"""Langevin steps of many parameters at once, in place, on the CPU.

The kernel works on raw memory, so all checks are made here. A ``Table`` lays out once what
stays the same from step to step; a step then fills in gradients and counts.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from colangevin.native import library

IMPULSE, DRIFT, OVERDAMPED = 1, 2, 3
"""Kinds of action, each with three numbers (what is absent is 0).

Impulse: decay, weight, scale. Drift: step. Overdamped: step, scale.
"""
GEOMETRIES = {"free": 0, "circle": 1}
DTYPES = {torch.float32: 0, torch.float64: 1}
PLAIN = (Tensor, torch.nn.Parameter)
WORDS = 1 << 64

# Where a field is in its segment, as in ``Segment`` of kernels.c.
GRADIENT, SEED, STEP, DRAW, FIELDS = 3, 7, 9, 10, 12


def suits(tensor: Tensor) -> bool:
    """Whether a kernel can work on the memory of a tensor.

    It has to be a plain dense one of float32 or float64 on the CPU, contiguous, with memory of
    its own: no subclass, nothing traced or batched by ``vmap``.

    Example:
        >>> suits(torch.zeros(3, 4)), suits(torch.zeros(3, 4).T), suits(torch.zeros(3).half())
        (True, False, False)
    """
    if type(tensor) not in PLAIN or tensor.dtype not in DTYPES or not tensor.is_cpu:
        return False
    if tensor.layout is not torch.strided or tensor.is_nested or not tensor.is_contiguous():
        return False
    try:
        return not tensor.is_neg() and (tensor.data_ptr() != 0 or tensor.numel() == 0)
    except RuntimeError:  # what vmap and its like make of a tensor has no memory
        return False


class Kept(NamedTuple):
    """A tensor of a table with what it was when it was added."""

    tensor: Tensor
    pointer: int
    size: int
    stride: tuple[int, ...]


class Kinds(NamedTuple):
    """Kinds of actions as the kernel wants them."""

    array: array[int]
    address: int
    moves: bool


@functools.lru_cache(maxsize=64)
def _kinds(kinds: tuple[int, ...]) -> Kinds:
    if not set(kinds) <= {IMPULSE, DRIFT, OVERDAMPED}:
        raise ValueError(f"kinds must be 1 (impulse), 2 (drift) or 3 (overdamped), got {kinds}")
    made = array("q", kinds)
    return Kinds(made, made.buffer_info()[0], IMPULSE in kinds or DRIFT in kinds)


class Table:
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

    def __init__(self, geometry: str, dtype: torch.dtype) -> None:
        if geometry not in GEOMETRIES:
            raise ValueError(f"geometry must be one of {sorted(GEOMETRIES)}, got {geometry!r}")
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
        self.geometry, self.dtype = geometry, dtype
        self._kernel: Callable[..., None] | None = None
        self._segments: array[int] = array("q")
        self._sizes: list[int] = []
        self._positions: list[Tensor] = []
        self._kept: list[Kept] = []
        self._rows = 0
        self._all_move = True

    def __len__(self) -> int:
        return len(self._sizes)

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
    ) -> None:
        """Add a segment; its tensors are kept, and steps write over the first three.

        Args:
            position: θ.
            momentum: v, or ω on a circle; None if all steps are overdamped.
            slack: ξ on a circle.
            ordinal: number of the parameter, for its noise.
            seed: of the noise.
            radius: one for each weight; otherwise it is in the numbers of a step.
            row: which row of those numbers the segment takes.
            first: flat index of its first number in the whole parameter.

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
        pointers = [kept[name].pointer if name in kept else 0 for name in given]
        self._segments.extend([*pointers[:3], 0, pointers[3], size, first])
        self._segments.extend([signed(seed), signed(ordinal), 0, 0, row])
        self._sizes.append(size)
        self._positions.append(position)
        self._kept.extend(kept.values())
        self._rows = max(self._rows, row + 1)
        self._all_move = self._all_move and momentum is not None

    def _keep(self, name: str, tensor: Tensor, size: int) -> Kept:
        if tensor.dtype != self.dtype or not suits(tensor):
            raise ValueError(
                f"{name} must be a plain contiguous {self.dtype} tensor on the CPU, got "
                f"{type(tensor).__name__} of {tensor.dtype} on {tensor.device}"
            )
        if tensor.numel() != size:
            raise ValueError(f"{name} must have {size} entries, got {tensor.numel()}")
        return Kept(tensor, tensor.data_ptr(), size, tensor.stride())

    def is_current(self) -> bool:
        """Whether every tensor has the memory, dtype, size and strides it had."""
        dtype = self.dtype
        for tensor, pointer, size, stride in self._kept:
            if tensor.data_ptr() != pointer or tensor.dtype is not dtype:
                return False
            if tensor.numel() != size or tensor.stride() != stride:
                return False
        return True

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
            gradients: one for each segment, of as many entries; they are not changed.
            kinds: of the actions.
            numbers: for each row weight decay, radius and three for each action.
            steps: count of steps for each segment, for its noise.
            draw: number of the first draw in this step.
            seeds: one for each segment, in the place of those it was added with.

        Raises:
            ValueError: for what does not fit; then no tensor has been changed.
            RuntimeError: where there are no kernels.
        """
        plan = _kinds(tuple(kinds))
        if not isinstance(numbers, array) or numbers.typecode != "d":
            numbers = array("d", numbers)
        width = self._check(plan, len(gradients), len(steps), len(numbers))
        segments, count = self._segments, len(self._sizes)
        pointers, copies = self._pointers(gradients)
        if seeds is not None:
            segments[SEED::FIELDS] = array("q", map(signed, seeds))
        segments[STEP::FIELDS] = array("q", steps)
        segments[DRAW::FIELDS] = array("q", (draw,)) * count
        segments[GRADIENT::FIELDS] = array("q", pointers)
        self._call(plan, numbers, width)
        del copies  # not before the kernel has read them
        increment_version(self._positions)

    def _check(self, plan: Kinds, gradients: int, steps: int, numbers: int) -> int:
        """Refuse a step that does not fit; how many numbers a row has."""
        count, width = len(self._sizes), 2 + 3 * len(plan.array)
        if plan.moves and not self._all_move:
            raise ValueError("momentum is needed for impulses and drifts, but a segment has none")
        if gradients != count or steps != count:
            raise ValueError(f"gradients and steps must be {count}, got {gradients} and {steps}")
        if numbers < width * self._rows:
            raise ValueError(f"numbers must be {width * self._rows} or more, got {numbers}")
        return width

    def _pointers(self, gradients: Sequence[Tensor]) -> tuple[list[int], list[Tensor]]:
        """The memory of each gradient, and the copies that had to be made."""
        dtype, pointers, copies = self.dtype, [], []
        for gradient, size in zip(gradients, self._sizes, strict=True):
            plain = type(gradient) in PLAIN and gradient.dtype is dtype and gradient.is_cpu
            if not plain or gradient.numel() != size or gradient.layout is not torch.strided:
                raise ValueError(
                    f"a gradient must be a plain dense {dtype} tensor on the CPU with {size} "
                    f"entries, got {type(gradient).__name__} of {gradient.dtype} on "
                    f"{gradient.device} with {gradient.numel()}"
                )
            if gradient.is_contiguous() and not gradient.is_neg():
                pointers.append(gradient.data_ptr())
            else:
                copies.append(gradient.detach().clone(memory_format=torch.contiguous_format))
                pointers.append(copies[-1].data_ptr())
        return pointers, copies

    def _call(self, plan: Kinds, numbers: array[float], width: int) -> None:
        if self._kernel is None:
            found = library.load()
            if found is None:
                raise RuntimeError(f"there are no kernels: {library.reason()}")
            self._kernel = found.cola_step
        self._kernel(
            DTYPES[self.dtype],
            GEOMETRIES[self.geometry],
            len(self._sizes),
            self._segments.buffer_info()[0],
            len(plan.array),
            plan.address,
            numbers.buffer_info()[0],
            width,
            torch.get_num_threads(),
        )


def signed(value: int) -> int:
    """The signed 64-bit integer that has the lowest bits of ``value``.

    Example:
        >>> signed(2**64 - 1)
        -1
    """
    value %= WORDS
    return value - WORDS if value >= WORDS // 2 else value
