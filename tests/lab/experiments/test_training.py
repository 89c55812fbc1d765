"""The training loop of networks one at a time: against a plain loop, stopped, killed, resumed."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR

import small_data
from colangevin.constraints import Orthogonal
from colangevin.lab.runner import job_log as logs
from colangevin.lab.runner import training
from colangevin.lab.runner.experiment import Job
from colangevin.lab.runner.job_log import Log
from colangevin.optimizers import CoLA

INPUTS = torch.linspace(-1, 1, 10)[:, None]
JOB = Job("fit", "a", {"runs": 2})


def begin(lr=0.1):
    model = nn.Sequential(nn.Linear(1, 6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 1))
    free = [parameter for parameter in model.parameters() if parameter is not model[0].weight]
    groups = [{"params": [model[0].weight], "constraint": Orthogonal()}, {"params": free}]
    optimizer = CoLA(groups, lr=lr, momentum=0.9)
    return training.Parts(model, optimizer, StepLR(optimizer, 2, gamma=0.5))


def loss(model, items):
    return (model(INPUTS[items]) - INPUTS[items].square()).square().mean()


def task(**changes):
    everything = torch.arange(10)
    usual = {
        "begin": begin,
        "loss": loss,
        "measure": lambda model: {"loss": float(loss(model, everything))},
        "items": 10,
        "batch_size": 4,
        "epochs": 4,
    }
    return training.Training(**{**usual, **changes})


def fit(folder: Path, progress=lambda done: True, **changes):
    log = Log(JOB, folder, progress=progress)
    return training.train(task(**changes), [1, 2], log), log.record.history


@pytest.fixture(autouse=True)
def every_step_is_reported(monkeypatch):
    monkeypatch.setattr(logs, "REPORT_SECONDS", -1.0)


def test_equals_a_plain_loop(tmp_path):
    runs, history = fit(tmp_path)
    torch.manual_seed(2)
    model, optimizer, scheduler = begin()
    for _ in range(4):
        losses = []
        for items in torch.randperm(10).split(4):
            value = loss(model, items)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            losses.append(value.item())
        scheduler.step()
    for found, wanted in zip(runs[1].model.parameters(), model.parameters(), strict=True):
        assert torch.equal(found, wanted)
    assert history["epoch"] == [1, 2, 3, 4]
    assert history["train_loss"][-1][1] == pytest.approx(sum(losses) / 3, rel=1e-5)


@pytest.mark.parametrize("stop", [1, 2, 3, 5, 7, 23])
def test_stopped_and_resumed_equals_uninterrupted(tmp_path, stop):
    (tmp_path / "whole").mkdir()
    whole = fit(tmp_path / "whole")
    assert fit(tmp_path, small_data.stop_after(stop))[0] is None
    runs, history = fit(tmp_path)
    assert history == whole[1]
    for run, other in zip(runs, whole[0], strict=True):
        for name, tensor in other.model.state_dict().items():
            assert torch.equal(run.model.state_dict()[name], tensor)


def test_killed_and_resumed_equals_uninterrupted(tmp_path, monkeypatch):
    small_data.save_always(monkeypatch)
    (tmp_path / "whole").mkdir()
    whole = fit(tmp_path / "whole")
    with pytest.raises(ProcessLookupError):
        fit(tmp_path, small_data.killed_after(8))
    assert fit(tmp_path)[1] == whole[1]


def test_measured_several_times_an_epoch(tmp_path):
    assert task(points=2).marks == [2, 3, 4, 6, 8, 9, 10, 12]
    assert fit(tmp_path, points=3)[1]["epoch"][:4] == pytest.approx([1 / 3, 2 / 3, 1, 4 / 3], 1e-4)


@pytest.mark.filterwarnings("ignore:the quasi-Newton projection")
def test_a_run_that_diverges_is_reported(tmp_path):
    runs, history = fit(tmp_path, begin=lambda: begin(lr=1e30))
    found = training.divergences(runs)
    assert [entry["run"] for entry in found] == [0, 1]
    assert all(0 < entry["step"] < 12 for entry in found)
    assert history["loss"][-1] == [None, None]


def test_global_random_state_is_left_alone(tmp_path):
    before = torch.get_rng_state()
    fit(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
