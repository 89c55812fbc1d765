"""Random numbers of the members: each a function of the member's seed and of when it is used.

Nothing is drawn from a generator that goes on, so there is no state to save, and what a member
gets depends neither on the other members nor on interruptions. The function is splitmix64: its
mixing of a counter whose start depends on the seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15 - 2**64
FIRST, SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64
"""Constants of splitmix64, as signed integers."""


class Stream(IntEnum):
    """What numbers are for; weights are drawn from the bare seed, as in a training alone."""

    ORDER = 1
    TEST = 2


def mix(x: Tensor) -> Tensor:
    """Splitmix64's bijection of 64-bit integers, whose values behave like random numbers."""
    x = (x ^ _shift(x, 30)) * FIRST
    x = (x ^ _shift(x, 27)) * SECOND
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """To the right without the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def random_bits(seeds: Sequence[int], stream: Stream, index: int, count: int) -> Tensor:
    """Random 64-bit integers [members, count]: the index-th lot of a stream.

    Example:
        >>> random_bits([0, 1], Stream.ORDER, 5, 3).shape
        torch.Size([2, 3])
    """
    start = mix(mix(torch.tensor(seeds, dtype=torch.int64) + GOLDEN) + int(stream))
    lot = mix(start + GOLDEN * (index + 1) % 2**63).unsqueeze(1)
    return mix(lot + torch.arange(1, count + 1) * GOLDEN)


def batch_orders(seeds: Sequence[int], epoch: int, points: int) -> Tensor:
    """Return the order in which each member sees the data in an epoch: [members, points].

    Example:
        >>> orders = batch_orders([0, 1], epoch=0, points=5)
        >>> orders.shape, sorted(orders[1].tolist())
        (torch.Size([2, 5]), [0, 1, 2, 3, 4])
    """
    return random_bits(seeds, Stream.ORDER, epoch, points).argsort(dim=1)
