"""Every number of every parameter is looked at, and the worst is named."""

import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.sampling import Prediction, convergence, storage
from colangevin.sampling.diagnosing import diagnose
from colangevin.sampling.summaries import Samples, summarise
from colangevin.sampling.tuning import Tuning
from posteriors import line, line_loss, linear, point


def messages(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(w.message) for w in caught if issubclass(w.category, cl.SamplingWarning)]


def classes() -> tuple[Tensor, Tensor]:
    """614 points with 8 features of which 3 are independent, nearly; two classes."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(614, 3, generator=generator)
    inputs = hidden @ torch.randn(3, 8, generator=generator)
    inputs += 0.2 * torch.randn(614, 8, generator=generator)
    inputs = (inputs - inputs.mean(dim=0)) / inputs.std(dim=0)
    chance = torch.sigmoid(2.0 * inputs @ torch.randn(8, generator=generator))
    return inputs, (chance > torch.rand(614, generator=generator)).float().unsqueeze(1)


def test_a_logistic_regression_with_few_effective_draws_is_warned_about() -> None:
    """Without a metric: its loss is well mixed, some weights have few effective draws."""
    torch.manual_seed(0)
    loss = nn.functional.binary_cross_entropy_with_logits
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace = cl.sample(nn.Linear(8, 1), loss, classes(), prior=1.0, metric=None, draws=300)
    sizes = convergence.ess(trace["weight"])
    assert float(sizes.min()) < 100 and float(convergence.rhat(trace["loss"])) < 1.05
    words = " ".join(messages(caught))
    place = int(convergence.rhat(trace["weight"]).argmax())
    assert f"weight[0, {place}]" in words and "thin" in words


def test_a_gaussian_that_is_well_sampled_is_not_warned_about() -> None:
    scales = torch.tensor([1.0, 1.5, 2.0], dtype=torch.float64)

    def bowl(own: dict[str, Tensor]) -> Tensor:
        return (own["q"] / scales).square().sum() / 2

    with warnings.catch_warnings():
        warnings.simplefilter("error", cl.SamplingWarning)
        trace = cl.sample(point(0.0, 0.0, 0.0), bowl, draws=1000, thin=5)
    assert float(convergence.ess(trace["q"]).min()) > 400


def test_what_is_watched_can_be_chosen() -> None:
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return line_loss(outputs, targets)

    settings = {"chains": 4, "warmup": 100, "draws": 300, "thin": 3, "step_size": 0.3, "prior": 1.0}
    with pytest.warns(cl.SamplingWarning, match="too few draws: bias"):
        cl.sample(linear, loss, line(), **{**settings, "draws": 60}, watch=["bias"])
    with pytest.raises(ValueError, match="watch='nothing'"):
        cl.sample(linear, loss, line(), **settings, watch="nothing")


def walk(columns: int, bad: int) -> Tensor:
    """Independent draws [4, 200, columns], but for one random walk."""
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(4, 200, columns, generator=generator)
    draws[:, :, bad] = torch.randn(4, 200, generator=generator).cumsum(dim=1)
    return draws


@pytest.mark.parametrize("exact", [True, False])
def test_one_bad_number_among_many_is_found(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "BLOCK", 80_000)
    draws = walk(1000, bad=731)
    found = diagnose(storage.split(draws), exact)
    assert found.total == 1000 and found.apart == 1 and found.few >= 1
    worst = int(found.table[:, 4].argmax())
    assert int(found.places[worst]) == 731 == int(found.places[found.table[:, 3].argmin()])
    expected = [float(f(draws[..., 731])) for f in (convergence.ess, convergence.rhat)]
    assert found.table[worst, 3:].tolist() == pytest.approx(expected)
    assert len(found.places) == 1000 if exact else len(found.places) <= 80


def test_large_tensors_are_looked_at_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 numbers few have ranks sorted, and the bad one is among them."""
    sorted_numbers = []
    real = convergence.rhat_and_ess

    def counted(samples: Tensor) -> tuple[Tensor, Tensor]:
        sorted_numbers.append(samples.shape[2])
        return real(samples)

    monkeypatch.setattr(convergence, "rhat_and_ess", counted)
    draws = walk(20_000, bad=17_003)
    values = {"w": Samples(draws.shape, lambda: storage.split(draws))}
    summary = summarise(values, Tuning(0.1), None, 20)
    assert 0 < sum(sorted_numbers) < 200
    assert "w[17003] (worst of 20000)" in str(summary)
    (words,) = summary.complaints(["w"])
    assert "R-hat of w[17003]" in words and "of 20000 numbers" in words


