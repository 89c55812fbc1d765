"""The experiments on the two-turn spiral, at the smallest scale, through the framework."""

import json
from dataclasses import replace

import pytest
import torch

import small_data
from colangevin.errors import DivergenceWarning, RecordError
from colangevin.lab.experiments.registry import find
from colangevin.lab.experiments.spirals import curvature as spiral_curvature
from colangevin.lab.experiments.spirals import spiral
from colangevin.lab.runner.experiment import seeds_of
from colangevin.lab.runner.job_log import Log
from colangevin.lab.runner.records import Record, Records, read_records
from colangevin.lab.runner.running import reproduce

NAMES = ("spiral-classifiers", "spiral-curvature", "spiral-gradients", "spiral-temperature")


@pytest.fixture(scope="module")
def out(smoke):
    """Where the records of all of them are, and the networks of the classifiers."""
    first, *_ = [smoke(name) for name in NAMES]
    return first.directory.parent


@pytest.mark.parametrize("name", NAMES)
def test_some_of_the_jobs_are_enough_for_a_report(smoke, name):
    """A run that was stopped has a report as well."""
    experiment, records = find(name), smoke(name)
    first = Records(list(records.values())[:1])
    assert len(experiment.tabulate(first).rows) == 1
    experiment.judge(first)
    experiment.draw(first)


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
    base = [0.6, 0.7, 0.8, 0.9, 0.7]
    made = []
    for record in records.values():
        lift = 0.01 if record.job.startswith("c-") else 0.0
        jitter = [0.0, 0.001, 0.0, 0.002, 0.001]
        values = [b + lift + j for b, j in zip(base, jitter, strict=True)]
        final = {**record.final, "test_accuracy": values, "test_loss": [1 - v for v in values]}
        made.append(replace(record, final=final))
    claims = find("spiral-classifiers").judge(Records(made))
    assert {claim.order.verdict for claim in claims} == {"yes"}
    swapped = [replace(r, final={**r.final, "test_accuracy": base}) for r in made]
    claims = find("spiral-classifiers").judge(Records(swapped))
    verdicts = {c.order.verdict for c in claims if "accuracy" in c.text}
    assert verdicts == {"undecided"}, "all runs are ties"


@pytest.mark.parametrize("job", ["sgd-wd", "c-sgld"])
def test_a_training_that_was_stopped_goes_on_exactly(tmp_path, job):
    experiment = find("spiral-classifiers")
    settings = {**experiment.settings("smoke", None, 0), "epochs": 6}
    (chosen,) = [made for made in experiment.plan(settings) if made.name == job]

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


