"""Where a step writes, and how much memory it takes for it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from colangevin import Circle, CoLA, Orthogonal
from colangevin.lab.bench.timing import scratch_bytes
from colangevin.native import load
from colangevin.optimizers.step import execute as step
from registry import normals

every_way = pytest.mark.parametrize("fused", [None, False], ids=["kernel", "formulas"])


def orthogonal(shapes: list[tuple[int, int]], **options: Any) -> tuple[CoLA, list[nn.Parameter]]:
    weights = [nn.Parameter(torch.empty(shape).normal_()) for shape in shapes]
    optimizer = CoLA(weights, constraint=Orthogonal(), lr=0.01, **options)
    for weight in weights:
        weight.grad = 0.1 * normals(1)(weight)
    optimizer.step()
    return optimizer, weights


@every_way
@pytest.mark.parametrize("shape", [(600, 20), (20, 600)], ids=["tall", "wide"])
def test_orthogonal_steps_are_made_in_the_memory_of_weight_and_momentum(shape, fused) -> None:
    optimizer, (weight,) = orthogonal([shape], momentum=0.9, fused=fused)
    momentum = optimizer.state[weight]["momentum_buffer"]
    before, old = momentum.clone(), weight.detach().clone()
    places = weight.data_ptr(), momentum.data_ptr()
    optimizer.step()
    kept = optimizer.state[weight]["momentum_buffer"]
    assert places == (weight.data_ptr(), kept.data_ptr())
    assert not torch.equal(kept, before) and not torch.equal(weight, old)


@every_way
@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"momentum": 0.9, "temperature": 1e-6}])
def test_orthogonal_steps_hold_what_they_write_over_and_one_matrix_more(
    options: dict[str, float], fused: bool | None
) -> None:
    """A step that fails puts weights and momenta back."""
    if "temperature" in options and load() is None:
        pytest.skip("without the C kernels the noise takes memory of its own")
    shapes = [(600, 20), (20, 590), (580, 20)]
    optimizer, weights = orthogonal(shapes, fused=fused, **options)
    kept = 4 * sum(weight.numel() for weight in weights) * (2 if options else 1)
    found = scratch_bytes(SimpleNamespace(taken=0, step=optimizer.step), torch.device("cpu"))
    if found is None:
        pytest.skip("torch's profiler does not tell")
    largest = 4 * 600 * 20
    assert found <= kept + 1.5 * largest


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_noise_that_is_drawn_in_blocks_is_that_of_the_whole(
    momentum: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the kernels; theirs is in tests/native, where a parameter is cut in two."""
    size, found = 2_500, []
    for block in (size, 1_000, 7):
        monkeypatch.setattr(step, "BLOCK", block)
        weight = nn.Parameter(torch.linspace(-0.4, 0.4, size))
        weight.grad = torch.zeros(size)
        optimizer = CoLA(
            [weight],
            constraint=Circle(0.5),
            lr=0.1,
            momentum=momentum,
            temperature=0.01,
            fused=False,
            seed=4,
        )
        for _ in range(2):
            optimizer.step()
        found.append(weight.detach())
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
    assert (found[0] != torch.linspace(-0.4, 0.4, size)).all()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_blocks_take_less_memory_than_the_weights(momentum: float) -> None:
    size = 20 * step.BLOCK
    weight = nn.Parameter(torch.linspace(-0.4, 0.4, size))
    options = {"lr": 0.1, "momentum": momentum, "temperature": 0.01, "fused": False}
    optimizer = CoLA([weight], constraint=Circle(0.5), **options)
    weight.grad = torch.zeros(size)
    optimizer.step()
    found = scratch_bytes(SimpleNamespace(taken=0, step=optimizer.step), torch.device("cpu"))
    if found is None:
        pytest.skip("torch's profiler does not tell")
    assert found <= 4 * size
