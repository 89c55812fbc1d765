"""When a sampling has enough: a bound on the worst effective sample size, or on the worst R-hat."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from colangevin import checks
from colangevin.sampling.summaries import Summary

FIRST = 20
"""Draws of a chain at which is looked first."""
KINDS = ("ess", "rhat")


class Until(NamedTuple):
    """A stopping rule.

    Attributes:
        kind: "ess", which must reach the bound, or "rhat", which must fall to it.
        bound: of the worst number that is watched.
    """

    kind: str
    bound: float

    def __str__(self) -> str:
        return f"{self.kind}={self.bound:g}"

    def reading(self, summary: Summary, watched: Collection[str]) -> float:
        """The worst number of what is watched; NaN without any."""
        rows = [one for name, one in summary.judged.items() if name in watched]
        if self.kind == "ess":
            return min((one.least.ess for one in rows), default=float("nan"))
        return max((one.largest.rhat for one in rows), default=float("nan"))

    def reached(self, reading: float) -> bool:
        """Whether that is enough.

        Example:
            >>> Until("ess", 100.0).reached(120.0), Until("rhat", 1.01).reached(1.2)
            (True, False)
        """
        return reading >= self.bound if self.kind == "ess" else reading <= self.bound


def read_until(until: object) -> Until | None:
    """Read the argument ``until``.

    Raises:
        ValueError, TypeError: for what is no rule.

    Example:
        >>> read_until("rhat=1.01")
        Until(kind='rhat', bound=1.01)
    """
    if until is None:
        return None
    if not isinstance(until, str):
        raise TypeError(f"until must be a string such as 'ess=1000', got {until!r}")
    kind, _, number = (part.strip() for part in until.partition("="))
    try:
        bound = float(number)
    except ValueError:
        bound = float("nan")
    if kind not in KINDS or not bound > (1.0 if kind == "rhat" else 0.0):
        raise ValueError(f"until must be 'ess=1000' or 'rhat=1.01', for example; got {until!r}")
    return Until(kind, checks.positive("until", bound))


def is_look(draws: int) -> bool:
    """Whether there is a look after so many draws: at 20, and then half as many later again.

    It is a function of the draws alone, so that a run that goes on ends where a whole one does.

    Example:
        >>> [draws for draws in range(110) if is_look(draws)]
        [20, 30, 45, 67, 100]
    """
    look = FIRST
    while look < draws:
        look += look // 2
    return look == draws