def test_damaged_networks_of_the_classifiers_are_named(out, tmp_path):
    folder = tmp_path / "spiral-classifiers"
    folder.mkdir()
    whole = (out / "spiral-classifiers" / "sgd.weights.pt").read_bytes()
    (folder / "sgd.weights.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RecordError, match=r"sgd\.weights\.pt is damaged"):
        reproduce(find("spiral-curvature"), "smoke", out=tmp_path, jobs=1)


def test_examining_that_was_stopped_goes_on(tmp_path, monkeypatch):
    """Every network is examined once, also where the process is another one."""
    small_data.save_always(monkeypatch)
    experiment = find("spiral-curvature")
    job = experiment.plan(experiment.settings("smoke", 4, 0))[0]
    curvature, seen = spiral_curvature.boundary_curvature, []

    def until_the_third(network, extent, grid):
        seen.append(network[0].weight[0, 0].item())
        if len(seen) == 3:
            raise KeyboardInterrupt
        return curvature(network, extent, grid)

    monkeypatch.setattr(spiral_curvature, "boundary_curvature", until_the_third)
    with pytest.raises(KeyboardInterrupt):
        experiment.run(job, Log(job, tmp_path))
    again = Log(job, tmp_path)
    experiment.run(job, again)
    assert len(seen) == 5 and len(set(seen)) == 4
    assert seen[2] == seen[3]
    monkeypatch.undo()
    (tmp_path / "whole").mkdir()
    whole = Log(job, tmp_path / "whole")
    experiment.run(job, whole)
    assert again.record.final == whole.record.final


@pytest.mark.parametrize("name", ["spiral-curvature", "spiral-gradients"])
def test_a_removed_member_keeps_its_place(tmp_path, monkeypatch, name):
    experiment = find(name)
    job = experiment.plan(experiment.settings("smoke", 3, 0))[0]
    prepared = spiral.make

    def with_one_that_diverges(settings, seeds, radii, temperature):
        ensemble = prepared(settings, seeds, radii, temperature)
        ensemble._learned["0.weight"][1] = torch.inf
        return ensemble

    monkeypatch.setattr(spiral, "make", with_one_that_diverges)
    log = Log(job, tmp_path)
    with pytest.warns(DivergenceWarning):
        experiment.run(job, log)
    final = log.record.final
    assert [removal["member"] for removal in final["removed"]] == [1]
    if name == "spiral-curvature":
        assert len(final["curvature"]) == 3 and final["curvature"][1][0] == 0
    else:
        assert [value is None for value in final["largest_x"]] == [False, True, False]


def test_runs_can_share_a_few_sets_of_data():
    settings = {**spiral.SCALES["smoke"], "draws": 2}
    shared, own = spiral.draw_points(settings, [5, 6, 7]), spiral.draw_points(settings, [5, 6])
    assert torch.equal(shared.train_inputs, own.train_inputs[[0, 1, 0]])
    assert torch.equal(shared.test_labels, own.test_labels[[0, 1, 0]])


def test_the_scale_draws_keeps_the_jobs_of_full_and_explains_a_claim():
    experiment = find("spiral-classifiers")
    full = experiment.plan(experiment.settings("full", None, 0))
    jobs = experiment.plan(experiment.settings("draws", 10, 0))
    assert [job.name for job in jobs[:5]] == [job.name for job in full]
    assert experiment.plan(experiment.settings("draws", None, 0))[:5] == full
    wide = [v for n in range(5) for v in (0.6 + 0.01 * n, 0.4 + 0.01 * n)]
    accuracy = {"sgd": [0.5] * 10, "c-sgd": wide}
    records = Records(
        Record(
            experiment.name,
            job.name,
            order,
            {**job.settings, "draws": 2} if "draws" in job.settings else dict(job.settings),
            final={"test_accuracy": values, "test_loss": [1 - value for value in values]},
        )
        for order, job in enumerate(jobs)
        for values in [accuracy.get(job.name.removeprefix("draws-"))]
        if values
    )
    claim = experiment.judge(records)[0]
    assert claim.order.verdict == "undecided"
    assert claim.why.endswith(
        "of 2 sets of data with 5 runs each it is clearly ahead in 1, clearly behind in 1"
    )


def test_bounds_on_norms_are_held():
    settings = {**spiral.SCALES["smoke"], "spheres": (0.3, 0.4)}
    ensemble = spiral.make(settings, [0, 1], None, 5e-5)
    points = spiral.draw_points(settings, [0, 1])
    for _ in range(3):
        ensemble.epoch(
            spiral.loss, points.train_inputs, points.train_labels, batch_size=10, per_member=True
        )
    for network in spiral.networks(ensemble):
        norms = [float(network[layer].weight.detach().norm(dim=1).max()) for layer in (0, 2)]
        assert norms == pytest.approx([0.3, 0.4], rel=0.2)  # near the bound, after its first place
        assert norms[0] <= 0.3 + 1e-5 and norms[1] <= 0.4 + 1e-5


def test_the_scale_spheres_adds_noise_and_no_noise():
    experiment = find("spiral-classifiers")
    drawn = experiment.plan(experiment.settings("draws", None, 0))
    jobs = experiment.plan(experiment.settings("spheres", None, 0))
    assert jobs[: len(drawn)] == drawn
    assert {job.settings["temperature"] for job in jobs[len(drawn) :]} == {0.0, 5e-5}
    assert {job.settings["runs"] for job in jobs[len(drawn) :]} == {10}
