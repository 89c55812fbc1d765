"""Random numbers from a counter: number i of a tensor is a function of i and a key alone.

A key is a 64-bit integer that stands for what a random number belongs to: a hash of several
integers by splitmix64. There is nothing to save: whoever knows the integers knows the key.

So nothing is sequential. The same numbers come out for a whole tensor or for a part of it, on any
device and with any number of threads. Two 32-bit hashes of an index make two normals by Box and
Muller's method; polynomials stand for its logarithm, sine and cosine.

The numbers of a tensor are laid out in chunks of 32: the first normals of 16 pairs, then their
second ones, which suits the vector registers of a processor. The C kernels of
``colangevin.native`` compute the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

WORD = 2**64
GOLDEN = 0x9E3779B97F4A7C15
SPLITMIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""Constants of splitmix64."""
LANES = 16
"""Pairs in a chunk."""
CHUNK = 2 * LANES
SEGMENT = 1 << 23
"""Pairs that share a key: few against the 2³² values of a hash, none of which it repeats."""

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


# --- keys -------------------------------------------------------------------------------------


def mix(x: int) -> int:
    """Splitmix64's bijection of 64-bit integers, whose values behave like random numbers.

    Example:
        >>> mix(1) != mix(2)
        True
    """
    x = ((x ^ (x >> 30)) * SPLITMIX[0]) % WORD
    x = ((x ^ (x >> 27)) * SPLITMIX[1]) % WORD
    return x ^ (x >> 31)


def key_of(*parts: int, start: int = 0) -> int:
    """A hash of integers; ``start`` continues an earlier key.

    Example:
        >>> key_of(1, 2, 3) == key_of(3, start=key_of(1, 2))
        True
    """
    key = start
    for part in parts:
        key = mix((key + GOLDEN * (part + 1)) % WORD)
    return key


def words_of(key: int) -> tuple[int, int, int, int]:
    """Four 32-bit integers made of a key, as signed numbers."""
    first, second = mix((key + GOLDEN) % WORD), mix((key + 2 * GOLDEN) % WORD)
    halves = (first >> 32, first % 2**32, second >> 32, second % 2**32)
    return tuple(half - 2**32 if half >= 2**31 else half for half in halves)  # type: ignore[return-value]


def keys_on_device(start: Tensor, *parts: Tensor | int) -> Tensor:
    """``key_of`` of integers that lie on a device, as signed numbers: nothing is read from there.

    Args:
        start: earlier keys, int64.
        parts: int64 tensors that broadcast to them, or numbers.

    Example:
        >>> signed(key_of(7, 2)) == int(keys_on_device(torch.tensor(signed(key_of(7))), 2))
        True
    """
    golden = signed(GOLDEN)
    for part in parts:
        step = signed(GOLDEN * (part + 1)) if isinstance(part, int) else golden * (part + 1)
        start = _mixed(start + step)
    return start


