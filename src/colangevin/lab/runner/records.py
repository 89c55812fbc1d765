"""Records of jobs: what is written while an experiment runs, and all that a report needs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from colangevin.diagnostics.significance import mean_std
from colangevin.errors import RecordError

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """What one job was asked for and what it found.

    Attributes:
        experiment: name of the experiment.
        job: name of the job.
        order: place of the job among the experiment's.
        settings: everything that determines the result.
        versions: of the library, torch and Python; the processor and torch's threads.
        started: when, in universal time.
        seconds: wall-clock, added up over resumptions.
        complete: False while the job is not done.
        history: columns with one entry per time point: numbers, or lists with a number per run;
            None stands for NaN, infinity, and what was not measured.
        final: results after the last step.
    """

    experiment: str
    job: str
    order: int
    settings: Mapping[str, Any]
    versions: Mapping[str, Any] = field(default_factory=dict)
    started: str = ""
    seconds: float = 0.0
    complete: bool = False
    history: Mapping[str, list[Any]] = field(default_factory=dict)
    final: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line of JSON.

        Example:
            >>> Record("spiral", "sgd", 0, {"runs": 2}).to_json()[:46]
            '{"format":1,"experiment":"spiral","job":"sgd",'
        """
        content = {"format": FORMAT, **asdict(self)}
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, origin: str = "the record") -> Record:
        """Read what :meth:`to_json` wrote.

        Args:
            text: the JSON.
            origin: what to call it in an error, such as the file's path.

        Raises:
            RecordError: if it is damaged or of another format.

        Example:
            >>> record = Record("spiral", "sgd", 0, {"runs": 2})
            >>> Record.from_json(record.to_json()) == record
            True
        """
        try:
            content = json.loads(text)
        except ValueError as error:
            raise RecordError(f"{origin} is damaged: no JSON ({error})") from None
        except RecursionError:
            raise RecordError(f"{origin} is damaged: nested too deeply") from None
        if not isinstance(content, dict) or "format" not in content:
            raise RecordError(f"{origin} is no record of an experiment")
        if content["format"] != FORMAT:
            found = content["format"]
            raise RecordError(f"{origin} has format {found!r}, this version reads {FORMAT}")
        _check(content, origin)
        return cls(**{item.name: content[item.name] for item in fields(cls)})

    def values(self, key: str) -> list[float]:
        """One number per run: ``final[key]``, or else the last entry of ``history[key]``.

        None becomes NaN. A single number counts as one run. ``a/b`` is what ``final["a"]["b"]`` is.

        Example:
            >>> Record("a", "b", 0, {}, history={"loss": [[1.0, 2.0], [0.5, None]]}).values("loss")
            [0.5, nan]
            >>> Record("a", "b", 0, {}, final={"paths": {"adam": {"top": [1, 2]}}}).values(
            ...     "paths/adam/top"
            ... )
            [1.0, 2.0]
        """
        if key in self.final or key.partition("/")[0] in self.final:
            return _numbers(self.at(key))
        if self.history.get(key):
            return _numbers(self.history[key][-1])
        have = ", ".join([*self.final, *self.history])
        raise KeyError(f"{self.job} has no {key!r}; it has {have}")

    @property
    def label(self) -> str:
        """What the job is called in tables and pictures."""
        return str(self.settings.get("label", self.job))

    def at(self, path: str) -> Any:
        """A final result, where results lie in one another, by their names with ``/`` between."""
        found: Any = self.final
        for name in [path] if path in self.final else path.split("/"):
            found = found[int(name)] if isinstance(found, list) else found[name]
        return found

    def series(self, key: str) -> list[list[float]]:
        """History of a quantity: for every time point, one number per run; NaN for None.

        Example:
            >>> Record("a", "b", 0, {}, history={"loss": [[1, None], [0.5, 2]]}).series("loss")
            [[1.0, nan], [0.5, 2.0]]
        """
        return [_numbers(entry) for entry in self.history[key]]


_KINDS = {
    "experiment": str,
    "job": str,
    "order": int,
    "settings": dict,
    "versions": dict,
    "started": str,
    "seconds": (int, float),
    "complete": bool,
    "history": dict,
    "final": dict,
}


def _check(content: dict[str, Any], origin: str) -> None:
    for name, kind in _KINDS.items():
        if name not in content:
            raise RecordError(f"{origin} is damaged: it has no {name!r}")
        if not isinstance(content[name], kind):  # type: ignore[arg-type]
            found = type(content[name]).__name__
            raise RecordError(f"{origin} is damaged: {name!r} is a {found}")
    for name, column in content["history"].items():
        if not isinstance(column, list):
            raise RecordError(f"{origin} is damaged: the history of {name!r} is no list")


