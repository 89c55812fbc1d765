"""Run an experiment: its jobs over several processes or machines, resumable at any time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from colangevin import checks
from colangevin.errors import RecordError
from colangevin.lab.runner import datasets
from colangevin.lab.runner.experiment import RUNS, Experiment, Job
from colangevin.lab.runner.job_log import checkpoint_path, plain_settings, read_checkpoint
from colangevin.lab.runner.records import Record, Records, read_record, read_records
from colangevin.lab.runner.tasks import Engine, Local, Task
from colangevin.lab.runner.writing import require_writable, sweep

SEEDS = 2**30
"""How many seeds there are: torch's generators use 32 bits, and a seed is for several streams."""

Progress: TypeAlias = Callable[[str, float], bool]
"""Told which job has done which share, or "" and 0 while nothing happens; whether to go on."""


@dataclass(frozen=True)
class Plan:
    """A run that has been checked: nothing of it has been written yet.

    Attributes:
        experiment: the experiment.
        settings: common settings of its jobs.
        jobs: all jobs.
        todo: names of those that are not complete.
        directory: where the records are.
        data: data directory, or None.
        processes: how many jobs run at once.
        threads: of torch, for each of them.
        stale: files of an earlier run, which this one replaces.
        engine: where the jobs run.
    """

    experiment: Experiment
    settings: dict[str, Any]
    jobs: list[Job]
    todo: list[str]
    directory: Path
    data: Path | None
    processes: int
    threads: int
    stale: tuple[Path, ...] = ()
    engine: Engine = field(default_factory=Local)


