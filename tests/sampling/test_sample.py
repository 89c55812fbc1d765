"""``cl.sample`` as people use it: defaults, bad input, divergence, warnings, data of all kinds."""

import math
import sys
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import colangevin as cl
from posteriors import line, line_loss, linear, point

QUICK = {"chains": 2, "warmup": 5, "draws": 6, "step_size": 0.05}
quiet = pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")


def bowl(own: dict[str, Tensor]) -> Tensor:
    return own["q"].square().sum() / 2


@quiet
def test_shapes_names_and_the_default_temperature() -> None:
    norm = {"norm": lambda own: own["weight"].norm()}
    trace = cl.sample(linear, line_loss, line(), observables=norm, **QUICK)
    assert trace["weight"].shape == (2, 6, 1, 2) and trace["norm"].shape == (2, 6)
    torch.testing.assert_close(trace["norm"], trace["weight"].flatten(2).norm(dim=2))
    assert trace.temperatures == [pytest.approx(1 / 30)] * 2
    assert trace["loss"].shape == (2, 6) and "weight" in trace and "other" not in trace
    with pytest.raises(KeyError, match="there are"):
        trace["other"]
    inputs, targets = line()
    model = trace.model(1, 4)
    assert line_loss(model(inputs), targets).item() == pytest.approx(float(trace["loss"][1, 4]))
    total = cl.sample(linear, lambda o, t: line_loss(o, t) * 30, line(), **QUICK)
    assert total.temperatures == [pytest.approx(1 / 30)] * 2  # a mean, times a number
    summed = cl.sample(linear, nn.MSELoss(reduction="sum"), line(), **QUICK)
    assert summed.temperatures == [1.0, 1.0]
    cold = cl.sample(linear, line_loss, line(), temperature_factor=0.1, **QUICK)
    assert cold.temperatures == [pytest.approx(1 / 300)] * 2


@quiet
def test_chains_differ_and_do_not_depend_on_the_others() -> None:
    two = cl.sample(linear, line_loss, line(), **QUICK)
    three = cl.sample(linear, line_loss, line(), **{**QUICK, "chains": 3})
    assert not torch.equal(two["weight"][0], two["weight"][1])
    torch.testing.assert_close(two["weight"], three["weight"][:2])
    copies = cl.sample(linear(), line_loss, line(), **QUICK)
    assert not torch.equal(copies["weight"][0, 0], copies["weight"][1, 0])
    other = cl.sample(linear, line_loss, line(), seed=1, **QUICK)
    assert not torch.equal(two["weight"][1], other["weight"][0])


@quiet
def test_chains_start_from_the_members_of_an_ensemble() -> None:
    ensemble = cl.Ensemble(linear, [7, 8], lr=0.05)
    start = torch.stack([ensemble.member(i).weight.detach() for i in range(2)])
    small = {**QUICK, "warmup": 0, "draws": 1, "step_size": 1e-6}
    trace = cl.sample(ensemble, line_loss, line(), **small)
    torch.testing.assert_close(trace["weight"][:, 0], start, atol=1e-4, rtol=0)
    with pytest.raises(ValueError, match="at most 2"):
        cl.sample(ensemble, line_loss, line(), **{**small, "chains": 3})


@quiet
def test_mini_batches_and_loaders() -> None:
    data = line()
    batches = cl.sample(linear, line_loss, data, batch_size=8, **QUICK)
    assert batches.temperatures[0] == pytest.approx(1 / 30)
    loader = DataLoader(TensorDataset(*data), batch_size=8, shuffle=True)
    torch.manual_seed(1)
    first = cl.sample(linear, line_loss, loader, **QUICK)
    torch.manual_seed(2)
    again = cl.sample(linear, line_loss, loader, **QUICK)
    torch.testing.assert_close(first["weight"], again["weight"])
    assert first.settings["points"] == 30


class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.zeros(2).double(), torch.zeros(1).double()


