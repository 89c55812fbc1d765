"""Verdicts on orderings and on numbers, from made-up runs."""

import math

import pytest

from colangevin.lab.experiments.comparing import Measured, ahead, lead, number, verdict
from colangevin.lab.experiments.experiment import NOT_REPRODUCED, ORDERING, REPRODUCED


def test_verdicts_on_orderings():
    best = Measured("A", [9.0, 9.2])
    assert ahead("x", best, [Measured("B", [8.0, 8.2])]).verdict == REPRODUCED
    assert ahead("x", best, [Measured("B", [6.0, 9.1])]).verdict == ORDERING
    assert ahead("x", best, [Measured("B", [9.5, 9.6])]).verdict == NOT_REPRODUCED
    assert ahead("x", best, [Measured("B", [8.0, 8.2])], sign=-1).verdict == NOT_REPRODUCED
    assert ahead("x", best, [Measured("B", [math.nan, math.nan])]).verdict == REPRODUCED
    gone = Measured("C", [math.nan, math.nan])
    assert ahead("x", gone, [best]).verdict == NOT_REPRODUCED


def test_runs_of_the_same_seed_are_compared_with_each_other():
    """Runs that differ a lot between data sets, but always in the same direction."""
    best, other = Measured("A", [60.1, 75.2, 90.1]), Measured("B", [60.0, 75.0, 90.0])
    found = lead(best, other)
    gains = [0.1, 0.2, 0.1]
    mean = sum(gains) / 3
    spread = math.sqrt(sum((gain - mean) ** 2 for gain in gains) / 2)
    assert found == pytest.approx((mean, spread / math.sqrt(3), 3, 3, 0, 0, math.inf))
    assert found.clear
    mixed = Measured("B", [75.0, 90.0, 60.0])
    assert not lead(best, mixed).clear


def test_a_single_run_shows_an_ordering_at_most():
    claim = ahead("x", Measured("A", [9.0]), [Measured("B", [1.0])])
    assert claim.verdict == ORDERING
    assert claim.why == "not shown to be two standard errors ahead of B"
    apart = lead(Measured("A", [math.nan, 9.0]), Measured("B", [1.0, math.nan]))
    assert verdict([apart]) == NOT_REPRODUCED


def test_divergence_counts_against_a_method():
    """Its runs that are left could be the lucky ones."""
    some, all_there = Measured("A", [9.0, 9.1, math.nan]), Measured("B", [8.0, 8.2, 8.1])
    claim = ahead("x", some, [all_there], digits=1)
    assert claim.verdict == ORDERING
    assert claim.why.endswith("better in 2 of 2 runs that both have, diverged alone in 1)")
    both = Measured("B", [8.0, 8.2, math.nan])
    assert ahead("x", some, [both]).verdict == REPRODUCED
    assert ahead("x", all_there, [some], sign=-1).verdict == REPRODUCED


def test_the_reason_names_those_that_are_not_behind():
    best = Measured("A", [5.0, 6.0, 7.0])
    others = [Measured("B", [1.0, 2.0, 3.1]), Measured("C", [5.5, 6.5, 7.6])]
    claim = ahead("x", best, others, digits=1)
    assert claim.why == ("not ahead of C (-0.5 ± 0.0 (standard error), better in 0 of 3 runs)")


def test_verdicts_on_numbers():
    ours = Measured("A", [87.5, 87.7])
    assert number("x", (87.6, 0.1), ours, True).verdict == REPRODUCED
    assert number("x", (85.0, 0.1), ours, True).verdict == ORDERING
    missed = number("x", (85.0, None), ours, False, why="a reason")
    assert missed.verdict == NOT_REPRODUCED
    assert missed.why.endswith("not ordered as in the paper; a reason")


def test_a_verdict_follows_from_the_numbers_that_are_shown():
    """One run of a method beside three of another: the first is ahead of its own twin only."""
    one, three = Measured("A", [7.0]), Measured("B", [4.0, 9.0, 14.0])
    claim = ahead("x", one, [three], digits=1)
    assert claim.ours == "A 7.0 (1 run); B 9.0 ± 5.0 (3 runs)"
    assert claim.verdict == NOT_REPRODUCED
    assert claim.why == (
        "not ahead of B (+3.0, better in 1 of 1 run that both have, but not in the means of all "
        "runs)"
    )
    behind = ahead("x", three, [Measured("C", [5.0])], digits=1)
    assert behind.verdict == NOT_REPRODUCED
    assert behind.why == "not ahead of C (-1.0, better in 0 of 1 run that both have)"
    clear = ahead("x", Measured("D", [20.0, 25.1]), [three], digits=1)
    assert clear.verdict == REPRODUCED
    assert clear.ours.endswith(
        "against B (+16.1 ± 0.1 (standard error), better in 2 of 2 runs that both have)"
    )
