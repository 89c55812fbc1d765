"""Langevin steps of many small orthogonal matrices at once, in place."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from itertools import accumulate
from operator import mul

import torch
from torch import Tensor

from colangevin.native.memory import DTYPES, address, check_numbers, field, kernel, readable

LARGEST_SIDE = 128
"""Smaller side of a matrix up to which its products are faster here than in a library call."""
LARGEST_MATRIX = 1 << 16
"""Entries of a matrix up to which it stays in the cache."""

DONE, FAILED, FAR, NO_MEMORY = 0, 1, 2, 3
"""Outcomes: done; no convergence, or not finite; a proposal so far off that the multiplier has lost
digits; no memory. A matrix that is not done has been left as it was."""


def is_small(rows: int, columns: int) -> bool:
    """Whether the kernel is for matrices of this shape.

    Example:
        >>> is_small(64, 32), is_small(2000, 2000)
        (True, False)
    """
    return min(rows, columns) <= LARGEST_SIDE and rows * columns <= LARGEST_MATRIX


class Stack(ctypes.Structure):
    """Matrices with orthonormal columns, or rows if they are wide: ``Stack`` of stiefel.c.

    Momenta are kept modulo the normal space, as ``Orthogonal`` does.
    """

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            *("position", "momentum", "gradient", "result", "matrices", "rows", "columns"),
            *("first", "seed", "ordinal", "step", "draw", "row"),
        )
    )


LENGTH = ctypes.sizeof(Stack) // 8
GRADIENTS, RESULTS, MATRICES = (field(Stack, name) for name in ("gradient", "result", "matrices"))
ROWS, COLUMNS = field(Stack, "rows"), field(Stack, "columns")
# Of the last stack.
MOMENTUM, ROW = (field(Stack, name).start - LENGTH for name in ("momentum", "row"))


def stack(
    position: Tensor, momentum: Tensor | None, *, rows: int, columns: int, ordinal: int
) -> Stack:
    """What the kernel has to know of a parameter; fields that are not given here are 0.

    They are as those of a ``Segment``, with one ``seed``. The tensors must be kept as long as there
    are steps, which write over them. The momentum is None if all steps are overdamped.

    Example:
        >>> stack(torch.eye(3).repeat(4, 1, 1), None, rows=3, columns=3, ordinal=0).matrices
        4
    """
    for name, value in (("rows", rows), ("columns", columns)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    size = position.numel()
    if size % (rows * columns):
        raise ValueError(f"position must be matrices of {rows} × {columns}, got {size} entries")
    return Stack(
        position=address("position", position, position),
        momentum=address("momentum", momentum, position),
        matrices=size // (rows * columns),
        rows=rows,
        columns=columns,
        ordinal=ordinal,
    )


def step_matrices(
    dtype: torch.dtype,
    stacks: array[int],
    kinds: array[int],
    numbers: array[float],
    gradients: Sequence[Tensor] | None = None,
) -> array[int]:
    """Do the actions on every matrix, in place.

    Args:
        dtype: of all tensors.
        stacks: laid out, with counts of steps and numbers of the first draw.
        kinds: of the actions.
        numbers: for each row weight decay, scale, tolerance, limit of iterations and three for
            each action.
        gradients: one for each stack; None if their addresses have been filled in.

    Returns:
        For each matrix, in the order of the stacks, the iterations of the projection that needed
        most of them, and the outcome. One of which any projection fails is left as it was.

    Example:
        >>> from colangevin.native.memory import lay_out, library
        >>> weight, slope = torch.eye(2), torch.tensor([[0.0, 1.0], [0.0, 0.0]])
        >>> stacks = lay_out([stack(weight, None, rows=2, columns=2, ordinal=0)])
        >>> numbers = array("d", [0, 1, 5e-7, 40, 0.2, 0, 0])
        >>> if library.load("stiefel") is not None:
        ...     found = step_matrices(torch.float32, stacks, array("q", [3]), numbers, [slope])
        ...     assert found[1] == DONE and weight[0, 1] < 0 < weight[1, 0]
    """
    matrices, width = stacks[MATRICES], 4 + 3 * len(kinds)
    check_numbers(numbers, width * (stacks[ROW] + 1), kinds, stacks[MOMENTUM])
    if gradients is not None:
        sizes = map(mul, matrices, map(mul, stacks[ROWS], stacks[COLUMNS]))
        gradients = [readable(g, dtype, size) for g, size in zip(gradients, sizes, strict=True)]
        stacks[GRADIENTS] = array("q", [gradient.data_ptr() for gradient in gradients])
    *starts, count = accumulate(matrices, initial=0)
    results = array("q", bytes(16 * count))
    beginning = results.buffer_info()[0]
    stacks[RESULTS] = array("q", [beginning + 16 * start for start in starts])
    kernel("stiefel", "cola_stiefel")(
        DTYPES[dtype],
        len(matrices),
        stacks.buffer_info()[0],
        len(kinds),
        kinds.buffer_info()[0],
        numbers.buffer_info()[0],
        width,
        torch.get_num_threads(),
    )
    return results
