"""FSDP2: a network with every geometry follows the same path on any number of processes."""

from __future__ import annotations

from typing import Any

import pytest
import shard_cases
import torch
from torch import Tensor
from world import World

import colangevin as cl

SETTINGS: dict[str, dict[str, Any]] = {
    "momentum, cold": {"temperature": 0.0},
    "momentum, hot": {},
    "overdamped, hot": {"momentum": 0.0},
    "BAOAB, hot": {"scheme": "BAOAB", "weight_decay": 0.01},
    "sign": {"momentum": 0.0, "temperature": 0.0, "direction": "sign"},
    "adam": {"momentum": 0.0, "temperature": 0.0, "direction": cl.Adam(eps=1e-3)},
    "adam, relative, and polar": {
        "momentum": 0.0,
        "temperature": 0.0,
        "direction": cl.Adam(eps=1e-3, relative=True),
        "matrices": cl.Polar(),
    },
    "gradient, relative, and adam, tangent": {
        "momentum": 0.0,
        "temperature": 0.0,
        "direction": cl.Gradient(relative=True),
        "matrices": cl.Adam(eps=1e-3, relative=True, tangent=True),
    },
}
CLOSE = {torch.float32: 1e-5, torch.float64: 1e-10}
AMPLIFIED = 100.0
"""How much farther apart paths along the polar direction may be: each Newton–Schulz step enlarges
the rounding in small singular values up to 3.4-fold. In float64 they are still within 1e-8."""


def distance(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference of a weight, relative to the largest weight of its parameter."""
    assert one.keys() == other.keys()
    return max(float((one[k] - other[k]).abs().max() / other[k].abs().max()) for k in one)


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    found: torch.dtype = request.param
    return found


def alone(dtype: torch.dtype, options: dict[str, Any], steps: int = 100) -> dict[str, Tensor]:
    model = shard_cases.network(dtype)
    shard_cases.train(model, shard_cases.optimizer_of(model, **options), steps)
    return shard_cases.whole(model)


def test_the_path_does_not_depend_on_the_number_of_processes(
    one: World, two: World, three: World, dtype: torch.dtype
) -> None:
    for name, options in SETTINGS.items():
        expected = alone(dtype, options)
        start = shard_cases.whole(shard_cases.network(dtype))
        assert distance(start, expected) > 0.01  # they have moved
        close = CLOSE[dtype] * (AMPLIFIED if "matrices" in options else 1.0)
        for world in (one, two, three):
            found = world.run(shard_cases.trajectory, dtype, options)
            for weights, violations in found:
                assert distance(weights, expected) < close, (name, world.size)
                assert max(violation[0] for violation in violations) < 1e-6
                assert max(violation[1] for violation in violations) < 1e-6


def test_every_way_to_work_occurs(two: World, three: World) -> None:
    for world in (two, three):
        ways = [found["ways"] for found in world.run(shard_cases.ways)]
        assert all(way == ways[0] for way in ways)
        assert ways[0] == {
            "tall.weight": "sums",
            "square.weight": "sums",
            "wide.weight": "moved, sums",
            "kernels.weight": "moved, sums",
            "stack": "copies",
            "circle.weight": "copies",
            "radii.weight": "copies",
            "sphere.weight": "copies",
            "unit.weight": "copies",
            "columns.weight": "sums",
            "gain": "sums",
            "norm": "sums",
            "norms": "copies",
            "radii.bias": "copies",
            "sphere.bias": "copies",
            "mixing": "copies",
            "mixed": "moved, copies",
            "gains": "copies",
            "general.weight": "whole",
            "above.weight": "whole",
            "one.weight": "whole",
            "other.weight": "whole",
            "tall.bias": "copies",
            "circle.bias": "copies",
        }
    sizes = [found["sizes"] for found in three.run(shard_cases.ways)]
    assert [size["other.weight"] for size in sizes] == [2, 0, 0]  # on two ranks there is nothing
    assert [size["unit.weight"] for size in sizes] == [10, 10, 0]
    assert [size["tall.weight"] for size in sizes] == [15, 15, 5]
