"""Kinetic temperatures of the parts of a real network (3.38)."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

import colangevin as cl

H = 0.02


def two_moons() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    angle = torch.rand(200, generator=generator) * torch.pi
    label = torch.arange(200) % 2
    x = torch.where(label == 0, angle.cos(), 1 - angle.cos())
    y = torch.where(label == 0, angle.sin(), 0.5 - angle.sin())
    inputs = torch.stack([x, y], dim=1)
    return inputs + 0.1 * torch.randn(200, 2, generator=generator), label.float()


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 60), nn.Tanh(), nn.Linear(60, 30), nn.Tanh(), nn.Linear(30, 1))


def mean_temperatures(
    model: nn.Module, optimizer: cl.CoLA, batch: int, steps: tuple[int, int] = (500, 2500)
) -> list[float]:
    inputs, labels = two_moons()
    generator = torch.Generator().manual_seed(1)
    sums = [0.0] * len(optimizer.param_groups)
    for step in range(sum(steps)):
        chosen = torch.randperm(200, generator=generator)[:batch]
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs[chosen]).squeeze(1), labels[chosen])
        penalty = sum(p.square().sum() for p in model.parameters())
        (loss + 5e-3 * penalty).backward()
        optimizer.step()
        if step >= steps[0]:
            for i, value in enumerate(cl.kinetic_temperature(optimizer)):
                sums[i] += (value or 0.0) / steps[1]
    return sums


@pytest.mark.statistical
def test_langevin_in_layers_keeps_each_layer_at_its_temperature() -> None:
    model = network()
    parts = cl.partition(model, by="layer")
    wanted = {"0": 1e-3, "2": 5e-3, "4": 2e-4}
    optimizer = cl.LangevinInLayers(parts, 5 * H, friction=1.0, temperature=wanted)
    measured = mean_temperatures(model, optimizer, batch=200)
    for value, temperature in zip(measured, wanted.values(), strict=True):
        assert value == pytest.approx(temperature, rel=0.05)


@pytest.mark.statistical
def test_adlala_keeps_its_parts_at_their_temperatures_with_mini_batches() -> None:
    """The adaptive part takes out the heat of batches of 10 %."""
    model = network()
    parts = cl.partition(model, by="output")
    optimizer = cl.AdLaLa(
        parts,
        5 * H,
        coupling=0.2,
        driving_noise=0.02,
        temperature=1e-3,
        friction=5.0,
        langevin_temperature=5e-3,
    )
    hidden, output = mean_temperatures(model, optimizer, batch=20)
    assert hidden == pytest.approx(1e-3, rel=0.05)
    # The Langevin part has no such means: its friction must be high beside the heat.
    assert output == pytest.approx(5e-3, rel=0.15)
    friction = cl.friction_variable(optimizer)[0]
    assert friction is not None and friction > 0.02**2 / (2 * 1e-3)
