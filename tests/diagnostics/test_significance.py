"""``cl.compare``: two methods by one number per seed."""

import math

import pytest
import torch

import colangevin as cl

BETTER = [0.91, 0.93, 0.92, 0.95, 0.90]
WORSE = [0.88, 0.91, 0.91, 0.92, 0.87]


def test_pairs_see_what_groups_do_not() -> None:
    pairs, groups = cl.compare(BETTER, WORSE), cl.compare(BETTER, WORSE, paired=False)
    assert pairs.by == pytest.approx(0.024) and groups.by == pytest.approx(0.024)
    gains = torch.tensor(BETTER).double() - torch.tensor(WORSE).double()
    assert pairs.error == pytest.approx(float(gains.std() / math.sqrt(5)), rel=1e-6)
    assert pairs.sure and pairs.chance() == pytest.approx(0.00393, abs=5e-5)
    assert not groups.sure and groups.chance() > 0.05
    assert "higher in 5 of 5" in str(pairs) and "higher" not in str(groups)


def test_the_other_way_round_is_as_sure() -> None:
    one, two = cl.compare(BETTER, WORSE), cl.compare(WORSE, BETTER)
    assert one.by == -two.by and one.chance() == two.chance()
    assert one.way == 1 and two.way == -1


def test_four_runs_decide_nothing() -> None:
    assert not cl.compare([2.0, 2.1, 2.2, 2.3], [1.0, 1.1, 1.2, 1.31]).sure


def test_rows_of_a_history_are_taken() -> None:
    found = cl.compare(torch.tensor(BETTER), torch.tensor(WORSE))
    assert found.by == pytest.approx(0.024, abs=1e-6)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ([1.0, math.nan], [1.0, 2.0], "first has 1 of 2 numbers that are not finite"),
        ([1.0, 2.0], [math.inf, 2.0], "second has 1 of 2"),
        ([1.0], [1.0, 2.0], "first must have at least two numbers"),
        ([1.0, 2.0, 3.0], [1.0, 2.0], "got 3 and 2; paired=False"),
    ],
)
def test_what_cannot_be_compared_is_refused(first, second, words) -> None:
    with pytest.raises(ValueError, match=words):
        cl.compare(first, second)
    if "paired" in words:
        assert cl.compare(first, second, paired=False).runs == 2
