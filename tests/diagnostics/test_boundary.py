"""Curvature of boundaries and slopes of predictions, on classifiers that are known exactly."""

import numpy as np
import pytest
import torch
from torch import nn

from colangevin.diagnostics.boundary import (
    NONE,
    Curvature,
    boundary_curvature,
    curvature,
    section_gradients,
)


def disc(radius):
    return lambda points: (radius - points.norm(dim=1)) * 20


def same(one, other):
    pairs = zip(one, other, strict=True)
    return all(torch.allclose(torch.as_tensor(a), torch.as_tensor(b), atol=1e-6) for a, b in pairs)


@pytest.mark.parametrize("radius", [0.25, 0.5, 1.0])
def test_the_curvature_of_a_circle(radius):
    """The points of a contour do not lie evenly, so the estimate is a little high, never low."""
    found = boundary_curvature(disc(radius), grid=400)
    assert 1.0 <= found.mean * radius < 1.3
    assert found.points > 400 * radius


def test_a_straight_boundary_has_none():
    found = boundary_curvature(lambda points: points[:, 0] - 0.3 * points[:, 1], grid=101)
    assert found.points > 100
    assert found.mean < 1e-2


def test_no_boundary_at_all():
    found = boundary_curvature(lambda points: points[:, 0] + 100, grid=50)
    assert found == NONE and np.isnan(found.mean) and np.isnan(found.deviation)


def test_sums_of_boundaries_are_those_of_all_points():
    lines = [np.random.default_rng(seed).normal(size=(30, 2)).cumsum(axis=0) for seed in range(3)]
    values = [curvature(line) for line in lines]
    total = NONE
    for v in values:
        total = total + Curvature(len(v), float(v.sum()), float((v**2).sum()), float(v.max()))
    everything = np.concatenate(values)
    assert total.mean == pytest.approx(everything.mean())
    assert total.deviation == pytest.approx(everything.std())
    assert total.largest == everything.max()


def test_the_formula_is_that_of_an_ellipse():
    """κ = ab / (a² sin² + b² cos²)^{3/2} at the angle t of (a cos t, b sin t)."""
    t = np.linspace(0, 2 * np.pi, 2001)
    line = np.stack([2 * np.cos(t), np.sin(t)], axis=1)
    exact = 2 / (4 * np.sin(t) ** 2 + np.cos(t) ** 2) ** 1.5
    assert np.allclose(curvature(line)[5:-5], exact[5:-5], rtol=1e-3)


def test_points_that_coincide_are_left_out():
    line = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [2.0, 1.0]])
    assert np.isfinite(curvature(line)).all()
    assert len(curvature(line)) < len(line)
    assert len(curvature(line[:2])) == 0


def test_slopes_of_predictions():
    """p = σ(8x): |∂p/∂x| = 8 p (1 − p) along y = 0, and nothing along x = 0."""
    along_x, along_y = section_gradients(lambda points: 8 * points[:, 0], extent=1.0, grid=2001)
    x = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    p = torch.sigmoid(8 * x)
    assert torch.allclose(along_x, 8 * p * (1 - p), atol=1e-3)
    assert along_y.max() == 0


def test_close_points_at_an_end_have_a_curvature_without_bound():
    """Why the mean of (4.60) over a contour's points does not exist: it grows as distance⁻²."""

    def at_the_end(distance):
        angles = np.concatenate([[0.0, distance], 0.01 * np.arange(1, 20)])
        return curvature(np.stack([np.cos(angles), np.sin(angles)], axis=1))[0]

    found = [at_the_end(distance) for distance in (1e-4, 1e-5, 1e-6)]
    assert found[0] > 100  # on a circle of curvature 1
    assert found[1] / found[0] == pytest.approx(100, rel=0.05)
    assert found[2] / found[1] == pytest.approx(100, rel=0.01)


@pytest.mark.parametrize("measure", [boundary_curvature, section_gradients])
def test_a_network_with_batchnorm_is_in_evaluation_mode_and_stays_as_it_was(measure):
    model = nn.Sequential(nn.BatchNorm1d(2, affine=False), nn.Linear(2, 1)).train()
    model[0].running_mean.copy_(torch.tensor([0.5, 0.0]))
    model[1].weight.data.copy_(torch.tensor([[8.0, 2.0]]))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = measure(model, grid=50)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(module.training for module in model.modules())
    assert same(found, measure(model.eval(), grid=50))


@pytest.mark.parametrize("measure", [boundary_curvature, section_gradients])
def test_two_classes_have_one_logit_or_two(measure):
    one = measure(lambda points: 8 * points[:, :1], grid=50)
    two = measure(lambda points: torch.stack([-3 * points[:, 0], 5 * points[:, 0]], 1), grid=50)
    assert same(one, two)


@pytest.mark.parametrize("measure", [boundary_curvature, section_gradients])
def test_classifiers_that_have_no_boundary_here_are_refused(measure):
    with pytest.raises(ValueError, match="two classes here, got 3"):
        measure(lambda points: points[:, [0, 1, 0]], grid=10)
    with pytest.raises(ValueError, match="finite logits"):
        measure(lambda points: points[:, 0] / 0, grid=11)


@pytest.mark.parametrize("measure", [boundary_curvature, section_gradients])
def test_grids_and_extents_out_of_range_are_refused(measure):
    with pytest.raises(ValueError, match="grid must be at least"):
        measure(lambda points: points[:, 0], grid=1)
    with pytest.raises(ValueError, match="extent"):
        measure(lambda points: points[:, 0], extent=-1.0)
