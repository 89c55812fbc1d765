"""What an experiment is: settings, jobs, and what is drawn and claimed from their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from colangevin.lab.experiments.job_log import Log
    from colangevin.lab.experiments.records import Records

Settings: TypeAlias = Mapping[str, Any]
"""Plain JSON values: everything that determines a result, with ``scale``, ``runs``, ``seed``."""

SCALES = ("smoke", "laptop", "full", "paper")

REPRODUCED = "reproduced"
ORDERING = "reproduced in ordering only"
NOT_REPRODUCED = "not reproduced"
NOT_MEASURED = "not measured"
VERDICTS = (REPRODUCED, ORDERING, NOT_REPRODUCED, NOT_MEASURED)


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
class Claim:
    """A number or an ordering that the paper states, and what was found.

    Attributes:
        text: what is measured, such as ``test accuracy of C-SGLD, %``.
        paper: the paper's value, ``97.3`` or ``C-SGD < SGD``.
        ours: ours, ``96.8 ± 1.2 (100 runs)``.
        verdict: one of ``VERDICTS``.
        why: what was found out where it is not reproduced.

    Example:
        >>> Claim("test accuracy of C-SGLD, %", "97.3", "96.8 ± 1.2 (100 runs)", "reproduced").why
        ''
    """

    text: str
    paper: str
    ours: str
    verdict: str
    why: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}, got {self.verdict!r}")

    def reduced(self, how: str) -> Claim:
        """The claim as a run can support it that is smaller than the paper's; ``how`` says so.

        Only a run at the paper's scale can reproduce a number or an effect. A smaller one can
        show the same ordering of the methods.

        Example:
            >>> Claim("accuracy", "97", "97.1 (2 runs)", REPRODUCED).reduced("2 epochs").verdict
            'reproduced in ordering only'
        """
        if not how:
            return self
        verdict = ORDERING if self.verdict == REPRODUCED else self.verdict
        return replace(self, verdict=verdict, why="; ".join(filter(None, (how, self.why))))

    def unmeasured(self, why: str) -> Claim:
        """The claim without a verdict: the run cannot tell, and ``why`` says what it lacks.

        Example:
            >>> Claim("accuracy", "97", "10 (2 runs)", NOT_REPRODUCED).unmeasured("idle").verdict
            'not measured'
        """
        return replace(self, verdict=NOT_MEASURED, why=why)


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


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper, in a few declarations.

    Attributes:
        name: as in ``cola reproduce NAME``.
        title: what it is, in one line.
        phrase: the same in few words, for a list.
        source: where the paper has it, ``figures 1 and 2``.
        scales: for each of ``SCALES``, the settings that all jobs share; ``runs`` among them.
            Jobs with a number of their own have it as ``runs`` of a setting that is a dictionary.
        jobs: from the settings of a scale, with ``scale``, ``runs`` and ``seed`` filled in, to
            the jobs, in the order of the table.
        run: does a job and writes to its log. A function at module level: it goes to other
            processes.
        figures: draws pictures from records alone, by name (without ``.png``).
        table: makes the table from records alone.
        claims: compares the records with what the paper states.
        data: datasets that it reads, keys of ``colangevin.lab.experiments.datasets.LOADERS``.
        data_of: for scales that read other datasets than the rest, which.
        note: how the scales differ from the paper, shown next to the results.
        times: for each scale, roughly how long it takes on two cores.
        gpus: whether its networks can be on a GPU.

    ``figures``, ``table`` and ``claims`` get the records of complete jobs only, and at least one
    of them; the records of jobs that are not done are missing.
    """

    name: str
    title: str
    source: str
    scales: Mapping[str, Settings]
    jobs: Callable[[Settings], list[Job]]
    run: Callable[[Job, Log], None]
    figures: Callable[[Records], dict[str, Figure]]
    table: Callable[[Records], Table]
    claims: Callable[[Records], list[Claim]]
    data: tuple[str, ...] = ()
    data_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    phrase: str = ""
    note: str = ""
    times: Mapping[str, str] = field(default_factory=dict)
    gpus: bool = False

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


RUNS = 500
"""How many runs there can be: a seed has 1,000 numbers for its runs and what belongs to them."""


def seeds_of(settings: Settings) -> range:
    """The seeds of the runs.

    Example:
        >>> seeds_of({"seed": 3, "runs": 2})
        range(3000, 3002)
    """
    return range(1000 * settings["seed"], 1000 * settings["seed"] + settings["runs"])
