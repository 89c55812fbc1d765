"""What records say: an experiment's table, claims and figures, from its records alone."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING

from colangevin.errors import RecordError
from colangevin.lab.claims.wording import markdown_table, sentence
from colangevin.lab.experiments.registry import EXPERIMENTS, find
from colangevin.lab.runner.experiment import NO, VERDICTS, Answer, Claim, Experiment, Table
from colangevin.lab.runner.records import Records, read_records
from colangevin.lab.runner.writing import replacing, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 120


TRIAL = ("smoke", "demo")
"""Scales that are too small to say anything about the source."""
OWN = "paper"
"""What a page calls the source's own setting; anything else is reduced."""


@dataclass(frozen=True)
class Results:
    """An experiment and the records of a run of it."""

    experiment: Experiment
    records: Records

    @cached_property
    def done(self) -> Records:
        """The records of complete jobs: what table, claims and figures are made of."""
        return self.records.completed()

    @cached_property
    def table(self) -> Table:
        """The experiment's table; without rows as long as no job is complete."""
        with self._reading():
            return self.experiment.tabulate(self.done) if self.done else Table(["method"], [])

    @cached_property
    def claims(self) -> list[Claim]:
        """What the source states, and what was found, as far as this scale can tell."""
        with self._reading():
            claims = self.experiment.judge(self.done) if self.done else []
        if self.trial:
            why = f"the scale {self.records.settings['scale']} only shows that everything runs"
            return [claim.incomparable(why) for claim in claims]
        how = f"reduced: {self.reduction}" if self.reduction else ""
        return [claim.reduced(how) for claim in claims]

    @property
    def reduction(self) -> str:
        """By how much the run is smaller than the source's setting; nothing for that itself."""
        return self.experiment.reduction(self.asked)

    def figures(self) -> dict[str, Figure]:
        """The experiment's pictures by name; none as long as no job is complete."""
        with self._reading():
            return self.experiment.draw(self.done) if self.done else {}

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Say of a record that lacks something, or has it in another form, that it is damaged."""
        try:
            yield
        except RecordError:
            raise
        except (LookupError, TypeError, ValueError) as error:
            where = self.records.directory or self.experiment.name
            reason = f"{type(error).__name__}: {error}"
            raise RecordError(f"a record in {where} is damaged ({reason})") from error

    @property
    def trial(self) -> bool:
        """Whether the run is too small to say anything about the source."""
        return self.records.settings.get("scale") in TRIAL

    @property
    def scale(self) -> str:
        """Whether it is the source's own, and the runs: ``paper, 100 runs, 10,000 epochs``."""
        settings = self.records.settings
        epochs = settings.get("epochs")
        length = ""
        if isinstance(epochs, int):
            length = f", {epochs:,} epoch{'' if epochs == 1 else 's'}"
        runs = f"{_runs(self._counts)}{length}"
        return f"reduced ({self.reduction}){runs}" if self.reduction else f"{OWN}{runs}"

    @property
    def runs(self) -> int | None:
        """The runs that were asked for; some jobs may have fewer."""
        return max(self._counts, default=None)

    @property
    def _counts(self) -> list[int]:
        """The runs of each job, as far as it has them: one that only searches has none."""
        found = [record.settings.get("runs") for record in self.records.values()]
        return [runs for runs in found if isinstance(runs, int) and runs]

    def _planned(self, scale: str) -> list[str]:
        """Names of the jobs of a scale, with the runs and the seed of the records."""
        settings = self.experiment.settings(scale, self.runs, self.records.settings.get("seed", 0))
        return [job.name for job in self.experiment.plan(settings)]

    def _usual_runs(self) -> int | None:
        """The most runs that a job of the asked scale has without ``--runs``."""
        if self.asked not in self.experiment.scales:
            return None
        jobs = self.experiment.plan(self.experiment.settings(self.asked, None, 0))
        return max((job.settings.get("runs", 0) for job in jobs), default=None)

    @property
    def asked(self) -> str:
        """The scale that was asked for: the one that has all jobs of the records."""
        recorded = str(self.records.settings.get("scale", "laptop"))
        for scale, settings in self.experiment.scales.items():
            if settings.get("scale", scale) == recorded and not (
                set(self.records) - set(self._planned(scale))
            ):
                return scale
        return recorded

    @property
    def missing(self) -> list[str]:
        """Jobs that are not complete, or have no record at all."""
        planned = self._planned(self.asked) if self.asked in self.experiment.scales else []
        names = dict.fromkeys([*planned, *self.records])
        return [name for name in names if name not in self.done]

    @property
    def command(self) -> str:
        """The command that makes these records."""
        words = ["cola", "reproduce", self.experiment.name, "--scale", self.asked]
        if self.runs not in (None, self._usual_runs()):
            words += ["--runs", str(self.runs)]
        words += ["--seed", str(self.records.settings.get("seed", 0))]
        return " ".join(words + (["--data", "DIR"] if self.experiment.data else []))


