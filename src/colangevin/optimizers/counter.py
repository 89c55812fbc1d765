"""Standard normals from a counter: number i is a function of i and a key alone.

So nothing is sequential: one compiled kernel fills a tensor with all vector lanes and threads,
and its numbers do not depend on how many of them there are. Two 32-bit hashes of the index make
two normals by Box and Muller's method; polynomials stand for its logarithm, sine and cosine.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.optimizers.kernels import Kernel, announce, compile_kernel

MINIMUM = 1 << 16
"""Numbers in a draw from which on a kernel's call does not matter."""
SEGMENT = 1 << 24
"""Numbers that share a key: few against the 2³² values of a hash, none of which it repeats."""
EXAMPLE_PAIRS = (1 << 18) - 5
"""Size to trace with: large enough to be worth threads."""

FIRST = (0x7FEB352D, -0x7B935975)
SECOND = (0x21F0AAAD, -0x2CA5D269)
"""Multipliers of 32-bit mixing functions that were searched for the least bias (as int32)."""

# Minimax polynomials, highest power first: −log(1 − z/2)/z on [0, 1], to 9e-8; sin(√z)/√z
# and cos(√z) on [0, (π/4)²], to 3e-9 and 3e-8.
LOGARITHM = (
    0.004745444729319976,
    -0.008858419233975456,
    0.012834680748981864,
    0.0008045839976332375,
    0.017149909050784715,
    0.04146044617201052,
    0.1250105350938252,
    0.4999999119298215,
)
SINE = (-0.0001950402200100595, 0.008332036875163595, -0.16666650699202618, 0.9999999969263436)
COSINE = (-0.0013585908506766396, 0.041655026883950175, -0.4999985669584238, 0.9999999724233206)


class CounterNormals:
    """Fills large float32 tensors of the CPU; the keys come from a torch generator.

    Thus the state of that generator decides the numbers and is all there is to save.
    Where there is no compiler, this is announced once and ``fill`` declines.
    """

    def __init__(self) -> None:
        self.works = True

    def fill(self, out: Tensor, generator: torch.Generator) -> bool:
        """Fill a tensor; False, and nothing drawn, if it is not for this generator."""
        if not (self.works and _suits(out)):
            return False
        try:
            kernel = _kernel()
        except Exception as error:
            self.works = False
            announce(error, "noise is drawn by torch")
            return False
        for part in out.view(-1).split(SEGMENT):
            pairs = part.numel() // 2 if part.numel() >= MINIMUM else 0
            if pairs:
                kernel(part[:pairs], part[pairs : 2 * pairs], draw_keys(generator))
            if part.numel() > 2 * pairs:
                part[2 * pairs :].normal_(generator=generator)
        return True


def draw_keys(generator: torch.Generator) -> Tensor:
    """Four random 32-bit integers."""
    return torch.empty(4, dtype=torch.int32).random_(-(2**31), 2**31, generator=generator)


def counter_normals(pairs: int, keys: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
    """Two times ``pairs`` standard normals from the index ``first`` on, by the keys alone.

    Example:
        >>> keys = draw_keys(torch.Generator().manual_seed(0))
        >>> first, second = counter_normals(1000, keys)
        >>> bool((first[:10] == counter_normals(10, keys)[0]).all())
        True
        >>> bool((first.square() + second.square()).mean().sub(2).abs() < 0.2)
        True
    """
    index = torch.arange(first, first + pairs, dtype=torch.int32, device=keys.device)
    return box_muller(*hashes(index, keys))


def hashes(index: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Two 32-bit hashes of each index; their high bits are the better ones.

    Each is a bijection of the index, four multiplications deep, of which they share two.
    """
    start, stride, left, right = keys.unbind()
    shared = _mix(index * (stride | 1) + start, FIRST)
    return _mix(shared ^ left, SECOND), _mix(shared ^ right, FIRST)


def _mix(x: Tensor, multipliers: tuple[int, int]) -> Tensor:
    x = (x ^ _shift(x, 16)) * multipliers[0]
    return (x ^ _shift(x, 15)) * multipliers[1]


def _shift(x: Tensor, bits: int) -> Tensor:
    """To the right without the sign, as for an unsigned integer."""
    return (x >> bits) & ((1 << (32 - bits)) - 1)


def box_muller(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two independent normals from two random 32-bit integers.

    |a| is the radius and |b| the angle within a quadrant, φ = π/4 + t, where
    √2 cos φ = cos t − sin t and √2 sin φ = cos t + sin t. Their signs choose the quadrant.
    """
    x = (a | 1).to(torch.float32)  # odd, so never 0
    y = b.to(torch.float32)
    radius = _minus_log(x.abs()).sqrt()
    t = y.abs() * (math.pi / 2**32) - math.pi / 4
    z = t * t
    sine, cosine = t * _polynomial(z, SINE), _polynomial(z, COSINE)
    return torch.copysign(radius * (cosine - sine), x), torch.copysign(radius * (cosine + sine), y)


def _minus_log(x: Tensor) -> Tensor:
    """−log(x/2³¹) for x from 1 to 2³¹, to the same relative accuracy everywhere.

    x = 2^e (2 − z) with z in (0, 1], so that it is (30 − e) log 2 − log(1 − z/2).
    """
    bits = x.view(torch.int32)
    z = 1.0 - (bits & 0x7FFFFF).to(torch.float32) * 2.0**-23
    octaves = (157 - (bits >> 23)).to(torch.float32)  # the exponent's bits are e + 127
    return (z * _polynomial(z, LOGARITHM) + octaves * math.log(2.0)).abs()


def _polynomial(z: Tensor, coefficients: Sequence[float]) -> Tensor:
    value = z * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * z + coefficient
    return value


def _suits(out: Tensor) -> bool:
    plain = out.device.type == "cpu" and out.dtype == torch.float32 and out.is_contiguous()
    return plain and out.numel() >= MINIMUM


@functools.cache
def _kernel() -> Kernel:
    """The same for everybody, so compiled once in a process."""

    def body(first: Tensor, second: Tensor, keys: Tensor) -> None:
        x, y = counter_normals(first.shape[0], keys)
        first.copy_(x)
        second.copy_(y)

    keys = torch.ones(4, dtype=torch.int32)
    return compile_kernel(body, [torch.empty(EXAMPLE_PAIRS), torch.empty(EXAMPLE_PAIRS), keys])
