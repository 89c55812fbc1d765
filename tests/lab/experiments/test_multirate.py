"""The experiments of chapter 5: each at its smallest scale, and what they share."""

import copy
from dataclasses import replace

import pytest
import torch

import colangevin as cl
import small_data
from colangevin.lab.data.idx import ImageData
from colangevin.lab.experiments.multirate import biases as multirate_biases
from colangevin.lab.experiments.multirate import multirate
from colangevin.lab.experiments.multirate import patches as multirate_patches
from colangevin.lab.experiments.multirate import subsets as multirate_subsets
from colangevin.lab.models import MobileNetV2
from colangevin.lab.runner import datasets
from colangevin.lab.runner import job_log as logs
from colangevin.lab.runner.experiment import Job
from colangevin.lab.runner.job_log import Log
from colangevin.lab.runner.records import Record, Records, read_records


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Small files of every kind, and one processor."""
    monkeypatch.setattr("colangevin.lab.runner.tasks.processors", lambda: 1)
    monkeypatch.setattr("colangevin.lab.data.files._md5", lambda path, expected: expected)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (80, 28, 28), dtype=torch.uint8, generator=generator)
    labels = torch.randint(10, (80,), generator=generator)
    digits = ImageData(images[:60], labels[:60], images[60:], labels[60:])
    monkeypatch.setitem(datasets.LOADERS, "mnist", lambda directory: digits)
    monkeypatch.setitem(datasets.LOADERS, "minilm", lambda directory: small_data.minilm())
    weights = MobileNetV2().state_dict()
    monkeypatch.setitem(datasets.LOADERS, "mobilenet", lambda directory: weights)
    small_data.write_cifar(tmp_path / "data")
    small_data.write_texts(tmp_path / "data")
    small_data.write_sentences(tmp_path / "data")
    return tmp_path / "data"


@pytest.mark.parametrize("name", ["slow", "no-drift-momentum"])
def test_slow_biases_that_are_stopped_go_on_exactly(name, tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "REPORT_SECONDS", -1.0)
    settings = multirate_biases.EXPERIMENT.settings("smoke", None, 0)
    job = next(job for job in multirate_biases.jobs(settings) if job.name == name)
    for folder, parts in (("whole", [10_000]), ("parts", [13, 10_000])):
        (tmp_path / folder).mkdir()
        for calls in parts:
            log = Log(job, tmp_path / folder, progress=small_data.stop_after(calls))
            multirate_biases.run(job, log)
    whole, parts = [read_records(tmp_path / folder)[name] for folder in ("whole", "parts")]
    assert whole.complete and parts.complete
    assert whole.history == parts.history


@pytest.mark.parametrize("name", ["slow", "large", "rare", "input"])
def test_networks_side_by_side_are_networks_alone(name):
    own = multirate_biases.METHODS[name]
    settings = {**multirate_biases.SCALES["smoke"], **own, "data": {"turns": 4.0}}
    points = multirate_biases.partitioned.draw_points(settings, range(3))
    paths = []
    for seeds in (range(3), [1]):
        model = multirate_biases.networks(settings, seeds)
        rates = multirate_biases.rates_of(model, own["slow"])
        optimizer = multirate.optimizer(rates, own["method"])
        inputs, labels = points.train_inputs[seeds], points.train_labels[seeds]
        for step in range(12):
            batch = slice(8 * step, 8 * step + 8)
            optimizer.zero_grad()
            logits = model(inputs[:, batch])[..., 0]
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                logits, labels[:, batch], reduction="sum"
            )
            (loss / 8).backward()
            optimizer.step()
        paths.append([p.detach() for p in model.parameters()])
    for together, alone in zip(*paths, strict=True):
        torch.testing.assert_close(together[1], alone[0], rtol=1e-5, atol=1e-6)


def test_the_four_kinds_of_optimizers():
    def rates():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
        return cl.last_layers_fast(model)

    steps = {"h": 0.1, "momentum": 0.9}
    found = {
        "sgd": [0.1],
        "two steps": [0.1, 0.4],
        "frozen": [0.1],
        "multirate": [0.1, 0.4],
    }
    for kind, expected in found.items():
        given = rates()
        made = multirate.optimizer(given, {"kind": kind, **steps, "period": 5, "slow_h": 0.4})
        assert [group["lr"] for group in made.param_groups] == expected
        assert all(group["momentum"] == 0.9 for group in made.param_groups)
        assert all(p.requires_grad for p in given.slow) == (kind != "frozen")
    plain = multirate.optimizer(rates(), {"kind": "multirate", "h": 0.1, "period": 5})
    assert [group["lr"] for group in plain.param_groups] == [0.1, 0.5]
    assert plain.drift
    with pytest.raises(ValueError, match="unknown kind of method 'adam'"):
        multirate.optimizer(rates(), {"kind": "adam", "h": 0.1})


def test_sleeping_weights_are_awake_when_they_are_measured(data, tmp_path):
    settings = multirate_subsets.EXPERIMENT.settings("smoke", None, 0)
    job = next(j for j in multirate_subsets.jobs(settings) if j.name == "digits-every-step")
    log = Log(Job(job.experiment, job.name, job.settings), tmp_path)
    work = multirate_subsets.digits_training(job, log)
    seen = []

    def measure(model):
        seen.append(float((model[0].weight == 0).float().mean()))
        return {}

    run = multirate.kit.training.Run(replace(work, measure=measure), seed=0)
    for _ in range(4):
        run.advance()
    assert float((run.model[0].weight == 0).float().mean()) > 0.5
    run.measure()
    assert seen == [0.0]
    assert float((run.model[0].weight == 0).float().mean()) > 0.5


def test_a_pair_is_two_networks_until_they_are_merged():
    torch.manual_seed(0)
    pair = multirate_patches.Pair(
        torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    )
    alone = [copy.deepcopy(pair.first) for _ in range(2)]
    options = {"momentum": 0.9, "weight_decay": 0.01}
    optimizer = multirate_patches.MergingSGD(pair, (0.01, 0.2), period=3, **options)
    others = [
        torch.optim.SGD(model.parameters(), lr, **options)
        for model, lr in zip(alone, (0.01, 0.2), strict=True)
    ]
    generator = torch.Generator().manual_seed(1)
    for step in range(1, 8):
        inputs = torch.randn(8, 3, generator=generator)
        labels = torch.randint(2, (8,), generator=generator)
        optimizer.zero_grad()
        multirate_patches.batch_loss(pair, inputs, labels).backward()
        optimizer.step()
        for model, other in zip(alone, others, strict=True):
            other.zero_grad()
            multirate_patches.batch_loss(model, inputs, labels).backward()
            other.step()
        if step == 3:  # the first merge: from here on by hand
            with torch.no_grad():
                for one, two in zip(*[model.state_dict().values() for model in alone], strict=True):
                    if one.is_floating_point():
                        one.copy_((one + two) / 2)
                        two.copy_(one)
        if step < 6:
            for part, model in zip((pair.first, pair.second), alone, strict=True):
                for a, b in zip(
                    part.state_dict().values(), model.state_dict().values(), strict=True
                ):
                    torch.testing.assert_close(a, b)
        both = [list(part.state_dict().values()) for part in (pair.first, pair.second)]
        assert all(map(torch.equal, *both)) == (step % 3 == 0)
    assert optimizer.state_dict()["param_groups"][0]["done"] == 7


def test_the_average_answers_in_evaluation():
    pair = multirate_patches.Pair(torch.nn.Linear(2, 2))
    with torch.no_grad():
        pair.second.weight.add_(1.0)
    inputs = torch.randn(5, 2)
    together = pair(inputs)
    torch.testing.assert_close(pair.eval()(inputs), together.mean(dim=0))


@pytest.mark.parametrize(("share", "verdict"), [(0.11, "not comparable"), (0.6, "yes")])
def test_patches_that_nobody_learnt_get_no_verdict(share, verdict):
    made = []
    keys = [f"{name}_accuracy" for name in multirate_patches.SETS]
    for place, (name, best) in enumerate({"small": share, "large": 0.1, "both": share}.items()):
        history = {key: [[best] * 5] for key in keys}
        settings = {"scale": "full", **multirate_patches.METHODS[name]}
        made.append(Record("multirate-patches", name, place, settings, history=history))
    found = multirate_patches.EXPERIMENT.judge(Records(made))
    patches = [claim.order.verdict for claim in found if "patches alone" in claim.text]
    assert patches == [verdict, verdict]
    assert all("comparable" not in c.order.verdict for c in found if "without" in c.text)
