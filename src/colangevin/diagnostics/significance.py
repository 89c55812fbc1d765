"""Student's t and an exact sign test: how sure a difference, or a mean, is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torch import Tensor

LEVEL = 0.05
"""The p below which something is decided, of two-sided tests."""
LEAST = 5
"""Runs that it takes to decide anything."""


class Lead(NamedTuple):
    """A mean, mostly of differences, and how sure it is.

    Attributes:
        by: the mean; above 0 if the first of two methods is better.
        error: its standard error; NaN if there are fewer than two runs.
        runs: how many; of two groups, those of the smaller one.
        freedom: degrees of freedom of Student's t.
        test: its name.
        wins: runs in which the first is better; None where runs are not compared one by one.
        losses: runs in which it is worse.
    """

    by: float
    error: float
    runs: int
    freedom: int
    test: str
    wins: int | None = None
    losses: int = 0

    def chance(self, at: float = 0.0) -> float:
        """The p of the mean if it were ``at``: that of the sign test is for 0 alone."""
        if self.test == SIGN:
            return sign_test(self.wins or 0, self.losses)
        if self.freedom < 1 or self.by == at or not math.isfinite(self.by):
            return 1.0
        return student((self.by - at) / self.error if self.error else math.inf, self.freedom)

    @property
    def way(self) -> int:
        """1 if the first is better, -1 if it is worse, 0 if neither."""
        by = (self.wins or 0) - self.losses if self.test == SIGN else self.by
        return (by > 0) - (by < 0)

    @property
    def there(self) -> bool:
        """Whether the first is better, however little."""
        return self.way > 0

    @property
    def clear(self) -> bool:
        """Whether the first is better beyond chance."""
        return self.there and self.sure

    @property
    def sure(self) -> bool:
        """Whether there are enough runs, and p is below 0.05."""
        return self.runs >= LEAST and self.chance() < LEVEL

    def said(self, at: float = 0.0, times: int = 1) -> str:
        """The test with n and p; p times the number of comparisons of which it is the least."""
        p = min(1.0, times * self.chance(at))
        return f"{self.test}, n = {self.runs}, {p_value(p)}"

    def __str__(self) -> str:
        wins = "" if self.wins is None else f", higher in {self.wins} of {self.runs}"
        return f"first - second = {self.by:.2g} ± {self.error:.1g}{wins} ({self.said()})"

    def text(self, digits: int) -> str:
        """The mean with its standard error, in words; nothing for one run."""
        if self.runs < 2:
            return ""
        told = math.isfinite(self.by) and self.test != SIGN
        by = f"{self.by:+.{digits}f} ± {self.error:.{digits}f}, " if told else ""
        wins = "" if self.wins is None else f"better in {self.wins} of {self.runs}, "
        return f" ({by}{wins}{p_value(self.chance())})"


PAIRED, WELCH, SIGN, ONE = "paired t", "Welch's t", "sign test", "t"


def compare(
    first: Sequence[float] | Tensor, second: Sequence[float] | Tensor, *, paired: bool = True
) -> Lead:
    """Compare two methods by one number per seed.

    Args:
        first: the numbers of the first method, such as ``history["accuracy"][-1]``.
        second: those of the second.
        paired: seed by seed, with Student's paired t: both methods have the same seeds in the same
            order, so that they share data, first weights or batches. False for runs that share
            nothing; Welch's t is taken.

    Returns:
        The mean of first − second with its error. ``print`` says it in words, ``.sure`` whether
        there are at least five runs and p < 0.05, ``.chance()`` is p.

    Raises:
        ValueError: if there are fewer than two numbers, they are not finite, or two that are to be
            paired are not equally many.

    Example:
        >>> print(compare([0.91, 0.93, 0.92, 0.95, 0.90], [0.88, 0.91, 0.91, 0.92, 0.87]))
        first - second = 0.024 ± 0.004, higher in 5 of 5 (paired t, n = 5, p = 0.0039)
        >>> compare([0.91, 0.93], [0.88, 0.91]).sure
        False
    """
    groups = []
    for name, values in (("first", first), ("second", second)):
        found = [float(value) for value in values]
        lost = sum(not math.isfinite(value) for value in found)
        if lost:
            raise ValueError(
                f"{name} has {lost} of {len(found)} numbers that are not finite: runs that "
                "diverged. Leave them out of both, and say how many there were"
            )
        if len(found) < 2:
            raise ValueError(
                f"{name} must have at least two numbers, one per seed, got {len(found)}"
            )
        groups.append(found)
    one, two = groups
    if not paired:
        return welch(one, two)
    if len(one) != len(two):
        raise ValueError(
            f"first and second must have a number for each seed, got {len(one)} and {len(two)}; "
            "paired=False compares runs that share nothing"
        )
    return of_pairs([a - b for a, b in zip(one, two, strict=True)])


def p_value(p: float) -> str:
    """Say p with two digits, and no smaller than can be trusted.

    Example:
        >>> p_value(0.0312), p_value(1e-12)
        ('p = 0.031', 'p < 1e-6')
    """
    return "p < 1e-6" if p < 1e-6 else f"p = {p:.2g}"


def mean_std(values: Iterable[float]) -> tuple[float, float, int]:
    """Mean, standard deviation (with n − 1) and number of the finite values.

    Example:
        >>> mean_std([1.0, 3.0, float("nan")])
        (2.0, 1.4142135623730951, 2)
        >>> mean_std([])
        (nan, nan, 0)
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return math.nan, math.nan, 0
    mean = math.fsum(finite) / len(finite)
    if len(finite) == 1:
        return mean, math.nan, 1
    variance = math.fsum((value - mean) ** 2 for value in finite) / (len(finite) - 1)
    return mean, math.sqrt(variance), len(finite)