def vector(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean(dim=1)


BAD = [
    ({"data": DataLoader(Endless(), batch_size=4)}, ValueError, "N is unknown"),
    ({"loss": vector}, ValueError, "one number"),
    ({"loss": 3}, TypeError, "loss"),
    ({"data": (torch.zeros(3, 2), torch.zeros(4, 1))}, ValueError, "as many points"),
    ({"data": 5}, TypeError, "data"),
    ({"batch_size": 31}, ValueError, "at most 30"),
    ({"chains": 0}, ValueError, "chains"),
    ({"step_size": None}, ValueError, "warmup of at least 40"),
    ({"step_size": -1.0}, ValueError, "step_size"),
    ({"temperature": 0.0}, ValueError, "temperature"),
    ({"temperature": [0.1] * 3}, ValueError, "3 values for 2 chains"),
    ({"adjust": True, "batch_size": 8}, ValueError, "all data"),
    ({"adjust": True, "scheme": "OBA"}, ValueError, "scheme"),
    ({"scheme": "BACDEDCAB"}, ValueError, "scheme"),
    ({"observables": {"weight": torch.sum}}, ValueError, "name of a parameter"),
    ({"observables": [torch.sum]}, TypeError, "observables"),
    ({"keep": ["nothing*"]}, ValueError, "matches no parameter"),
    ({"memory": 100.0}, ValueError, "path="),
    ({"loss": lambda o, t: (o - t).square().sum() ** 0.5}, ValueError, "neither a mean nor a sum"),
    ({"rules": {"nothing": cl.Circle(1.0)}}, ValueError, "nothing"),
    ({"seed": -1}, ValueError, "seed"),
]


@pytest.mark.parametrize(("change", "error", "words"), BAD, ids=[b[2] for b in BAD])
def test_bad_input_is_refused_before_anything_is_computed(change, error, words: str) -> None:
    arguments = {"model": linear, "loss": line_loss, "data": line(), **QUICK, **change}
    with pytest.raises(error, match=words):
        cl.sample(**arguments)


def test_a_chain_that_diverges_is_reported_and_what_was_drawn_is_kept() -> None:
    with pytest.raises(cl.DivergenceError, match=r"chain \d .* largest entry") as caught:
        cl.sample(point(1.0), bowl, **{**QUICK, "warmup": 0, "step_size": 20.0, "draws": 500})
    error = caught.value
    assert error.chain in (0, 1) and error.step > 5 and error.largest_gradient > 1e10
    assert 5 < error.trace.draws < 500 and error.trace["q"].shape[1] == error.trace.draws


def test_an_observable_that_changes_its_shape_loses_nothing() -> None:
    calls = []

    def growing(own: dict[str, Tensor]) -> Tensor:
        calls.append(1)
        return own["q"].repeat(1 if len(calls) < 5 else 2)

    with pytest.raises(ValueError, match=r"'growing'.*\(1,\), then \(2,\)") as caught:
        cl.sample(point(1.0), bowl, observables={"growing": growing}, **QUICK)
    assert caught.value.trace.draws == 3


def test_the_warnings_say_what_to_do() -> None:
    def wells(own: dict[str, Tensor]) -> Tensor:
        return 400.0 * (own["q"].square() - 1.0).square().sum()

    with pytest.warns(cl.SamplingWarning, match="R-hat of q.*Raise warmup"):
        cl.sample(point(0.0), wells, chains=4, warmup=20, draws=40, step_size=0.01, jitter=1.0)
    with pytest.warns(cl.SamplingWarning, match=r"too few draws.*Raise draws"):
        cl.sample(point(0.0), bowl, chains=8, warmup=60, draws=20, step_size=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", cl.SamplingWarning)
        cl.sample(point(0.0), bowl, chains=20, warmup=40, draws=60, step_size=1.0)


@quiet
@pytest.mark.parametrize("metric", ["auto", "diagonal", None])
def test_a_step_size_that_is_found_grows_with_the_scale_of_the_problem(metric) -> None:
    """q/s has h/s, or the same h in a metric: nothing in the tuner has a scale of its own."""
    found = []
    for scale in (0.01, 100.0):
        potential = lambda own, scale=scale: (own["q"] / scale).square().sum() / 2  # noqa: E731
        start = point(*[0.5 * scale] * 5)
        trace = cl.sample(
            start, potential, chains=8, warmup=80, draws=4, tolerance=0.05, metric=metric
        )
        assert trace.tuning.chosen_by == "tuner" and "energy error" in trace.tuning.reason
        assert bool(trace.tuning.metric) == (metric is not None)
        found.append(trace.tuning.step_size / (scale if metric is None else 1.0))
    assert 0.7 < found[0] / found[1] < 1.4 and 0.2 < found[0] < 1.5


@quiet
def test_a_cyclical_temperature() -> None:
    """At the end of each cold phase the chains are at the minimum."""
    wave = cl.cyclical(period=60, low=0.0, hot=0.5)
    arguments = {"chains": 8, "warmup": 0, "step_size": 0.5, "friction": 2.0, "schedule": wave}
    cold = cl.sample(point(0.5), bowl, draws=3, thin=60, **arguments)
    hot = cl.sample(point(0.5), bowl, draws=90, **arguments)
    assert float(cold["q"].abs().max()) < 0.05 < 0.5 < float(hot["q"][:, 10:30].std())


@quiet
def test_the_warm_up_comes_down_from_a_start_far_above_the_posterior() -> None:
    """A narrow posterior: the start has thousands of τ more energy than the chains have there."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(100, 3, generator=generator)
    truth = torch.tensor([[1.0], [2.0], [-1.0]])
    targets = inputs @ truth + 0.1 * torch.randn(100, 1, generator=generator)

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().mean() / (2 * 0.1**2)

    trace = cl.sample(lambda: nn.Linear(3, 1, bias=False), loss, (inputs, targets), draws=600)
    assert trace.tuning.settled
    exact = (torch.linalg.inv(inputs.T @ inputs) * 0.1**2).diagonal().sqrt()
    torch.testing.assert_close(trace["weight"][..., 0, :].std(dim=(0, 1)), exact, rtol=0.2, atol=0)


@quiet
@pytest.mark.parametrize("package", ["arviz", "arviz_base"])
def test_arviz_gets_the_draws(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(package)
    if package == "arviz_base":  # as where ArviZ before 1 is not installed
        monkeypatch.setitem(sys.modules, "arviz", None)
    trace = cl.sample(point(0.0, 1.0), bowl, chains=2, warmup=5, draws=7, step_size=0.5)
    found = trace.to_arviz()["posterior"]["q"]
    assert found.dims[:2] == ("chain", "draw")
    torch.testing.assert_close(torch.as_tensor(found.values), trace["q"])
    back = cl.Trace.from_arviz(trace.to_arviz(), point(0.0, 1.0))
    assert back.parameters == ["q"] and torch.equal(back["q"], trace["q"])
    assert torch.equal(back["loss"], trace["loss"])
    assert [r.rhat for r in back.summary(only=["q"]).rows[:2]] == [
        r.rhat for r in trace.summary(only=["q"]).rows[:2]
    ]
    with pytest.raises(ValueError, match="lacks 'weight'"):
        cl.Trace.from_arviz(trace.to_arviz(), linear())
    with pytest.raises(TypeError, match="group 'posterior'"):
        cl.Trace.from_arviz({"q": trace["q"]})


@quiet
def test_draws_of_another_program_predict() -> None:
    pytest.importorskip("arviz_base")
    inputs, targets = line()
    trace = cl.sample(linear, line_loss, (inputs, targets), **QUICK)
    found = cl.Trace.from_arviz(trace.to_arviz(), linear()).predict(inputs[:4])
    assert torch.equal(found.samples, trace.predict(inputs[:4]).samples)


@quiet
def test_the_summary_has_the_numbers_of_the_draws() -> None:
    trace = cl.sample(point(0.0, 1.0), bowl, chains=4, warmup=20, draws=50, step_size=0.5)
    text = str(trace.summary())
    assert "q[1]" in text and "R-hat" in text and "step_size=0.5" in text
    assert math.isclose(trace.summary().rows[0].mean, float(trace["q"][..., 0].mean()))


@quiet
def test_predictions() -> None:
    inputs, targets = line()
    trace = cl.sample(linear, line_loss, (inputs, targets), **QUICK)
    prediction = trace.predict(inputs[:4])
    assert prediction.samples.shape == (2, 6, 4, 1)
    expected = trace.model(1, 3)(inputs[:4])
    torch.testing.assert_close(prediction.samples[1, 3], expected.detach())
    low, high = prediction.interval(0.9)
    assert bool((low <= prediction.mean).all() and (prediction.mean <= high).all())
    noisy = trace.predict(inputs[:4], lambda out: out + 0.5 * torch.randn_like(out), every=2)
    assert noisy.samples.shape == (2, 3, 4, 1)
    spread = (noisy.samples - prediction.samples[:, ::2]).flatten()
    assert 0.2 < float(spread.std()) < 0.8 and len(spread.unique()) == 24
    part = cl.sample(linear, line_loss, line(), keep=["bias"], **QUICK)
    with pytest.raises(ValueError, match="lacks weight"):
        part.predict(inputs)
