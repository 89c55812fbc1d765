"""Experiments on problems: as many trials for all, runs that can be stopped, and what is judged."""

import math

import pytest
import torch

import small_data
from colangevin.lab.experiments.problems import attacks, lipschitz, search
from colangevin.lab.runner.experiment import Job
from colangevin.lab.runner.job_log import Log
from colangevin.lab.runner.records import Records, read_records
from colangevin.lab.runner.running import reproduce


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    small_data.write_idx(folder / "fashion-mnist", 400)
    with small_data.any_hash():
        yield folder


# --- trials --------------------------------------------------------------------------------


def job(trials, runs=3):
    return Job("x", "method", {"trials": trials, "runs": runs, "seed": 2})


def counted(scores, stop_at=None):
    """A training that notes what it is asked for."""
    asked = []

    def train(options, part, going):
        if len(asked) == stop_at or not going():
            return None
        asked.append((options["lr"], part, torch.initial_seed()))
        return {"score": scores[options["lr"]], "noise": float(torch.rand(()))}

    return train, asked


def test_the_best_trial_gets_new_seeds(tmp_path):
    train, asked = counted({0.1: 1.0, 0.2: math.nan, 0.3: 5.0, 0.4: 2.0})
    log = Log(job([{"lr": lr} for lr in (0.1, 0.2, 0.3, 0.4)]), tmp_path)
    search.search(log, train, "score")
    assert [own[:2] for own in asked[:4]] == [(lr, "search") for lr in (0.1, 0.2, 0.3, 0.4)]
    assert asked[4:] == [(0.3, "seeds", 2000 + run) for run in range(3)]
    assert not {seed for *_, seed in asked[:4]} & {2000, 2001, 2002}
    record = read_records(tmp_path)["method"]
    assert record.complete and record.final["trial"] == 2 and record.final["lr"] == 0.3
    assert record.final["score"] == [5.0] * 3 and len(set(record.final["noise"])) == 3
    assert search.trial_text(record) == "lr 0.3"


@pytest.mark.parametrize("sign", [1, -1])
def test_less_can_be_better(tmp_path, sign):
    train, asked = counted({0.1: 1.0, 0.2: math.nan, 0.3: 5.0})
    log = Log(job([{"lr": lr} for lr in (0.1, 0.2, 0.3)]), tmp_path)
    search.search(log, train, "score", sign)
    assert {own[0] for own in asked[3:]} == {0.3 if sign > 0 else 0.1}


@pytest.mark.parametrize("stops", [[0], [2], [3, 1]])
def test_a_search_goes_on_where_it_was_stopped(tmp_path, stops, monkeypatch):
    small_data.save_always(monkeypatch)
    scores, trials = {0.1: 1.0, 0.2: 5.0}, [{"lr": 0.1}, {"lr": 0.2}]
    for folder, parts in (("whole", [None]), ("parts", [*stops, None])):
        (tmp_path / folder).mkdir()
        for stop_at in parts:
            train, _ = counted(scores, stop_at)
            search.search(Log(job(trials), tmp_path / folder), train, "score")
    whole, parts = (read_records(tmp_path / name)["method"] for name in ("whole", "parts"))
    assert whole.history == parts.history and whole.final == parts.final


# --- attacks -------------------------------------------------------------------------------


def linear():
    torch.manual_seed(0)
    return torch.nn.Linear(6, 3), 0.3 + 0.4 * torch.rand(20, 6), torch.randint(3, (20,))


@pytest.mark.parametrize("radius", [0.02, 0.2])
def test_attacks_stay_in_the_ball_and_among_pixels(radius):
    model, points, labels = linear()
    moved = attacks.strongest(model, points, labels, radius, 20)
    assert float((moved - points).norm(dim=1).max()) <= radius * (1 + 1e-5)
    assert float(moved.min()) >= 0.0 and float(moved.max()) <= 1.0
    signs = attacks.one_step(model, points, labels, radius)
    torch.testing.assert_close((signs - points).abs(), torch.full_like(points, radius))


def test_an_attack_finds_the_nearest_boundary_of_a_linear_model():
    """Its distance is the least of margin over the norm of the difference of two rows."""
    model, points, labels = linear()
    labels = model(points).argmax(dim=1)
    outputs, weight = model(points), model.weight
    gaps = outputs.gather(1, labels[:, None]) - outputs
    norms = (weight[labels][:, None] - weight[None]).norm(dim=2)
    nearest = (gaps / norms.clamp_min(1e-9)).scatter(1, labels[:, None], math.inf).amin(dim=1)
    for factor, broken in ((0.95, False), (1.05, True)):
        for point, label, radius in zip(points, labels, factor * nearest.detach(), strict=True):
            if float(radius) > 0.25:  # the edge of the pixels may be in the way
                continue
            moved = attacks.strongest(model, point[None], label[None], float(radius), 60)
            wrong = int(model(moved).argmax()) != int(label)
            assert wrong is broken


def test_no_attack_succeeds_within_a_certified_radius():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), lipschitz.GroupSort(), torch.nn.Linear(8, 3))
    weights = [model[0].weight.detach(), model[2].weight.detach()]
    points = torch.rand(200, 6)
    labels = model(points).argmax(dim=1)
    bound = float(attacks.spectral_norms(weights).prod())
    radii = attacks.certified_radii(model(points), labels, bound).tolist()
    for point, label, radius in zip(points[:40], labels[:40], radii[:40], strict=True):
        moved = attacks.strongest(model, point[None], label[None], radius, 20)
        assert int(model(moved).argmax()) == int(label)


# --- lipschitz -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def robust(images, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return reproduce(lipschitz.EXPERIMENT, "smoke", data=images, out=out, jobs=1)


def test_every_method_has_its_trials_and_certificates(robust):
    assert list(robust) == list(lipschitz.METHODS)
    assert {len(own["trials"]) for own in lipschitz.METHODS.values()} == {6}
    for name, record in robust.items():
        assert record.history["part"] == ["search"] * 2 + ["seeds"] * 2
        for radius in ("0.25", "0.5", "1"):
            names = (f"certified_{radius}", f"attacked_{radius}", "test_accuracy")
            found = zip(*map(record.values, names), strict=True)
            assert all(sure <= strong <= clean for sure, strong, clean in found)
        if name.startswith(("orthogonal", "spectral")):
            assert max(record.values("norm_excess")) < 1e-6, name
        if "orthogonal" in name:
            assert max(record.values("gram_error")) < 1e-5, name


def test_its_report_is_made_from_records(robust):
    experiment = lipschitz.EXPERIMENT
    assert len(experiment.table(robust).rows) == len(lipschitz.METHODS)
    assert set(experiment.figures(robust)) == {"radii"}
    assert {claim.order.verdict for claim in experiment.claims(robust) if claim.order} <= {
        "undecided",
        "not comparable",
    }  # two runs decide nothing
    some = Records(record for name, record in robust.items() if name != "sgd")
    assert experiment.figures(some) and experiment.claims(some)
