"""The jobs of an experiment as tasks of a Ray cluster, or of Ray on this machine."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import tempfile
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import colangevin
from colangevin import checks
from colangevin.lab.data.files import ENVIRONMENT
from colangevin.lab.runner.parcels import Folder, Parcel, pack_for, unpack_into
from colangevin.lab.runner.ray_cluster import Resources, connected, ray_module
from colangevin.lab.runner.tasks import Task, carry_out
from colangevin.lab.runner.workers import ERROR, POLL_SECONDS, Report, outcome

LOSSES = 10
"""How often a job may lose its process before the run ends with an error."""


class Desk:
    """Where the tasks hand in how far they are and what they have written; an actor of Ray.

    It has nothing that must not be lost: a task that ends hands in all of its files once more.
    """

    def __init__(self) -> None:
        self._going = True
        self._letters: list[Letter] = []

    def hand_in(self, letter: Letter) -> bool:
        """Take a letter of a task; return whether it is to go on."""
        self._letters.append(letter)
        return self._going

    def collect(self, going: bool) -> list[Letter]:
        """The letters since the last time; ``going`` is what the tasks will be told."""
        self._going = going
        letters, self._letters = self._letters, []
        return letters


@dataclass(frozen=True)
class Letter:
    """What a task tells: which one it is, in which attempt, how far, with which files."""

    index: int
    attempt: int
    done: float
    parcel: Parcel


def versions() -> dict[str, str]:
    """What must be equal on all machines."""
    return {"colangevin": colangevin.__version__, "torch": torch.__version__}


def serve(task: Task, parcel: Parcel, address: tuple[int, int, str], wanted: Any, desk: Any) -> Any:
    """Do a task on a machine of the cluster; runs in a process of Ray.

    Args:
        task: what to do.
        parcel: the files that it finds.
        address: index and attempt of the task, and a name of the run.
        wanted: the versions of the machine that started the run.
        desk: the handle of a :class:`Desk`.

    Returns:
        What :func:`workers.outcome` returns, and all files that the task has changed.
    """
    if versions() != wanted:
        error = OSError(f"a machine of the cluster has {versions()}, this one has {wanted}")
        return ERROR, error, {}
    if task.device != "cpu" and not torch.cuda.is_available():
        return ERROR, OSError("torch finds no GPU on a machine of the cluster"), {}
    index, attempt, run = address
    out = Path(tempfile.gettempdir(), f"cola-{run}-{index}")
    shutil.rmtree(out, ignore_errors=True)  # of an attempt that was killed here
    try:
        folder = Folder(out, task.job.experiment, parcel)
        written: Parcel = {}

        def keep_going(done: float) -> bool:
            changes = folder.changes()
            written.update(changes)
            letter = Letter(index, attempt, done, changes)
            return bool(ray_module().get(desk.hand_in.remote(letter)))

        own = replace(task, directory=folder.directory)
        found = outcome(pickle.dumps((carry_out, own)), keep_going)
        return *found, {**written, **folder.changes()}
    finally:
        shutil.rmtree(out, ignore_errors=True)


class RayEngine:
    """Tasks of Ray, with the results sent to this machine as they come.

    The machines need not share a disk: what a job reads is sent with it, and what it writes is
    sent back. A task whose process dies begins again at its last checkpoint.

    Args:
        resources: of the cluster that this process is connected to.
        gpus: GPUs of each task, or a share of one; 0 for none.
    """

    name = "ray"

    def __init__(self, resources: Resources, gpus: float = 0.0) -> None:
        self._resources, self._gpus = resources, gpus
        self.device = "cuda" if gpus else "cpu"

    @property
    def processors(self) -> int:
        """Those of all machines; with GPUs, how many tasks these are enough for."""
        cpus = int(self._resources.cpus)
        return min(cpus, int(self._resources.gpus / self._gpus)) if self._gpus else cpus

    @property
    def threads(self) -> int:
        """Those of the largest machine: a task is on one."""
        return int(self._resources.largest)

    def run(self, tasks: Sequence[Task], report: Report, processes: int) -> dict[int, bool]:
        """See :class:`tasks.Engine`.

        Raises:
            OSError: if the cluster is lost, or a job was lost too often.
        """
        ray = ray_module()
        try:
            return _Run(tasks, report, processes, self._gpus).finish()
        except ray.exceptions.RayError as error:
            reason = " ".join(str(error).split())[:300]
            raise OSError(f"the Ray cluster was lost ({reason}); go on with --resume") from None


class _Run:
    """The tasks of one run, shared out as there is room."""

    def __init__(self, tasks: Sequence[Task], report: Report, processes: int, gpus: float) -> None:
        ray = ray_module()
        self._tasks = [_absolute(task) for task in tasks]
        self._report, self._processes = report, processes
        self._waiting = deque((index, 0) for index in range(len(tasks)))
        self._busy: dict[Any, tuple[int, int]] = {}
        self._results: dict[int, bool] = {}
        self._failure: BaseException | None = None
        self._going = True
        self._name = uuid.uuid4().hex[:12]
        self._versions = versions()
        options = {"num_cpus": tasks[0].threads, "num_gpus": gpus, "max_retries": 0}
        self._serve = ray.remote(**options)(serve)
        # Should its process die, a new one takes its place and the calls are made again.
        keep = {"max_restarts": -1, "max_task_retries": -1}
        self._desk = ray.remote(num_cpus=0, **keep)(Desk).remote()

    def finish(self) -> dict[int, bool]:
        ray = ray_module()
        self._hand_out()
        while self._busy:
            ready, _ = ray.wait(list(self._busy), timeout=POLL_SECONDS)
            letters = ray.get(self._desk.collect.remote(self._going))
            for letter in letters:
                self._read(letter)
            if not letters and not ready:
                self._tell(-1, 0.0)
            for reference in ready:
                self._take(reference)
            self._hand_out()
        if self._failure is not None:
            raise self._failure
        return self._results

    def _hand_out(self) -> None:
        while self._going and self._waiting and len(self._busy) < self._processes:
            index, attempt = self._waiting.popleft()
            task = self._tasks[index]
            parcel = pack_for(task.directory, task.job.name)
            address = (index, attempt, self._name)
            made = self._serve.remote(task, parcel, address, self._versions, self._desk)
            self._busy[made] = (index, attempt)

    def _read(self, letter: Letter) -> None:
        if (letter.index, letter.attempt) in self._busy.values():  # of no attempt that was lost
            self._write(letter.index, letter.parcel)
            self._tell(letter.index, letter.done)

    def _tell(self, index: int, done: float) -> None:
        self._going = self._report(index, done) and self._going

    def _write(self, index: int, parcel: Parcel) -> None:
        try:
            unpack_into(self._tasks[index].directory.parent, parcel)
        except OSError as error:  # a full disk: let the others save, on their machines at least
            self._fail(error)

    def _take(self, reference: Any) -> None:
        """A task has ended: with a result, an error, or with its process."""
        ray = ray_module()
        index, attempt = self._busy.pop(reference)
        try:
            kind, content, parcel = ray.get(reference)
        except ray.exceptions.RayTaskError as error:  # before the task itself began
            self._fail(RuntimeError(f"a task could not begin: {str(error).splitlines()[-1]}"))
        except ray.exceptions.RayError as error:
            self._lost(index, attempt, error)
        else:
            self._write(index, parcel)
            if kind == ERROR:
                self._fail(content)
            else:
                self._results[index] = content

    def _lost(self, index: int, attempt: int, error: Exception) -> None:
        if attempt + 1 < LOSSES:
            self._waiting.appendleft((index, attempt + 1))
            return
        name, reason = self._tasks[index].job.name, " ".join(str(error).split())[:300]
        self._fail(OSError(f"the process of {name} died {LOSSES} times: {reason}"))

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._going = False


def _absolute(task: Task) -> Task:
    """The task with places that do not depend on where a process is."""
    data = task.data or (Path(os.environ[ENVIRONMENT]) if ENVIRONMENT in os.environ else None)
    directory = task.directory.resolve()
    return replace(task, directory=directory, data=None if data is None else data.resolve())


@contextlib.contextmanager
def opened(address: str | None = None, gpus: float = 0.0) -> Iterator[RayEngine]:
    """Connect to a cluster, or start Ray on this machine, and leave it in the end.

    Args:
        address: of the cluster, such as ``10.0.0.5:6379``, ``ray://10.0.0.5:10001`` or ``auto``;
            None for ``RAY_ADDRESS``, or else for Ray on this machine alone.
        gpus: GPUs of each task.

    Raises:
        ValueError: if Ray is not installed, the address is none, or no machine has the GPUs.
        OSError: if the cluster cannot be reached.
    """
    checks.non_negative("gpus", gpus)
    with connected(address) as resources:
        if gpus > resources.most_gpus:
            raise ValueError(
                f"gpus must be at most {resources.most_gpus:g}, the most that a machine of the "
                f"cluster has, got {gpus:g}"
            )
        yield RayEngine(resources, gpus)
