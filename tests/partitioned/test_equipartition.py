"""Kinetic temperatures of the parts of a real network (3.38)."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

import colangevin as cl

H = 0.1


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
    return nn.Sequential(
        nn.Linear(2, 60), nn.Tanh(), nn.Linear(60, 30), nn.Tanh(), nn.Linear(30, 1)
    )


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
    wanted = {"0": 1e-3, "2": 2e-3, "4": 5e-4}
    optimizer = cl.LangevinInLayers(parts, H, friction=5.0, temperature=wanted)
    measured = mean_temperatures(model, optimizer, batch=200)
    for value, temperature in zip(measured, wanted.values(), strict=True):
        assert value == pytest.approx(temperature, rel=0.05)


@pytest.mark.statistical
def test_heat_flows_from_a_hot_layer_to_a_cold_one_at_low_friction() -> None:
    """The loss couples the layers, so a weak thermostat cannot hold 1/25 of its neighbour."""
    model = network()
    parts = cl.partition(model, by="layer")
    temperature = {"0": 1e-3, "2": 5e-3, "4": 2e-4}
    optimizer = cl.LangevinInLayers(parts, H, friction=1.0, temperature=temperature)
    assert mean_temperatures(model, optimizer, batch=200)[2] > 1.1 * temperature["4"]


@pytest.mark.statistical
def test_adlala_keeps_its_parts_at_their_temperatures_with_mini_batches() -> None:
    """The adaptive part takes out the heat of batches of 5 points."""
    model = network()
    optimizer = cl.AdLaLa(
        cl.partition(model, by="output"),
        H,
        coupling=1.0,
        driving_noise=0.005,
        temperature=1e-4,
        friction=20.0,
        langevin_temperature=2e-3,
    )
    hidden, output = mean_temperatures(model, optimizer, batch=5)
    assert hidden == pytest.approx(1e-4, rel=0.05)
    # The Langevin part has no such means: its friction must be high beside the heat.
    assert output == pytest.approx(2e-3, rel=0.1)