def signed(key: int) -> int:
    """A key as int64 has it.

    Example:
        >>> signed(2**64 - 1)
        -1
    """
    return (key + WORD // 2) % WORD - WORD // 2


def _mixed(x: Tensor) -> Tensor:
    """``mix`` of int64, whose products overflow as they should."""
    for bits, factor in zip((30, 27), SPLITMIX, strict=True):
        x = (x ^ _shift(x, bits, 64)) * signed(factor)
    return x ^ _shift(x, 31, 64)


def word_table(keys: Sequence[int] | Tensor, device: torch.device | None = None) -> Tensor:
    """The words of several keys: [keys, 4], int32.

    Example:
        >>> own = word_table(torch.tensor([5, 6]))
        >>> own.shape, bool((own == word_table([5, 6])).all())
        (torch.Size([2, 4]), True)
    """
    if isinstance(keys, Tensor):
        golden = signed(GOLDEN)
        pairs = [_mixed(keys + golden), _mixed(keys + signed(2 * GOLDEN))]
        halves = [half for pair in pairs for half in (pair >> 32, pair)]
        return (torch.stack(halves, dim=1) << 32 >> 32).to(torch.int32)
    table = torch.tensor([words_of(key) for key in keys], dtype=torch.int32)
    # Small and never changed: nothing has to wait until it is there. On mps that is not safe.
    at_once = device is not None and torch.device(device).type not in ("cpu", "mps")
    return table.to(device, non_blocking=at_once)


# --- numbers ----------------------------------------------------------------------------------


def normals(
    keys: Sequence[int] | Tensor, size: int, first: int = 0, device: torch.device | None = None
) -> Tensor:
    """Standard normals ``first`` to ``first + size`` of the tensors of some keys: [keys, size].

    Keys are integers, or a tensor of them on the device, as ``keys_on_device`` makes it.

    Example:
        >>> whole = normals([7], 1000)
        >>> bool((normals([7], 500, first=300)[0] == whole[0, 300:800]).all())
        True
        >>> bool(whole.square().mean().sub(1).abs() < 0.2)
        True
    """
    return _in_chunks(box_muller, keys, size, first, device)


def uniforms(
    keys: Sequence[int] | Tensor, size: int, first: int = 0, device: torch.device | None = None
) -> Tensor:
    """Numbers between 0 (included) and 1, likewise.

    Example:
        >>> numbers = uniforms([7], 1000)
        >>> bool((numbers >= 0).all() & (numbers < 1).all()), numbers.shape
        (True, torch.Size([1, 1000]))
    """
    return _in_chunks(_fractions, keys, size, first, device)


def _in_chunks(
    make: object, keys: Sequence[int] | Tensor, size: int, first: int, device: torch.device | None
) -> Tensor:
    start, stop = first // CHUNK, -(-(first + size) // CHUNK)
    made = []
    while start < stop:
        segment, place = divmod(start * LANES, SEGMENT)
        count = min(stop - start, (SEGMENT - place) // LANES)
        if isinstance(keys, Tensor):
            words = word_table(keys_on_device(keys, segment))
        else:
            words = word_table([key_of(segment, start=key) for key in keys], device)
        index = torch.arange(place, place + count * LANES, dtype=torch.int32, device=device)
        pair = make(*hashes(index, *(word.unsqueeze(1) for word in words.unbind(1))))  # type: ignore[operator]
        lanes = torch.stack([part.view(len(keys), count, LANES) for part in pair], dim=2)
        made.append(lanes.flatten(1))
        start += count
    if not made:
        return torch.empty(len(keys), 0, device=device)
    drawn = made[0] if len(made) == 1 else torch.cat(made, dim=1)
    skip = first % CHUNK
    return drawn[:, skip : skip + size]


def hashes(
    index: Tensor, start: Tensor, stride: Tensor, left: Tensor, right: Tensor
) -> tuple[Tensor, Tensor]:
    """Two 32-bit hashes of each index; their high bits are the better ones.

    Each is a bijection of the index, four multiplications deep, of which they share two.
    """
    shared = _mix(index * (stride | 1) + start, FIRST)
    return _mix(shared ^ left, SECOND), _mix(shared ^ right, FIRST)


def _mix(x: Tensor, multipliers: tuple[int, int]) -> Tensor:
    x = (x ^ _shift(x, 16)) * multipliers[0]
    return (x ^ _shift(x, 15)) * multipliers[1]


def _shift(x: Tensor, bits: int, size: int = 32) -> Tensor:
    """To the right without the sign, as for an unsigned integer of ``size`` bits."""
    return (x >> bits) & ((1 << (size - bits)) - 1)


def _fractions(*words: Tensor) -> tuple[Tensor, ...]:
    """The high 24 bits of each word as a number between 0 and 1."""
    return tuple(_shift(x, 8).to(torch.float32) * 2.0**-24 for x in words)


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
