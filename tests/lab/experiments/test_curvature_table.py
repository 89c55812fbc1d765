"""Verdicts on the paper's curvatures, from made-up runs."""

import math

import pytest
import torch

from colangevin.lab.experiments import curvature_table
from colangevin.lab.experiments.curvature_table import cells, runs_of, tail_index, total, typical
from colangevin.lab.experiments.records import Record

PAPER = {"a": (2.0, 1.0, 3.0), "b": (20.0, 10.0, 30.0)}


def record(job, *runs):
    """Runs are lists of curvatures at their points."""
    sums = [[len(r), sum(r), sum(v * v for v in r), max(r, default=0.0)] for r in runs]
    return Record("table", job, 0, {"label": job.upper()}, final={"curvature": sums})


def verdicts(*records):
    claims = curvature_table.claims({made.job: made for made in records}, PAPER)
    return {claim.text: claim.verdict for claim in claims}


def test_every_number_of_the_table_is_judged():
    found = verdicts(record("a", [1.0, 3.0]), record("b", [10.0, 30.0]))
    assert len(found) == 6
    assert set(found.values()) == {"reproduced"}


def test_numbers_that_are_far_away_can_keep_the_order():
    found = verdicts(record("a", [1.0, 3.0]), record("b", [100.0, 300.0]))
    assert found["mean curvature, A"] == "reproduced"
    assert found["mean curvature, B"] == "reproduced in ordering only"
    swapped = verdicts(record("a", [100.0, 300.0]), record("b", [1.0, 3.0]))
    assert set(swapped.values()) == {"not reproduced"}


def test_the_deviation_is_that_within_runs():
    """Two flat runs at different heights: no deviation within them, one over all points."""
    made = record("a", [1.0, 1.0], [3.0, 3.0])
    mean, over_all, within, largest = (float(text) for text in cells(made, PAPER["a"])[:4])
    assert (mean, over_all, within, largest) == (2.0, 1.0, 0.0, 3.0)
    assert total(runs_of(made)).points == 4


def test_the_reason_names_the_median():
    made = record("a", [4.0], [4.0], [100.0])
    (claim, *_) = curvature_table.claims({"a": made}, PAPER)
    assert claim.why == "the median of the runs is 4"
    assert typical(made) == 4.0


def test_the_least_curvature_is_judged_run_by_run():
    low, high = record("a", [1.0], [2.0], [3.1]), record("b", [2.0], [3.0], [4.2])
    claim = curvature_table.least(low, [high])
    assert claim.verdict == "reproduced"
    assert claim.why == "medians: A 2; B 3"
    wild = record("b", [2.0], [3.0], [1000.0])
    assert curvature_table.least(low, [wild]).verdict == "reproduced in ordering only"
    assert curvature_table.least(high, [low]).verdict == "not reproduced"


def test_a_largest_value_has_no_spread():
    made = record("a", [4.0], [4.0], [100.0])
    claim = curvature_table.claims({"a": made}, PAPER)[-1]
    assert "largest" in claim.text
    assert claim.why == "one point makes it; the median of the runs is 4"
    assert claim.ours == "100 (3 runs)"


@pytest.mark.parametrize("index", [0.5, 2.0])
def test_the_tail_index_is_that_of_a_power_law(index):
    uniform = torch.rand(20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = tail_index((uniform ** (-1 / index)).tolist())
    assert found == pytest.approx(index, abs=4 * index / math.sqrt(4_000))
    assert math.isnan(tail_index([1.0, 2.0]))


def test_runs_without_a_boundary_are_no_error():
    made = record("a", [], [])
    assert cells(made, PAPER["a"]) == ["–"] * 6 + ["2", "1", "3"]
    assert math.isnan(typical(made))
    assert curvature_table.claims({"a": made}, PAPER) == []
    assert verdicts(record("a", [], [1.0, 3.0]))["mean curvature, A"] == "reproduced"


@pytest.mark.parametrize("count", [1, 3])
def test_the_number_of_runs_is_named(count):
    (claim, *_) = curvature_table.claims({"a": record("a", *[[1.0, 3.0]] * count)}, PAPER)
    assert f"({count} run{'s' if count > 1 else ''})" in claim.ours
