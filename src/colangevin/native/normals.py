"""Standard normals that are a function of seed, parameter, step, draw and index."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from colangevin.native import library
from colangevin.native.table import DTYPES, signed, suits


def fill(
    outs: Sequence[Tensor],
    seeds: int | Sequence[int],
    ordinals: Sequence[int],
    steps: Sequence[int],
    draw: int = 0,
    firsts: Sequence[int] | None = None,
) -> bool:
    """Overwrite tensors with normals; False, and nothing written, where there are no kernels.

    Args:
        outs: contiguous float32 or float64 tensors on the CPU.
        seeds: one for all, or one for each tensor.
        ordinals: the number of each parameter.
        steps: the count of steps of each.
        draw: number of the draw within a step.
        firsts: flat index of each tensor's first number in its parameter; 0 if not given.

    Raises:
        ValueError: for a tensor that does not suit.

    Example:
        >>> whole, part = torch.zeros(100), torch.zeros(40)
        >>> if fill([whole, part], 1, [0, 0], [5, 5], firsts=[0, 60]):
        ...     assert torch.equal(whole[60:], part)
    """
    kernels = library.load()
    if kernels is None:
        return False
    for out in outs:
        if not suits(out):
            raise ValueError(
                "outs must be plain contiguous float32 or float64 tensors on the CPU, got "
                f"{type(out).__name__} of {out.dtype} on {out.device}"
            )
    each = [seeds] * len(outs) if isinstance(seeds, int) else seeds
    begins = [0] * len(outs) if firsts is None else firsts
    jobs = {dtype: array("q") for dtype in DTYPES}
    for out, *numbers in zip(outs, begins, each, ordinals, steps, strict=True):
        jobs[out.dtype].extend([out.data_ptr(), out.numel(), *map(signed, numbers), draw])
    for dtype, job in jobs.items():
        if job:
            count, address = len(job) // 7, job.buffer_info()[0]
            kernels.cola_normals(DTYPES[dtype], count, address, torch.get_num_threads())
    increment_version(outs)
    return True