def level(values: Sequence[float]) -> Lead:
    """The mean of one group.

    Example:
        >>> level([1.0, 2.0, 3.0, 2.0, 2.0]).said(at=1.0)
        't, n = 5, p = 0.034'
    """
    mean, deviation, runs = mean_std(values)
    return Lead(mean, deviation / math.sqrt(max(1, runs)), runs, runs - 1, ONE)


def of_pairs(gains: Sequence[float]) -> Lead:
    """The mean of differences, run by run.

    Example:
        >>> of_pairs([1.0, 2.0, 3.0, 2.0, 2.0]).said()
        'paired t, n = 5, p = 0.0032'
    """
    wins, losses = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    return level(gains)._replace(test=PAIRED, wins=wins, losses=losses)


def welch(best: Sequence[float], other: Sequence[float]) -> Lead:
    """The difference of two means, of runs that share nothing.

    Example:
        >>> welch([3.0, 4.0, 5.0, 4.0, 4.0], [1.0, 2.0, 3.0, 2.0, 2.0, 2.0]).said()
        "Welch's t, n = 5, p = 0.0012"
    """
    (mean, deviation, n), (level_, spread, m) = mean_std(best), mean_std(other)
    if n < 2 or m < 2:
        return Lead(mean - level_, math.nan, min(n, m), 0, WELCH)
    one, two = deviation**2 / n, spread**2 / m
    parts = one**2 / (n - 1) + two**2 / (m - 1)
    freedom = int((one + two) ** 2 / parts) if parts else min(n, m) - 1
    return Lead(mean - level_, math.sqrt(one + two), min(n, m), freedom, WELCH)


def signs(gains: Sequence[float]) -> Lead:
    """Which of two methods is better more often; an infinite gain is one where one diverged.

    Example:
        >>> signs([1.0, 2.0, 0.1, 3.0, 2.0, math.inf]).said()
        'sign test, n = 6, p = 0.031'
    """
    wins, losses = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    found = level(gains)
    return found._replace(runs=wins + losses, test=SIGN, wins=wins, losses=losses)


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
    return max(0.0, 1.0 - (2.0 * (angle + within) / math.pi if odd else within))


def sign_test(wins: int, losses: int) -> float:
    """P of so uneven a split if both were equally likely; ties are left out.

    Example:
        >>> sign_test(5, 0), sign_test(6, 0), sign_test(2, 2)
        (0.0625, 0.03125, 1.0)
    """
    runs, least = wins + losses, min(wins, losses)
    tail = math.fsum(math.comb(runs, count) for count in range(least + 1))
    return min(1.0, 2.0 * tail / 2.0**runs)
