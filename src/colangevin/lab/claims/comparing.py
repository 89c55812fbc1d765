"""Verdicts on what a source states, by one rule for numbers and one for orders.

A number is *yes* if ours and the stated one are no further apart than Student's 95 % interval of
our mean and half a unit of the last printed digit; else it is *no*. An order, or an effect, is
*yes* if a two-sided test finds it with p < 0.05, *no* if the test finds the opposite, and
*undecided* in between. Fewer than five runs decide nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median
from typing import NamedTuple

from colangevin.diagnostics.significance import (
    LEAST,
    LEVEL,
    Lead,
    level,
    mean_std,
    of_pairs,
    signs,
    welch,
)
from colangevin.lab.runner.experiment import NO, UNDECIDED, YES, Answer, Claim
from colangevin.lab.runner.records import Record, summary

CHANCE = 0.15
"""Accuracy, among ten classes, up to which nothing has been learnt."""
COIN = 60.0
"""The same in per cent, between two classes."""


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
        chance: up to which nothing has been learnt; networks that are all there decide nothing.
        read: a function from a record and the key to one number per run; :meth:`Record.values`
            where it is not given.
    """

    key: str
    label: str
    sign: int = -1
    factor: float = 1.0
    digits: int = 2
    late: bool = False
    chance: float | None = None
    read: Callable[[Record, str], Sequence[float]] | None = None

    def of(self, record: Record) -> Measured:
        """What a method reached.

        Example:
            >>> record = Record("a", "b", 0, {"label": "SGD"}, final={"x": [0.9, 0.94]})
            >>> Quantity("x", "accuracy, %", factor=100.0).of(record).text(1)
            '92.0 ± 2.8 (2 runs)'
        """
        read = self.read or (late if self.late else Record.values)
        values = [self.factor * value for value in read(record, self.key)]
        return Measured(record.label, values)

    def text(self, record: Record) -> str:
        """Mean ± standard deviation, with the number of runs."""
        return self.of(record).text(self.digits)

    def ahead(self, best: Record, *others: Record) -> Claim:
        """The claim that one method is better than others."""
        methods = [self.of(other) for other in others]
        return ahead(
            self.label,
            self.of(best),
            methods,
            sign=self.sign,
            digits=self.digits,
            chance=self.chance,
        )


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


def lead(
    best: Measured, other: Measured, sign: int = 1, *, shared: bool = True, exact: bool = False
) -> Lead:
    """Compare two methods.

    Runs of the same seed share their data, first weights and batches, so that they are compared
    one by one, by Student's t. If one method has more runs than the other, all runs are compared by
    their means (Welch's t). A run that diverged is the worse one, and only a sign test is left.

    Args:
        best: the method that should be ahead.
        other: another.
        sign: 1 if more is better, -1 if less is.
        shared: whether runs share seeds.
        exact: whether to use the sign test in any case, for values without a mean.

    Example:
        >>> lead(Measured("A", [9.0, 9.2, 9.5]), Measured("B", [8.0, 8.2, 8.6])).text(2)
        ' (+0.97 ± 0.03, better in 3 of 3, p = 0.0012)'
    """
    pairs = list(zip(best.values, other.values, strict=False))
    gains = [_gain(sign * a, sign * b) for a, b in pairs if math.isfinite(a) or math.isfinite(b)]
    if exact or not all(map(math.isfinite, gains)):
        return signs(gains)
    if shared and len(best.values) == len(other.values):
        return of_pairs(gains)
    return welch([sign * a for a in best.values], [sign * b for b in other.values])


def _gain(best: float, other: float) -> float:
    """A difference; infinite if one of the two diverged."""
    if math.isfinite(best) and math.isfinite(other):
        return best - other
    return math.inf if math.isfinite(best) else -math.inf


def lead_of_means(best: Measured, other: Measured) -> Lead:
    """Compare two methods whose runs have other seeds; more is better.

    Example:
        >>> lead_of_means(Measured("A", [9.0, 9.2, 9.4]), Measured("B", [8.0, 8.2, 8.4])).text(2)
        ' (+1.00 ± 0.16, p = 0.0036)'
    """
    return lead(best, other, shared=False)


