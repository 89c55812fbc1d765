"""What a running job writes to: its record and its checkpoint, on disk and whole at any time."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

import colangevin
from colangevin.errors import RecordError
from colangevin.lab.machine import surroundings
from colangevin.lab.runner.experiment import Job
from colangevin.lab.runner.records import Record
from colangevin.lab.runner.values import pack, plain, unpack
from colangevin.lab.runner.writing import replacing, write_text

__all__ = ["Log", "pack", "unpack"]

REPORT_SECONDS = 0.1
SAVE_SECONDS = 10.0
"""Between two checkpoints, at least."""
SAVE_SHARE = 0.05
"""Of the time, at most, goes into checkpoints: large networks are saved less often."""


class Log:
    """A job's record while it runs, and the way to stop and to go on later.

    The checkpoint carries the record inside itself: a process that is killed at any time leaves
    a checkpoint and a history that belong together.

    Args:
        job: the job.
        directory: the experiment's output directory; it exists.
        data: data directory for the loaders, or None.
        order: place of the job among the experiment's.
        progress: told how much is done, returns whether to go on.
        device: where the networks of the job are to be.

    Attributes:
        job: the job.
        directory: where the record is; a job may keep files of its own there.
        data: data directory for the loaders, or None.
        device: where the networks of the job are.
        checkpoint: the checkpoint's file.
        loaded: the state that ``load`` has returned, or None.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     log = Log(Job("walk", "a", {"steps": 2}), Path(folder))
        ...     state = log.load() or {"step": 0, "x": torch.zeros(3)}
        ...     for step in range(state["step"], 2):
        ...         log.append(step=step, x=state["x"] + step)
        ...         log.save({"step": step + 1, "x": state["x"] + step})
        ...     log.finish(mean=1 / 3)
        ...     log.record.history, log.record.final
        ({'step': [0, 1], 'x': [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]}, {'mean': 0.333333})
    """

    def __init__(
        self,
        job: Job,
        directory: Path,
        data: Path | None = None,
        *,
        order: int = 0,
        progress: Callable[[float], bool] = lambda done: True,
        device: str = "cpu",
    ) -> None:
        self.device = torch.device(device)
        self.job = job
        self.directory = directory
        self.data = data
        self.checkpoint = checkpoint_path(directory, job.name)
        self._path = directory / f"{job.name}.json"
        self._order = order
        self._progress = progress
        self.loaded: dict[str, Any] | None = None
        self._going = True
        self._done = 0.0
        self._reported = -float("inf")
        self._next_save = time.perf_counter() + SAVE_SECONDS
        self._begin(Record(job.experiment, job.name, order, plain_settings(job)))

    @property
    def record(self) -> Record:
        """The record so far, with the wall-clock up to now."""
        seconds = self._record.seconds + time.perf_counter() - self._clock
        return replace(self._record, seconds=round(seconds, 1), history=self._history)

    @property
    def going(self) -> bool:
        """False once the user has asked for an end."""
        return self._going

    def append(self, **row: Any) -> None:
        """Add a time point to the history: numbers, or lists with a number per run.

        A column that a row leaves out holds None there.
        """
        length = max(map(len, self._history.values()), default=0)
        for key in row:
            self._history.setdefault(key, [None] * length)
        for key, column in self._history.items():
            column.append(plain(row.get(key)))

    def save(self, state: dict[str, Any]) -> None:
        """Write a checkpoint, with the history so far in it, and the record.

        Args:
            state: tensors and plain values, nested in dicts, lists and tuples.
        """
        self._save(state, time.perf_counter())

    def _save(self, state: dict[str, Any], began: float) -> None:
        record = self.record
        with replacing(self.checkpoint) as file:
            torch.save({"record": record.to_json(), "state": state}, file)
        write_text(self._path, record.to_json())
        now = time.perf_counter()
        self._next_save = now + max(SAVE_SECONDS, (now - began) / SAVE_SHARE)

    def load(self) -> dict[str, Any] | None:
        """Go back to the checkpoint: return its state, or None where there is none.

        The history is then what it was when the state was saved.

        Raises:
            RecordError: if the checkpoint is damaged or belongs to other settings.
        """
        if not self.checkpoint.exists():
            return None
        record, state = read_checkpoint(self.checkpoint)
        if record.settings != plain_settings(self.job):
            raise RecordError(f"{self.checkpoint} belongs to a run with other settings")
        self._begin(record)
        self.loaded = state
        return state

    def start(self) -> None:
        """Write the record of a job that begins, so that it is known from the first moment."""
        write_text(self._path, self.record.to_json())

    def keep_going(self, done: float) -> bool:
        """Tell which share of the job is done, in [0, 1]; return whether to go on.

        Where it returns False, the job saves and returns. It costs next to nothing: call it as
        often as the job can stop. The share that is shown does not go back.
        """
        now = time.perf_counter()
        self._done = max(self._done, done)
        if self._going and (now - self._reported > REPORT_SECONDS or done >= 1.0):
            self._reported = now
            self._going = self._progress(self._done)
        return self._going

    def advance(self, done: float, state: Callable[[], dict[str, Any]]) -> bool:
        """``keep_going``, with a checkpoint now and then and where the user wants an end.

        Args:
            done: the share of the job that is done.
            state: makes what ``save`` takes; called only where a checkpoint is due.

        Returns:
            Whether to go on; where not, everything is saved.
        """
        going = self.keep_going(min(0.999, done))
        now = time.perf_counter()
        if not going or now > self._next_save:
            self._save(state(), now)
        return going

    def finish(self, **final: Any) -> None:
        """Add the final results, mark the record complete and delete the checkpoint."""
        self._begin(replace(self.record, final=plain(final), complete=True))
        write_text(self._path, self._record.to_json())
        self.checkpoint.unlink(missing_ok=True)
        self.keep_going(1.0)

    def _begin(self, record: Record) -> None:
        started = record.started or datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        found = dict(record.versions) or {"colangevin": colangevin.__version__, **surroundings()}
        self._record = replace(record, started=started, versions=found)
        self._history = {key: list(column) for key, column in record.history.items()}
        self._clock = time.perf_counter()


def checkpoint_path(directory: Path, job: str) -> Path:
    """Where the checkpoint of a job is.

    Example:
        >>> checkpoint_path(Path("out"), "sgd").name
        'sgd.checkpoint.pt'
    """
    return directory / f"{job}.checkpoint.pt"


def plain_settings(job: Job) -> dict[str, Any]:
    """Return a job's settings as they come back from its record.

    Example:
        >>> plain_settings(Job("walk", "a", {"radii": (1.0, 5.0)}))
        {'radii': [1.0, 5.0]}
    """
    settings: dict[str, Any] = json.loads(json.dumps(dict(job.settings)))
    return settings


def read_checkpoint(path: Path) -> tuple[Record, dict[str, Any]]:
    """Read the record and the state in a checkpoint.

    Raises:
        RecordError: if the file is damaged.
    """
    content = read_tensors(path, ("record", "state"))
    return Record.from_json(content["record"], str(path)), content["state"]


def read_tensors(path: Path, keys: Iterable[str]) -> dict[str, Any]:
    """Read a file that ``torch.save`` wrote.

    Raises:
        RecordError: if the file is damaged, or has no such keys.
    """
    try:
        content = torch.load(path, weights_only=True)
        return {key: content[key] for key in keys}
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, LookupError, TypeError) as e:
        reason = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise RecordError(f"{path} is damaged ({reason})") from None
