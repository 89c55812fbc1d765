import math

import pytest
import torch

from colangevin.lab.data import FOUR_TURNS, TWO_TURNS, Spiral, Trigonometric


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def distance_from_own_arm(spiral: Spiral, points: int = 400) -> torch.Tensor:
    """Distance of each point from where its radius puts it on the arm of its class, noise-free."""
    clean = Spiral(spiral.turns, spiral.scale, spiral.power, noise=0.0)
    inputs, labels = clean.sample(points, generator=seeded(), dtype=torch.float64)
    radius = inputs.norm(dim=1)
    angle = 2 * math.pi * spiral.turns * radius / spiral.scale + math.pi * labels
    arm = radius.unsqueeze(1) * torch.stack([angle.cos(), angle.sin()], dim=1)
    return (inputs - arm).norm(dim=1)


@pytest.mark.parametrize("spiral", [TWO_TURNS, FOUR_TURNS, Spiral(turns=3.0, power=1.0)])
def test_without_noise_every_point_is_on_the_arm_of_its_class(spiral):
    assert distance_from_own_arm(spiral).max() < 1e-12


def test_two_turns_is_equation_4_59():
    generator = seeded(3)
    inputs, labels = TWO_TURNS.sample(50, generator=seeded(3), dtype=torch.float64)
    t = torch.rand(50, generator=generator, dtype=torch.float64)
    noise = 0.05 * torch.randn(50, 2, generator=generator, dtype=torch.float64)
    argument = 4 * t.sqrt() * math.pi + math.pi * labels
    expected = torch.stack([t.sqrt() * argument.cos(), t.sqrt() * argument.sin()], dim=1) + noise
    torch.testing.assert_close(inputs, expected, rtol=0.0, atol=1e-14)


def test_four_turns_is_equation_4_58():
    generator = seeded(4)
    inputs, labels = FOUR_TURNS.sample(50, generator=seeded(4), dtype=torch.float64)
    t = torch.rand(50, generator=generator, dtype=torch.float64)
    noise = 0.02 * torch.randn(50, 2, generator=generator, dtype=torch.float64)
    argument = 8 * t.sqrt() * math.pi + math.pi * labels
    arms = torch.stack([2 * t.sqrt() * argument.cos(), 2 * t.sqrt() * argument.sin()], dim=1)
    torch.testing.assert_close(inputs, arms + noise, rtol=0.0, atol=1e-14)


def test_noise_has_the_standard_deviation_asked_for():
    clean, _ = Spiral(noise=0.0).sample(20_000, generator=seeded())
    noisy, _ = Spiral(noise=0.3).sample(20_000, generator=seeded())
    assert (noisy - clean).std().item() == pytest.approx(0.3, rel=0.02)


def test_trigonometric_points_lie_on_cosine_and_sine():
    inputs, labels = Trigonometric(scale=3.0, frequency=2.0, noise=0.0).sample(
        500, generator=seeded(), dtype=torch.float64
    )
    angle = 2.0 * math.pi * inputs[:, 0]
    expected = torch.where(labels == 0, angle.cos(), angle.sin())
    torch.testing.assert_close(inputs[:, 1], expected, rtol=0.0, atol=1e-12)
    assert 2.9 < inputs[:, 0].max() < 3.0
    assert 0.0 <= inputs[:, 0].min() < 0.1


def test_a_longer_interval_makes_the_trigonometric_classes_cross_more_often():
    def crossings(scale: float) -> int:
        inputs, _ = Trigonometric(scale=scale, noise=0.0).sample(20_000, generator=seeded())
        angle = math.pi * inputs[:, 0].sort().values
        return int((angle.cos() > angle.sin()).int().diff().abs().sum())

    assert (crossings(6.0), crossings(10.0)) == (6, 10)


@pytest.mark.parametrize("problem", [TWO_TURNS, Trigonometric()])
def test_classes_are_even_and_the_generator_decides_everything(problem):
    inputs, labels = problem.sample(101, generator=seeded(1))
    again, _ = problem.sample(101, generator=seeded(1))
    other, _ = problem.sample(101, generator=seeded(2))
    assert labels.bincount().tolist() == [51, 50]
    assert labels.dtype == torch.int64
    assert torch.equal(inputs, again)
    assert not torch.equal(inputs, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("problem", [FOUR_TURNS, Trigonometric()])
def test_inputs_have_the_dtype_asked_for(problem, dtype):
    inputs, labels = problem.sample(5, generator=seeded(), dtype=dtype)
    assert inputs.shape == (5, 2)
    assert labels.shape == (5,)
    assert inputs.dtype == dtype


@pytest.mark.parametrize("problem", [Spiral, Trigonometric])
@pytest.mark.parametrize("bad", [{"scale": 0.0}, {"noise": -0.1}, {"noise": math.nan}])
def test_bad_parameters_are_named(problem, bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        problem(**bad)


@pytest.mark.parametrize("points", [0, -3])
def test_bad_number_of_points_is_named(points):
    with pytest.raises(ValueError, match="points"):
        TWO_TURNS.sample(points)
