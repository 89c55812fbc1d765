"""Priors by name: the density is that of the distributions, with the loss of the data."""

from pathlib import Path

import pytest
import torch
from torch.distributions import Categorical, Laplace, MixtureSameFamily, Normal

import colangevin as cl
from posteriors import estimate, line, line_loss, linear, point

quiet = pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")


def nothing(own):
    return 0.0 * own["q"].sum()


@quiet
@pytest.mark.statistical
@pytest.mark.parametrize("more", [{}, {"adjust": True}], ids=str)
def test_without_data_the_prior_is_what_is_sampled(more: dict) -> None:
    settings = {"chains": 250, "warmup": 160, "draws": 15, "thin": 5, "seed": 3, **more}
    trace = cl.sample(point(0.1, 0.2), nothing, prior={"q": Normal(3.0, 0.5)}, **settings)
    estimate(trace["q"][..., 0]).check(3.0, 2.0)
    estimate((trace["q"][..., 1] - 3.0).square()).check(0.25, 0.5)
    both = MixtureSameFamily(
        Categorical(torch.tensor([0.5, 0.5])), Normal(torch.tensor([-1.0, 1.0]), 0.8)
    )
    trace = cl.sample(point(0.1, 0.2), nothing, prior={"*": both}, **settings)
    estimate(trace["q"][..., 0].square()).check(1.64, 1.0)
    assert float(trace["loss"].abs().max()) < 1e-9


@quiet
@pytest.mark.statistical
def test_a_normal_by_name_is_the_prior_of_its_standard_deviation() -> None:
    settings = {"chains": 250, "warmup": 160, "draws": 15, "thin": 5, "seed": 3}
    one = cl.sample(linear, line_loss, line(), prior=0.1, **settings)
    two = cl.sample(linear, line_loss, line(), prior={"*": Normal(0.0, 0.1)}, **settings)
    flat = cl.sample(linear, line_loss, line(), **settings)
    for i in range(2):
        mean = float(one["weight"][..., 0, i].mean())
        free = float(flat["weight"][..., 0, i].mean())
        estimate(two["weight"][..., 0, i]).check(mean, free)
    assert float(one["loss"].mean()) == pytest.approx(float(two["loss"].mean()), rel=0.02)


@quiet
def test_a_run_with_priors_goes_on_and_other_priors_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    settings = {"chains": 3, "warmup": 5, "step_size": 0.05, "path": tmp_path}
    prior = {"weight": Laplace(0.0, 0.3), "*": Normal(0.0, 1.0)}
    cl.sample(linear, line_loss, line(), draws=5, prior=prior, **settings)
    trace = cl.sample(linear, line_loss, line(), draws=9, prior=prior, **settings)
    inputs, targets = line()
    expected = line_loss(trace.model(1, 8)(inputs), targets)
    assert float(trace["loss"][1, 8]) == pytest.approx(float(expected.detach()))
    with pytest.raises(ValueError, match="prior was"):
        cl.sample(linear, line_loss, line(), draws=9, prior={"*": Normal(0.0, 2.0)}, **settings)


def test_bad_priors_are_refused() -> None:
    with pytest.raises(TypeError, match="prior must be"):
        cl.sample(linear, line_loss, line(), prior={"weight": 3.0})
    with pytest.raises(ValueError, match="prior='nothing' matches no parameter"):
        cl.sample(linear, line_loss, line(), prior={"nothing": Normal(0.0, 1.0)})
    with pytest.raises(ValueError, match="prior"):
        cl.sample(linear, line_loss, line(), prior=-1.0)