def _numbers(entry: Any) -> list[float]:
    items = entry if isinstance(entry, list) else [entry]
    return [math.nan if item is None else float(item) for item in items]


class Records(Mapping[str, Record]):
    """Records of an experiment by job, in the order of the jobs.

    Example:
        >>> second = Record("spiral", "c-sgd", 1, {"runs": 2, "radius": 1.0})
        >>> first = Record("spiral", "sgd", 0, {"runs": 2, "radius": None})
        >>> records = Records([second, first])
        >>> list(records), records.settings
        (['sgd', 'c-sgd'], {'runs': 2})
    """

    def __init__(self, records: Iterable[Record], directory: Path | None = None) -> None:
        ordered = sorted(records, key=lambda record: (record.order, record.job))
        self._records = {record.job: record for record in ordered}
        self.directory = directory
        """Where they were read; None for records that were made otherwise."""

    def __getitem__(self, job: str) -> Record:
        return self._records[job]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def named(self, *patterns: str) -> list[Record]:
        """The records of the jobs of some names or patterns, each once.

        Example:
            >>> records = Records(Record("e", name, 0, {}) for name in ("adam", "sgd-1", "sgd-2"))
            >>> [record.job for record in records.named("sgd-*", "*")]
            ['sgd-1', 'sgd-2', 'adam']
        """
        found = [job for one in patterns for job in self if fnmatchcase(job, one)]
        return [self[job] for job in dict.fromkeys(found)]

    @property
    def experiment(self) -> str:
        """Name of the experiment."""
        return next(iter(self.values())).experiment

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that all records have in common."""
        first, *others = [record.settings for record in self.values()]
        return {
            key: value
            for key, value in first.items()
            if all(key in other and other[key] == value for other in others)
        }

    @property
    def seconds(self) -> float:
        """Wall-clock of all jobs together."""
        return sum(record.seconds for record in self.values())

    def completed(self) -> Records:
        """Those of jobs that are done."""
        done = [record for record in self.values() if record.complete]
        return Records(done, self.directory)

    def mean_std(self, job: str, key: str) -> tuple[float, float, int]:
        """Mean and standard deviation over the runs that have a number, and how many have.

        Example:
            >>> record = Record("spiral", "sgd", 0, {}, final={"accuracy": [90.0, 94.0, None]})
            >>> Records([record]).mean_std("sgd", "accuracy")
            (92.0, 2.8284271247461903, 2)
        """
        return mean_std(self[job].values(key))

    def text(self, job: str, key: str, digits: int = 1, factor: float = 1.0) -> str:
        """Mean ± standard deviation as text, with the number of runs.

        Example:
            >>> record = Record("spiral", "sgd", 0, {}, final={"accuracy": [0.90, 0.94]})
            >>> Records([record]).text("sgd", "accuracy", factor=100)
            '92.0 ± 2.8 (2 runs)'
        """
        return summary([factor * value for value in self[job].values(key)], digits)


def summary(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation as text, with the number of runs; NaN for one that diverged.

    Example:
        >>> summary([90.0, 94.0], 1)
        '92.0 ± 2.8 (2 runs)'
        >>> summary([90.0, float("nan")], 1)
        '90.0 (1 run, 1 diverged)'
    """
    mean, deviation, count = mean_std(values)
    gone = len(values) - count
    if not count:
        return f"all {gone} runs diverged" if gone else "no runs"
    spread = f" ± {deviation:.{digits}f}" if count > 1 else ""
    note = f", {gone} diverged" if gone else ""
    return f"{mean:.{digits}f}{spread} ({count} run{'s' if count > 1 else ''}{note})"


def read_record(path: Path) -> Record:
    """Read the record of one job.

    Raises:
        RecordError: if the file is damaged or cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise RecordError(f"{path} is damaged: no text") from None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from None
    record = Record.from_json(text, str(path))
    if record.job != path.stem:
        raise RecordError(f"{path} is damaged: it is the record of job {record.job!r}")
    return record


def read_records(directory: Path) -> Records:
    """Read all records (``*.json``) in an experiment's directory.

    Raises:
        RecordError: if there are none, one is damaged, or they belong to several experiments.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     text = Record("spiral", "sgd", 0, {}).to_json()
        ...     _ = Path(folder, "sgd.json").write_text(text)
        ...     list(read_records(Path(folder)))
        ['sgd']
    """
    paths = sorted(directory.glob("*.json"))
    if not paths:
        raise RecordError(f"{directory} holds no records")
    found = [read_record(path) for path in paths]
    for path, record in zip(paths, found, strict=True):
        if record.experiment != found[0].experiment:
            raise RecordError(
                f"{path} belongs to {record.experiment}, "
                f"other records in its folder to {found[0].experiment}"
            )
    return Records(found, directory)
