"""Verdicts on the paper's curvatures, from made-up runs."""

import math

import pytest
import torch

from colangevin.lab.experiments.spirals import curvature_table
from colangevin.lab.experiments.spirals.curvature_table import (
    cells,
    runs_of,
    tail_index,
    total,
    typical,
)
from colangevin.lab.runner.records import Record

PAPER = {"a": (2.0, 1.0, 3.0), "b": (20.0, 10.0, 30.0)}


def record(job, *runs):
    """Runs are lists of curvatures at their points."""
    sums = [[len(r), sum(r), sum(v * v for v in r), max(r, default=0.0)] for r in runs]
    return Record("table", job, 0, {"label": job.upper()}, final={"curvature": sums})


def test_all_numbers_are_one_claim_that_no_run_can_decide():
    made = {job: record(job, [1.0, 3.0], [5.0]) for job in PAPER}
    claim = curvature_table.numbers(made, PAPER)
    assert claim.number.verdict == "not comparable" and claim.order is None
    assert (claim.source, claim.ours) == ("2, 20", "3, 3")


def test_the_deviation_is_that_within_runs():
    """Two flat runs at different heights: no deviation within them, one over all points."""
    made = record("a", [1.0, 1.0], [3.0, 3.0])
    mean, over_all, within, largest = (float(text) for text in cells(made, PAPER["a"])[2:6])
    assert (mean, over_all, within, largest) == (2.0, 1.0, 0.0, 3.0)
    assert total(runs_of(made)).points == 4


def test_medians_and_quartiles_come_first():
    made = record("a", [4.0], [5.0], [6.0], [7.0], [100.0])
    assert cells(made, PAPER["a"])[:2] == ["6", "5 to 7"]
    assert typical(made) == 6.0


def test_the_least_curvature_is_judged_run_by_run_by_a_sign_test():
    """One wild point makes a mean, but not a test of signs."""
    low = record("a", *[[1.0 + n] for n in range(6)])
    high = record("b", *[[2.0 + n] for n in range(5)], [1000.0])
    claim = curvature_table.less(low, [high])
    assert str(claim.order) == "yes (sign test, n = 6, p = 0.031)"
    assert claim.ours == "medians: A 3.5; B 4.5"
    assert curvature_table.less(high, [low]).order.verdict == "no"
    few = [record(job, *[[v + n] for n in range(5)]) for job, v in (("a", 1.0), ("b", 2.0))]
    assert curvature_table.less(few[0], few[1:]).order.verdict == "undecided"


@pytest.mark.parametrize("index", [0.5, 2.0])
def test_the_tail_index_is_that_of_a_power_law(index):
    uniform = torch.rand(20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = tail_index((uniform ** (-1 / index)).tolist())
    assert found == pytest.approx(index, abs=4 * index / math.sqrt(4_000))
    assert math.isnan(tail_index([1.0, 2.0]))


def test_runs_without_a_boundary_are_no_error():
    made = record("a", [], [])
    assert cells(made, PAPER["a"]) == ["–"] * 7 + ["2", "1", "3"]
    assert math.isnan(typical(made))
