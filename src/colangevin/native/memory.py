"""What all kernels need to know about the memory of tensors, and kernels that fill or copy it.

The kernels work on raw memory, so tensors are checked when a structure is made of them, and stay
where they are while it is used. Structures lie one after the other in an array of integers, so that
a field of all of them is one slice.
"""

from __future__ import annotations

import ctypes
import functools
from array import array
from collections.abc import Callable, Sequence

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
EMPTY = -1
"""In the place of the address that a tensor without entries does not have: it is not missing."""
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


def _signed_all(values: Sequence[int]) -> array[int]:
    """The same for several."""
    try:
        return array("q", values)
    except OverflowError:
        return array("q", map(signed, values))


# --- structures -----------------------------------------------------------------------------


def address(name: str, tensor: Tensor | None, position: Tensor) -> int:
    """Where a tensor of a structure, which must be like the position, lies; 0 if there is none.

    Example:
        >>> weight = torch.zeros(3)
        >>> address("position", weight, weight) == weight.data_ptr(), address("slack", None, weight)
        (True, 0)
    """
    if tensor is None:
        return 0
    if tensor.dtype != position.dtype or not suits(tensor):
        dtype = position.dtype if position.dtype in DTYPES else "float32 or float64"
        raise ValueError(
            f"{name} must be a plain contiguous {dtype} tensor on the CPU, got "
            f"{type(tensor).__name__} of {tensor.dtype} on {tensor.device}"
        )
    if tensor.numel() != position.numel():
        raise ValueError(f"{name} must have {position.numel()} entries, got {tensor.numel()}")
    return tensor.data_ptr() or EMPTY


def lay_out(structures: Sequence[ctypes.Structure]) -> array[int]:
    """Structures one after the other, as a kernel takes them.

    All have a momentum, and a slack, or none, and the last one takes the last row of numbers. So a
    call need look at no more than one.
    """
    for name in ("momentum", "slack", "mean", "square"):
        if len({getattr(one, name, 0) == 0 for one in structures}) > 1:
            raise ValueError(f"{name} is needed for all parameters or none, but some have none")
    ends = [one.row + getattr(one, "members", 1) for one in structures]
    if ends[-1] < max(ends) or min(one.row for one in structures) < 0:
        raise ValueError(f"rows must be 0 or more, the last one that of the last, got {ends}")
    return array("q", b"".join(map(bytes, structures)))


def field(kind: type[ctypes.Structure], name: str) -> slice:
    """Where structures that are laid out have a field.

    Example:
        >>> class Pair(ctypes.Structure):
        ...     _fields_ = [("one", ctypes.c_int64), ("two", ctypes.c_int64)]
        >>> array("q", [1, 2, 3, 4])[field(Pair, "two")]
        array('q', [2, 4])
    """
    return slice(getattr(kind, name).offset // 8, None, ctypes.sizeof(kind) // 8)


# --- calls ----------------------------------------------------------------------------------


def readable(gradient: Tensor, dtype: torch.dtype, size: int) -> Tensor:
    """A gradient as the kernels read it: itself, or a contiguous copy.

    Example:
        >>> readable(torch.ones(2, 3).T, torch.float32, 6).is_contiguous()
        True
    """
    plain = type(gradient) in PLAIN and gradient.dtype is dtype and gradient.is_cpu
    if not plain or gradient.numel() != size or gradient.layout is not torch.strided:
        raise ValueError(
            f"a gradient must be a plain dense {dtype} tensor on the CPU with {size} "
            f"entries, got {type(gradient).__name__} of {gradient.dtype} on "
            f"{gradient.device} with {gradient.numel()}"
        )
    if gradient.is_contiguous() and not gradient.is_neg():
        return gradient
    return gradient.detach().clone(memory_format=torch.contiguous_format)


@functools.cache
def kernel(name: str, function: str) -> Callable[..., None]:
    """A function of a library; RuntimeError where there is none."""
    found = library.load(name)
    if found is None:
        raise RuntimeError(f"there are no kernels: {library.reason(name)}")
    return getattr(found, function)


def check_numbers(numbers: array[float], needed: int, kinds: array[int], momentum: int) -> None:
    """Refuse fewer numbers than a step reads, and actions on a momentum that is not there."""
    if len(numbers) < needed:
        raise ValueError(f"numbers must be {needed} or more, got {len(numbers)}")
    if momentum == 0 and kinds.count(OVERDAMPED) < len(kinds):
        raise ValueError("momentum is needed for impulses and drifts, but there is none")


# --- normals, and matrices turned ---------------------------------------------------------------


def fill(
    out: Tensor, seeds: Sequence[int], ordinal: int, step: int, draw: int = 0, first: int = 0
) -> bool:
    """Overwrite the rows of a matrix with standard normals, one row per seed.

    They are a function of seed, parameter, step, draw and index, of which ``first`` is that of a
    row's first number in its parameter. Returns False, with nothing written, without kernels.

    Example:
        >>> whole, part = torch.zeros(1, 100), torch.zeros(1, 40)
        >>> if fill(whole, [1], 0, 5) and fill(part, [1], 0, 5, first=60):
        ...     assert torch.equal(whole[:, 60:], part)
    """
    kernels = library.load()
    if kernels is None:
        return False
    if not suits(out) or out.dim() != 2 or len(out) != len(seeds):
        raise ValueError(
            "out must be a plain contiguous float32 or float64 matrix on the CPU with "
            f"{len(seeds)} rows, got {type(out).__name__} of {out.dtype} and shape "
            f"{tuple(out.shape)} on {out.device}"
        )
    count, size = out.shape
    start, width = out.data_ptr(), size * out.element_size()
    table = array("q", map(signed, [0, size, first, 0, ordinal, step, draw])) * count
    table[0::7] = array("q", [start + row * width for row in range(count)])
    table[3::7] = _signed_all(seeds)
    kernels.cola_normals(DTYPES[out.dtype], count, table.buffer_info()[0], torch.get_num_threads())
    increment_version(out)
    return True


def turned(matrices: Tensor) -> Tensor:
    """A contiguous copy of [..., rows, columns] as [..., columns, rows].

    With few rows or columns torch copies number by number: the kernel is several times as fast.

    Example:
        >>> turned(torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]]))
        tensor([[[1., 3., 5.],
                 [2., 4., 6.]]])
    """
    matrices = matrices.detach()
    kernels = library.load() if suits(matrices) else None
    if kernels is None:
        return matrices.mT.contiguous()
    *stack, rows, columns = matrices.shape
    out = torch.empty(*stack, columns, rows, dtype=matrices.dtype)
    count = matrices.numel() // max(1, rows * columns)
    kernels.cola_turn(
        *(DTYPES[matrices.dtype], count, rows, columns),
        *(matrices.data_ptr(), out.data_ptr(), torch.get_num_threads()),
    )
    return out
