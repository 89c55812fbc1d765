"""How many threads torch uses: one where the work of a step is small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

LITTLE = 1 << 24
"""Multiply-adds of a forward pass below which one thread is used.

Measured with MLPs of three layers, 4 at a time, gradient and step, on 2 cores, one and two threads
in turn. Idle cores, ms per step: 0.65 and 0.64 at 8e4, 1.2 and 1.0 at 4e6, 4.5 and 6.2 at 3e7, 7.3
and 4.5 at 4e7, 18 and 9.5 at 2e8. With three other processes on the cores: 6.6 and 16 at 1e7, 15
and 28 at 4e7. So below it a second thread gains at most a millisecond, and may cost many.
"""


@contextmanager
def threads_for(multiply_adds: int) -> Iterator[None]:
    """Let torch use one thread if a step is little work, and as many as before afterwards.

    Args:
        multiply_adds: of a step's forward pass, all chains or members together.

    Example:
        >>> with threads_for(multiply_adds=1000):
        ...     torch.get_num_threads()
        1
    """
    before = torch.get_num_threads()
    if before == 1 or multiply_adds >= LITTLE:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def multiply_adds_of(work: Callable[[], object]) -> int:
    """Multiply-adds of the matrix products and convolutions of a function, which is run once.

    Gradients are recorded meanwhile: without them torch runs some layers as one piece, whose
    products it does not count.

    Example:
        >>> layer, inputs = torch.nn.Linear(20, 3), torch.zeros(50, 20)
        >>> multiply_adds_of(lambda: layer(inputs))
        3000
    """
    from torch.utils.flop_counter import FlopCounterMode

    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops()) // 2
