"""Where a step writes, and how much memory it takes for it."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from colangevin import Circle, CoLA, Orthogonal
from colangevin.lab.bench.timing import scratch_bytes
from colangevin.optimizers import fused
from registry import normals


def orthogonal(shapes: list[tuple[int, int]], **options: float) -> tuple[CoLA, list[nn.Parameter]]:
    weights = [nn.Parameter(torch.empty(shape).normal_()) for shape in shapes]
    optimizer = CoLA(weights, constraint=Orthogonal(), lr=0.01, **options)
    for weight in weights:
        weight.grad = 0.1 * normals(1)(weight)
    optimizer.step()
    return optimizer, weights


@pytest.mark.parametrize("shape", [(600, 20), (20, 600)], ids=["tall", "wide"])
def test_orthogonal_steps_are_made_in_the_memory_of_weight_and_momentum(shape) -> None:
    optimizer, (weight,) = orthogonal([shape], momentum=0.9)
    momentum = optimizer.state[weight]["momentum_buffer"]
    before, old = momentum.clone(), weight.detach().clone()
    places = weight.data_ptr(), momentum.data_ptr()
    optimizer.step()
    kept = optimizer.state[weight]["momentum_buffer"]
    assert places == (weight.data_ptr(), kept.data_ptr())
    assert not torch.equal(kept, before) and not torch.equal(weight, old)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"momentum": 0.9, "temperature": 1e-6}])
def test_orthogonal_steps_hold_one_matrix_more_at_a_time(options: dict[str, float]) -> None:
    shapes = [(600, 20), (20, 590), (580, 20)]
    optimizer, _ = orthogonal(shapes, **options)
    found = scratch_bytes(SimpleNamespace(taken=0, step=optimizer.step), torch.device("cpu"))
    if found is None:
        pytest.skip("torch's profiler does not tell")
    largest = 4 * 600 * 20
    assert found <= 1.5 * largest


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_noise_that_is_drawn_in_blocks_is_for_every_weight_its_own(
    momentum: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel on blocks with some noise is the kernel on the whole with the same noise."""
    size, found = 2_500, []
    slots = 1 if momentum else 2  # an overdamped step draws for the slack as well
    noise = normals(4)(torch.empty(slots, size))
    for block in (size, 1_000):
        monkeypatch.setattr(fused, "BLOCK", block)
        weight = nn.Parameter(torch.linspace(-0.4, 0.4, size))
        weight.grad = torch.zeros(size)
        optimizer = CoLA(
            [weight],
            constraint=Circle(0.5),
            lr=0.1,
            momentum=momentum,
            temperature=0.01,
            fused=True,
        )
        drawn = iter([row for part in noise.split(block, dim=1) for row in part])
        monkeypatch.setattr(
            optimizer._noise, "fill", lambda out, drawn=drawn: out.copy_(next(drawn))
        )
        optimizer.step()
        assert next(drawn, None) is None
        found.append(weight.detach())
    assert torch.equal(*found)
    assert (found[0] != torch.linspace(-0.4, 0.4, size)).all()
