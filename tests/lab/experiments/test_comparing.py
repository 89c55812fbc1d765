"""Verdicts on numbers and on orders, from made-up runs: each verdict, each edge."""

import math

import pytest

from colangevin.diagnostics import significance
from colangevin.lab.claims.comparing import (
    Measured,
    Quantity,
    ahead,
    inside,
    lead,
    most,
    number,
    spreads,
    within,
)
from colangevin.lab.runner.experiment import NO, NOT_COMPARABLE, UNDECIDED, YES, Answer, Claim
from colangevin.lab.runner.records import Record

LOW, HIGH = [8.0, 8.2, 8.1, 8.3, 8.1], [9.0, 9.2, 9.0, 9.4, 9.1]


def order(best, *others, **options):
    made = [Measured(f"B{place}", other) for place, other in enumerate(others)]
    return ahead("x", Measured("A", best), made, **options).order


@pytest.mark.parametrize(("best", "other", "verdict"), [(HIGH, LOW, YES), (LOW, HIGH, NO)])
def test_an_order_is_yes_or_no_with_its_test(best, other, verdict):
    found = order(best, other)
    assert found.verdict == verdict
    assert "paired t, n = 5, p = " in found.by
    assert order(best, other, sign=-1).verdict == (NO if verdict == YES else YES)


def test_four_runs_decide_nothing_and_five_do():
    assert order(HIGH[:4], LOW[:4]) == Answer(UNDECIDED, "n = 4")
    assert order(LOW[:4], HIGH[:4]) == Answer(UNDECIDED, "n = 4")
    assert order(HIGH, LOW).verdict == YES


def test_a_difference_within_the_error_is_undecided_in_either_direction():
    one, two = [1.0, 2.0, 3.0, 4.0, 5.0], [1.5, 1.0, 3.5, 3.0, 5.0]
    assert order(one, two).verdict == order(two, one).verdict == UNDECIDED


def test_ties_are_undecided():
    assert order(LOW, LOW).verdict == UNDECIDED
    assert order(LOW, LOW, exact=True) == Answer(UNDECIDED, "n = 0")


def test_runs_of_the_same_seed_are_compared_with_each_other():
    """Runs that differ a lot between data sets, but always in the same direction."""
    other = [60.0, 75.0, 90.0, 80.0, 70.0]
    best = [v + gain for v, gain in zip(other, (0.1, 0.2, 0.1, 0.2, 0.1), strict=True)]
    assert order(best, other).verdict == YES
    assert order(best, other[::-1]).verdict == UNDECIDED
    assert order(best, other, shared=False).verdict == UNDECIDED


def test_other_numbers_of_runs_are_compared_by_their_means():
    assert "Welch's t, n = 5" in order([*HIGH, 9.1, 9.2], LOW).by
    assert order([9.0], LOW) == Answer(UNDECIDED, "n = 1")
    assert order(HIGH) == Answer(UNDECIDED, "nothing to compare with")


def test_a_run_that_diverged_is_the_worse_one():
    nan = math.nan
    gone = [nan] * 6
    assert order([*HIGH, 9.0], gone).verdict == YES
    assert order(gone, [*HIGH, 9.0]).verdict == NO
    assert order(gone, gone) == Answer(UNDECIDED, "n = 0")
    some = order([*HIGH[:4], nan], LOW)  # ahead in four of five runs
    assert some.verdict == UNDECIDED and "sign test, n = 5" in some.by


def test_all_others_have_to_be_behind_and_one_reversed_is_enough():
    higher = [10.0, 10.2, 10.1, 10.4, 10.0]
    near = [9.1, 9.1, 9.1, 9.2, 9.2]
    assert order(HIGH, LOW, LOW).verdict == YES
    assert order(HIGH, LOW, near).verdict == UNDECIDED
    assert order(HIGH, LOW, higher).verdict == NO
    assert order(HIGH, near, higher).verdict == NO


def test_a_reversal_among_many_is_corrected_for_their_number():
    lower, higher = [0.0] * 5, [0.1, 0.5, 0.2, 0.6, 0.2]
    single = lead(Measured("A", lower), Measured("B", higher)).chance()
    assert 0.01 < single < 0.05
    assert order(lower, higher).verdict == NO
    assert order(lower, *[higher] * 5).verdict == UNDECIDED


def test_networks_at_chance_decide_nothing():
    at, above = [50.0, 51.0, 52.0, 50.0, 51.0], [90.0, 91.0, 92.0, 90.0, 91.0]
    assert order([v + 5 for v in at], at, chance=60.0).verdict == NOT_COMPARABLE
    assert order(above, at, chance=60.0).verdict == YES
    assert order([math.nan] * 5, at, chance=60.0).verdict == NOT_COMPARABLE
    records = [Record("a", "b", 0, {"label": "A"}, final={"x": values}) for values in (at, above)]
    quantity = Quantity("x", "accuracy", 1, chance=60.0)
    assert quantity.ahead(*records).order.verdict == NO


