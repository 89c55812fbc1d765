"""The experiments on the two-turn spiral, at the smallest scale, through the framework."""

import json
from dataclasses import replace

import pytest
import torch

from colangevin.experiments import spiral
from colangevin.experiments.experiment import seeds_of
from colangevin.experiments.log import Log
from colangevin.experiments.records import Records, read_records
from colangevin.experiments.registry import find
from colangevin.experiments.running import reproduce

NAMES = ("spiral-classifiers", "spiral-curvature", "spiral-gradients", "spiral-temperature")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    directory = tmp_path_factory.mktemp("spiral")
    for name in NAMES:
        reproduce(find(name), "smoke", out=directory, jobs=1)
    return directory


@pytest.mark.parametrize("name", NAMES)
def test_table_claims_and_figures_come_from_the_records(out, name):
    experiment, records = find(name), read_records(out / name)
    assert all(record.complete for record in records.values())
    assert len(records) == len(experiment.jobs(experiment.settings("smoke", None, 0)))
    assert len(experiment.table(records).rows) == len(records)
    assert experiment.claims(records)
    for figure in experiment.figures(records).values():
        for axes in figure.axes:
            assert axes.has_data()


@pytest.mark.parametrize("name", NAMES)
def test_some_of_the_jobs_are_enough_for_a_report(out, name):
    """A run that was stopped has a report as well."""
    experiment, records = find(name), read_records(out / name)
    first = Records(list(records.values())[:1])
    assert len(experiment.table(first).rows) == 1
    experiment.claims(first)
    experiment.figures(first)


def test_runs_are_trained_on_their_own_data_and_repeat():
    settings = spiral.SCALES["smoke"]
    first, again = (spiral.draw_points(settings, [0, 1]) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first.train_inputs[0], first.train_inputs[1])
    other = spiral.draw_points(settings, [1])
    assert torch.equal(first.test_inputs[1], other.test_inputs[0])


def test_networks_of_the_classifiers_are_used_again_only_with_the_same_settings(out):
    settings = {**spiral.SCALES["smoke"], "scale": "smoke", "seed": 0, **spiral.METHODS["sgd"]}
    ensemble = spiral.make(settings, seeds_of(settings), None, 0.0)
    fresh = ensemble.member(0)[0].weight.clone()
    folder = out / "spiral-classifiers"
    assert not spiral.load_weights(ensemble, {**settings, "lr": 0.1}, folder, "sgd")
    assert torch.equal(ensemble.member(0)[0].weight, fresh)
    assert spiral.load_weights(ensemble, settings, folder, "sgd")
    assert not torch.equal(ensemble.member(0)[0].weight, fresh)
    record = json.loads((folder / "sgd.json").read_text(encoding="utf-8"))
    points = spiral.draw_points(settings, seeds_of(settings))
    loss = spiral.measure(ensemble, points)["test_loss"].tolist()
    assert record["final"]["test_loss"] == pytest.approx(loss, rel=1e-5)


def test_an_ordering_is_judged_run_by_run(out):
    """Two methods whose runs differ a lot between data sets, but always in the same direction."""
    records = read_records(out / "spiral-classifiers")
    base = [0.6, 0.7, 0.8, 0.9]
    made = []
    for record in records.values():
        lift = 0.01 if record.job.startswith("c-") else 0.0
        jitter = [0.0, 0.001, 0.0, 0.002]
        values = [b + lift + j for b, j in zip(base, jitter, strict=True)]
        final = {**record.final, "test_accuracy": values, "test_loss": [1 - v for v in values]}
        made.append(replace(record, final=final))
    claims = find("spiral-classifiers").claims(Records(made))
    assert {claim.verdict for claim in claims} == {"reproduced"}
    swapped = [replace(r, final={**r.final, "test_accuracy": base}) for r in made]
    claims = find("spiral-classifiers").claims(Records(swapped))
    verdicts = {c.verdict for c in claims if "accuracy" in c.text}
    assert verdicts == {"not reproduced"}


@pytest.mark.parametrize("job", ["sgd-wd", "c-sgld"])
def test_a_training_that_was_stopped_goes_on_exactly(tmp_path, job):
    experiment = find("spiral-classifiers")
    settings = {**experiment.settings("smoke", None, 0), "epochs": 6}
    (chosen,) = [made for made in experiment.jobs(settings) if made.name == job]

    def log_in(folder, epochs=None):
        directory = tmp_path / folder
        directory.mkdir(exist_ok=True)
        log = Log(chosen, directory)
        if epochs is not None:
            log.keep_going = lambda done: done < epochs / 6
        return log

    whole = log_in("whole")
    experiment.run(chosen, whole)
    for epochs in (2, 5, None):  # stopped twice, each time in a new process
        parts = log_in("parts", epochs)
        experiment.run(chosen, parts)
    assert parts.record.complete
    assert parts.record.history == whole.record.history
    assert parts.record.final == whole.record.final
