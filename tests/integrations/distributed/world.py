"""Worlds: processes that wait for work, so that many cases share their start.

A case is a function ``case(rank, *args)`` of a module in this folder. It runs in every process of a
world at once, and its results come back in the order of the ranks. Nothing hangs: a world that is
late is ended, and the next case gets a new one.
"""

from __future__ import annotations

import datetime
import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

PATIENCE = 300.0
"""Seconds that a case may take."""
TIMEOUT = 60.0
"""Seconds after which a collective operation gives up."""


class CaseError(AssertionError):
    """A case has failed in at least one process."""


def serve(rank: int, size: int, store: str, pipe: Any) -> None:
    """Run cases in one process until there are no more."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=TIMEOUT),
    )
    while True:
        work = pipe.recv()
        if work is None:
            break
        case, args = work
        try:
            pipe.send((True, case(rank, *args)))
        except BaseException as error:
            pipe.send((False, f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
    dist.destroy_process_group()


class World:
    """Some processes with a process group of the backend gloo.

    Args:
        size: how many.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._processes: list[Any] = []
        self._pipes: list[Any] = []

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        store = tempfile.mktemp(prefix="world")
        for rank in range(self.size):
            own, other = context.Pipe()
            process = context.Process(
                target=serve, args=(rank, self.size, store, other), daemon=True
            )
            process.start()
            self._processes.append(process)
            self._pipes.append(own)

    def run(self, case: Callable[..., Any], *args: Any, patience: float = PATIENCE) -> list[Any]:
        """The results of a case, one per rank.

        Raises:
            CaseError: with the traces of the ranks that failed, or that are late.
        """
        if not self._processes:
            self._start()
        for pipe in self._pipes:
            pipe.send((case, args))
        end, found = time.monotonic() + patience, []
        for rank, pipe in enumerate(self._pipes):
            try:
                late = not pipe.poll(max(0.0, end - time.monotonic()))
                found.append((False, f"rank {rank} is late") if late else pipe.recv())
            except EOFError:
                found.append((False, f"rank {rank} has died"))
        failed = [f"rank {rank}: {text}" for rank, (good, text) in enumerate(found) if not good]
        if failed:
            self.stop(kill=True)
            raise CaseError("\n".join(failed))
        return [result for _, result in found]

    def stop(self, kill: bool = False) -> None:
        """End the processes."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            if kill:
                process.kill()
            else:
                pipe.send(None)
        for process in self._processes:
            process.join(20.0)
            if process.is_alive():
                process.kill()
        self._processes, self._pipes = [], []


def failure(function: Callable[[], Any]) -> str | None:
    """What a function raises, in words: a case that expects an error returns it."""
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
