"""The experiments on posteriors, at their smallest scale on data made here."""

import math
from pathlib import Path

import pytest
import torch

from colangevin.lab.data import ImageData, Table
from colangevin.lab.experiments.posteriors import posterior
from colangevin.lab.experiments.posteriors import uci as posterior_uci
from colangevin.lab.experiments.registry import EXPERIMENTS
from colangevin.lab.runner import datasets
from colangevin.lab.runner.experiment import Job
from colangevin.lab.runner.job_log import Log
from colangevin.lab.runner.records import read_record
from small_data import stop_after
from smoke_runs import Smoke


def rows(count: int, columns: int) -> Table:
    generator = torch.Generator().manual_seed(columns)
    inputs = torch.randn(count, columns, generator=generator, dtype=torch.float64)
    return Table(inputs, inputs.sum(dim=1) + 0.1 * inputs[:, 0] ** 2)


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"airfoil": rows(60, 5), "yacht": rows(40, 6)}
    monkeypatch.setitem(datasets.LOADERS, "uci", lambda directory: tables)
    for seed, name in enumerate(("fashion-mnist", "mnist")):
        generator = torch.Generator().manual_seed(seed)
        images = torch.randint(256, (80, 28, 28), dtype=torch.uint8, generator=generator)
        labels = torch.randint(10, (80,), generator=generator)
        found = ImageData(images[:60], labels[:60], images[60:], labels[60:])
        monkeypatch.setitem(datasets.LOADERS, name, lambda directory, found=found: found)
    monkeypatch.setattr("colangevin.lab.runner.tasks.processors", lambda: 1)


def test_uci(smoke: Smoke) -> None:
    records = smoke("posterior-uci")
    assert not list(records.directory.glob("*.trace"))
    final = records["airfoil-posterior"].final
    assert len(final["rmse"]) == 2 and len(final["coverage"][0]) == 10
    trained = records["airfoil-ensemble"].final
    assert trained["members"] == posterior_uci.members_of(records["airfoil-ensemble"].settings)
    assert trained["passes"] >= 2 * 100


def test_cold(smoke: Smoke) -> None:
    records = smoke("posterior-cold")
    history = records["spiral-circle"].history
    assert history["factor"] == [0.1, 1.0] and len(history["nll"][0]) == 2


def test_unknown(smoke: Smoke) -> None:
    records = smoke("posterior-ood")
    final = records["ensemble"].final
    assert len(final["auroc_entropy"]) == 2 and len(final["single"]["nll"]) == 2
    assert all(0.0 <= value <= 1.0 for value in records["posterior"].final["fpr95_information"])


@pytest.mark.parametrize("kind", ["posterior", "ensemble"])
def test_a_job_that_is_stopped_goes_on_exactly(kind: str, tmp_path: Path) -> None:
    settings = EXPERIMENTS["posterior-uci"].settings("smoke", None, 0)
    job = next(j for j in EXPERIMENTS["posterior-uci"].plan(settings) if j.name == f"yacht-{kind}")
    job = Job(job.experiment, job.name, {**job.settings, "epochs": 6})
    found = []
    for name, ends in (("whole", [10**9]), ("parts", [3, 5, 10**9])):
        (tmp_path / name).mkdir()
        for calls in ends:
            log = Log(job, tmp_path / name, progress=stop_after(calls))
            log._reported = -1e9
            posterior_uci.run(job, log)
        found.append(read_record(tmp_path / name / f"{job.name}.json"))
    whole, parts = found
    assert parts.complete and parts.final == whole.final and parts.history == whole.history


def test_the_split_is_that_of_scikit_learn() -> None:
    """The first rows that ``train_test_split(range(10), test_size=0.2, random_state=0)`` gives."""
    table = Table(torch.arange(10.0).double().view(10, 1), torch.arange(10.0).double())
    test = posterior_uci.split(table, 0).test
    train = posterior_uci.split(table, 0).train
    scale = float(train.targets[1] - train.targets[0])
    assert train.targets.mean().abs() < 1e-6 and len(test.targets) == 2
    # 2 and 8 are held out; the training part begins with 4, 9.
    assert float(test.targets[1] - test.targets[0]) / scale == pytest.approx(6 / 5, rel=1e-5)


def test_the_loss_is_the_likelihood_of_bde() -> None:
    """−log N(y; μ, log(1 + eˢ) + 10⁻⁶), a mean over the points, up to a constant."""
    generator = torch.Generator().manual_seed(0)
    outputs = 3.0 * torch.randn(50, 2, generator=generator, dtype=torch.float64)
    targets = torch.randn(50, generator=generator, dtype=torch.float64)
    spread = torch.log1p(outputs[:, 1].exp()) + 1e-6
    exact = -torch.distributions.Normal(outputs[:, 0], spread).log_prob(targets).mean()
    found = posterior.gaussian_loss(outputs, targets) + math.log(2.0 * math.pi) / 2.0
    torch.testing.assert_close(found, exact)
