"""Verdicts on what the paper states: orderings, and numbers with standard deviations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from colangevin.lab.experiments.experiment import (
    NOT_MEASURED,
    NOT_REPRODUCED,
    ORDERING,
    REPRODUCED,
    Claim,
)
from colangevin.lab.experiments.records import Record, mean_std, summary

CHANCE = 0.15
"""Accuracy, among ten classes, up to which nothing has been learnt."""


class Measured(NamedTuple):
    """What a method reached, one number per run; NaN for a run that diverged."""

    label: str
    values: Sequence[float]

    def text(self, digits: int = 2) -> str:
        """Mean ± standard deviation, with the number of runs."""
        return summary(self.values, digits)


@dataclass(frozen=True)
class Quantity:
    """A number of the records by which methods are compared.

    Attributes:
        key: in the records.
        label: what it is, with its unit.
        sign: 1 if more is better, -1 if less is.
        factor: to multiply it with.
        digits: after the point.
        late: whether it is the mean over the last tenth of the measurements, see :func:`late`.
    """

    key: str
    label: str
    sign: int = -1
    factor: float = 1.0
    digits: int = 2
    late: bool = False

    def of(self, record: Record) -> Measured:
        """What a method reached.

        Example:
            >>> record = Record("a", "b", 0, {"label": "SGD"}, final={"x": [0.9, 0.94]})
            >>> Quantity("x", "accuracy, %", factor=100.0).of(record).text(1)
            '92.0 ± 2.8 (2 runs)'
        """
        if self.late:
            return Measured(record.settings["label"], late(record, self.key, self.factor))
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
    """Mean of each run over the last tenth of its steps or epochs; NaN if it diverged.

    One measurement after the last step would be at the mercy of the last batches. A tenth of the
    measurements would be another part of the training where they are denser at the start.

    Example:
        >>> late(Record("a", "b", 0, {}, history={"x": [[1.0, 2.0]] * 10 + [[3.0, None]]}), "x")
        [3.0, nan]
        >>> history = {"step": [0, 1, 2, 90, 95, 100], "x": [[1.0]] * 4 + [[3.0], [5.0]]}
        >>> late(Record("a", "b", 0, {}, history=history), "x")
        [4.0]
    """
    times = record.history.get("step") or record.history.get("epoch")
    last = len(record.history[key]) // 10
    if times:
        last = sum(time > 0.9 * times[-1] for time in times)
    return over_time(record, key, factor, last=max(1, last))


def over_time(record: Record, key: str, factor: float = 1.0, last: int = 0) -> list[float]:
    """Mean of each run over its measurements, or over the last of them.

    Example:
        >>> over_time(Record("a", "b", 0, {}, history={"x": [[1.0, 2.0], [3.0, 2.0]]}), "x")
        [2.0, 2.0]
    """
    series = record.series(key)[-last:]
    return [factor * math.fsum(run) / len(series) for run in zip(*series, strict=True)]


class Lead(NamedTuple):
    """By how much a method is better than another, over the runs that both have.

    Runs of the same seed share their data, first weights and batches, so that they are compared
    one by one. Where a method has runs that the other has not, the means of all runs must have
    the same order: a few runs in common could be the lucky ones.

    Attributes:
        by: mean of the differences.
        error: its standard error; NaN if there are fewer than two runs.
        wins: runs in which it is better; None if runs have no seed in common.
        runs: how many were compared.
        lost: runs in which it diverged and the other did not.
        more: runs that only one of the two has.
        means: difference of the means of all runs, if it is another than ``by``.
    """

    by: float
    error: float
    wins: int | None
    runs: int
    lost: int = 0
    more: int = 0
    means: float = math.inf

    @property
    def there(self) -> bool:
        """Whether it is better, in the runs that both have and in the means of all runs."""
        return self.by > 0 and self.means > 0

    @property
    def clear(self) -> bool:
        """Whether it is better by more than two standard errors, and in no run diverged alone."""
        return self.there and self.by > 2 * self.error and not self.lost

    def text(self, digits: int) -> str:
        """The lead in words; nothing where none was compared, or one of one."""
        if not self.runs or (self.runs == 1 and not self.more):
            return ""
        by = f"{self.by:+.{digits}f}"
        by += f" ± {self.error:.{digits}f} (standard error)" if self.runs > 1 else ""
        if self.wins is None:
            return f" ({by})"
        runs = f"{self.runs} run{'' if self.runs == 1 else 's'}"
        runs += " that both have" if self.more else ""
        lost = f", diverged alone in {self.lost}" if self.lost else ""
        but = ", but not in the means of all runs" if self.by > 0 and not self.there else ""
        return f" ({by}, better in {self.wins} of {runs}{lost}{but})"


def lead(best: Measured, other: Measured, sign: int = 1) -> Lead:
    """Compare two methods run by run; one whose runs all diverged is behind.

    Args:
        best: the method that should be ahead.
        other: another.
        sign: 1 if more is better, -1 if less is.

    Example:
        >>> lead(Measured("A", [9.0, 9.2, 9.5]), Measured("B", [8.0, 8.2, 8.6])).text(2)
        ' (+0.97 ± 0.03 (standard error), better in 3 of 3 runs)'
    """
    pairs = list(zip(best.values, other.values, strict=False))
    gains = [sign * (a - b) for a, b in pairs]
    lost = sum(math.isfinite(b) and not math.isfinite(a) for a, b in pairs)
    mean, deviation, count = mean_std(gains)
    (level, _, left), (its_level, _, its_left) = mean_std(best.values), mean_std(other.values)
    if count:
        error, wins = deviation / math.sqrt(count), sum(gain > 0 for gain in gains)
        more = left + its_left - 2 * count
        means = sign * (level - its_level) if more else math.inf
        return Lead(mean, error, wins, count, lost, more, means)
    if left and its_left:  # but no run of both
        return Lead(math.nan, math.nan, 0, 0, lost)
    return Lead(math.inf if left else -math.inf, 0.0, 0, 0)


def lead_of_means(best: Measured, other: Measured) -> Lead:
    """Compare the means of two methods whose runs have other seeds; more is better.

    Example:
        >>> lead_of_means(Measured("A", [9.0, 9.2, 9.4]), Measured("B", [8.0, 8.2, 8.4])).text(2)
        ' (+1.00 ± 0.16 (standard error))'
    """
    (mean, deviation, count), (level, spread, runs) = map(mean_std, (best.values, other.values))
    errors = [own / math.sqrt(max(1, n)) for own, n in ((deviation, count), (spread, runs))]
    return Lead(mean - level, math.hypot(*errors), None, min(count, runs))


class Gain(NamedTuple):
    """By how much one method is better than another in runs of the same seeds: a paired t test.

    Attributes:
        by: mean of the differences.
        error: its standard error; NaN for fewer than two runs.
        runs: how many were compared.
        chance: p, the probability of a mean as far from 0 if there were no difference.
    """

    by: float
    error: float
    runs: int
    chance: float

    @property
    def clear(self) -> bool:
        """Whether p is below 0.05."""
        return self.chance < 0.05

    def text(self, digits: int = 3) -> str:
        """The gain with its standard error, n and p."""
        if self.runs < 2:
            return f"{self.by:+.{digits}f} (n = {self.runs})"
        by = f"{self.by:+.{digits}f} ± {self.error:.{digits}f}"
        return f"{by} (n = {self.runs}, p = {self.chance:.2g})"


def gain(better: Sequence[float], other: Sequence[float], sign: int = 1) -> Gain:
    """Compare two methods, run by run; a run of which either diverged is left out.

    Args:
        better: numbers of the one that should be better.
        other: numbers of the other, of the same seeds.
        sign: 1 if more is better, -1 if less is.

    Example:
        >>> gain([2.0, 2.1, 2.2], [2.5, 2.5, 2.7], sign=-1).text(2)
        '+0.47 ± 0.03 (n = 3, p = 0.0051)'
        >>> gain([2.0], [2.5]).clear
        False
    """
    pairs = zip(better, other, strict=False)
    mean, deviation, runs = mean_std([sign * (a - b) for a, b in pairs])
    error = deviation / math.sqrt(max(1, runs))
    if runs < 2:
        return Gain(mean, error, runs, 1.0)
    score = math.inf if error == 0.0 else mean / error
    return Gain(mean, error, runs, 1.0 if mean == 0.0 else student(score, runs - 1))


def student(score: float, freedom: int) -> float:
    """P(|t| ≥ score) for Student's t, by the finite sums 26.7.3 and 26.7.4 of Abramowitz & Stegun.

    Example:
        >>> round(student(4.303, 2), 3), round(student(2.776, 4), 3), round(student(3.182, 3), 3)
        (0.05, 0.05, 0.05)
    """
    angle = math.atan2(abs(score), math.sqrt(freedom))
    square, odd = math.cos(angle) ** 2, freedom % 2
    term, total = math.cos(angle) if odd else 1.0, 0.0
    for place in range(2 + odd, freedom + 1, 2):
        total += term
        term *= square * (place - 1) / place
    within = math.sin(angle) * total
    return 1.0 - (2.0 * (angle + within) / math.pi if odd else within)


def verdict(leads: Iterable[Lead]) -> str:
    """Whether leads that the paper states are there: clearly, by their means only, or not.

    Example:
        >>> verdict([Lead(1.0, 0.1, 3, 3), Lead(1.0, 0.8, 2, 3)])
        'reproduced in ordering only'
    """
    found = list(leads)
    if not all(one.there for one in found):
        return NOT_REPRODUCED
    return REPRODUCED if all(one.clear for one in found) else ORDERING


def ahead(
    text: str, best: Measured, others: Sequence[Measured], *, sign: int = 1, digits: int = 2
) -> Claim:
    """The claim that one method is above all others, or below them.

    It is reproduced if the method is better by more than two standard errors, in ordering only
    if it is better by less.

    Args:
        text: what is measured.
        best: the method that the paper has ahead.
        others: the methods that it is ahead of.
        sign: 1 if more is better, -1 if less is.
        digits: of the numbers.

    Example:
        >>> ahead("accuracy", Measured("A", [9.0, 9.1]), [Measured("B", [8.0, 8.2])]).verdict
        'reproduced'
    """
    relation = ">" if sign > 0 else "<"
    paper = f"{best.label} {relation} {'; '.join(other.label for other in others)}"
    ours = "; ".join(f"{one.label} {one.text(digits)}" for one in (best, *others))
    leads = {other.label: lead(best, other, sign) for other in others}
    if not leads:
        return Claim(text, paper, ours, NOT_MEASURED)
    found = verdict(leads.values())
    short = [k for k, v in leads.items() if not (v.there if found == NOT_REPRODUCED else v.clear)]
    compared = {label: f"{label}{one.text(digits)}" for label, one in leads.items()}
    why = f"{_SHORT[found]} {'; '.join(compared[label] for label in short)}" if short else ""
    # The means that are printed do not show what was compared if one method has more runs.
    partly = [label for label, one in leads.items() if one.more and label not in short]
    ours = "; ".join([ours, *(f"against {compared[label]}" for label in partly)])
    return Claim(text, paper, ours, found, why)


_SHORT = {
    NOT_REPRODUCED: "not ahead of",
    ORDERING: "not shown to be two standard errors ahead of",
}


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
