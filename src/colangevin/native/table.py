"""What all kernels need to know about tensors, as a table of integers.

The kernels work on raw memory, so all checks are made here. A table lays out once what stays
the same from step to step; a step then fills in gradients and counts.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from colangevin.native import library

IMPULSE, DRIFT, OVERDAMPED = 1, 2, 3
"""Kinds of action, each with three numbers (what is absent is 0).

Impulse: decay, weight, scale. Drift: step. Overdamped: step, scale.
"""
DTYPES = {torch.float32: 0, torch.float64: 1}
PLAIN = (Tensor, torch.nn.Parameter)
WORDS = 1 << 64


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


def signed(value: int) -> int:
    """The signed 64-bit integer that has the lowest bits of ``value``.

    Example:
        >>> signed(2**64 - 1)
        -1
    """
    value %= WORDS
    return value - WORDS if value >= WORDS // 2 else value


class Kept(NamedTuple):
    """A tensor of a table with what it was when it was added."""

    tensor: Tensor
    pointer: int
    size: int
    stride: tuple[int, ...]


class Kinds(NamedTuple):
    """Kinds of actions as a kernel wants them."""

    array: array[int]
    address: int
    moves: bool


@functools.lru_cache(maxsize=64)
def read_kinds(kinds: tuple[int, ...]) -> Kinds:
    """Check kinds of actions and lay them out.

    Example:
        >>> read_kinds((IMPULSE, DRIFT)).moves
        True
    """
    if not set(kinds) <= {IMPULSE, DRIFT, OVERDAMPED}:
        raise ValueError(f"kinds must be 1 (impulse), 2 (drift) or 3 (overdamped), got {kinds}")
    made = array("q", kinds)
    return Kinds(made, made.buffer_info()[0], IMPULSE in kinds or DRIFT in kinds)


class Fields(NamedTuple):
    """Where a row of the table has what changes with every step, and its length."""

    gradient: int
    seed: int
    step: int
    draw: int
    length: int


class Rows:
    """A table with one row for each parameter (or part of one), all of one dtype.

    Subclasses add rows, and name the kernel that takes them.
    """

    fields: ClassVar[Fields]
    fixed_numbers: ClassVar[int]
    """How many numbers a step needs besides three for each action."""

    def __init__(self, dtype: torch.dtype) -> None:
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
        self.dtype = dtype
        self._table: array[int] = array("q")
        self._sizes: list[int] = []
        self._positions: list[Tensor] = []
        self._kept: list[Kept] = []
        self._kernel: Callable[..., None] | None = None
        self._members: list[int] = []
        self._rows = 0
        self._all_move = True
        self._last: tuple[Kinds, array[float], int] | None = None

    def __len__(self) -> int:
        return sum(self._members)

    def _keep(self, name: str, tensor: Tensor, size: int) -> Kept:
        """Check a tensor of a row."""
        if tensor.dtype != self.dtype or not suits(tensor):
            raise ValueError(
                f"{name} must be a plain contiguous {self.dtype} tensor on the CPU, got "
                f"{type(tensor).__name__} of {tensor.dtype} on {tensor.device}"
            )
        if tensor.numel() != size:
            raise ValueError(f"{name} must have {size} entries, got {tensor.numel()}")
        return Kept(tensor, tensor.data_ptr(), size, tensor.stride())

    def _append(
        self, row: list[int], kept: Sequence[Kept], number: int, moves: bool, members: int = 1
    ) -> None:
        """Add a row with its tensors; the first is the position."""
        self._table.extend(row)
        self._members.append(members)
        self._sizes.append(kept[0].size)
        self._positions.append(kept[0].tensor)
        self._kept.extend(kept)
        self._rows = max(self._rows, number + 1)
        self._all_move = self._all_move and moves

    def is_current(self) -> bool:
        """Whether every tensor has the memory, dtype, size and strides it had."""
        dtype = self.dtype
        for tensor, pointer, size, stride in self._kept:
            if tensor.data_ptr() != pointer or tensor.dtype is not dtype:
                return False
            if tensor.numel() != size or tensor.stride() != stride:
                return False
        return True

    def _run(
        self,
        call: Callable[[Kinds, array[float], int], None],
        gradients: Sequence[Tensor],
        kinds: Sequence[int],
        numbers: Sequence[float] | array[float],
        steps: Sequence[int],
        draw: int,
        seeds: Sequence[int] | None,
    ) -> None:
        """Fill in what belongs to this step, and call the kernel."""
        plan = read_kinds(tuple(kinds))
        if not isinstance(numbers, array) or numbers.typecode != "d":
            numbers = array("d", numbers)
        width = self._check(plan, len(gradients), len(steps), len(numbers))
        table, fields = self._table, self.fields
        pointers, copies = self._pointers(gradients)
        self._set_seeds(seeds)
        table[fields.step :: fields.length] = array("q", steps)
        table[fields.draw :: fields.length] = array("q", (draw,)) * len(pointers)
        table[fields.gradient :: fields.length] = pointers
        call(plan, numbers, width)
        del copies  # not before the kernel has read them
        self._last = plan, numbers, width
        increment_version(self._positions)

    def _check(self, plan: Kinds, gradients: int, steps: int, numbers: int) -> int:
        """Refuse a step that does not fit; returns how many numbers a row has."""
        count, width = len(self._sizes), self.fixed_numbers + 3 * len(plan.array)
        if plan.moves and not self._all_move:
            raise ValueError("momentum is needed for impulses and drifts, but a row has none")
        if gradients != count or steps != count:
            raise ValueError(f"gradients and steps must be {count}, got {gradients} and {steps}")
        if numbers < width * self._rows:
            raise ValueError(f"numbers must be {width * self._rows} or more, got {numbers}")
        return width

    def _set_seeds(self, seeds: Sequence[int] | None) -> None:
        """Give the rows their seeds, in the place of those they have."""
        if seeds is not None:
            self._table[self.fields.seed :: self.fields.length] = array("q", map(signed, seeds))

    def _pointers(self, gradients: Sequence[Tensor]) -> tuple[array[int], list[Tensor]]:
        """The memory of each row's gradient, and the copies that had to be made."""
        dtype, copies, pointers = self.dtype, [], array("q")
        for gradient, size in zip(gradients, self._sizes, strict=True):
            plain = type(gradient) in PLAIN and gradient.dtype is dtype and gradient.is_cpu
            if not plain or gradient.numel() != size or gradient.layout is not torch.strided:
                raise ValueError(
                    f"a gradient must be a plain dense {dtype} tensor on the CPU with {size} "
                    f"entries, got {type(gradient).__name__} of {gradient.dtype} on "
                    f"{gradient.device} with {gradient.numel()}"
                )
            if not gradient.is_contiguous() or gradient.is_neg():
                gradient = gradient.detach().clone(memory_format=torch.contiguous_format)
                copies.append(gradient)
            pointers.append(gradient.data_ptr())
        return pointers, copies

    def _load(self, name: str, function: str) -> Callable[..., None]:
        """The kernel, found at the first step."""
        if self._kernel is None:
            self._kernel = self._find(name, function)
        return self._kernel

    @staticmethod
    def _find(name: str, function: str) -> Callable[..., None]:
        found = library.load(name)
        if found is None:
            raise RuntimeError(f"there are no kernels: {library.reason(name)}")
        kernel: Callable[..., None] = getattr(found, function)
        return kernel
