"""One job as a task: what an engine gives to a process, here or on another machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from colangevin.lab import machine
from colangevin.lab.runner.experiment import Job
from colangevin.lab.runner.job_log import Log, checkpoint_path, read_checkpoint
from colangevin.lab.runner.workers import KeepGoing, Report, processors, run_queue


@dataclass(frozen=True)
class Task:
    """A job for a process of its own.

    Attributes:
        run: does a job and writes to its log.
        job: the job.
        order: its place among the experiment's.
        directory: where its record goes.
        data: data directory, or None.
        threads: of torch.
        device: where its networks are.
    """

    run: Callable[[Job, Log], None]
    job: Job
    order: int
    directory: Path
    data: Path | None
    threads: int
    device: str = "cpu"


def carry_out(task: Task, keep_going: KeepGoing) -> bool:
    """Do one job; return whether it is complete."""
    checkpoint = checkpoint_path(task.directory, task.job.name)
    threads = task.threads
    if checkpoint.exists():  # another number of threads would change the last digits
        threads = int(read_checkpoint(checkpoint)[0].versions.get("threads", threads))
    with machine.threads(threads):
        log = Log(
            task.job,
            task.directory,
            task.data,
            order=task.order,
            progress=keep_going,
            device=task.device,
        )
        if not checkpoint.exists():
            log.start()
        task.run(task.job, log)
    if log.going and not log.record.complete:
        raise RuntimeError(f"{task.job.name} of {task.job.experiment} ended without a result")
    return log.record.complete


class Engine(Protocol):
    """Where the tasks of an experiment run."""

    @property
    def name(self) -> str:
        """As in ``--engine NAME``."""

    @property
    def processors(self) -> int:
        """How many tasks can run at once."""

    @property
    def threads(self) -> int:
        """How many threads a task can have at most."""

    @property
    def device(self) -> str:
        """Where the networks of a task are."""

    def run(self, tasks: Sequence[Task], report: Report, processes: int) -> dict[int, bool]:
        """Do the tasks, ``processes`` at once, as :func:`workers.run_queue` does.

        Returns:
            For each task that was begun, by index, whether it is complete.
        """


class Local:
    """Processes of this machine.

    Example:
        >>> Local().processors >= 1
        True
    """

    name = "local"
    device = "cpu"

    @property
    def processors(self) -> int:
        """One task per processor."""
        return processors()

    @property
    def threads(self) -> int:
        """Those of this machine, or fewer if ``OMP_NUM_THREADS`` asks for it."""
        return min(processors(), torch.get_num_threads())

    def run(self, tasks: Sequence[Task], report: Report, processes: int) -> dict[int, bool]:
        """See :class:`Engine`."""
        return run_queue(carry_out, tasks, report, processes)
