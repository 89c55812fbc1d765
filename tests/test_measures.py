"""The inside of the library stays as simple as ``scripts/measures.py`` has counted it.

A limit is the count of today with a little slack: what raises it has to be worth it.
"""

from __future__ import annotations

import gc
import importlib.util
import random
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.native import load


def script() -> ModuleType:
    path = Path(__file__).parents[1] / "scripts" / "measures.py"
    spec = importlib.util.spec_from_file_location("measures", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


measures = script()
LIMITS = {
    "circle, eager, τ = 0": 12,
    "circle, eager, τ = 0, lr changed": 12,
    "circle, kernel, τ > 0": 8,
    "circle, kernel, τ > 0, lr changed": 8,
    "orthogonal, eager": 15,
    "orthogonal, eager, lr changed": 15,
    "`Ensemble.step`": 20,
    "`Ensemble.fit` of one step": 58,
}


@pytest.mark.skipif(load() is None, reason="the calls are those of the C kernels")
def test_calls_before_the_first_formula() -> None:
    found = measures.calls()
    assert found.keys() == LIMITS.keys()
    assert {name: count for name, count in found.items() if count > LIMITS[name]} == {}
    assert min(found.values()) > 5  # else the trace has seen nothing


@pytest.mark.skipif(load() is None, reason="one of the routes is that of the C kernels")
def test_routes() -> None:
    assert measures.routes() == {"kernel", "formulas", "adaptive group"}


DIRECTIONS = ("Direction", "Gradient", "Sign", "Adam", "Polar")
GEOMETRIES = ("Box", "NonNegative", "Simplex", "Spectral", "DiagonalGram")
"""Directions and geometries; the limit is that of all else."""


def test_classes() -> None:
    found = measures.classes(measures.files(*measures.CORE))
    named = {*DIRECTIONS, *GEOMETRIES}
    assert named <= {*found}
    assert len(found) <= 62 + len(named)


def test_weight_decay_is_written_once() -> None:
    assert measures.decay_places() == ["recipe.direction"]


def test_imports_inside_optimizers() -> None:
    chain, cycles = measures.levels(measures.imports("optimizers"))
    assert len(chain) <= 6, chain
    assert cycles == 0


def test_cycles_are_found() -> None:
    assert measures.levels({"a": {"b"}, "b": {"c"}, "c": {"a"}})[1] > 0
    assert measures.levels({"a": {"b"}, "b": {"c"}, "c": set()}) == (["a", "b", "c"], 0)


def test_the_page_has_the_table() -> None:
    page = measures.PAGE.read_text(encoding="utf-8")
    shown = page.split(measures.START)[1].split(measures.END)[0]
    assert all(name in shown for name in LIMITS)


# --- caches -----------------------------------------------------------------------------------


def live_objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def test_an_optimizer_keeps_nothing_of_what_has_changed() -> None:
    """Batches and kernels are found by identity: those of old groups and constraints must go."""
    torch.manual_seed(0)
    chance, counts = random.Random(0), []
    weights = [nn.Parameter(0.1 * torch.randn(6, 4)) for _ in range(6)]
    optimizer = cl.CoLA(weights[:3], lr=1e-3, momentum=0.9, constraint=cl.Circle(0.5))
    for step in range(1, 201):
        del optimizer.param_groups[1:]
        for weight in weights[3:]:
            optimizer.state.pop(weight, None)
        own = cl.Sphere(0.5) if step % 2 else cl.Orthogonal(scale=0.5)
        optimizer.add_param_group({"params": weights[3:], "constraint": own})
        optimizer.param_groups[0]["constraint"] = cl.Circle(0.5 + 1e-3 * step)
        optimizer.param_groups[0]["lr"] = 1e-3 / step
        for weight in weights:
            weight.grad = 0.01 * torch.randn(6, 4) if chance.random() < 0.7 else None
        optimizer.step()
        if step in (100, 200):
            counts.append(live_objects())
    assert counts[1] - counts[0] < 150


def test_an_ensemble_keeps_few_losses() -> None:
    """The functions of losses are found by identity, and the oldest goes."""
    ensemble = cl.Ensemble(
        lambda: nn.Linear(3, 2), [1, 2], {"weight": cl.Circle(0.5)}, lr=0.01, compile=False
    )
    counts = []
    for step in range(1, 201):

        def loss(outputs: Tensor, targets: Tensor, weight: float = 1.0 + step) -> Tensor:
            return weight * (outputs - targets).square().mean()

        size = 1 + step % 20
        ensemble.step(loss, torch.ones(2, size, 3), torch.ones(2, size, 2))
        if step in (100, 200):
            counts.append(live_objects())
    assert counts[1] - counts[0] < 150
