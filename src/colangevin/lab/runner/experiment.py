"""What an experiment is: settings, jobs, and what is drawn and claimed from their records."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from colangevin.lab.runner.job_log import Log
    from colangevin.lab.runner.records import Record, Records

Settings: TypeAlias = Mapping[str, Any]
"""Plain JSON values: everything that determines a result, with ``scale``, ``runs``, ``seed``."""

SCALES = ("smoke", "laptop", "full", "paper")

YES, NO, UNDECIDED, NOT_COMPARABLE = "yes", "no", "undecided", "not comparable"
VERDICTS = (YES, NO, UNDECIDED, NOT_COMPARABLE)


@dataclass(frozen=True)
class Job:
    """One computation that can be resumed, with one record: usually one method, all its runs.

    Attributes:
        experiment: name of the experiment.
        name: fit for a file name, such as ``c-sgld``.
        settings: plain JSON values that determine the result.

    Example:
        >>> Job("spiral-classifiers", "c-sgld", {"runs": 2, "lr": 0.05}).name
        'c-sgld'
        >>> Job("spiral-classifiers", "C/SGLD", {})
        Traceback (most recent call last):
        ...
        ValueError: a job's name is made of a-z, 0-9, '.', '_' and '-', got 'C/SGLD'
    """

    experiment: str
    name: str
    settings: Settings

    def __post_init__(self) -> None:
        allowed = set("abcdefghijklmnopqrstuvwxyz0123456789._-")
        if not self.name or self.name[0] in ".-" or set(self.name) - allowed:
            raise ValueError(
                f"a job's name is made of a-z, 0-9, '.', '_' and '-', got {self.name!r}"
            )


@dataclass(frozen=True)
class Answer:
    """A verdict, and by what.

    Attributes:
        verdict: one of ``VERDICTS``.
        by: the test with n and p, or the reason; every *yes* and *no* has one.

    Example:
        >>> str(Answer("yes", "paired t, n = 5, p = 0.01")), str(Answer("undecided"))
        ('yes (paired t, n = 5, p = 0.01)', 'undecided')
        >>> Answer("no")
        Traceback (most recent call last):
        ...
        ValueError: a verdict of 'no' needs its test or its reason, got ''
    """

    verdict: str
    by: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}, got {self.verdict!r}")
        if self.verdict in (YES, NO) and not self.by:
            raise ValueError(
                f"a verdict of {self.verdict!r} needs its test or its reason, got {self.by!r}"
            )

    def __str__(self) -> str:
        return f"{self.verdict} ({self.by})" if self.by else self.verdict


@dataclass(frozen=True)
class Claim:
    """What the source states, and what was found: a number, an order, or both.

    Attributes:
        text: what is measured, such as ``test accuracy of C-SGLD, %``.
        source: what the source states, ``97.3`` or ``C-SGD < SGD``.
        ours: ours, ``96.8 ± 1.2 (100 runs)``.
        number: whether the stated number is ours; None where none is stated.
        order: whether the stated order, or effect, is there; None where none is stated.
        why: what else was found out.

    Example:
        >>> claim = Claim("accuracy, %", "97", "97.1 (1 run)", number=Answer("undecided", "n = 1"))
        >>> claim.order is None, claim.reduced("2 of 200 epochs").number.verdict
        (True, 'not comparable')
    """

    text: str
    source: str
    ours: str
    number: Answer | None = None
    order: Answer | None = None
    why: str = ""

    def __post_init__(self) -> None:
        if self.number is None and self.order is None:
            raise ValueError(f"a claim states a number or an order, got neither: {self.text!r}")

    @property
    def answers(self) -> list[Answer]:
        """The one or two that there are."""
        return [answer for answer in (self.number, self.order) if answer is not None]

    def reduced(self, how: str) -> Claim:
        """The claim as a run can support it that is smaller than the source's; ``how`` says so.

        A number belongs to its setting. An order can be looked for in another one.
        """
        if not how or self.number is None or self.number.verdict == NOT_COMPARABLE:
            return self
        return replace(self, number=Answer(NOT_COMPARABLE, how))

    def incomparable(self, why: str) -> Claim:
        """The claim where no run could tell, whatever it found; ``why`` says what it lacks.

        Example:
            >>> claim = Claim("x", "A > B", "A 50; B 51", order=Answer("no", "t, n = 5, p = 0.01"))
            >>> str(claim.incomparable("both at chance").order)
            'not comparable (both at chance)'
        """
        answer = Answer(NOT_COMPARABLE, why)
        return replace(self, number=self.number and answer, order=self.order and answer)


@dataclass(frozen=True)
class Table:
    """A table of text; every row has as many cells as there are columns.

    Example:
        >>> Table(["method", "accuracy"], [["SGD", "93.1 %"]]).rows
        [['SGD', '93.1 %']]
    """

    columns: list[str]
    rows: list[list[str]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{len(self.columns)} columns, but a row of {len(row)}: {row}")


class Column(Protocol):
    """A column of a table, from the record of each row: ``kit.Quantity``, ``kit.Column``."""

    @property
    def label(self) -> str:
        """Its head."""

    def text(self, record: Record, /) -> str:
        """Its cell."""


Methods: TypeAlias = Mapping[str, Settings]
Drawing: TypeAlias = "Callable[[Records], Figure | None]"
Judgement: TypeAlias = "Callable[[Records], list[Claim]]"


@dataclass(frozen=True)
class Experiment:
    """One figure or table of a source, in a few declarations.

    Attributes:
        name: as in ``cola reproduce NAME``.
        title: what it is, in one line.
        phrase: the same in few words, for a list.
        source: where the paper or the thesis has it, ``figures 1 and 2``.
        scales: for each of ``SCALES``, the settings that all jobs share; ``runs`` among them.
            Jobs with a number of their own have it as ``runs`` of a setting that is a dictionary.
        jobs: the methods: for the name of each job, its settings beside those of the scale. Or a
            function from the settings of a scale, with ``scale``, ``runs`` and ``seed`` filled in,
            to the jobs, in the order of the table.
        run: does a job and writes to its log. A function at module level: it goes to other
            processes.
        figures: pictures by name (without ``.png``), each a function of records that may return
            None, such as ``kit.Curves``. Or a function to all of them.
        table: columns, a row for each job: ``kit.Quantity`` and ``kit.Column``. Or a function.
        claims: what the source states: ``kit.Ahead``, ``kit.Near`` and the like, and functions from
            records to claims. Or one function.
        data: datasets that it reads, keys of ``colangevin.lab.runner.datasets.LOADERS``.
        data_of: for scales that read other datasets than the rest, which.
        claimed: what the source states, in one sentence.
        ours: what is ours, because the source does not state it or it was too much for us.
        settings_stated: rows of what, stated and ours, the decisive first, as lines with ``|``
            between; a line that is indented belongs to the one before. ``{key}`` in the last one
            stands for that setting of the records.
        reduced: for scales with which records are shown and that are smaller than the source's
            setting, by how much.
        own_scale: the scale that has the source's setting.
        note: more on the settings, shown below the results.
        times: for each scale, roughly how long it takes on two cores.
        gpus: whether its networks can be on a GPU.

    ``figures``, ``table`` and ``claims`` get the records of complete jobs only, and at least one
    of them; the records of jobs that are not done are missing.

    ``colangevin.lab.kit`` has an example.
    """

    name: str
    title: str
    source: str
    scales: Mapping[str, Settings]
    jobs: Methods | Callable[[Settings], list[Job]]
    run: Callable[[Job, Log], None]
    figures: Mapping[str, Drawing] | Callable[[Records], dict[str, Figure]] = field(
        default_factory=dict
    )
    table: Sequence[Column] | Callable[[Records], Table] = ()
    claims: Sequence[Judgement] | Judgement = ()
    data: tuple[str, ...] = ()
    data_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    phrase: str = ""
    claimed: str = ""
    ours: str = ""
    settings_stated: str | Sequence[tuple[str, str, str]] = ()
    reduced: Mapping[str, str] = field(default_factory=dict)
    own_scale: str = "full"
    note: str = ""
    times: Mapping[str, str] = field(default_factory=dict)
    gpus: bool = False

    def __post_init__(self) -> None:
        for name in ("claimed", "ours", "note"):
            object.__setattr__(self, name, " ".join(getattr(self, name).split()))
        if isinstance(self.settings_stated, str):
            object.__setattr__(self, "settings_stated", rows_of(self.settings_stated))

    @property
    def settings_rows(self) -> Sequence[tuple[str, str, str]]:
        """What, stated and ours, a row each."""
        return () if isinstance(self.settings_stated, str) else self.settings_stated

    def reduction(self, scale: str) -> str:
        """By how much a scale is smaller than the source's setting; nothing for its own.

        Where :attr:`reduced` does not say it, the plain settings are compared.
        """
        if scale in self.reduced:
            return self.reduced[scale]
        asked, whole = self.scales.get(scale, {}), self.scales.get(self.own_scale, {})
        if scale == self.own_scale or asked.get("scale") == self.own_scale:
            return ""
        plain = {k: v for k, v in asked.items() if isinstance(v, int) and v != whole.get(k, v)}
        words = [f"{k.replace('_', ' ')} {v:,} of {whole[k]:,}" for k, v in plain.items()]
        return ", ".join(words) or f"the scale {scale}"

    def plan(self, settings: Settings) -> list[Job]:
        """The jobs of the settings of a scale."""
        if callable(self.jobs):
            return self.jobs(settings)
        return [Job(self.name, name, {**settings, **own}) for name, own in self.jobs.items()]

    def draw(self, records: Records) -> dict[str, Figure]:
        """The pictures that the records have what they need for."""
        if callable(self.figures):
            return self.figures(records)
        drawn = {name: draw(records) for name, draw in self.figures.items()}
        return {name: figure for name, figure in drawn.items() if figure is not None}

    def tabulate(self, records: Records) -> Table:
        """The table, a row for each job."""
        if callable(self.table):
            return self.table(records)
        rows = [[column.text(own) for column in self.table] for own in records.values()]
        return Table([column.label for column in self.table], rows)

    def judge(self, records: Records) -> list[Claim]:
        """What the source states, with verdicts, as far as the records can be asked for it."""
        stated = [self.claims] if callable(self.claims) else self.claims
        return [claim for judge in stated for claim in judge(records)]

    def settings(self, scale: str, runs: int | None, seed: int) -> dict[str, Any]:
        """Settings of a scale, with ``scale``, ``runs`` and ``seed`` filled in."""
        if scale not in self.scales:
            known = ", ".join(self.scales)
            raise ValueError(f"unknown scale {scale!r}; {self.name} has {known}")
        chosen = {"scale": scale, **self.scales[scale], "seed": seed}
        if runs is None:
            return chosen
        inner = {k: v for k, v in chosen.items() if isinstance(v, dict) and "runs" in v}
        asked = {"runs": runs}
        return {**chosen, **{key: value | asked for key, value in inner.items()}, **asked}


def rows_of(text: str) -> list[tuple[str, str, str]]:
    r"""Lines of three cells.

    Example:
        >>> rows_of("epochs | not stated | {epochs}\nnetwork | ResNet-34 |\n  three blocks")
        [('epochs', 'not stated', '{epochs}'), ('network', 'ResNet-34', 'three blocks')]
    """
    lines = re.sub(r"\n\s+", " ", dedent(text).strip()).splitlines()
    rows = [tuple(cell.strip() for cell in line.split("|")) for line in lines]
    for row in rows:
        if len(row) != 3:
            raise ValueError(f"settings_stated has three cells in a row, got {' | '.join(row)!r}")
    return rows  # type: ignore[return-value]


RUNS = 500
"""How many runs there can be: a seed has 1,000 numbers for its runs and what belongs to them."""


def seeds_of(settings: Settings) -> range:
    """The seeds of the runs.

    Example:
        >>> seeds_of({"seed": 3, "runs": 2})
        range(3000, 3002)
    """
    return range(1000 * settings["seed"], 1000 * settings["seed"] + settings["runs"])
