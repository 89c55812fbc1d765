"""Whether all processes are replicas, or all chains of their own: known before anybody waits.

A chain of its own sends nothing, so replicas that wait for it would wait until the timeout of the
process group. So every process leaves a note in the store of the process group before the first
step of an optimizer: which of the two it is.
"""

from __future__ import annotations

import time
from collections import Counter

import torch
from torch import distributed as dist

from colangevin.optimizers.private import shared_store

PATIENCE = 1.0
"""Seconds that a process waits for the notes of all others; one that steps alone loses them."""
WATCH = 60.0
"""Seconds in which a chain reads the notes of late processes, once per second."""
KINDS = ("replica", "chain")

_visits: Counter[tuple[int, ...]] = Counter()
"""First steps of optimizers, by process group: they come in the same order everywhere."""


class Door:
    """The first step of an optimizer, in one process of a group.

    Args:
        circle: the process group.
        independent: whether this process is a chain of its own.

    Raises:
        ValueError: if the notes of the processes differ.
    """

    def __init__(self, circle: dist.ProcessGroup, independent: bool) -> None:
        self._circle, self._store = circle, shared_store()
        ranks = tuple(dist.get_process_group_ranks(circle))
        self._prefix = f"colangevin/{hash(ranks)}/{_visits[ranks]}"
        _visits[ranks] += 1
        begin = time.monotonic()
        self._next, self._end = begin + 2.0 * PATIENCE, begin + WATCH
        if self._store is None:
            return
        own = f"{self._prefix}/{KINDS[independent]}"
        self._store.set(f"{own}/rank", str(dist.get_rank()))
        self._store.add(own, 1)
        while self._notes() < len(ranks) and time.monotonic() < begin + PATIENCE:
            time.sleep(0.01)

    def _notes(self) -> int:
        """How many processes have been here."""
        if self._store is None:
            return 0
        counts = [self._store.add(f"{self._prefix}/{kind}", 0) for kind in KINDS]
        if all(counts):
            ranks = [self._store.get(f"{self._prefix}/{kind}/rank").decode() for kind in KINDS]
            raise ValueError(
                f"rank {ranks[1]} has independent_chains=True, and rank {ranks[0]} has not: give "
                "it to all processes, or to none. A process that trains a model alone gives "
                "process_group= a group of its own"
            )
        return sum(counts)

    def wait(self, device: torch.device) -> None:
        """Wait until all processes of the group are here.

        Args:
            device: of the parameters, for the message that is sent.

        Raises:
            ValueError: if one of them is a chain of its own.
        """
        arrival = dist.all_reduce(torch.zeros(1, device=device), group=self._circle, async_op=True)
        if arrival is None:
            return
        pause = 1e-4
        while self._store is not None and not arrival.is_completed():
            self._notes()
            time.sleep(pause)
            pause = min(2.0 * pause, 0.25)
        arrival.wait()

    def look(self) -> bool:
        """Read the notes of processes that are late; returns whether to do so again.

        Raises:
            ValueError: if one of them is a replica.
        """
        now = time.monotonic()
        if now >= self._next:
            self._notes()
            self._next = now + 1.0
        return now < self._end
