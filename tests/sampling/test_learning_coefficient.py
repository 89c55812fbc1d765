"""Local learning coefficients against exact values at finite n, and against the limits."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from colangevin.sampling import learning_coefficient
from posteriors import line, line_loss, linear, point

pytestmark = pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")
POINTS, PULL = 10_000, 1.0
SCALE = POINTS / math.log(POINTS)


def within(found, exact: float, *wrong: float) -> None:
    assert abs(found.value - exact) <= 4 * found.error, (found.value, found.error, exact)
    for value in wrong:
        assert abs(found.value - value) > 6 * found.error, (found.value, found.error, value)


def test_a_regular_minimum_has_half_its_dimension() -> None:
    """nβ E|w|²/2 = d/2 · nβ/(nβ + γ): the localisation takes 1 % away at n = 1,000."""
    found = learning_coefficient(
        point(0.0, 0.0, 0.0), lambda own: own["q"].square().sum() / 2, points=1000,
        chains=200, draws=40, thin=5, warmup=200, seed=1,
    )  # fmt: skip
    scale = 1000 / math.log(1000)
    within(found, 1.5 * scale / (scale + 1.0), 1.0)


def crossing(scale: float, power: int) -> float:
    """nβ E[x² y^p] for the density exp(−nβ x² y^p − γ/2 (x² + y²)); x is Gaussian given y."""
    y = np.logspace(-12, 1, 200_001)
    steep = scale * y**power + PULL / 2
    weight = y * np.exp(-PULL * y**2 / 2) / np.sqrt(steep)  # on a logarithmic grid
    return float((scale * y**power / (2 * steep) * weight).sum() / weight.sum())


@pytest.mark.statistical
@pytest.mark.parametrize("power", [2, 4])
def test_a_normal_crossing_has_less_than_its_dimension(power: int) -> None:
    """x² y²: λ = ½ of multiplicity 2, which is reached as 1/log n only; x² y⁴: λ = ¼."""
    exact = crossing(SCALE, power)
    limit = {2: 0.5, 4: 0.25}[power]
    assert abs(crossing(1e14, power) - limit) < 0.05
    found = learning_coefficient(
        point(0.0, 0.0),
        lambda own: own["q"][0] ** 2 * own["q"][1] ** power,
        points=POINTS,
        localisation=PULL,
        chains=200,
        draws=60,
        thin=30,
        warmup=400,
        tolerance=0.01,
        adjust=True,
        seed=2,
    )
    within(found, exact, 1.0)


def test_a_model_on_data_and_bad_input() -> None:
    inputs, targets = line()
    model = linear()
    design = torch.cat([inputs, torch.ones(len(inputs), 1, dtype=torch.float64)], dim=1)
    best = torch.linalg.lstsq(design, targets).solution[:, 0]
    with torch.no_grad():
        model.weight.copy_(best[:2].unsqueeze(0))
        model.bias.copy_(best[2:])
    found = learning_coefficient(
        model, line_loss, (inputs, targets), chains=100, draws=40, thin=5, warmup=200
    )
    scale = 30 / math.log(30)
    hessian = design.T @ design / 0.25 / 30
    exact = float(torch.trace(torch.linalg.inv(hessian + torch.eye(3) / scale) @ hessian) / 2)
    within(found, exact, 0.5)
    assert torch.equal(model.bias.detach(), best[2:])
    with pytest.raises(ValueError, match="points must be given"):
        learning_coefficient(nn.Linear(1, 1), lambda own: own["bias"].sum())
    with pytest.raises(TypeError, match="temperature"):
        learning_coefficient(model, line_loss, (inputs, targets), temperature=1.0)