def _runs(counts: Sequence[int]) -> str:
    """How many runs the jobs have.

    Example:
        >>> _runs([3, 1, 3]), _runs([1]), _runs([])
        (', 1 to 3 runs', ', 1 run', '')
    """
    if not counts:
        return ""
    least, most = min(counts), max(counts)
    number = f"{most}" if least == most else f"{least} to {most}"
    return f", {number} run{'' if most == 1 else 's'}"


def read_results(directory: Path) -> list[Results]:
    """Read the records of one experiment, or of every experiment in a folder of its name.

    Args:
        directory: ``out/<experiment>``, or ``out``.

    Returns:
        One entry per experiment, in the order of the registry.

    Raises:
        ValueError: if there are no records, one is damaged, or an experiment is unknown.
    """
    if not directory.is_dir():
        raise RecordError(f"{directory} is not a directory")
    below = [directory / name for name in EXPERIMENTS if any((directory / name).glob("*.json"))]
    return [results_of(read_records(folder)) for folder in below or [directory]]


def results_of(records: Records) -> Results:
    """Bring records and their experiment together.

    Raises:
        ValueError: if the experiment is unknown.
    """
    return Results(find(records.experiment), records)


def write_files(results: Results, directory: Path) -> tuple[list[Path], Path]:
    """Draw the figures and write the table into the experiment's directory.

    Returns:
        The pictures' paths, in the experiment's order, and the table's.
    """
    pictures = []
    for name, figure in results.figures().items():
        pictures.append(directory / f"{name}.png")
        with replacing(pictures[-1]) as file:
            _save(figure, file)
    table = directory / "table.md"
    write_text(table, markdown_table(results.table.columns, results.table.rows))
    return pictures, table


def _save(figure: Figure, file: IO[bytes]) -> None:
    """A picture with 256 colours: a third of the bytes, and one sees no difference."""
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI, facecolor="white")
    picture = Image.open(drawn).convert("RGB")
    few = picture.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(file, format="png", optimize=True)


def headline(results: Results) -> str:
    """What it is in its source, and at which scale it was run."""
    settings = results.records.settings
    seed = f", seed {settings['seed']}" if "seed" in settings else ""
    source = sentence(results.experiment.source)
    return f"{source} Scale: {results.scale}{seed}.".strip()


def verdict_counts(answers: Iterable[Answer | None]) -> str:
    """Count verdicts, such as ``3 yes, 1 no``; claims without one do not count.

    Example:
        >>> verdict_counts([Answer("yes", "t"), None, Answer("no", "t"), Answer("yes", "t")])
        '2 yes, 1 no'
    """
    counts = Counter(answer.verdict for answer in answers if answer is not None)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def found(results: Results) -> str:
    """What was found, from the verdicts: how many of each kind, and what is not so."""
    parts = []
    for name, kind in (("Numbers", "number"), ("Orders", "order")):
        answers = [getattr(claim, kind) for claim in results.claims]
        if counted := verdict_counts(answers):
            parts.append(f"{name}: {counted}.")
    against = [
        f"{claim.text} ({claim.source})"
        for claim in results.claims
        if any(answer.verdict == NO for answer in claim.answers)
    ]
    if against:
        more = f"; and {len(against) - SHOWN} more" if len(against) > SHOWN else ""
        parts.append(f"Not so: {'; '.join(against[:SHOWN])}{more}.")
    return " ".join(parts) or "Nothing to judge."


SHOWN = 3
"""Refuted claims that are named at the head of a page."""
