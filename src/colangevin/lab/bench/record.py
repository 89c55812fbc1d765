"""What a benchmark found, as plain values that go to JSON and back."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

FORMAT = 1


@dataclass
class Row:
    """One contestant at one work.

    Attributes:
        work: letter of the work.
        label: the contestant.
        ours: whether it is this library's.
        series: of a scaling study, what is varied.
        x: of a scaling study, its value.
        seconds: a step, best of the rounds.
        first: seconds of the first step, which may compile.
        estimated: whether ``seconds`` was scaled up from one smaller matrix.
        rounds: seconds of a step in every round.
        baseline: label of the row that ``ratio`` refers to.
        ratio: ``seconds`` over those of the baseline.
        state: floats that are kept between steps, for each weight.
        scratch: floats that are allocated within a step at most, or kept for it, for each weight.
        scratch_share: the same, over the numbers in the largest bucket.
        violation: largest relative violation of the constraint; None where there is none.
        steps: steps after which the violation was read.
        sampled: whether these were made by one weight of each shape in the place of all.
        note: anything else, such as why there is no time.
        ess: of a sampler, whose ``seconds`` are those of the whole call: the least effective
            sample size of the quantities that are averaged.
        bias: of a sampler: the largest distance of an average from the exact one, in its
            standard deviations.
        bias_error: the standard error of that average, likewise.
        chains: of a sampler.
        draws: of each chain.
    """

    work: str
    label: str
    ours: bool = False
    series: str = ""
    x: float | None = None
    seconds: float | None = None
    first: float | None = None
    estimated: bool = False
    rounds: list[float] = field(default_factory=list)
    baseline: str | None = None
    ratio: float | None = None
    state: float | None = None
    scratch: float | None = None
    scratch_share: float | None = None
    violation: float | None = None
    steps: int = 0
    sampled: bool = False
    note: str = ""
    ess: float | None = None
    bias: float | None = None
    bias_error: float | None = None
    chains: int = 0
    draws: int = 0


@dataclass
class Bar:
    """A figure to be reached.

    Attributes:
        work: letter of the work, or "" for all.
        text: what is compared with what.
        limit: the largest value that meets the bar, or the smallest with ``least``.
        measured: the value, or None if this run has not measured it.
        aim: what would be better still.
        met: None if it was not measured.
        least: whether larger values are better.
    """

    work: str
    text: str
    limit: float
    measured: float | None
    aim: str = ""
    met: bool | None = None
    least: bool = False


@dataclass
class Record:
    """A whole run.

    Attributes:
        machine: date, processor, versions and the like.
        settings: what the run was asked for.
        works: letter and title of the works in this run.
        rows: what was measured.
        slopes: by series and contestant, the fitted power of the scaling law.
        bars: the figures to be reached.
        complete: False if the run was interrupted.
        seconds: how long the run took.
        work_seconds: the same for each work.
    """

    machine: dict[str, Any]
    settings: dict[str, Any]
    works: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    slopes: dict[str, dict[str, float]] = field(default_factory=dict)
    bars: list[Bar] = field(default_factory=list)
    complete: bool = True
    seconds: float = 0.0
    work_seconds: dict[str, float] = field(default_factory=dict)

    def of_work(self, letter: str) -> list[Row]:
        """The rows of a work."""
        return [row for row in self.rows if row.work == letter]

    def renewed(self, later: Record) -> Record:
        """This record with the works of a later run in the place of its own.

        Of a sampling work, each law is renewed for itself.
        """
        rows = [row for row in self.rows if not later.has(row)] + later.rows
        dates = dict.fromkeys(later.works, later.machine["date"])
        settings = {**self.settings, "renewed": {**self.settings.get("renewed", {}), **dates}}
        if "samplers" in later.settings:
            settings["samplers"] = later.settings["samplers"]
        bars = [bar for bar in self.bars if bar.work not in later.works]
        bars[-1:-1] = [bar for bar in later.bars if bar.work]  # that of all works stays the last
        return replace(
            self,
            settings=settings,
            works={**self.works, **later.works},
            rows=rows,
            slopes={**self.slopes, **later.slopes},
            bars=bars,
            work_seconds={**self.work_seconds, **later.work_seconds},
        )

    def has(self, row: Row) -> bool:
        """Whether a row is of a work of this record, or of a law if it is about samplers."""
        if row.work != "s":
            return row.work in self.works
        return any(own.work == row.work and own.series == row.series for own in self.rows)

    def to_json(self) -> str:
        """The record as text that ``load`` reads."""
        content = {"format": FORMAT, **asdict(self)}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    def save(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read what ``save`` wrote.

        Raises:
            ValueError: if the file is of another format.
        """
        content = json.loads(path.read_text(encoding="utf-8"))
        found = content.pop("format", None)
        if found != FORMAT:
            raise ValueError(f"{path} has format {found!r}, this version reads {FORMAT}")
        content["rows"] = [Row(**row) for row in content["rows"]]
        content["bars"] = [Bar(**bar) for bar in content["bars"]]
        return cls(**content)