def prepare(
    experiment: Experiment,
    scale: str = "laptop",
    runs: int | None = None,
    seed: int = 0,
    data: Path | None = None,
    out: Path = Path("out"),
    resume: bool = False,
    jobs: int | None = None,
    anew: bool = False,
    engine: Engine | None = None,
) -> Plan:
    """Check everything that can be checked before the first job starts.

    Args:
        experiment: what to run.
        scale: one of the experiment's scales.
        runs: how many, in the place of the scale's number.
        seed: of data, weights, batches and noise.
        data: data directory, or None for ``COLA_DATA`` and the cache.
        out: records go to ``out/<experiment>``.
        resume: go on with the records that are there.
        jobs: processes to use; None for one per processor.
        anew: replace records of the same jobs and scale that are there.
        engine: where the jobs run; None for processes of this machine.

    Raises:
        ValueError: if an argument is out of range, data are missing, or records are in the way.
        OSError: if the output cannot be written.
    """
    if runs is not None:
        checks.count("runs", runs)
        if runs > RUNS:
            raise ValueError(f"runs must be at most {RUNS}, got {runs}; other seeds give more")
    if not 0 <= seed < SEEDS:
        raise ValueError(f"seed must lie between 0 and {SEEDS - 1}, got {seed}")
    engine = engine or Local()
    if engine.device != "cpu" and not experiment.gpus:
        raise ValueError(f"{experiment.name} trains on processors only; leave --gpus out")
    settings = experiment.settings(scale, runs, seed)
    planned = experiment.plan(settings)
    available = engine.processors if jobs is None else checks.count("jobs", jobs)
    # Of all jobs, not of those that are left: a resumed one keeps its number of threads.
    processes = min(available, len(planned))
    directory = out / experiment.name
    stale = _replaceable(planned, directory) if anew else ()
    done = set() if anew else _done(planned, directory, resume)
    todo = [job.name for job in planned if job.name not in done]
    if todo:
        datasets.check(experiment.data_of.get(scale, experiment.data), data)
    require_writable(directory)
    threads = max(1, min(engine.processors // processes, engine.threads))
    where = (directory, data, processes, threads, stale, engine)
    return Plan(experiment, settings, planned, todo, *where)


def run(plan: Plan, progress: Progress = lambda job, done: True) -> bool:
    """Do the jobs of a plan; return whether all of them are complete.

    Args:
        plan: what :func:`prepare` returned.
        progress: told about the jobs; once it returns False, they save and end.

    Raises:
        DataError: if a job meets missing or damaged data.
        RecordError: if a checkpoint is damaged.
    """
    device = plan.engine.device
    tasks = [
        Task(plan.experiment.run, job, order, plan.directory, plan.data, plan.threads, device)
        for order, job in enumerate(plan.jobs)
        if job.name in plan.todo
    ]

    def report(index: int, done: float) -> bool:
        return progress(tasks[index].job.name if index >= 0 else "", done)

    with _locked(plan.directory):
        sweep(plan.directory)
        for path in plan.stale:
            path.unlink(missing_ok=True)
        for job in plan.jobs:
            if job.name not in plan.todo:  # killed between the last record and this
                checkpoint_path(plan.directory, job.name).unlink(missing_ok=True)
        results = plan.engine.run(tasks, report, plan.processes) if tasks else {}
    return len(results) == len(tasks) and all(results.values())


def reproduce(experiment: Experiment, scale: str = "laptop", **asked: Any) -> Records:
    """Run an experiment and return its records; all arguments are those of :func:`prepare`.

    Example:
        >>> import tempfile
        >>> def flip(job, log):
        ...     log.finish(heads=[0.4, 0.6][: job.settings["runs"]])
        >>> coin = Experiment(
        ...     "coin", "a coin", "folklore", {"smoke": {"runs": 2}},
        ...     jobs=lambda settings: [Job("coin", "fair", settings)],
        ...     run=flip, figures=dict, table=dict, claims=list,
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     records = reproduce(coin, "smoke", out=Path(folder))
        >>> records.text("fair", "heads")
        '0.5 ± 0.1 (2 runs)'
    """
    plan = prepare(experiment, scale, **asked)
    run(plan)
    return read_records(plan.directory)


def _files(directory: Path) -> dict[Path, Record]:
    """Records and checkpoints that are in a directory."""
    found = sorted([*directory.glob("*.json"), *directory.glob("*.checkpoint.pt")])
    return {p: read_checkpoint(p)[0] if p.suffix == ".pt" else read_record(p) for p in found}


def _replaceable(jobs: list[Job], directory: Path) -> tuple[Path, ...]:
    """Files of an earlier run of the same jobs; there must be no others.

    Raises:
        RecordError: naming a file of another experiment or scale, or one that is damaged.
    """
    ours = {(job.experiment, job.name, job.settings.get("scale")) for job in jobs}
    found = _files(directory)
    for path, record in found.items():
        if (record.experiment, record.job, record.settings.get("scale")) not in ours:
            raise RecordError(
                f"{path} belongs to another run, which would be lost; name another place with --out"
            )
    return tuple(found)


def _done(jobs: list[Job], directory: Path, resume: bool) -> set[str]:
    """Names of the jobs that have complete records; all records must belong to this run."""
    by_name = {job.name: job for job in jobs}
    done = set()
    for path, record in _files(directory).items():
        _require_equal(path, record, by_name)
        if not resume:
            raise RecordError(
                f"{directory} holds records of this run already ({path.name}); go on with "
                "--resume, or name another directory with --out"
            )
        if record.complete:
            done.add(record.job)
    return done


def _require_equal(path: Path, record: Record, jobs: dict[str, Job]) -> None:
    if record.job not in jobs:
        raise RecordError(
            f"{path} is the record of a job that these settings do not have; name another "
            "directory with --out"
        )
    asked, had = plain_settings(jobs[record.job]), record.settings
    different = [
        f"{key} was {had.get(key, 'not there')}, now {asked.get(key, 'not there')}"
        for key in dict.fromkeys([*had, *asked])
        if key not in had or key not in asked or had[key] != asked[key]
    ]
    if different:
        raise RecordError(
            f"{path} has other settings ({'; '.join(different)}); name another directory with --out"
        )


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Keep a second process out of the directory; a killed one leaves nothing behind."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordError(f"another process is writing to {directory}") from None
        yield
    finally:
        os.close(handle)
