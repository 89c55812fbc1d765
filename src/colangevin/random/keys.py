"""Keys: 64-bit integers that stand for what a random number belongs to.

A key is a hash of several integers by splitmix64. There is nothing to save: whoever knows the
integers knows the key.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

WORD = 2**64
GOLDEN = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Constants of splitmix64."""


def mix(x: int) -> int:
    """Splitmix64's bijection of 64-bit integers, whose values behave like random numbers.

    Example:
        >>> mix(1) != mix(2)
        True
    """
    x = ((x ^ (x >> 30)) * FIRST) % WORD
    x = ((x ^ (x >> 27)) * SECOND) % WORD
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


def word_table(keys: Sequence[int], device: torch.device | None = None) -> Tensor:
    """The words of several keys: [keys, 4], int32.

    Example:
        >>> word_table([5, 6]).shape
        torch.Size([2, 4])
    """
    return torch.tensor([words_of(key) for key in keys], dtype=torch.int32, device=device)