def answer(leads: Sequence[Lead]) -> Answer:
    """Whether all leads that the source states are there; one that is reversed is enough for no.

    The p of a no is multiplied with the number of comparisons, of which it is the least.

    Example:
        >>> leads = of_pairs([1.0, 1.1, 1.2, 0.9, 1.0]), of_pairs([1.0, -1.1, 1.2, 0.9, -1.0])
        >>> str(answer(leads))
        'undecided (paired t, n = 5, p = 0.72)'
    """
    if not leads:
        return Answer(UNDECIDED, "nothing to compare with")
    if all(one.clear for one in leads):
        return Answer(YES, max(leads, key=lambda one: one.chance()).said())
    behind = [one for one in leads if one.way < 0 and one.runs >= LEAST]
    worst = min(behind, key=lambda one: one.chance(), default=None)
    if worst is not None and len(leads) * worst.chance() < LEVEL:
        return Answer(NO, f"reversed: {worst.said(times=len(leads))}")
    fewest = min(one.runs for one in leads)
    if fewest < LEAST:
        return Answer(UNDECIDED, f"n = {fewest}")
    weak = max((one for one in leads if not one.clear), key=lambda one: one.chance())
    return Answer(UNDECIDED, weak.said())


def ahead(
    text: str,
    best: Measured,
    others: Sequence[Measured],
    *,
    sign: int = 1,
    digits: int = 2,
    chance: float | None = None,
    shared: bool = True,
    exact: bool = False,
) -> Claim:
    """The claim that one method is above all others, or below them.

    Args:
        text: what is measured.
        best: the method that the source has ahead.
        others: the methods that it is ahead of; at least one.
        sign: 1 if more is better, -1 if less is.
        digits: of the numbers.
        chance: up to which nothing has been learnt, see :class:`Quantity`.
        shared: as in :func:`lead`.
        exact: likewise.

    Example:
        >>> runs = [9.0, 9.1, 9.2, 9.1, 9.0]
        >>> claim = ahead("accuracy", Measured("A", runs), [Measured("B", [8.0] * 5)])
        >>> claim.source, str(claim.order)
        ('A > B', 'yes (paired t, n = 5, p = 8.6e-06)')
    """
    source = f"{best.label} {'>' if sign > 0 else '<'} {'; '.join(one.label for one in others)}"
    ours = "; ".join(f"{one.label} {one.text(digits)}" for one in (best, *others))
    leads = {one.label: lead(best, one, sign, shared=shared, exact=exact) for one in others}
    found = answer(list(leads.values()))
    short = [f"{k}{v.text(digits)}" for k, v in leads.items() if not v.clear]
    why = f"not shown to be ahead of {'; '.join(short)}" if short else ""
    claim = Claim(text, source, ours, order=found, why=why)
    means = [mean_std(one.values)[0] for one in (best, *others)]
    if chance is not None and not any(mean > chance for mean in means):
        return claim.incomparable(f"no method is above {chance:g}, where nothing is learnt")
    return claim


def number(
    text: str, stated: str, ours: Measured, *, digits: int = 2, why: str = "", error: str = ""
) -> Claim:
    """The claim that a number has the source's value.

    Args:
        text: what is measured.
        stated: the number as it is printed, such as ``87.60``; what follows it is shown only.
        ours: the runs.
        digits: of our numbers.
        why: what is known about a difference, added where there is one.
        error: what makes our runs tell nothing about the error; nothing can be decided then.

    Example:
        >>> ours = Measured("A", [87.5, 87.6, 87.6, 87.5, 87.6])
        >>> [number("x", stated, ours).number.verdict for stated in ("87.60 ± 0.1", "87.70")]
        ['yes', 'no']
    """
    printed = Decimal(stated.split()[0])
    apart = mean_std(ours.values)[0] - float(printed)
    slack = 0.5 * 10.0 ** int(printed.as_tuple().exponent)
    found = level(ours.values)
    gone = len(ours.values) - found.runs
    if error or gone or found.runs < LEAST:
        reason = error or (f"{gone} runs diverged" if gone else f"n = {found.runs}")
        verdict = Answer(UNDECIDED, reason)
    else:
        nearest = float(printed) + math.copysign(min(slack, abs(apart)), apart)
        near = found.chance(nearest) >= LEVEL
        verdict = Answer(YES if near else NO, found.said(nearest))
    told = "" if verdict.verdict == YES or not math.isfinite(apart) else f"{apart:+.{digits}f}"
    reasons = [told and f"{told} from the stated", told and why]
    return Claim(text, stated, ours.text(digits), verdict, why="; ".join(filter(None, reasons)))


