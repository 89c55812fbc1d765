"""Stopping rules: enough is enough, a run that goes on ends where a whole one does."""

from pathlib import Path

import pytest
import torch

import colangevin as cl
from colangevin.sampling import nested_rhat
from posteriors import line, line_loss, linear, point

SETTINGS = {"chains": 20, "warmup": 80, "draws": 3000}


def bowl(own):
    return own["q"].square().sum() / 2


@pytest.mark.parametrize("until", ["ess=900", "rhat = 1.02"])
def test_a_sampling_ends_where_it_has_enough(until: str) -> None:
    trace = cl.sample(point(0.0, 1.0), bowl, until=until, **SETTINGS)
    row = trace.summary().judged["q"]
    enough = row.least.ess >= 900 if "ess" in until else row.largest.rhat <= 1.02
    assert enough and 20 <= trace.draws < 1000


def test_a_rule_that_is_not_reached_is_said() -> None:
    with pytest.warns(cl.SamplingWarning, match="until='ess=1e.08' was not reached in 30 draws"):
        cl.sample(point(0.0), bowl, until="ess=1e8", **{**SETTINGS, "draws": 30})


@pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")
def test_what_is_watched_decides() -> None:
    slow = lambda own: (own["q"][0].square() + (own["q"][1] / 30).square()) / 2  # noqa: E731
    rules = {"chains": 20, "warmup": 80, "draws": 400, "step_size": 1.0, "until": "ess=500"}
    fast = {"fast": lambda own: own["q"][0]}
    one = cl.sample(point(0.0, 0.0), slow, observables=fast, watch=["fast"], **rules)
    both = cl.sample(point(0.0, 0.0), slow, observables=fast, **rules)
    assert one.draws < both.draws


@pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")
def test_a_run_that_goes_on_ends_where_a_whole_one_does(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    settings = {"chains": 8, "warmup": 60, "until": "ess=600"}
    whole = cl.sample(linear, line_loss, line(), draws=2000, **settings)
    first = cl.sample(linear, line_loss, line(), draws=25, path=tmp_path, **settings)
    assert first.draws == 25 < whole.draws < 2000
    for _ in range(2):
        again = cl.sample(linear, line_loss, line(), draws=2000, path=tmp_path, **settings)
        torch.testing.assert_close(again["weight"], whole["weight"], rtol=0, atol=0)


@pytest.mark.parametrize("until", ["ess", "ess=0", "rhat=1", "size=3", "ess=many"])
def test_bad_rules_are_refused(until: str) -> None:
    with pytest.raises(ValueError, match="until must be"):
        cl.sample(point(0.0), bowl, until=until)
    with pytest.raises(TypeError, match="until must be"):
        cl.sample(point(0.0), bowl, until=1000)


def test_progress_is_told_of_steps_alone() -> None:
    seen = []
    cl.sample(point(0.0), bowl, until="ess=400", progress=seen.append, **SETTINGS)
    assert seen == sorted(set(seen))


def test_nested_r_hat_is_that_of_its_definition() -> None:
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(12, 5, generator=generator, dtype=torch.float64)
    draws = draws + torch.arange(3.0).repeat_interleave(4).unsqueeze(1)
    grouped = draws.view(3, 4, 5)
    between = grouped.mean(dim=(1, 2)).var()
    within = sum(g.mean(dim=1).var() + g.var(dim=1).mean() for g in grouped) / 3
    torch.testing.assert_close(nested_rhat(draws, 3), (1 + between / within).sqrt())
    assert nested_rhat(draws.unsqueeze(2).expand(12, 5, 7), 3).shape == (7,)
    for groups in (1, 5, 12):
        with pytest.raises(ValueError, match="groups must be"):
            nested_rhat(draws, groups)
