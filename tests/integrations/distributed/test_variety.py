"""Sharded weights in less usual surroundings: the same path as without shards."""

from __future__ import annotations

import math

import pytest
import variety_cases as cases
from world import World


@pytest.mark.parametrize("name", list(cases.CASES))
def test_the_path_is_that_without_shards(two: World, three: World, name: str) -> None:
    for world in (two, three) if name in ("rows", "large steps", "other rules") else (two,):
        found = world.run(cases.case, name)
        close = 1e-9 if name == "large steps" else 1e-10  # which enlarge rounding
        assert max(found) < close, (world.size, found)
        assert not any(map(math.isnan, found))


def test_a_sphere_whose_rows_are_cut_sends_little(two: World) -> None:
    """3 rows: one number each for a projection, three for a drift."""
    for found in two.run(cases.messages):
        for equality in (True, False):
            assert found[f"overdamped {equality}"] == [3]
            assert found[f"OBA {equality}"] == [3, 9]
            assert found[f"BAOAB {equality}"] == [3, 9, 3, 9]


def test_half_precision(two: World) -> None:
    for found in two.run(cases.half_precision):
        assert found["mixed"] < 2e-3  # gradients are rounded to 8 bits
        assert found["bfloat16"] == 0.0


MESSAGES = {
    "sum": "TypeError: parameter 0 of shape (3, 2) has the placements (Partial(sum),)",
    "flat Sphere": "FullyShardedDataParallel, which has lost its shape, so Sphere cannot hold",
    "flat Circle": None,
    "shape": "ConstraintError",
    "zeros": "without full rank",
    "chains": "ValueError: independent_chains=True, but the weights are sharded over all",
    "settings": "ValueError: ranks 0 and 1 have different settings: in group 0 lr is 0.2 and 0.1",
    "nan": "ConvergenceError",
}


def test_mistakes_are_told_on_every_rank(two: World) -> None:
    ones, others = two.run(cases.mistakes)
    assert ones == others
    assert ones.keys() == MESSAGES.keys()
    for name, message in MESSAGES.items():
        found = ones[name]
        assert found is None if message is None else message in str(found), (name, found)


def test_replicas_of_shards(two: World) -> None:
    ones, others = two.run(cases.replicas)
    assert ones["chains"] != others["chains"]
    assert ones["tampered"] == others["tampered"]
    assert "tall.bias (rank 1 from rank 0)" in ones["tampered"]


def test_strict_stops_all_processes_together(two: World) -> None:
    """One raised, and the others waited for it in the next sum over processes."""
    (one, kept), (other, same) = two.run(cases.strict_gradients)
    assert kept and same
    assert "a parameter in another process has a gradient that is not finite" in str(one)
    assert "circle.weight has a gradient that is not finite" in str(other)