def within(found: Lead, low: float = -math.inf, high: float = math.inf) -> Answer:
    """Whether a mean lies between two bounds: its 95 % interval inside, outside, or on both sides.

    Example:
        >>> runs = level([1.0, 1.1, 1.2, 0.9, 1.0])
        >>> [within(runs, *bounds).verdict for bounds in ((0.5, 2.0), (1.5, 2.0), (1.0, 2.0))]
        ['yes', 'no', 'undecided']
    """
    if found.runs < LEAST:
        return Answer(UNDECIDED, f"n = {found.runs}")
    outside = [bound for bound, way in ((low, -1), (high, 1)) if way * (found.by - bound) > 0]
    finite = outside or [bound for bound in (low, high) if math.isfinite(bound)]
    nearest = max(finite, key=found.chance)
    if found.chance(nearest) >= LEVEL:
        return Answer(UNDECIDED, found.said(nearest))
    return Answer(NO if outside else YES, found.said(nearest))


def inside(
    text: str,
    stated: str,
    ours: Measured,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    digits: int = 1,
    why: str = "",
) -> Claim:
    """The claim that a mean lies between bounds, where the source has words and no number.

    Example:
        >>> inside("x", "rises", Measured("", [1.0, 1.1, 1.2, 0.9, 1.0]), low=0.5).why
        'taken as above 0.5'
    """
    found = level(ours.values)
    gone = len(ours.values) - found.runs
    order = Answer(UNDECIDED, f"{gone} runs diverged") if gone else within(found, low, high)
    taken = "; ".join(filter(None, (taken_as(low, high), why)))
    return Claim(text, stated, ours.text(digits), order=order, why=taken)


def taken_as(low: float, high: float) -> str:
    """How bounds of ours stand for words of a source.

    Example:
        >>> taken_as(-math.inf, 3.0), taken_as(0.8, 1.25), taken_as(-3.0, 3.0)
        ('taken as below 3', 'taken as above 0.8 and below 1.25', 'taken as within 3')
    """
    if low == -high:
        return f"taken as within {high:g}"
    bounds = {"above": low, "below": high}
    said = [f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound)]
    return f"taken as {' and '.join(said)}"


def most(text: str, stated: str, right: int, runs: int, ours: str = "") -> Claim:
    """The claim that runs have a property, taken as: most of them have it, by a sign test.

    Example:
        >>> [most("x", "barrier", k, 10).order.verdict for k in (10, 7, 1)]
        ['yes', 'undecided', 'no']
    """
    found = signs([1.0] * right + [-1.0] * (runs - right))
    why = f"in {right} of {runs} runs"
    return Claim(text, stated, ours or why, order=answer([found]), why=why if ours else "")


def computed(text: str, stated: str, ours: str, holds: bool, why: str = "") -> Claim:
    """A claim that is calculated without chance.

    Example:
        >>> str(computed("largest eigenvalue", "above 1", "1.18", holds=True).order)
        'yes (computed, no chance in it)'
    """
    return Claim(text, stated, ours, order=Answer(YES if holds else NO, SURE), why=why)


def undecided(text: str, stated: str, ours: str, reason: str, why: str = "") -> Claim:
    """A claim on an order that the records cannot decide, and the reason.

    Example:
        >>> str(undecided("time of a step", "less", "0.54", "one measurement").order)
        'undecided (one measurement)'
    """
    return Claim(text, stated, ours, order=Answer(UNDECIDED, reason), why=why)


SURE = "computed, no chance in it"


def spreads(record: Record, key: str) -> list[float]:
    """Distances of the runs from their median: their means compare variances (Brown and Forsythe).

    Example:
        >>> spreads(Record("a", "b", 0, {}, final={"x": [1.0, 2.0, 5.0]}), "x")
        [1.0, 0.0, 3.0]
    """
    values = record.values(key)
    middle = median([value for value in values if math.isfinite(value)] or [0.0])
    return [abs(value - middle) for value in values]
