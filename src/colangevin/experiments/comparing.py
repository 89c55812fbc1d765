"""Verdicts on what the paper states: orderings, and numbers with standard deviations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from colangevin.experiments.experiment import (
    NOT_MEASURED,
    NOT_REPRODUCED,
    ORDERING,
    REPRODUCED,
    Claim,
)
from colangevin.experiments.records import Record, mean_std


class Measured(NamedTuple):
    """What a method reached, one number a run; NaN for a run that diverged."""

    label: str
    values: Sequence[float]

    def text(self, digits: int = 2) -> str:
        """Mean ± standard deviation, with the number of runs.

        Example:
            >>> Measured("SGD", [90.0, 94.0]).text(1)
            '92.0 ± 2.8 (2 runs)'
            >>> Measured("SGD", [90.0, float("nan")]).text(1)
            '90.0 (1 run, 1 diverged)'
        """
        mean, deviation, count = mean_std(self.values)
        gone = len(self.values) - count
        note = f", {gone} diverged" if gone else ""
        if not count:
            return f"all {gone} runs diverged"
        spread = f" ± {deviation:.{digits}f}" if count > 1 else ""
        return f"{mean:.{digits}f}{spread} ({count} run{'s' if count > 1 else ''}{note})"


@dataclass(frozen=True)
class Quantity:
    """A number of the records by which methods are compared.

    Attributes:
        key: in the records.
        label: what it is, with its unit.
        sign: 1 if more is better, -1 if less is.
        factor: to multiply it with.
        digits: after the point.
    """

    key: str
    label: str
    sign: int = -1
    factor: float = 1.0
    digits: int = 2

    def of(self, record: Record) -> Measured:
        """What a method reached.

        Example:
            >>> record = Record("a", "b", 0, {"label": "SGD"}, final={"x": [0.9, 0.94]})
            >>> Quantity("x", "accuracy, %", factor=100.0).of(record).text(1)
            '92.0 ± 2.8 (2 runs)'
        """
        values = [self.factor * value for value in record.values(self.key)]
        return Measured(record.settings["label"], values)

    def text(self, record: Record) -> str:
        """Mean ± standard deviation, with the number of runs."""
        return self.of(record).text(self.digits)

    def ahead(self, best: Record, *others: Record) -> Claim:
        """The claim that one method is better than others."""
        methods = [self.of(other) for other in others]
        return ahead(self.label, self.of(best), methods, sign=self.sign, digits=self.digits)


def late(record: Record, key: str, factor: float = 1.0) -> list[float]:
    """Mean of each run over the last tenth of the measurements; NaN if it diverged.

    One measurement after the last step would be at the mercy of the last batches.

    Example:
        >>> late(Record("a", "b", 0, {}, history={"x": [[1.0, 2.0]] * 10 + [[3.0, None]]}), "x")
        [3.0, nan]
    """
    return over_time(record, key, factor, last=max(1, len(record.history[key]) // 10))


def over_time(record: Record, key: str, factor: float = 1.0, last: int = 0) -> list[float]:
    """Mean of each run over its measurements, or over the last of them.

    Example:
        >>> over_time(Record("a", "b", 0, {}, history={"x": [[1.0, 2.0], [3.0, 2.0]]}), "x")
        [2.0, 2.0]
    """
    series = record.series(key)[-last:]
    return [factor * math.fsum(run) / len(series) for run in zip(*series, strict=True)]


def ahead(
    text: str, best: Measured, others: Sequence[Measured], *, sign: int = 1, digits: int = 2
) -> Claim:
    """The claim that one method is above all others, or below them.

    It is reproduced if the means differ by more than two standard errors, in ordering only if
    they differ the right way by less.

    Args:
        text: what is measured.
        best: the method that the paper has ahead.
        others: the methods that it is ahead of.
        sign: 1 if more is better, -1 if less is.
        digits: of the numbers.

    Example:
        >>> ahead("accuracy", Measured("A", [9.0, 9.1]), [Measured("B", [8.0, 8.1])]).verdict
        'reproduced'
    """
    relation = ">" if sign > 0 else "<"
    paper = f"{best.label} {relation} {'; '.join(other.label for other in others)}"
    ours = "; ".join(f"{one.label} {one.text(digits)}" for one in (best, *others))
    leads = {other.label: lead(best, other, sign) for other in others}
    if not leads:
        return Claim(text, paper, ours, NOT_MEASURED)
    behind = [label for label, by in leads.items() if not by > 0]
    close = [label for label, by in leads.items() if 0 < by <= 2]
    if behind:
        why = f"not ahead of {'; '.join(behind)}"
        return Claim(text, paper, ours, NOT_REPRODUCED, why)
    if close:
        why = f"not shown to be two standard errors ahead of {'; '.join(close)}"
        return Claim(text, paper, ours, ORDERING, why)
    return Claim(text, paper, ours, REPRODUCED)


def lead(best: Measured, other: Measured, sign: int) -> float:
    """By how many standard errors a method is better; one whose runs all diverged is behind.

    Example:
        >>> round(lead(Measured("A", [9.0, 9.2]), Measured("B", [8.0, 8.2]), 1), 1)
        7.1
    """
    mean, deviation, count = mean_std(best.values)
    its_mean, its_deviation, its_count = mean_std(other.values)
    if not count or not its_count:
        return math.inf if count else -math.inf
    difference = sign * (mean - its_mean)
    if min(count, its_count) < 2:  # the error is not known
        return math.copysign(1.0, difference) if difference else 0.0
    error = math.sqrt(deviation**2 / count + its_deviation**2 / its_count)
    if error:
        return difference / error
    return math.copysign(math.inf, difference) if difference else 0.0


def number(
    text: str,
    paper: tuple[float, float | None],
    ours: Measured,
    ordered: bool,
    *,
    digits: int = 2,
    why: str = "",
) -> Claim:
    """The claim that a number has the paper's value.

    It is reproduced if the means are within two standard deviations of both together and the
    methods are ordered as in the paper; in ordering only if just the latter holds.

    Args:
        text: what is measured.
        paper: the paper's value and standard deviation; one that it does not state is taken to
            be as large as that of the runs.
        ours: the runs.
        ordered: whether the method is where the paper has it among the others.
        digits: of the numbers.
        why: what is known about a difference, added where there is one.

    Example:
        >>> number("accuracy", (87.6, 0.1), Measured("A", [87.5, 87.6]), ordered=True).verdict
        'reproduced'
    """
    value, spread = paper
    stated = f"{value:g}" if spread is None else f"{value:.2f} ± {spread:.2f}"
    mean, deviation, count = mean_std(ours.values)
    if not count:
        return Claim(text, stated, ours.text(digits), NOT_REPRODUCED, "every run diverged")
    own = _known(deviation)
    both = math.hypot(own, own if spread is None else spread)
    if abs(mean - value) <= 2 * both and ordered:
        return Claim(text, stated, ours.text(digits), REPRODUCED)
    apart = f"{mean - value:+.{digits}f} from the paper's"
    if both:
        apart += f", {abs(mean - value) / both:.1f} standard deviations"
    apart += "" if ordered else "; not ordered as in the paper"
    verdict = ORDERING if ordered else NOT_REPRODUCED
    return Claim(text, stated, ours.text(digits), verdict, f"{apart}; {why}" if why else apart)


def _known(deviation: float) -> float:
    return deviation if math.isfinite(deviation) else 0.0
