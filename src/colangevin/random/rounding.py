"""Rounding at random: float32 to one of the two nearest numbers of a half precision.

x between the neighbours a and b goes to b with the probability (x − a)/(b − a), so its mean is x.
An update that is smaller than half of the distance b − a is lost when numbers go to the nearest
one; at random it is kept on average.
"""

from __future__ import annotations

import torch
from torch import Tensor

DROPPED = {torch.bfloat16: 16, torch.float16: 13}
"""Bits of float32's fraction that a half precision does not have."""
LEAST = 2.0**-14
"""Below it the numbers of float16 are equally far apart, as they are from here to twice as much."""


def rounded_at_random(values: Tensor, dtype: torch.dtype, chances: Tensor) -> Tensor:
    """Each value's lower or upper neighbour in a half precision, still as float32.

    Args:
        values: float32.
        dtype: bfloat16 or float16, whose numbers come out.
        chances: numbers from 0 to 1, without 1, one for each value.

    Example:
        >>> values = torch.full((2,), 1.0 + 2.0**-10)  # an eighth of the way to the next bfloat16
        >>> rounded_at_random(values, torch.bfloat16, torch.tensor([0.8, 0.9]))
        tensor([1.0000, 1.0078])
    """
    bits = DROPPED[dtype]
    extra = (chances * 2.0**bits).to(torch.int32)
    # The bits of a number's size are in its order, so a carry leads to the upper neighbour.
    moved = (values.view(torch.int32) + extra) & -(1 << bits)
    found = torch.where(values.isfinite(), moved.view(torch.float32), values)
    if dtype is torch.float16:
        small = values.abs()
        lifted = ((small + LEAST).view(torch.int32) + extra) & -(1 << bits)
        near = (lifted.view(torch.float32) - LEAST).copysign(values)
        found = torch.where(small < LEAST, near, found)
    return found
