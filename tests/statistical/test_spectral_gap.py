"""Theorem 4.4.1 and corollary 4.4.2 in closed form: without a loss, overdamped Langevin dynamics on
a circle or a sphere of radius r in ℝᵈ is Brownian motion. The mean of a coordinate decays as
exp(−λt) with the spectral gap λ = (d − 1) τ/r², and T times the variance of its mean over a time T
tends to 2 Var/λ, where Var = r²/d."""

import math

import pytest
import torch

import colangevin as cl

LIMIT = 4.5
"""Standard errors: about one in 10^5."""
CASES = [(2, 1.0, 0.5), (2, 2.0, 0.5), (3, 1.0, 0.25), (3, 2.0, 1.0)]


def walk(dimension: int, radius: float, temperature: float, chains: int, turn: float) -> tuple:
    """Chains that start at the first axis; a step is ``turn``/λ long."""
    start = torch.zeros(chains, dimension, dtype=torch.float64)
    start[:, 0] = radius
    weights = torch.nn.Parameter(start)
    gap = (dimension - 1) * temperature / radius**2
    weights.grad = torch.zeros_like(weights)
    group = {"params": [weights], "constraint": cl.Sphere(radius, equality=True)}
    options = {"lr": turn / gap, "momentum": 0.0, "temperature": temperature}
    return cl.CoLA([group], **options, seed=5), weights


@pytest.mark.parametrize(("dimension", "radius", "temperature"), CASES)
def test_means_decay_at_the_rate_of_the_gap(
    dimension: int, radius: float, temperature: float
) -> None:
    turn = 0.01
    optimizer, weights = walk(dimension, radius, temperature, 10_000, turn)
    for step in range(1, 101):
        optimizer.step()
        if step in (50, 100):
            found = weights.detach()[:, 0] / radius
            error = LIMIT * float(found.std()) / math.sqrt(len(found))
            # The step's own error is of its order: 1 % of the exponent, twice.
            expected = math.exp(-turn * step)
            assert abs(float(found.mean()) - expected) < error + 2 * turn * turn * step * expected


@pytest.mark.parametrize(("dimension", "radius", "temperature"), CASES[::3])
def test_variance_of_time_averages(dimension: int, radius: float, temperature: float) -> None:
    turn, steps, chains = 0.05, 1_000, 2_000
    optimizer, weights = walk(dimension, radius, temperature, chains, turn)
    total = torch.zeros(chains, dtype=torch.float64)
    for step in range(steps + 100):
        optimizer.step()
        if step >= 100:
            total += weights.detach()[:, 0]
    time = turn * steps  # in units of 1/λ
    exact = 2 * radius**2 / dimension * (1 - (1 - math.exp(-time)) / time)
    scaled = float((total / steps).var()) * time
    # A variance of n numbers has the relative error √(2/n); the step's is of its order.
    assert abs(scaled / exact - 1) < LIMIT * math.sqrt(2 / chains) + turn
