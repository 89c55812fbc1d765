"""The metric of free weights: exact as a change of variables, learned, kept, and of use."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from chains import Estimate
from colangevin.sampling.chains import Chains, Dynamics
from colangevin.sampling.metrics import Whitened, covariance_of
from colangevin.sampling.targets import target_of
from posteriors import Point, estimate, line, line_loss, linear, point
from reference_sampling import baoab_in_a_metric

quiet = pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")
SEEDS = [3, 4]


def tilted(scale: float = 1.0) -> Tensor:
    """A covariance whose standard deviations are 1, 10 and 100 times a scale."""
    turn = torch.linalg.qr(torch.arange(9.0, dtype=torch.float64).view(3, 3).sin())[0]
    return turn @ torch.diag(torch.tensor([1.0, 1e2, 1e4]).double()) @ turn.T * scale**2


def gaussian(covariance: Tensor):
    precision = torch.linalg.inv(covariance)
    return lambda own: own["q"] @ precision @ own["q"] / 2


class Two(nn.Module):
    """Weights in two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor([[0.3, -0.2]], dtype=torch.float64))
        self.b = nn.Parameter(torch.tensor(0.5, dtype=torch.float64))


def cubic(own: dict[str, Tensor]) -> Tensor:
    return own["a"].pow(4).sum() + own["a"].sum() * own["b"] + own["b"].square()


@pytest.mark.parametrize("dense", [True, False])
def test_the_step_in_a_metric_follows_its_literal_form(dense: bool) -> None:
    covariance = torch.tensor([[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 0.6]]).double()
    if not dense:
        covariance = torch.diag(covariance.diagonal())
    target = target_of(Two(), cubic, None, None, SEEDS, 0, 0.1)
    moving = Chains(target, {}, SEEDS, Dynamics(0.2, 1.3, "BAOAB", [0.7] * 2, 0.0, metric=math.inf))
    assert moving.metric is not None
    moving.metric.adopt(covariance if dense else covariance.diagonal())
    (bucket,) = moving.groups[0].buckets
    drawn: list[Tensor] = []
    real = moving.metric.impulse

    def watching(state, gradient, weight, scale, draw):
        kept = None if draw is None else lambda like: drawn.append(draw(like).clone()) or drawn[-1]
        return real(state, gradient, weight, scale, kept)

    object.__setattr__(bucket.constraint, "impulse", watching)
    q = torch.cat([moving.weights["a"].flatten(1), moving.weights["b"].view(2, 1)], dim=1).clone()
    z = torch.zeros_like(q)

    def slope(x: Tensor) -> Tensor:
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(cubic({"a": leaf[:2].view(1, 2), "b": leaf[2]}), leaf)[0]

    for step in range(5):
        moving.step()
        for i in range(2):
            # The engine's step ends after A: the kick that ends one step and that which begins the
            # next are one.
            q[i], z[i] = baoab_in_a_metric(
                q[i], z[i], slope, torch.linalg.cholesky(covariance), 0.2, 1.3, 0.7,
                drawn[step][i], 0.5 if step == 0 else 1.0,
            )  # fmt: skip
    found = torch.cat([moving.weights["a"].flatten(1), moving.weights["b"].view(2, 1)], dim=1)
    torch.testing.assert_close(found, q, atol=1e-10, rtol=0)


def test_a_covariance_is_shrunk_to_what_draws_can_tell() -> None:
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(40, 50, 3, generator=generator, dtype=torch.float64)
    exact = tilted()
    many = covariance_of(normal @ torch.linalg.cholesky(exact).mT, dense=True)
    white = torch.linalg.solve(torch.linalg.cholesky(many), torch.linalg.cholesky(exact))
    # Three standard deviations, 1 : 10 : 100, become about one, although variances are shrunk.
    assert float(torch.linalg.cond(white)) < 3.0
    few = torch.randn(4, 10, 60, generator=generator, dtype=torch.float64)
    found = covariance_of(few, dense=True)
    assert (
        float(torch.linalg.cond(found)) < 20.0 < float(torch.linalg.cond(few.flatten(0, 1).T.cov()))
    )
    still = torch.zeros(4, 10, 2)
    assert covariance_of(still, dense=True) is None
    assert covariance_of(few, dense=False).shape == (60,)


