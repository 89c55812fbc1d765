"""The tuner on potentials that have no scale, no gradient of their own, or no value everywhere."""

import math
import warnings

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from posteriors import Point, point

quiet = pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")


def flat(own: dict[str, Tensor]) -> Tensor:
    return 0.0 * own["q"].sum()


def start(*shape: int) -> Point:
    return Point(0.1 * torch.randn(*shape, generator=torch.Generator().manual_seed(0)))


CONSTRAINTS = [
    (cl.Circle(1.0), (4,), 0.5, 1.0),
    (cl.Circle(1e-6), (4,), 0.5e-12, 1e-6),
    (cl.Sphere(2.0, equality=True), (3, 5), 4.0 / 5, 2.0),
    (cl.Sphere(2.0), (3, 5), 4.0 / 6, 2.0),
    (cl.Orthogonal(), (5, 3), 1.0 / 5, 1.0),
    (cl.General(lambda q: q.square().sum().reshape(1) - 1.0), (5,), 1.0 / 5, 1.0),
]


@pytest.mark.parametrize(
    ("rule", "shape", "variance", "radius"),
    CONSTRAINTS,
    ids=["circle", "tiny circle", "sphere", "ball", "orthogonal", "general"],
)
def test_a_flat_potential_gets_a_step_that_the_constraint_allows(
    rule: cl.Constraint, shape: tuple[int, ...], variance: float, radius: float
) -> None:
    """The surface measure is uniform, so the second moments are known."""
    settings = {"chains": 20, "warmup": 60, "draws": 300, "friction": 1.0 / radius}
    with warnings.catch_warnings():
        warnings.simplefilter("error", cl.SamplingWarning)
        trace = cl.sample(start(*shape), flat, rules={"q": rule}, **settings)
    assert 0.1 * radius < trace.tuning.step_size < 3.0 * radius
    assert "turn back" in trace.tuning.reason or rule.fallible  # steps fail before
    second = trace["q"].double().square().mean(dim=(0, 1))
    torch.testing.assert_close(second, torch.full_like(second, variance), rtol=0.15, atol=0.0)


@quiet
def test_a_step_on_a_constraint_scales_with_its_temperature() -> None:
    found = [
        cl.sample(
            start(4), flat, rules={"q": cl.Circle(1.0)}, warmup=40, draws=4, temperature=t
        ).tuning.step_size
        for t in (1.0, 4.0)
    ]
    assert found[0] == pytest.approx(2.0 * found[1])


def steps(own: dict[str, Tensor]) -> Tensor:
    return own["q"].square().sum() / 2 + own["q"].floor().abs().sum()


def detached(own: dict[str, Tensor]) -> Tensor:
    return own["q"].square().sum() / 2 + own["q"].detach().square().sum()


@pytest.mark.parametrize("potential", [steps, detached])
def test_a_gradient_that_is_not_of_the_loss_is_warned_about(potential) -> None:
    with pytest.warns(cl.SamplingWarning, match=r"gradient does not belong to the loss.*adjust"):
        cl.sample(point(0.0), potential, chains=8, draws=100)


@quiet
def test_the_test_of_each_step_cures_a_wrong_gradient() -> None:
    x = torch.linspace(-8, 8, 100_001, dtype=torch.float64)
    weight = torch.exp(-x.square() / 2 - x.floor().abs())
    truth = float((x * weight).sum() / weight.sum())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace = cl.sample(point(0.0), steps, chains=40, draws=500, adjust=True)
    assert not any("gradient" in str(w.message) for w in caught)
    assert float(trace["q"].mean()) == pytest.approx(truth, abs=0.05)


def kinks(own: dict[str, Tensor]) -> Tensor:
    return own["q"].abs().sum() + own["q"].square().sum() / 2


def smooth(own: dict[str, Tensor]) -> Tensor:
    return own["q"].cosh().sum()


@quiet
@pytest.mark.parametrize("potential", [smooth, kinks])
def test_smooth_potentials_and_kinks_have_their_own_gradient(potential) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace = cl.sample(point(*[0.0] * 5), potential, chains=8, draws=20)
    assert trace.tuning.order > 1.4
    assert not any("gradient" in str(w.message) for w in caught)


@quiet
def test_mini_batches_of_a_relu_network_have_their_own_gradient() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(100, 3)
    targets = torch.sin(inputs.sum(dim=1, keepdim=True))
    network = nn.Sequential(nn.Linear(3, 10), nn.ReLU(), nn.Linear(10, 1))
    loss = lambda outputs, targets: (outputs - targets).square().mean() / 0.02  # noqa: E731
    orders = []
    for seed in range(4):
        settings = {"prior": 1.0, "draws": 4, "batch_size": 20, "seed": seed}
        orders.append(cl.sample(network, loss, (inputs, targets), **settings).tuning.order)
    # Where all energy errors are as small as the rounding of the loss, they say nothing of it.
    said = [order for order in orders if not math.isnan(order)]
    assert said and min(said) > 2.0


def wall(own: dict[str, Tensor]) -> Tensor:
    return torch.where(own["q"] > 1.5, torch.nan, own["q"].square() / 2).sum()


def test_a_loss_that_is_not_finite_everywhere_gets_the_right_advice() -> None:
    with pytest.raises(cl.DivergenceError, match=r"chain \d .*\(\d of 8 chains did\)") as caught:
        cl.sample(point(0.0), wall, chains=8, draws=100)
    words = str(caught.value)
    assert "leave it to the tuner" not in words and "smaller step_size" not in words
    assert "NaN or infinite in a part of the space" in words and "adjust=True" in words
    with pytest.raises(cl.DivergenceError, match="leave it to the tuner"):
        cl.sample(point(0.0), wall, chains=8, draws=100, step_size=0.5)


@quiet
@pytest.mark.parametrize("cure", [{"adjust": True}, {"guard": 3.0}], ids=str)
def test_what_the_advice_says_is_a_cure(cure: dict) -> None:
    trace = cl.sample(point(0.0), wall, chains=16, draws=1000, **cure)
    exact = torch.distributions.Normal(0.0, 1.0)
    bound = torch.tensor(1.5)
    mean = -float(exact.log_prob(bound).exp() / exact.cdf(bound))
    assert float(trace["q"].max()) <= 1.5
    assert float(trace["q"].mean()) == pytest.approx(mean, abs=0.06)