def test_a_number_at_the_edge_of_the_interval():
    """Five runs: the half width of the interval is 2.776 standard errors."""
    runs = [1.0, 2.0, 3.0, 4.0, 5.0]
    half = 2.7764 * math.sqrt(2.5 / 5)
    for stated, verdict in (
        (f"{3 + half + 0.04:.2f}", NO),
        (f"{3 + half - 0.01:.2f}", YES),
        (f"{3 - half - 0.04:.2f}", NO),
        (f"{3 + half + 0.3:.0f}", YES),  # a number without digits has a unit of 1
        ("3", YES),
    ):
        found = number("x", stated, Measured("A", runs)).number
        assert (found.verdict, stated) == (verdict, stated)
        assert "t, n = 5, p = " in found.by


def test_half_a_unit_of_the_last_digit_counts_as_it_is_printed():
    runs = Measured("A", [87.04] * 5)
    assert number("x", "87.0", runs).number.verdict == YES
    assert number("x", "87.00", runs).number.verdict == NO
    assert number("x", "87.00 ± 0.5", runs).number.verdict == NO


def test_a_number_needs_five_runs_that_did_not_diverge():
    assert number("x", "3", Measured("A", [3.0] * 4)).number == Answer(UNDECIDED, "n = 4")
    found = number("x", "3", Measured("A", [*[3.0] * 5, math.nan])).number
    assert found == Answer(UNDECIDED, "1 runs diverged")
    assert number("x", "3", Measured("A", [math.nan] * 5)).number.verdict == UNDECIDED
    assert number("x", "3", Measured("A", [3.0] * 9), error="a range").number.by == "a range"


def test_the_reason_of_a_number_that_is_not_ours():
    found = number("x", "87.00", Measured("A", [87.04] * 5), why="a reason")
    assert found.why == "+0.04 from the stated; a reason"
    assert number("x", "87.0", Measured("A", [87.04] * 5), why="a reason").why == ""


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.5, 2.0, YES), (1.5, 9.0, NO), (-9.0, 0.5, NO), (1.05, 9.0, UNDECIDED)],
)
def test_a_mean_between_bounds(low, high, verdict):
    runs = Measured("A", [1.0, 1.1, 1.2, 0.9, 1.0])
    assert inside("x", "near", runs, low=low, high=high).order.verdict == verdict
    few = Measured("A", runs.values[:4])
    assert inside("x", "near", few, low=low, high=high).order == Answer(UNDECIDED, "n = 4")
    gone = Measured("A", [*runs.values, math.nan])
    assert inside("x", "near", gone, low=low, high=high).order.verdict == UNDECIDED


def test_equal_runs_have_no_error_and_can_be_within():
    assert within(significance.of_pairs([0.0] * 5), -0.1, 0.1).verdict == YES
    assert within(significance.of_pairs([0.1] * 5), -0.1, 0.1).verdict == UNDECIDED  # on the bound


@pytest.mark.parametrize(
    ("right", "runs", "verdict"),
    [
        (10, 10, YES),
        (9, 10, YES),
        (8, 10, UNDECIDED),
        (2, 10, UNDECIDED),
        (1, 10, NO),
        (6, 6, YES),
        (5, 5, UNDECIDED),
        (0, 0, UNDECIDED),
    ],
)
def test_shares_of_runs_have_a_sign_test(right, runs, verdict):
    assert most("x", "barrier", right, runs).order.verdict == verdict


def test_students_t_against_tables():
    """Two-sided 5 % and 1 % points."""
    for freedom, five, one in ((1, 12.706, 63.657), (4, 2.776, 4.604), (9, 2.262, 3.250)):
        assert significance.student(five, freedom) == pytest.approx(0.05, abs=5e-5)
        assert significance.student(one, freedom) == pytest.approx(0.01, abs=1e-5)
    assert significance.student(1.9840, 100) == pytest.approx(0.05, abs=2e-5)


def test_welch_against_a_calculation_by_hand():
    """Variances 2.5 and 10 of five runs each: an error of √2.5, 5.88 degrees of freedom."""
    found = significance.welch([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 4.0, 6.0, 8.0, 10.0])
    assert (found.by, found.freedom, found.runs) == (-3.0, 5, 5)
    assert found.error == pytest.approx(math.sqrt(2.5))


def test_spreads_compare_variances():
    record = Record("e", "a", 0, {}, final={"wide": [1.0, 5.0, 9.0], "narrow": [4.0, None, 6.0]})
    assert spreads(record, "wide") == [4.0, 0.0, 4.0]
    narrow = spreads(record, "narrow")
    assert narrow[::2] == [1.0, 1.0] and math.isnan(narrow[1])


def test_a_smaller_run_says_nothing_of_a_number_and_keeps_the_order():
    both = Claim("x", "3", "3.1", number=Answer(YES, "t"), order=Answer(NO, "t"))
    found = both.reduced("2 of 200 epochs")
    assert found.number == Answer(NOT_COMPARABLE, "2 of 200 epochs")
    assert found.order == both.order
    assert found.reduced("again") == found
    assert both.reduced("") == both
    assert {answer.verdict for answer in both.incomparable("why").answers} == {NOT_COMPARABLE}


def test_a_yes_or_no_without_its_test_is_refused():
    for verdict in (YES, NO):
        with pytest.raises(ValueError, match="needs its test or its reason"):
            Answer(verdict)
    with pytest.raises(ValueError, match="a number or an order"):
        Claim("x", "3", "3.1")