@quiet
@pytest.mark.statistical
@pytest.mark.parametrize("metric", ["dense", "diagonal", None])
def test_a_metric_changes_no_law(metric: str | None) -> None:
    """A quartic law far from a Gaussian, with the test, so that the step has no bias."""
    trace = cl.sample(
        point(0.3, 0.2), lambda own: own["q"][0] ** 4 + (own["q"][1] - own["q"][0]).square() / 2,
        chains=200, warmup=200, draws=40, thin=3, adjust=True, metric=metric, seed=1,
    )  # fmt: skip
    square = math.gamma(0.75) / math.gamma(0.25)
    estimate(trace["q"][..., 0].square()).check(square, 0.5 * square)
    estimate(trace["q"].prod(dim=2)).check(square, 0.0)
    estimate(trace["q"][..., 1].square()).check(1.0 + square, 1.0)


@quiet
@pytest.mark.statistical
def test_a_dense_metric_makes_narrow_laws_round() -> None:
    """Standard deviations 1 : 100: in a metric draws are nearly independent, without they creep."""
    found = {}
    for metric in ("auto", "diagonal", None):
        trace = cl.sample(
            point(1.0, 1.0, 1.0), gaussian(tilted(1e-3)), chains=50, warmup=600, draws=100,
            metric=metric,
        )  # fmt: skip
        found[metric] = float(cl.sampling.ess(trace["q"]).min()) / (50 * trace.gradients)
        if metric == "auto":
            assert trace.tuning.metric == "dense" and 0.5 < trace.tuning.step_size < 1.5
            own = trace["q"].flatten(0, 1)
            torch.testing.assert_close(own.T.cov(), tilted(1e-3), rtol=0.1, atol=1e-3)
    assert found["auto"] > 0.2 > 10 * found[None]


@quiet
def test_where_there_is_a_metric() -> None:
    """Not with a step of the user's or mini-batches, unless asked for; of free weights only."""
    small = {"chains": 8, "warmup": 60, "draws": 4}
    assert cl.sample(linear, line_loss, line(), **small).tuning.metric in ("dense", "diagonal")
    assert cl.sample(linear, line_loss, line(), step_size=0.01, **small).tuning.metric == ""
    assert cl.sample(linear, line_loss, line(), batch_size=10, **small).tuning.metric == ""
    asked = cl.sample(linear, line_loss, line(), step_size=0.3, metric="dense", **small)
    assert asked.tuning.metric == "dense" and asked.tuning.step_size == 0.3
    bound = cl.sample(linear, line_loss, line(), rules={"*": cl.Circle(5.0)}, **small)
    assert bound.tuning.metric == ""
    part = cl.sample(linear, line_loss, line(), rules={"weight": cl.Circle(5.0)}, **small)
    assert part.tuning.metric == "diagonal"  # of one number, a matrix tells no more
    wide = cl.sample(Point(torch.zeros(1200)), lambda own: own["q"].square().sum(), **small)
    assert wide.tuning.metric == "diagonal"
    rules = {"q": cl.Massive(2.0)} if hasattr(cl, "Massive") else None
    if rules is not None:
        heavy = cl.sample(point(1.0), lambda own: own["q"].square().sum(), rules=rules, **small)
        assert heavy.tuning.metric == ""


def test_bad_metrics_are_refused() -> None:
    for change, words in (
        ({"metric": "full"}, "metric must be"),
        ({"guess": 0.0}, "guess"),
        ({"dynamics": "hamiltonian"}, "dynamics must be"),
    ):
        with pytest.raises(ValueError, match=words):
            cl.sample(linear, line_loss, line(), **change)


@quiet
def test_a_run_with_a_metric_goes_on_as_a_whole_one(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    settings = {"chains": 4, "warmup": 60, "metric": "dense"}
    whole = cl.sample(linear, line_loss, line(), draws=30, **settings)
    for draws in (11, 30):
        kept = cl.sample(linear, line_loss, line(), draws=draws, path=tmp_path, **settings)
    torch.testing.assert_close(kept["weight"], whole["weight"], rtol=0, atol=0)
    assert cl.load_trace(tmp_path).tuning == whole.tuning or math.isnan(whole.tuning.order)
    with pytest.raises(ValueError, match="metric was 'dense' there"):
        cl.sample(linear, line_loss, line(), draws=40, path=tmp_path, chains=4, warmup=60)


def test_velocity_and_kick_belong_together() -> None:
    """dU/dt = G·q̇ is what the kinetic energy loses: (LᵀG)·z = G·(Lz)."""
    metric = Whitened()
    metric.adopt(tilted())
    state = cl.State(torch.zeros(1, 3).double(), torch.randn(1, 3).double())
    slope = torch.randn(1, 3).double()
    kick = metric.impulse(state, slope, 1.0, 0.0, None).main
    assert state.momentum is not None
    one, other = (kick * state.momentum).sum(), (slope * metric.velocity(state)).sum()
    torch.testing.assert_close(one, other)
    assert isinstance(estimate(torch.randn(3, 4)), Estimate)
