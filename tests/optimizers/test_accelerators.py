"""Off a CPU: a step begins few operations, however many weights there are, and does not wait.

The weights are on torch's device "meta", which takes the paths of an accelerator and has no
numbers. The counter is that of benchmarks/accelerators.py.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.optimizers.saving.state_dict import _entries
from colangevin.optimizers.step.bucket import Bucket
from colangevin.optimizers.step.noise import Noise
from colangevin.random import normals, uniforms

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "accelerators.py"))
SIZES = [(6, 5)] * 2
NOISY = {"momentum": 0.9, "temperature": 1e-3, "seed": 0}


def asked(direction: str, geometry: str, sizes: list[tuple[int, int]], **options: Any) -> Any:
    return SCRIPT["asked_by"](direction, SCRIPT["GEOMETRIES"][geometry], sizes, **options)


@pytest.mark.parametrize("direction", SCRIPT["DIRECTIONS"])
@pytest.mark.parametrize("geometry", list(SCRIPT["GEOMETRIES"]))
def test_a_step_does_not_wait_for_the_device(geometry: str, direction: str) -> None:
    found = asked(direction, geometry, SIZES)
    # An orthogonal weight asks whether its projection converged, and whether it went far.
    allowed = {"orthogonal": 6 if direction == "polar" else 2}.get(geometry, 0)
    assert found.waits <= allowed
    assert found.operations > 0


@pytest.mark.parametrize("direction", SCRIPT["DIRECTIONS"])
@pytest.mark.parametrize("geometry", list(SCRIPT["GEOMETRIES"]))
def test_a_step_that_can_be_captured_never_waits(geometry: str, direction: str) -> None:
    if (geometry, direction) != ("orthogonal", "polar"):  # which is refused
        assert asked(direction, geometry, SIZES, capturable=True).waits == 0
    noisy = {} if direction != "gradient" else NOISY
    assert asked("gradient", geometry, SIZES, capturable=True, **noisy).waits == 0


@pytest.mark.parametrize("geometry", list(SCRIPT["GEOMETRIES"]))
def test_noise_does_not_wait_either(geometry: str) -> None:
    assert asked("gradient", geometry, SIZES, **NOISY).waits <= 2 * (geometry == "orthogonal")


@pytest.mark.parametrize(
    ("direction", "options"), [("gradient", {}), ("sign", {}), ("adam", {}), ("gradient", NOISY)]
)
@pytest.mark.parametrize("geometry", list(SCRIPT["GEOMETRIES"]))
def test_more_weights_are_no_more_operations(
    geometry: str, direction: str, options: dict[str, Any]
) -> None:
    one, more = (asked(direction, geometry, SIZES * k, **options) for k in (1, 8))
    assert more.operations <= one.operations
    assert more.waits == one.waits


def test_the_counter_notices_what_is_read_and_what_is_copied() -> None:
    with SCRIPT["Counter"]() as found:
        here = torch.empty(3, device="meta")
        assert (here.view(3, 1) + 1.0).sum().item() == 0.0
        torch.zeros(3).to("meta")
        here.to("cpu")
    assert found.waits == 3
    assert found.operations == 2  # a sum of two, and of all; a view is none


@pytest.mark.parametrize("make", [normals, uniforms])
def test_numbers_that_are_drawn_together_are_the_same(make: Any) -> None:
    weights = [nn.Parameter(torch.zeros(size)) for size in ((3, 4), (2, 2), (4, 3))]
    bucket = Bucket(cl.Unconstrained(), weights, ["a", "b", "c"], [4, 5, 6])
    drawn = Noise(bucket, [7], [1, 2, 3])
    drawn._make = make
    expected = drawn._several(2, [12, 4, 12], torch.empty(1))
    # On a CPU that is not called one.
    drawn._make = lambda keys, size, first, _: make(keys, size, first)
    like: Any = SimpleNamespace(device=SimpleNamespace(type="elsewhere"), dtype=torch.float32)
    found = drawn._several(2, [12, 4, 12], like)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_counts_that_a_load_put_elsewhere_come_back() -> None:
    weight = nn.Parameter(torch.ones(3))
    counts = {key: torch.zeros((), device="meta") for key in ("step", "direction_since")}
    loaded = {"state": {0: counts}, "param_groups": [{"params": [0]}]}
    with SCRIPT["Counter"]():  # which brings zeros from there
        (entry,) = _entries(loaded, [{"params": [weight]}]).values()
    assert all(count.is_cpu for count in entry.values())
