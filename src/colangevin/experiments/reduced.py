"""Verdicts on what the paper states, for runs that may be smaller than the paper's.

Only a run at the paper's scale can reproduce a number or an effect. A smaller one can show the
same ordering of the methods.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from colangevin.experiments.experiment import NOT_REPRODUCED, ORDERING, REPRODUCED, Claim
from colangevin.experiments.records import Records

TOLERANCE = 2.0
"""Standard deviations within which a number is the paper's; standard errors for a difference."""


@dataclass(frozen=True)
class Measured:
    """A number by which methods are compared.

    Attributes:
        key: in the records.
        label: what it is, with its unit.
        larger: whether larger is better.
        factor: to multiply it with.
        digits: after the point.
    """

    key: str
    label: str
    larger: bool = False
    factor: float = 1.0
    digits: int = 2

    def text(self, records: Records, job: str) -> str:
        """Mean ± standard deviation, with the number of runs."""
        return records.text(job, self.key, self.digits, self.factor)


def lead(records: Records, job: str, other: str, measured: Measured) -> tuple[float, float]:
    """How far a method is ahead of another, and the standard error; NaN with a single run.

    Example:
        >>> from colangevin.experiments.records import Record
        >>> rows = {"sgd": [5.0, 5.2], "cola": [4.0, 4.2]}
        >>> records = Records(Record("a", job, 0, {}, final={"x": x}) for job, x in rows.items())
        >>> ahead, error = lead(records, "cola", "sgd", Measured("x", "loss"))
        >>> round(ahead, 3), round(error, 3)
        (1.0, 0.141)
    """
    (mean, deviation, count), (less, spread, number) = (
        records.mean_std(name, measured.key) for name in (job, other)
    )
    sign = 1.0 if measured.larger else -1.0
    if min(count, number) < 2:
        return sign * (mean - less), math.nan
    return sign * (mean - less), math.sqrt(deviation**2 / count + spread**2 / number)


def is_ahead(records: Records, job: str, other: str, measured: Measured) -> bool:
    """Whether a method is ahead by more than two standard errors, or at all with a single run.

    Example:
        >>> from colangevin.experiments.records import Record
        >>> rows = {"sgd": 5.0, "cola": 4.0}
        >>> records = Records(Record("a", job, 0, {}, final={"x": x}) for job, x in rows.items())
        >>> is_ahead(records, "cola", "sgd", Measured("x", "loss"))
        True
    """
    ahead, error = lead(records, job, other, measured)
    return ahead > (0.0 if math.isnan(error) else TOLERANCE * error)


def ordering(
    records: Records, job: str, other: str, measured: Measured, *, reduced: str = ""
) -> Claim:
    """The claim that a method is ahead of another.

    Args:
        records: of the experiment.
        job: the method that the paper finds ahead.
        other: the one behind it.
        measured: by what.
        reduced: how this run is smaller than the paper's; empty if it is not.

    Example:
        >>> from colangevin.experiments.records import Record
        >>> rows = {"sgd": [5.0, 5.2], "cola": [4.0, 4.2]}
        >>> records = Records(
        ...     Record("a", job, 0, {"label": job}, final={"x": x}) for job, x in rows.items()
        ... )
        >>> claim = ordering(records, "cola", "sgd", Measured("x", "loss"), reduced="fewer epochs")
        >>> claim.paper, claim.ours
        ('cola < sgd', '4.10 ± 0.14 (2 runs) against 5.10 ± 0.14 (2 runs)')
        >>> claim.verdict, claim.why
        ('reproduced in ordering only', 'fewer epochs; 7.1 standard errors ahead')
    """
    ahead, error = lead(records, job, other, measured)
    holds = is_ahead(records, job, other, measured)
    names = [records[name].settings["label"] for name in (job, other)]
    if math.isnan(error):
        distance = f"one run each, {ahead * measured.factor:+.{measured.digits}f}"
    else:
        scaled = ahead / error if error else math.copysign(math.inf, ahead)
        distance = f"{abs(scaled):.1f} standard errors {'ahead' if scaled > 0 else 'behind'}"
    why = "; ".join(part for part in (reduced, distance) if part)
    verdict = NOT_REPRODUCED if not holds else ORDERING if reduced else REPRODUCED
    return Claim(
        f"{measured.label}: {names[0]} against {names[1]}",
        f"{names[0]} {'>' if measured.larger else '<'} {names[1]}",
        f"{measured.text(records, job)} against {measured.text(records, other)}",
        verdict,
        "" if verdict == REPRODUCED else why,
    )


def number(
    records: Records, job: str, measured: Measured, paper: float, *, ordered: bool, reduced: str
) -> Claim:
    """The claim that a method reaches a number.

    Args:
        records: of the experiment.
        job: the method.
        measured: what the number is.
        paper: its value in the paper.
        ordered: whether the method is where the paper has it among the others.
        reduced: how this run is smaller than the paper's; empty if it is not.

    Example:
        >>> from colangevin.experiments.records import Record
        >>> records = Records([Record("a", "b", 0, {"label": "B"}, final={"x": [4.80, 4.86]})])
        >>> measured = Measured("x", "loss")
        >>> number(records, "b", measured, 4.83, ordered=True, reduced="").verdict
        'reproduced'
        >>> number(records, "b", measured, 4.83, ordered=True, reduced="fewer epochs").verdict
        'reproduced in ordering only'
        >>> number(records, "b", measured, 4.2, ordered=False, reduced="").verdict
        'not reproduced'
    """
    mean, deviation, _ = records.mean_std(job, measured.key)
    distance = abs(mean * measured.factor - paper)
    near = not reduced and distance <= TOLERANCE * deviation * measured.factor
    return Claim(
        f"{measured.label}: {records[job].settings['label']}",
        f"{paper:.{measured.digits}f}",
        measured.text(records, job),
        REPRODUCED if near else ORDERING if ordered else NOT_REPRODUCED,
        "" if near else reduced or "more than two standard deviations away",
    )
