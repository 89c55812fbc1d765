"""Hard laws: what is not sampled well is said, and what is not said is right."""

import math
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import colangevin as cl
from posteriors import Point

pytestmark = pytest.mark.statistical


def funnel(own: dict[str, Tensor]) -> Tensor:
    """Neal's: a log scale N(0, 9), and nine numbers with that scale."""
    q = own["q"]
    return q[0].square() / 18 + (q[1:].square() * torch.exp(-q[0])).sum() / 2 + 4.5 * q[0]


def banana(own: dict[str, Tensor]) -> Tensor:
    q = own["q"]
    return q[0].square() / 2 + (q[1] - 3.0 * (q[0].square() - 1.0)).square() / 0.02


def wells(own: dict[str, Tensor]) -> Tensor:
    """Two modes, at −5 and 5, of weights 1 : 3."""
    q = own["q"][0]
    return -torch.logaddexp(-((q + 5).square()) / 2, math.log(3.0) - (q - 5).square() / 2)


def heavy(own: dict[str, Tensor]) -> Tensor:
    """Student's t with two degrees of freedom: it has no variance."""
    return 1.5 * torch.log1p(own["q"].square() / 2).sum()


def heavier(own: dict[str, Tensor]) -> Tensor:
    """Cauchy's: it has no mean."""
    return torch.log1p(own["q"].square()).sum()


EFFECTS = torch.tensor([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], dtype=torch.float64)
ERRORS = torch.tensor([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], dtype=torch.float64)


def centred(own: dict[str, Tensor]) -> Tensor:
    """Eight groups by their own effects: where the log of their scale is low the law is a neck."""
    scale, effects = own["q"][0], own["q"][1:]
    prior = effects.square().sum() * torch.exp(-2 * scale) / 2 + 8 * scale
    return ((EFFECTS - effects) / ERRORS).square().sum() / 2 + prior + (scale - 2).square() / 2


def scale_of_groups() -> float:
    """The mean of the log-scale of ``centred``, by quadrature."""
    grid = torch.linspace(-3, 6, 4001, dtype=torch.float64)
    variances = ERRORS.square() + (2 * grid).exp().unsqueeze(1)
    logs = -(EFFECTS.square() / variances + variances.log()).sum(dim=1) / 2
    weights = torch.softmax(logs - (grid - 2.0).square() / 2, dim=0)
    return float((weights * grid).sum())


def frames(own: dict[str, Tensor]) -> Tensor:
    """On 4 × 2 frames, two modes: ± the first columns of 1."""
    return -4.0 * own["q"][:2].trace().square()


def frame() -> Point:
    return Point(torch.linalg.qr(torch.randn(4, 2, dtype=torch.float64))[0])


def spread(size: int, width: float) -> Callable[[], Point]:
    return lambda: Point(width * torch.randn(size, dtype=torch.float64))


# The law, starts far apart, a function whose mean is known, and that mean.
LAWS = {
    "funnel": (funnel, spread(10, 1.0), lambda q: q[..., 0], 0.0),
    "banana": (banana, spread(2, 1.0), lambda q: q[..., 1], 0.0),
    "two modes": (wells, spread(1, 8.0), lambda q: (q[..., 0] > 0).double(), 0.75),
    "heavy tails": (heavy, spread(2, 1.0), lambda q: (q[..., 0].abs() < 0.8165).double(), 0.5),
    "Cauchy": (heavier, spread(2, 1.0), lambda q: (q[..., 0].abs() < 1.0).double(), 0.5),
    "groups": (centred, spread(9, 1.0), lambda q: q[..., 0], scale_of_groups()),
    "frames": (frames, frame, lambda q: (q[..., 0, 0] + q[..., 1, 1] > 0).double(), 0.5),
}


KINDS = {
    "langevin": {},
    "adjusted": {"adjust": True},
    "microcanonical": {"dynamics": "microcanonical"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LAWS)
def test_a_wrong_answer_is_not_silent(name: str, kind: str) -> None:
    """Either there is a warning or an error, or the mean is within 5 standard errors."""
    law, start, function, mean = LAWS[name]
    if kind == "microcanonical" and name == "two modes":
        pytest.skip("one degree of freedom")
    rules = {"q": cl.Orthogonal()} if name == "frames" else None
    settings = {"chains": 16, "warmup": 400, "draws": 600, "rules": rules, **KINDS[kind]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", cl.SamplingWarning)
        try:
            trace = cl.sample(start, law, **settings)
        except cl.DivergenceError:
            return
    if any(issubclass(warning.category, cl.SamplingWarning) for warning in caught):
        return
    values = function(trace["q"])
    error = float(values.std()) / float(cl.sampling.ess(values, ranked=False)) ** 0.5
    assert abs(float(values.mean()) - mean) < 5 * error


def test_two_modes_that_no_chain_leaves_are_warned_about() -> None:
    with pytest.warns(cl.SamplingWarning, match="R-hat"):
        cl.sample(spread(1, 8.0), wells, chains=16, warmup=200, draws=300)


def needle(own: dict[str, Tensor]) -> Tensor:
    """A standard normal and, with the same mass, a needle of width 0.05 far out."""
    gaps = (own["q"] - 4.0) / 0.05
    return -torch.logaddexp(
        -own["q"].square().sum() / 2, -gaps.square().sum() / 2 - 5 * math.log(0.05)
    )


def test_a_mode_that_no_chain_meets_is_beyond_diagnostics() -> None:
    """docs/sampling.md says so: starts near it are the only help."""
    settings = {"chains": 16, "warmup": 200, "draws": 400}
    with warnings.catch_warnings():
        warnings.simplefilter("error", cl.SamplingWarning)
        trace = cl.sample(spread(5, 3.0), needle, **settings)
    assert float((trace["q"][..., 0] > 3.5).double().mean()) < 0.01
    with pytest.warns(cl.SamplingWarning, match="R-hat"):
        near = [Point(torch.full((5,), 4.0 * (i % 2), dtype=torch.float64)) for i in range(16)]
        cl.sample(near[0], needle, starts=near, **settings)


def test_a_hierarchical_model_with_its_scale_as_a_weight() -> None:
    """The same eight groups by numbers that the scale multiplies: exact by quadrature."""

    class Groups(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.log_scale = torch.nn.Parameter(torch.ones((), dtype=torch.float64))
            self.raw = torch.nn.Parameter(torch.zeros(8, dtype=torch.float64))

    def potential(own: dict[str, Tensor]) -> Tensor:
        gaps = (EFFECTS - own["log_scale"].exp() * own["raw"]) / ERRORS
        prior = own["raw"].square().sum() + (own["log_scale"] - 2.0).square()
        return (gaps.square().sum() + prior) / 2

    with warnings.catch_warnings():
        warnings.simplefilter("error", cl.SamplingWarning)
        # In the neck of the law steps are short: with thin=1 the draws are too few, which is said.
        trace = cl.sample(Groups(), potential, chains=16, warmup=400, draws=600, thin=5, jitter=0.9)
    values = trace["log_scale"]
    error = float(values.std()) / float(cl.sampling.ess(values, ranked=False)) ** 0.5
    assert abs(float(values.mean()) - scale_of_groups()) < 5 * error < 0.2
