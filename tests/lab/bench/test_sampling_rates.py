import importlib
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from colangevin.lab.bench import (
    bars,
    constrained_samplers,
    free_samplers,
    known_laws,
    presenting,
    samplers,
)
from colangevin.lab.bench import sampling_rates as rates
from colangevin.lab.bench.benchmark import Settings, run
from colangevin.lab.bench.known_laws import Law
from colangevin.lab.bench.record import Record, Row
from colangevin.lab.bench.samplers import Amount
from colangevin.lab.bench.works import Sizes
from colangevin.sampling.convergence import ess

SMALL = Sizes(chains=6, warmup=40, draws=8, few_chains=2, few_draws=8)
AMOUNT = Amount(chains=6, warmup=40, draws=8, few=2, few_draws=8)
LAWS = {
    "sphere": known_laws.von_mises_fisher,
    "torus": known_laws.torus,
    "stiefel": known_laws.stiefel,
    "circle": known_laws.circle,
    "quartic": known_laws.quartic,
    "lobes": known_laws.two_lobes,
    "planes": lambda: known_laws.planes(size=20, count=4),
    "gaussian": known_laws.gaussian,
    "logistic": known_laws.logistic,
}


@pytest.fixture(autouse=True)
def no_checkout(monkeypatch):
    monkeypatch.delenv(constrained_samplers.OLLA_FOLDER, raising=False)


# --- laws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAWS)
def test_starts_lie_where_the_law_is(name: str) -> None:
    law = LAWS[name]()
    points = samplers.starts(law, 20, seed=1)
    assert torch.equal(points, samplers.starts(law, 20, seed=1))
    assert (law.violation(points) or 0.0) < 1e-9
    assert torch.func.vmap(law.walled)(points).isfinite().all()
    values = law.averaged(points)
    assert values.shape == (20, len(law.means)) and (law.deviations > 0).all()


@pytest.mark.parametrize("name", ["quartic", "lobes"])
def test_behind_a_wall_the_potential_is_infinite(name: str) -> None:
    law = LAWS[name]()
    far = torch.tensor([0.1, -9.0], dtype=torch.float64)
    assert law.walls[0](far) > 0 and law.walled(far) == math.inf
    assert law.violation(far.unsqueeze(0)) > 1


def test_known_means() -> None:
    """Figures from elsewhere: a resultant, a symmetry, a mode's neighbourhood."""
    assert float(known_laws.von_mises_fisher().means[0]) == pytest.approx(0.42245, abs=1e-5)
    assert float(known_laws.torus().means[1]) == pytest.approx(0.0, abs=1e-9)
    frames = known_laws._frames(8)
    torch.testing.assert_close(
        frames.mT @ frames, torch.eye(2, dtype=torch.float64).expand(len(frames), 2, 2)
    )


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["quartic", "lobes"])
def test_the_library_finds_the_exact_means(name: str) -> None:
    """Within 4 errors, from starts that are another law's; a mean off by 0.5 would be seen."""
    row = Row("s", "x")
    law = LAWS[name]()
    amount = replace(AMOUNT, chains=60, warmup=60, draws=40)
    rates.read(row, law, samplers.ours(adjust=True)(law, amount))
    assert row.bias < 4 * row.bias_error and row.bias_error < 0.12


# --- rows -----------------------------------------------------------------------------------------


def exact(law: Law, amount: Amount) -> Tensor:
    generator = torch.Generator().manual_seed(amount.seed)
    shape = (amount.chains, amount.draws, 10)
    noise = torch.randn(shape, generator=generator, dtype=torch.float64)
    factor = torch.linalg.cholesky(0.8 ** _gaps())
    return known_laws.gaussian().means[:10] + noise @ factor.T


def _gaps() -> Tensor:
    places = torch.arange(10, dtype=torch.float64)
    return (places.unsqueeze(0) - places.unsqueeze(1)).abs()


def shifted(law: Law, amount: Amount) -> Tensor:
    return exact(law, amount) + 0.5


def broken(law: Law, amount: Amount) -> Tensor:
    raise ArithmeticError("no luck\nat all")


def test_a_row_has_rate_bias_and_what_failed() -> None:
    entries = [
        rates.Sampler("fake", exact, ours=True),
        rates.Sampler("OLLA, shifted", shifted),
        rates.Sampler("mici", broken),
    ]
    sizes = replace(SMALL, chains=50, draws=100)
    work = rates.SamplingWork(known_laws.gaussian, entries, sizes)
    good, off, failed = rates.measure(work, 0, lambda what: None)
    assert 3000 < good.ess < 8000 and rates.is_fair(good) and good.ratio == 1.0
    assert good.seconds > 0 and (good.chains, good.draws) == (50, 100)
    assert off.bias == pytest.approx(0.5, abs=0.08) and not rates.is_fair(off)
    assert failed.note == "failed: ArithmeticError: no luck" and rates.rate(failed) is None
    assert rates.best([off, failed]) is None


