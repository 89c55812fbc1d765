"""Standard normals that are a function of seed, parameter, step, draw and index."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from colangevin.native import library
from colangevin.native.memory import DTYPES, signed, suits


def fill(
    out: Tensor, seeds: Sequence[int], ordinal: int, step: int, draw: int = 0, first: int = 0
) -> bool:
    """Overwrite the rows of a matrix; False, and nothing written, where there are no kernels.

    Args:
        out: contiguous, float32 or float64, on the CPU: one row per seed.
        seeds: one per row.
        ordinal: the number of the parameter.
        step: the count of its steps.
        draw: number of the draw within a step.
        first: flat index of a row's first number in its parameter.

    Raises:
        ValueError: for a tensor that does not suit, or has another number of rows.

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
    address, width = out.data_ptr(), size * out.element_size()
    shared = [0, size, first, 0, ordinal, step, draw]
    table = array("q", map(signed, shared)) * count
    table[0::7] = array("q", [address + row * width for row in range(count)])
    table[3::7] = array("q", map(signed, seeds))
    kernels.cola_normals(DTYPES[out.dtype], count, table.buffer_info()[0], torch.get_num_threads())
    increment_version(out)
    return True
