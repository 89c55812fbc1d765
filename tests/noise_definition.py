"""R(seed, ordinal, step, draw, index) word for word: integers of Python, functions of ``math``."""

import functools
import math

WORD = 2**64 - 1
HALF_WORD = 2**32 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & WORD
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & WORD
    return x ^ x >> 31


@functools.lru_cache(maxsize=1000)
def keys(seed: int, ordinal: int, step: int, draw: int, segment: int) -> tuple[int, ...]:
    h = 0
    for value in (seed, ordinal, step, draw, segment):
        h = mix(h + GOLDEN * (value + 1) & WORD)
    a, b = mix(h + GOLDEN & WORD), mix(h + 2 * GOLDEN & WORD)
    return a >> 32, a & HALF_WORD, b >> 32, b & HALF_WORD


def mix_half(x: int, first: int, second: int) -> int:
    x = (x ^ x >> 16) * first & HALF_WORD
    return (x ^ x >> 15) * second & HALF_WORD


def signed(x: int) -> int:
    return x - 2**32 if x >= 2**31 else x


def normal(seed: int, ordinal: int, step: int, draw: int, index: int) -> float:
    """One number, as exact as ``math`` is."""
    chunk, lane = divmod(index, 32)
    pair = chunk * 16 + lane % 16
    start, stride, left, right = keys(seed, ordinal, step, draw, pair >> 23)
    counter = pair & (2**23 - 1)
    shared = mix_half(counter * (stride | 1) + start & HALF_WORD, 0x7FEB352D, 0x846CA68B)
    a = signed(mix_half(shared ^ left, 0x21F0AAAD, 0xD35A2D97)) | 1
    b = signed(mix_half(shared ^ right, 0x7FEB352D, 0x846CA68B))
    radius = math.sqrt(-2.0 * math.log(abs(a) / 2**31))
    angle = abs(b) / 2**31 * math.pi / 2  # within a quadrant; the signs choose which
    size = radius * (math.sin(angle) if lane >= 16 else math.cos(angle))
    return math.copysign(size, b if lane >= 16 else a)
