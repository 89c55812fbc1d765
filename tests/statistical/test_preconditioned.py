"""Noise with Adam's second moments: frozen as masses they leave the law as it is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl

CHAINS, TEMPERATURE, STEPS = 4000, 0.5, 16
CURVATURES = torch.logspace(0.0, 2.0, 5)  # a condition of 100


def warmed_up() -> Tensor:
    """The root of Adam's second moments after some steps from a wide start."""
    weight = nn.Parameter(torch.randn(CHAINS, 5, generator=torch.Generator().manual_seed(0)))
    optimizer = cl.CoLA([weight], lr=1e-3, direction="adam")
    for _ in range(20):
        weight.grad = CURVATURES * weight.detach()
        optimizer.step()
    square: Tensor = optimizer.state[weight]["direction_square"]
    return square.mean(dim=0).sqrt() / (1.0 - 0.999**20) ** 0.5


def variances(lr: float, momentum: float, mass: Tensor | None) -> Tensor:
    """Of independent chains after some steps from 0, for the loss Σ a x²/2."""
    weight = nn.Parameter(torch.zeros(CHAINS, 5))
    optimizer = cl.CoLA(
        [weight],
        lr=lr,
        momentum=momentum,
        mass=mass,
        temperature=TEMPERATURE,
        scheme="BAOAB",
        seed=1,
    )
    for _ in range(STEPS):
        weight.grad = CURVATURES * weight.detach()
        optimizer.step()
    return weight.detach().double().square().mean(dim=0)


@pytest.mark.statistical
def test_masses_of_the_second_moments_sample_the_same_law_sooner() -> None:
    """BAOAB has no error of the step in the variances of a Gaussian."""
    exact = TEMPERATURE / CURVATURES.double()
    error = exact * (2.0 / CHAINS) ** 0.5
    found = variances(0.25, 0.6, warmed_up())
    assert bool(((found - exact).abs() < 4.0 * error).all())
    # Without masses the largest curvature sets the step, and slow directions lag behind.
    plain = variances(0.01, 0.9, None)
    assert float(plain[0]) < float(exact[0] - 4.0 * error[0])