def test_draws_that_are_not_finite_are_a_note() -> None:
    row = Row("s", "x")
    rates.read(row, known_laws.gaussian(), torch.full((2, 8, 10), math.nan))
    assert row.note == "diverged" and row.ess is None


def test_bars_compare_rows_without_bias() -> None:
    def row(label: str, rate: float, bias: float = 0.0, ours: bool = False) -> Row:
        return Row("s", label, ours, "law", seconds=1.0, ess=rate, bias=bias, bias_error=0.01)

    rows = [
        row(rates.TUNED, 900.0, bias=0.3, ours=True),
        row(rates.TESTED, 400.0, ours=True),
        row("mici", 10.0),
        row("OLLA-H, step 0.01", 200.0),
        row("OLLA-H, step 0.04", 5000.0, bias=0.2),
    ]
    found = bars.judge(Record({}, {}, {"s": ""}, rows))
    judged = {bar.text: (bar.measured, bar.met) for bar in found if bar.work == "s"}
    text = "law: effective samples per second, times those of "
    assert judged == {text + "mici": (40.0, True), text + "OLLA": (2.0, False)}
    found = bars.judge(Record({}, {}, {"s": ""}, [*rows[:3], rows[4]]))
    judged = {bar.text: (bar.measured, bar.met) for bar in found if bar.work == "s"}
    assert judged[text + "OLLA (all of its rows are biased)"] == (None, None)


def test_effective_samples_are_those_of_arviz() -> None:
    arviz = pytest.importorskip("arviz")
    if not hasattr(arviz, "ess"):
        pytest.skip("this arviz has no ess")
    generator = torch.Generator().manual_seed(0)
    walk = torch.randn(4, 300, generator=generator, dtype=torch.float64)
    for i in range(1, 300):
        walk[:, i] += 0.7 * walk[:, i - 1]
    assert float(ess(walk)) == pytest.approx(float(arviz.ess(walk.numpy())), rel=1e-6)


# --- a run ----------------------------------------------------------------------------------------


def test_peers_that_are_not_there_say_so(monkeypatch) -> None:
    def absent(name: str):
        raise ImportError(name)

    monkeypatch.setattr("colangevin.lab.bench.peers.importlib.import_module", absent)
    for entry in (
        rates.Sampler("mici", constrained_samplers.mici),
        rates.Sampler("OLLA-H", constrained_samplers.olla("OLLA-H", 0.01)),
        rates.Sampler("geoopt", constrained_samplers.geoopt(0.1, 2)),
        rates.Sampler("posteriors", free_samplers.posteriors(0.1)),
        rates.Sampler("NUTS of blackjax", free_samplers.blackjax),
        rates.Sampler("NUTS of NumPyro", free_samplers.numpyro),
    ):
        work = rates.SamplingWork(known_laws.circle, [entry], SMALL)
        (row,) = rates.measure(work, 0, lambda what: None)
        assert "not installed" in row.note and row.seconds is None


def test_a_checkout_without_samplers_is_a_note(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv(constrained_samplers.OLLA_FOLDER, str(tmp_path))
    entry = rates.Sampler("OLLA", constrained_samplers.olla("OLLA", 0.01))
    work = rates.SamplingWork(known_laws.circle, [entry], SMALL)
    (row,) = rates.measure(work, 0, lambda what: None)
    assert "has no samplers" in row.note


def test_a_run_of_the_work_has_rows_bars_and_a_page(monkeypatch) -> None:
    """Two laws: the library's rows and those of peers, or why there are none."""

    def some(sizes: Sizes) -> list[rates.SamplingWork]:
        fake = rates.Sampler(rates.MICI, exact)
        return [
            rates.SamplingWork(known_laws.circle, [*rates.LIBRARY], sizes),
            rates.SamplingWork(known_laws.gaussian, [rates.LIBRARY[1], fake], sizes),
        ]

    monkeypatch.setitem(
        importlib.import_module("colangevin.lab.bench.benchmark").LETTERS, "s", some
    )
    record = run(Settings(works=["s"], sizes=SMALL), None, lambda what: None)
    assert record.complete and list(record.works) == ["s"]
    for row in record.rows:
        assert row.ess is not None and row.seconds is not None, row
    page = presenting.markdown(record, picture="bench.png", json="bench.json")
    assert "ESS per second" in page and "times those of mici" in page and "biased" in page
    assert presenting.tables(record)


def test_later_works_take_the_place_of_earlier_ones() -> None:
    first = Record({"date": "1"}, {}, {"a": "A", "s": "S"}, [Row("a", "x"), Row("s", "old")])
    first.bars = bars.judge(first)
    later = Record({"date": "2"}, {"samplers": {"load": 1}}, {"s": "S"}, [Row("s", "new")])
    found = first.renewed(later)
    assert [row.label for row in found.rows] == ["x", "new"]
    assert found.settings["renewed"] == {"s": "2"} and found.settings["samplers"] == {"load": 1}
    assert found.bars[-1].work == ""
