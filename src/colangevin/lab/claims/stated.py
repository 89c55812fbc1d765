"""What a source states, as data: each statement is judged by what the records of some jobs hold.

An experiment lists them, ``claims=[Ahead(...), Near(...), ...]``. All are read by one interpreter:
it finds the jobs, reads their numbers, tests, and writes the reason. A statement without records
makes no claim. A function from records to claims can stand in the list, too.

Jobs are named by their name or by a pattern: ``sgd``, ``sgld-*``, ``*``. What is stated several
times, such as for each depth, is written once, with ``each={"depth": (4, 5)}`` and ``{depth}`` in
the names of jobs, the text and the keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any, TypeAlias

from colangevin.diagnostics.significance import mean_std
from colangevin.lab.claims.comparing import (
    Measured,
    Quantity,
    ahead,
    inside,
    lead,
    most,
    number,
    taken_as,
    within,
)
from colangevin.lab.runner.experiment import UNDECIDED, YES, Answer, Claim
from colangevin.lab.runner.records import Records


@dataclass(frozen=True)
class Of:
    """What some jobs have measured, where the name of one job does not say it all.

    Attributes:
        jobs: names or patterns of jobs, or others of these.
        quantity: in the place of the claim's.
        label: in the place of the job's.
        pooled: all runs of the jobs are one sample.
        strongest: of the jobs, only the one with the best mean. A method is compared with the
            best of its rivals, not with each.

    Example:
        >>> from colangevin.lab.runner.records import Record
        >>> runs = {"a": {"x": [1.0, 2.0]}, "b": {"x": [3.0, 4.0]}}
        >>> records = Records(Record("e", k, 0, {"label": k}, final=v) for k, v in runs.items())
        >>> x = Quantity("x", "x", sign=1)
        >>> Of("*", strongest=True).measured(records, x)
        [Measured(label='b', values=[3.0, 4.0])]
        >>> Of("*", label="all", pooled=True).measured(records, x)
        [Measured(label='all', values=[1.0, 2.0, 3.0, 4.0])]
    """

    jobs: str | Sequence[str | Of]
    quantity: Quantity | None = None
    label: str = ""
    pooled: bool = False
    strongest: bool = False

    def measured(self, records: Records, quantity: Quantity) -> list[Measured]:
        """The numbers of each of the jobs that have a record, or of all together."""
        wanted = self.quantity or quantity
        found = [one for jobs in _several(self.jobs) for one in _measured(jobs, records, wanted)]
        if self.label:
            found = [one._replace(label=self.label) for one in found]
        if self.strongest:
            return [max(found, key=lambda one: _rank(one, wanted.sign))] if found else []
        if self.pooled and found:
            return [found[0]._replace(values=[v for one in found for v in one.values])]
        return found


Jobs: TypeAlias = str | Of


def _several(jobs: Jobs | Sequence[Jobs]) -> Sequence[Jobs]:
    return [jobs] if isinstance(jobs, (str, Of)) else jobs


def _measured(jobs: Jobs, records: Records, quantity: Quantity) -> list[Measured]:
    if isinstance(jobs, Of):
        return jobs.measured(records, quantity)
    return [quantity.of(record) for record in records.named(jobs)]


def _rank(method: Measured, sign: int) -> float:
    """A mean for a maximum; a method of which every run diverged is the last."""
    mean = mean_std(method.values)[0]
    return sign * mean if math.isfinite(mean) else -math.inf


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What all statements share.

    Attributes:
        text: what is measured; the quantity's label where it is not given. ``{label}`` stands for
            the label of the first job, ``{source}`` for what the source states.
        why: what is known of a difference, said where the verdict is not *yes*.
        each: values of names in braces; the statement is made for each combination of them.
        reason: why the records cannot decide it, whatever they hold: it is *undecided* then.
    """

    text: str = ""
    why: str = ""
    each: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    reason: str = ""

    def __call__(self, records: Records) -> list[Claim]:
        """The claims that the records can be asked for."""
        if not self.each:
            claim = self._claim(records)
            return [] if claim is None else [self._told(claim)]
        return [claim for one in self._every() for claim in one(records)]

    def _every(self) -> Iterator[Stated]:
        """The statement for each combination of what is in braces."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "each"}
        for values in product(*self.each.values()):
            at = dict(zip(self.each, values, strict=True))
            yield type(self)(**_filled(own, at))

    def _claim(self, records: Records) -> Claim | None:
        """What the records say, without the reasons that were given; None if they say nothing."""
        raise NotImplementedError

    def _told(self, claim: Claim) -> Claim:
        claim = replace(claim, text=claim.text.replace("{source}", claim.source))
        if self.reason:
            answer = Answer(UNDECIDED, self.reason)
            claim = replace(claim, number=claim.number and answer, order=claim.order and answer)
        if self.why and any(answer.verdict != YES for answer in claim.answers):
            claim = replace(claim, why="; ".join(filter(None, (claim.why, self.why))))
        return claim

    def _text(self, quantity: Quantity, first: Jobs, records: Records) -> str:
        label = ""
        while not isinstance(first, str):
            label, first = label or first.label, _several(first.jobs)[0]
        found = [label] if label else [record.label for record in records.named(first)]
        return (self.text or quantity.label).replace("{label}", "".join(found[:1]))


def _filled(value: Any, at: Mapping[str, Any]) -> Any:
    """A value with the words in braces replaced, within sequences and quantities, too.

    Example:
        >>> _filled(["sgd-{depth}", Of("{tau}")], {"depth": 4, "tau": 1e-6})[0]
        'sgd-4'
    """
    if isinstance(value, str):
        for name, one in at.items():
            value = value.replace(f"{{{name}}}", f"{one:g}" if isinstance(one, float) else str(one))
        return value
    if isinstance(value, (list, tuple)):
        return [_filled(item, at) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, at) for key, item in value.items()}
    if isinstance(value, (Quantity, Of)):
        own = {one.name: getattr(value, one.name) for one in fields(value)}
        return replace(value, **_filled(own, at))
    return value


def _one(jobs: Jobs, records: Records, quantity: Quantity) -> Measured | None:
    """What exactly one method has reached; None if it has no record."""
    found = _measured(jobs, records, quantity)
    if len(found) > 1:
        raise ValueError(f"one job is needed, {jobs!r} names {len(found)}")
    return found[0] if found else None


@dataclass(frozen=True)
class Ahead(Stated):
    """A method is better than others, in the sense of the quantity's sign; they share their seeds.

    Attributes:
        quantity: what is compared. Where all methods are at its ``chance``, nothing is decided.
        best: the method that the source has ahead.
        over: the others; all that have a record count. ``*`` does not mean ``best`` itself.
        shared: whether runs share seeds and are compared one by one; else their means are.
        exact: whether a sign test is made in any case, for values without a mean.

    Example:
        >>> from colangevin.lab.runner.records import Record
        >>> runs = {"a": {"x": [9.0, 9.1, 9.2, 9.1, 9.0]}, "b": {"x": [8.0] * 5}}
        >>> records = Records(Record("e", k, 0, {"label": k}, final=v) for k, v in runs.items())
        >>> (claim,) = Ahead(Quantity("x", "accuracy", sign=1), "a", over=("*",))(records)
        >>> claim.source, str(claim.order)
        ('a > b', 'yes (paired t, n = 5, p = 8.6e-06)')
    """

    quantity: Quantity
    best: Jobs
    over: Sequence[Jobs]
    shared: bool = True
    exact: bool = False

    def _claim(self, records: Records) -> Claim | None:
        best = _one(self.best, records, self.quantity)
        found = [one for jobs in self.over for one in _measured(jobs, records, self.quantity)]
        others = [one for one in found if one != best]
        if best is None or not others:
            return None
        own = self.quantity
        return ahead(
            self._text(own, self.best, records),
            best,
            others,
            sign=own.sign,
            digits=own.digits,
            chance=own.chance,
            shared=self.shared,
            exact=self.exact,
        )


@dataclass(frozen=True)
class Near(Stated):
    """A number of the source.

    Attributes:
        quantity: what is measured.
        job: whose.
        stated: the number as it is printed, with all its digits, such as ``87.60``.

    Example:
        >>> from colangevin.lab.runner.records import Record
        >>> found = {"x": [87.5, 87.6, 87.6, 87.5, 87.6]}
        >>> records = Records([Record("e", "a", 0, {"label": "A"}, final=found)])
        >>> x = Quantity("x", "accuracy, %", digits=1)
        >>> [Near(x, "a", stated)(records)[0].number.verdict for stated in ("87.60", "87.7")]
        ['yes', 'no']
    """

    quantity: Quantity
    job: Jobs
    stated: str

    def _claim(self, records: Records) -> Claim | None:
        own = _one(self.job, records, self.quantity)
        if own is None:
            return None
        text = self._text(self.quantity, self.job, records)
        return number(text, self.stated, own, digits=self.quantity.digits, error=self.reason)


@dataclass(frozen=True)
class Inside(Stated):
    """A mean lies between bounds that we take for the source's words.

    Attributes:
        quantity: what is measured.
        job: whose.
        stated: the words, such as ``near 100``.
        low: what the mean has to be above.
        high: what it has to be below.

    Example:
        >>> from colangevin.lab.runner.records import Record
        >>> record = Record("e", "a", 0, {"label": "A"}, final={"x": [1.0, 1.1, 1.2, 0.9, 1.0]})
        >>> (claim,) = Inside(Quantity("x", "gain"), "a", "rises", low=0.5)(Records([record]))
        >>> claim.why, str(claim.order)
        ('taken as above 0.5', 'yes (t, n = 5, p = 0.00045)')
    """

    quantity: Quantity
    job: Jobs
    stated: str
    low: float = -math.inf
    high: float = math.inf

    def _claim(self, records: Records) -> Claim | None:
        own = _one(self.job, records, self.quantity)
        if own is None:
            return None
        text, digits = self._text(self.quantity, self.job, records), self.quantity.digits
        return inside(text, self.stated, own, low=self.low, high=self.high, digits=digits)


@dataclass(frozen=True)
class Most(Inside):
    """Most runs have the property that the source states: their value lies between the bounds.

    Example:
        >>> from colangevin.lab.runner.records import Record
        >>> record = Record("e", "a", 0, {"label": "A"}, final={"height": [0.1] * 9 + [0.0]})
        >>> height = Quantity("height", "height of the barrier")
        >>> (claim,) = Most(height, "a", "a barrier", low=0.01)(Records([record]))
        >>> claim.ours, str(claim.order)
        ('in 9 of 10 runs', 'yes (sign test, n = 10, p = 0.021)')
    """

    def _claim(self, records: Records) -> Claim | None:
        own = _one(self.job, records, self.quantity)
        if own is None:
            return None
        right = sum(self.low <= value <= self.high for value in own.values)
        text = self._text(self.quantity, self.job, records)
        return most(text, self.stated, right, len(own.values))


@dataclass(frozen=True)
class Apart(Stated):
    """Two methods differ by an amount between bounds: that they are the same, or as good.

    Attributes:
        quantity: what is measured; the difference is that of ``one`` less ``other``.
        one: a method.
        other: another.
        stated: the source's words.
        low: what the difference has to be above.
        high: what it has to be below.
        shared: as in :class:`Ahead`.

    Example:
        >>> from colangevin.lab.runner.records import Record
        >>> runs = {"a": {"x": [9.0, 9.1, 9.2, 9.1, 9.0]}, "b": {"x": [9.0, 9.0, 9.1, 9.0, 9.1]}}
        >>> records = Records(Record("e", k, 0, {"label": k}, final=v) for k, v in runs.items())
        >>> x = Quantity("x", "loss")
        >>> (claim,) = Apart(x, "a", "b", "the same", low=-0.2, high=0.2)(records)
        >>> claim.why, claim.order.verdict
        ('taken as within 0.2', 'yes')
    """

    quantity: Quantity
    one: Jobs
    other: Jobs
    stated: str
    low: float = -math.inf
    high: float = math.inf
    shared: bool = True

    def _claim(self, records: Records) -> Claim | None:
        one = _one(self.one, records, self.quantity)
        other = _one(self.other, records, self.quantity)
        if one is None or other is None:
            return None
        text, digits = self._text(self.quantity, self.one, records), self.quantity.digits
        order = within(lead(one, other, shared=self.shared), self.low, self.high)
        ours = "; ".join(f"{own.label} {own.text(digits)}" for own in (one, other))
        return Claim(text, self.stated, ours, order=order, why=taken_as(self.low, self.high))
