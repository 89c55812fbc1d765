"""Scores against their definitions, R-hat and effective sample sizes against ArviZ's numbers."""

import math

import pytest
import torch

from colangevin.sampling import autocorrelation, autocorrelation_time, ess, mcse, rhat
from colangevin.sampling.scores import (
    auroc,
    brier,
    categorical_nll,
    crps,
    ece,
    fpr95,
    gaussian_nll,
    reliability,
    rmse,
)


def probabilities(points: int = 400) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(points, 3, generator=generator, dtype=torch.float64)
    return logits.softmax(dim=1), torch.randint(3, (points,), generator=generator)


def test_scores_are_their_definitions() -> None:
    p, y = probabilities()
    rows = range(len(y))
    assert categorical_nll(p, y) == pytest.approx(-sum(math.log(p[i, y[i]]) for i in rows) / len(y))
    total = sum(float(p[i, k] - (y[i] == k).double()) ** 2 for i in rows for k in range(3))
    assert brier(p, y) == pytest.approx(total / len(y))
    samples, targets = torch.randn(40, 7).double(), torch.randn(7).double()
    near = (samples - targets).abs().mean()
    spread = (samples[:, None] - samples[None]).abs().mean()
    assert crps(samples, targets) == pytest.approx(float(near - spread / 2))
    means, widths = torch.randn(5, 7).double(), torch.rand(5, 7).double() + 0.1
    density = torch.distributions.Normal(means, widths).log_prob(targets).exp().mean(dim=0)
    assert gaussian_nll(means, widths, targets) == pytest.approx(float(-density.log().mean()))
    assert rmse(targets, targets + 2) == pytest.approx(2.0)


def test_calibration_error_by_hand() -> None:
    p, y = probabilities()
    confidence, predicted = p.max(dim=1)
    total = 0.0
    for k in range(10):
        inside = (confidence > k / 10) & (confidence <= (k + 1) / 10)
        if inside.any():
            gap = (predicted == y)[inside].double().mean() - confidence[inside].mean()
            total += float(gap.abs()) * int(inside.sum()) / len(y)
    assert ece(p, y, bins=10) == pytest.approx(total)
    assert reliability(p, y).points.sum() == len(y)


def test_telling_unknown_from_known() -> None:
    known, unknown = torch.randn(60).double(), torch.randn(80).double() + 1
    pairs = (unknown[:, None] > known[None]).double() + (unknown[:, None] == known[None]) / 2
    assert auroc(known, unknown) == pytest.approx(float(pairs.mean()))
    threshold = unknown.sort().values[4]  # 76 of 80 lie at or above it
    assert fpr95(known, unknown) == pytest.approx(float((known >= threshold).double().mean()))


def autoregressive(rho: float, chains: int = 4, draws: int = 2000) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(chains, draws, generator=generator, dtype=torch.float64)
    values = [noise[:, 0]]
    for t in range(1, draws):
        values.append(rho * values[-1] + (1 - rho**2) ** 0.5 * noise[:, t])
    return torch.stack(values, dim=1)


def test_autocorrelation_times_of_a_known_process() -> None:
    """T = (1 + ρ)/(1 − ρ) (1.67)."""
    samples = autoregressive(0.8)
    assert float(autocorrelation_time(samples)) == pytest.approx(9.0, rel=0.2)
    assert float(ess(samples, ranked=False)) == pytest.approx(8000 / 9, rel=0.2)
    assert autocorrelation(samples, 4).mean(dim=0) == pytest.approx([1, 0.8, 0.64, 0.512], abs=0.05)
    error = float(mcse(samples))
    assert error == pytest.approx((9 / 8000) ** 0.5, rel=0.2)


def test_convergence_agrees_with_arviz() -> None:
    az = pytest.importorskip("arviz")
    if int(az.__version__.split(".")[0]) >= 1:
        pytest.skip("the comparison is with ArviZ before 1")
    samples = autoregressive(0.6, draws=501)
    shifted = samples + torch.tensor([0.0, 0.0, 0.3, 0.0]).view(4, 1)
    for values in (samples, shifted, samples.round()):
        array = values.numpy()
        assert float(rhat(values)) == pytest.approx(float(az.rhat(array)), rel=1e-6)
        assert float(ess(values)) == pytest.approx(float(az.ess(array)), rel=0.02)
    wide = torch.stack([samples, shifted], dim=2)
    assert rhat(wide).tolist() == pytest.approx([float(rhat(samples)), float(rhat(shifted))])