def test_quick_readings_agree_with_the_exact_ones() -> None:
    draws = walk(50, bad=7)
    good = [i for i in range(50) if i != 7]
    ratio = convergence.quick_ess(draws)[good] / convergence.ess(draws)[good]
    assert float(ratio.min()) > 0.5 and float(ratio.max()) < 2.0
    gaps = convergence.quick_rhat(draws)[good] - convergence.rhat(draws)[good]
    assert float(gaps.abs().max()) < 0.05
    assert float(convergence.quick_rhat(draws)[7]) > 1.2


@pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")
def test_blocks_of_a_trace_on_disk_are_its_draws(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("safetensors")
    monkeypatch.setattr(storage, "BLOCK", 500)
    model = nn.Sequential(nn.Linear(2, 7), nn.Tanh(), nn.Linear(7, 1)).double()
    settings = {"chains": 3, "warmup": 5, "draws": 30, "step_size": 0.01, "path": tmp_path}
    trace = cl.sample(model, line_loss, line(), **settings)
    for store in (trace._store, storage.First(trace._store, 11)):
        for name in store.names:
            blocks = list(store.blocks(name))
            whole = store[name].flatten(2) if store[name].dim() > 2 else store[name].unsqueeze(2)
            torch.testing.assert_close(torch.cat(blocks, dim=2), whole, rtol=0, atol=0)
            assert store.shape(name) == store[name].shape
    assert len(list(trace._store.blocks("parameter/0.weight"))) > 1


def test_draws_that_are_not_finite_and_constants_are_named() -> None:
    draws = torch.randn(4, 50, 2)
    bad = draws.clone()
    bad[1, 3, 1] = torch.nan
    tensors = {"a": draws, "b": bad, "c": torch.ones(4, 50, 3)}
    values = {n: Samples(t.shape, lambda t=t: storage.split(t)) for n, t in tensors.items()}
    summary = summarise(values, Tuning(0.1), None, 20)
    assert summary.constant == ("c",) and summary.infinite == ("b",)
    assert "constant: c" in str(summary) and "not finite: b" in str(summary)
    assert any("b has draws that are not finite" in words for words in summary.complaints(["b"]))


def test_chains_that_never_move_are_apart() -> None:
    stuck = torch.arange(4.0).view(4, 1, 1).expand(4, 50, 1)
    summary = summarise({"q": Samples(stuck.shape, lambda: [stuck])}, Tuning(0.1), None, 20)
    assert any("R-hat of q[0]" in words for words in summary.complaints(["q"]))


@pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")
def test_a_summary_is_short_and_treats_tensors_alike() -> None:
    model = nn.Sequential(nn.Linear(2, 30), nn.Tanh(), nn.Linear(30, 1)).double()
    trace = cl.sample(model, line_loss, line(), chains=4, warmup=5, draws=8, step_size=0.01)
    text = str(trace.summary())
    assert len(text.splitlines()) <= 10 and "(worst of 60)" in text and "(worst of 30)" in text
    assert "0.bias[29]" in str(trace.summary(most=1000))
    assert len(repr(trace)) < 120


@pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")
def test_a_prediction_has_a_short_name() -> None:
    trace = cl.sample(linear, line_loss, line(), chains=2, warmup=5, draws=8, step_size=0.01)
    words = repr(trace.predict(line()[0]))
    assert words.startswith("Prediction(2 chains × 8 draws of 30 × 1 points, means from")
    assert len(words) < 150 and "\n" not in words
    assert "1 point" in repr(Prediction(torch.ones(1, 1)))


def test_hot_momenta_are_told_of_the_guard() -> None:
    ratio = 1.5 + 0.01 * torch.randn(4, 200)
    values = {"kinetic_ratio": Samples(ratio.shape, lambda: [ratio.unsqueeze(2)])}
    (words,) = summarise(values, Tuning(0.1), None, 20).complaints([])
    assert "1.50 times" in words and "guard=3.0" in words and "adjust=True" in words
