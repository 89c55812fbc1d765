"""Posteriors with known moments: read from a folder, with the error that is published."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from colangevin.lab.bench import posterior_laws as laws
from colangevin.lab.bench import sampling_rates as rates
from colangevin.lab.bench.contestant import Unavailable
from colangevin.lab.bench.works import Sizes
from colangevin.lab.data.files import ENVIRONMENT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    own = tmp_path / "inference"
    own.mkdir()
    generator = np.random.default_rng(0)
    sizes = {"GermanCredit": 51, "Brownian": 32, "ItemResponseTheory": 501}
    for name, size in sizes.items():
        np.save(own / f"truth-{name}-moments.npy", np.ones((2, size)))
    np.save(own / "data-gc_features.npy", generator.normal(size=(20, 25)))
    np.save(own / "data-gc_labels.npy", generator.integers(0, 2, 20))
    np.save(own / "data-irt_labels.npy", generator.integers(0, 2, (400, 100)))
    np.save(own / "data-irt_mask.npy", np.ones((400, 100), dtype=bool))
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    return own


@pytest.mark.parametrize(
    ("make", "size"), [(laws.german_credit, 51), (laws.brownian, 32), (laws.item_response, 501)]
)
def test_a_law_is_made_from_its_folder(folder: Path, make, size: int) -> None:
    law = make()
    point = law.start()
    assert point.shape == (size,) and law.averaged(point).shape == law.means.shape
    value, slope = torch.func.grad_and_value(law.potential)(point)[::-1]
    assert bool(value.isfinite()) and bool(slope.isfinite().all()) and laws.is_one(law)
    assert "published" in laws.note_of(law, torch.ones(3, 5, len(law.means)))


def test_at_zero_the_potentials_are_those_of_their_formulas(folder: Path) -> None:
    zero = torch.zeros(51, dtype=torch.float64)
    expected = 26 * 0.5 + 20 * np.log(2.0)
    assert float(laws.german_credit().potential(zero)) == pytest.approx(expected)
    zero = torch.zeros(501, dtype=torch.float64)
    expected = 0.75**2 / 2 + 40_000 * np.log(2.0)
    assert float(laws.item_response().potential(zero)) == pytest.approx(expected)
    one = torch.zeros(32, dtype=torch.float64)
    one[0] = 1.0
    expected = sum(value**2 for value in laws.SEEN) / 2 + 30.0 + 0.125
    assert float(laws.brownian().potential(one)) == pytest.approx(expected)


def test_without_the_folder_the_row_says_so(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    with pytest.raises(Unavailable, match="no folder 'inference'"):
        laws.german_credit()
    (work,) = rates.work_s(Sizes(laws=("german_credit",)))
    (row,) = rates.measure(work, 0, lambda what: None)
    assert row.series == "german credit" and "no folder" in row.note and row.seconds is None


def test_posteriors_are_drawn_by_fewer_longer_chains(folder: Path) -> None:
    law = laws.brownian()
    amount = rates.amount_for(law, Sizes(), 0)
    assert (amount.chains, amount.draws) == (rates.LONG_CHAINS, rates.LONG)
    small = replace(Sizes(), draws=8, chains=6)
    assert rates.amount_for(law, small, 0).draws == 8


def test_chains_that_never_come_near_have_no_rate() -> None:
    law = laws.Law("", lambda q: q.sum(), lambda: torch.zeros(2), lambda q: q,
                   torch.zeros(2).double(), torch.ones(2).double())  # fmt: skip
    assert laws.per_gradient(torch.ones(4, 50, 2), law) is None
    assert laws.per_gradient(torch.zeros(4, 50, 2), law, thin=4) == 25.0
