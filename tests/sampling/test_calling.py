"""What surrounds a sampling: where chains start, the bar on a terminal, threads."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.threads import LITTLE
from posteriors import line, line_loss, linear, point

quiet = pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")
QUICK = {"chains": 2, "warmup": 5, "draws": 6, "step_size": 0.05}


def wells(own: dict[str, Tensor]) -> Tensor:
    """Two modes, at −4 and 4."""
    q = own["q"][0]
    return -torch.logaddexp(-2 * (q - 4).square(), -2 * (q + 4).square())


# --- starts -------------------------------------------------------------------------------------


@quiet
def test_chains_start_where_the_user_says() -> None:
    starts = [linear(), linear().state_dict()]
    tiny = {**QUICK, "warmup": 0, "draws": 1, "step_size": 1e-6}
    trace = cl.sample(linear(), line_loss, line(), starts=starts, **tiny)
    expected = torch.stack([starts[0].weight.detach(), starts[1]["weight"]])
    torch.testing.assert_close(trace["weight"][:, 0], expected, atol=1e-4, rtol=0)


def test_chains_that_start_apart_let_r_hat_see_another_mode() -> None:
    settings = {"chains": 4, "warmup": 200, "draws": 400, "thin": 2}
    one = cl.sample(point(4.0), wells, **{**settings, "thin": 8})  # no warning: none can see it
    assert "R-hat cannot see other modes" in str(one.summary()) and "one start" in repr(one)
    apart = [point(4.0), point(-4.0), point(4.0).state_dict(), point(-4.0).state_dict()]
    with pytest.warns(cl.SamplingWarning, match="R-hat of q"):
        trace = cl.sample(point(0.0), wells, starts=apart, **settings)
    assert "other modes" not in str(trace.summary()) and "one start" not in repr(trace)


@quiet
def test_only_copies_of_one_module_are_said_to_start_near_one_point(tmp_path: Path) -> None:
    made = cl.sample(linear, line_loss, line(), **QUICK)
    far = cl.sample(linear(), line_loss, line(), jitter=1.0, **QUICK)
    alone = cl.sample(linear(), line_loss, line(), **{**QUICK, "chains": 1})
    for trace in (made, far, alone):
        assert "near one point" not in str(trace.summary())
    assert "one chain" in str(alone.summary())
    pytest.importorskip("safetensors")
    cl.sample(linear(), line_loss, line(), path=tmp_path, **QUICK)
    assert "near one point" in str(cl.load_trace(tmp_path).summary())


BAD = [
    ([linear()], ValueError, "starts has 1 entries for 2 chains"),
    ([linear(), nn.Linear(3, 1)], ValueError, r"starts\[1\] has no weights of the model"),
    ([linear(), 3.0], ValueError, r"starts\[1\] has no weights of the model"),
    (linear, TypeError, "starts must be a list .* function"),
]


@pytest.mark.parametrize(("starts", "error", "words"), BAD, ids=[b[2] for b in BAD])
def test_bad_starts_are_refused(starts, error, words: str) -> None:
    with pytest.raises(error, match=words):
        cl.sample(linear(), line_loss, line(), starts=starts, **QUICK)


def test_starts_and_an_ensemble_exclude_each_other() -> None:
    ensemble = cl.Ensemble(linear, [1, 2], lr=0.1)
    with pytest.raises(ValueError, match="starts"):
        cl.sample(ensemble, line_loss, line(), starts=[linear(), linear()], **QUICK)


# --- progress -----------------------------------------------------------------------------------


class Screen(io.StringIO):
    terminal = True

    def isatty(self) -> bool:
        return self.terminal


@quiet
@pytest.mark.parametrize(
    ("progress", "terminal", "shown"),
    [(None, True, True), (None, False, False), (False, True, False), (True, False, True)],
)
def test_a_terminal_shows_a_bar(progress, terminal: bool, shown: bool, monkeypatch) -> None:
    pytest.importorskip("rich")
    screen = Screen()
    screen.terminal = terminal
    monkeypatch.setattr(sys, "stderr", screen)
    cl.sample(linear, line_loss, line(), progress=progress, **QUICK)
    assert ("steps" in screen.getvalue()) == shown


@quiet
def test_without_rich_a_terminal_stays_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colangevin.sampling.progress.find_spec", lambda name: None)
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    cl.sample(linear, line_loss, line(), **QUICK)
    assert not screen.getvalue()


@quiet
def test_a_function_is_told_of_the_steps() -> None:
    told: list[int] = []
    cl.sample(linear, line_loss, line(), progress=told.append, **QUICK)
    assert told[-1] == 11 and told == sorted(told)


# --- threads ------------------------------------------------------------------------------------


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@quiet
@pytest.mark.usefixtures("three_threads")
def test_a_small_network_is_sampled_with_one_thread() -> None:
    seen = []
    norm = {"threads": lambda own: seen.append(torch.get_num_threads()) or own["weight"].sum()}
    cl.sample(linear, line_loss, line(), observables=norm, **QUICK)
    assert set(seen) == {1} and torch.get_num_threads() == 3
    with pytest.raises(cl.DivergenceError):
        cl.sample(linear, line_loss, line(), **{**QUICK, "step_size": 1e4, "draws": 500})
    assert torch.get_num_threads() == 3


@quiet
@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("batch_size", [None, 100])
def test_much_work_keeps_the_threads(batch_size: int | None) -> None:
    width = 400
    inputs, targets = torch.randn(200, width), torch.randn(200, 1)
    model = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
    assert 2 * 100 * width**2 > LITTLE
    seen = []
    norm = {"threads": lambda own: seen.append(torch.get_num_threads()) or own["2.bias"].sum()}
    settings = {**QUICK, "draws": 2, "step_size": 1e-4, "batch_size": batch_size}
    cl.sample(model, line_loss, (inputs, targets), observables=norm, **settings)
    assert set(seen) == {3}


@quiet
def test_the_draws_do_not_depend_on_the_threads() -> None:
    found = []
    before = torch.get_num_threads()
    for count in (1, 2):
        torch.set_num_threads(count)
        found.append(cl.sample(linear, line_loss, line(), **QUICK)["weight"])
    torch.set_num_threads(before)
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)
