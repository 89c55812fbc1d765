"""The optimisation before the warm-up: networks settle, constraints hold, wide laws stay."""

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.sampling.descent import Adam
from posteriors import line, line_loss, linear

quiet = pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")


def waves() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.linspace(-2, 2, 60).unsqueeze(1)
    return inputs, torch.sin(3 * inputs) + 0.1 * torch.randn(60, 1, generator=generator)


def wave_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean() / (2 * 0.1**2)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))


def test_directions_are_those_of_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    forces = [torch.randn(3, generator=generator) for _ in range(5)]
    weight = nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.Adam([weight], lr=0.1, eps=1e-12)
    adam, position = Adam(), torch.zeros(3)
    for force in forces:
        weight.grad = force
        optimizer.step()
        position = position - 0.1 * adam([force])[0]
    torch.testing.assert_close(position, weight.detach())


@quiet
@pytest.mark.parametrize("rules", [None, {"0.weight": cl.Circle(3.0), "2.weight": cl.Sphere(4.0)}])
def test_a_network_starts_where_it_fits_the_data(rules) -> None:
    """Without the descent the loss is at least twice as large."""
    settings = {"chains": 3, "warmup": 300, "draws": 20, "prior": 1.0, "rules": rules}
    trace = cl.sample(network, wave_loss, waves(), **settings)
    without = cl.sample(network, wave_loss, waves(), descent=0, **settings)
    assert 100 < trace.tuning.descent <= 1200 and without.tuning.descent == 0
    assert float(trace["loss"].mean()) < 0.5 * float(without["loss"].mean())
    if rules:
        assert float(trace["0.weight"].abs().max()) <= 3.0 + 1e-5
        assert float(trace["2.weight"].flatten(2).norm(dim=2).max()) <= 4.0 + 1e-4


@quiet
def test_it_ends_early_where_there_is_nothing_to_gain() -> None:
    trace = cl.sample(linear, line_loss, line(), chains=2, warmup=400, draws=5)
    assert trace.tuning.descent < 1000


@quiet
def test_who_gives_a_step_or_trained_members_gets_none() -> None:
    given = cl.sample(linear, line_loss, line(), chains=2, warmup=5, draws=5, step_size=0.05)
    assert given.tuning.descent == 0
    asked = cl.sample(
        linear, line_loss, line(), chains=2, warmup=5, draws=5, step_size=0.05, descent=40
    )
    assert 0 < asked.tuning.descent <= 40
    members = cl.Ensemble(linear, [7, 8], lr=0.05)
    trained = cl.sample(members, line_loss, line(), chains=2, warmup=40, draws=5)
    assert trained.tuning.descent == 0
    with pytest.raises(ValueError, match="descent"):
        cl.sample(linear, line_loss, line(), descent=-1)
