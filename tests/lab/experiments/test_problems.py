"""Experiments on problems: as many trials for all, runs that can be stopped, and what is judged."""

import math

import pytest
import torch

import small_data
from colangevin.lab.experiments.problems import (
    attacks,
    grokking,
    images,
    lipschitz,
    long_memory,
    long_memory_findings,
    no_normalisation,
    plasticity,
    quantisation,
    quantisation_findings,
    rounding,
    searching,
)
from colangevin.lab.runner.experiment import Job
from colangevin.lab.runner.job_log import Log
from colangevin.lab.runner.records import Record, Records, read_records


@pytest.fixture(scope="module")
def data(tmp_path_factory):
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
    searching.search(log, train, "score")
    assert [own[:2] for own in asked[:4]] == [(lr, "search") for lr in (0.1, 0.2, 0.3, 0.4)]
    assert asked[4:] == [(0.3, "seeds", 2000 + run) for run in range(3)]
    assert not {seed for *_, seed in asked[:4]} & {2000, 2001, 2002}
    record = read_records(tmp_path)["method"]
    assert record.complete and record.final["trial"] == 2 and record.final["lr"] == 0.3
    assert record.final["score"] == [5.0] * 3 and len(set(record.final["noise"])) == 3
    assert searching.trial_text(record) == "lr 0.3"


@pytest.mark.parametrize("sign", [1, -1])
def test_less_can_be_better(tmp_path, sign):
    train, asked = counted({0.1: 1.0, 0.2: math.nan, 0.3: 5.0})
    log = Log(job([{"lr": lr} for lr in (0.1, 0.2, 0.3)]), tmp_path)
    searching.search(log, train, "score", sign)
    assert {own[0] for own in asked[3:]} == {0.3 if sign > 0 else 0.1}


@pytest.mark.parametrize("stops", [[0], [2], [3, 1]])
def test_a_search_goes_on_where_it_was_stopped(tmp_path, stops, monkeypatch):
    small_data.save_always(monkeypatch)
    scores, trials = {0.1: 1.0, 0.2: 5.0}, [{"lr": 0.1}, {"lr": 0.2}]
    for folder, parts in (("whole", [None]), ("parts", [*stops, None])):
        (tmp_path / folder).mkdir()
        for stop_at in parts:
            train, _ = counted(scores, stop_at)
            searching.search(Log(job(trials), tmp_path / folder), train, "score")
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
def robust(smoke):
    return smoke("lipschitz")


def test_every_method_has_its_trials_and_certificates(robust):
    assert list(robust) == list(lipschitz.METHODS)
    assert {len(own["trials"]) for own in lipschitz.METHODS.values()} == {4}
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
    assert len(experiment.tabulate(robust).rows) == len(lipschitz.METHODS)
    assert set(experiment.draw(robust)) == {"radii"}
    assert {claim.order.verdict for claim in experiment.judge(robust) if claim.order} <= {
        "undecided",
        "not comparable",
    }  # two runs decide nothing
    some = Records(record for name, record in robust.items() if name != "sgd")
    assert experiment.draw(some) and experiment.judge(some)


# --- no-normalisation ----------------------------------------------------------------------


def test_deep_networks_are_trained_and_reported(smoke):
    experiment = no_normalisation.EXPERIMENT
    records = smoke(experiment.name)
    assert list(records) == [f"{name}-10" for name in no_normalisation.METHODS]
    for record in records.values():
        assert len(record.values("test_accuracy")) == 2 and record.history["part"][0] == "search"
    assert len(experiment.tabulate(records).rows) == len(records)
    assert set(experiment.draw(records)) == {"depth"}
    assert len(experiment.judge(records)) == 3


@pytest.mark.parametrize("method", no_normalisation.METHODS)
def test_what_is_orthogonal(method):
    settings = {"depth": 4, "width": 12, **no_normalisation.METHODS[method]}
    torch.manual_seed(0)
    model, optimizer = no_normalisation.make(settings, {"lr": 0.01})
    grams = []
    for _ in range(2):
        layers = [layer for layer in model if isinstance(layer, torch.nn.Linear)]
        errors = [lipschitz.gram_error(layer.weight.detach() / 2**0.5) for layer in layers[1:-1]]
        grams.append(max(errors) < 1e-5)
        batch = images.Part(torch.rand(10, 784), torch.randint(10, (10,)))
        for _ in range(3):
            loss = no_normalisation.loss(model, settings, {}, batch)
            assert images.descend(optimizer, loss)
    expected = {"orthogonal": [True, True], "start": [True, False]}
    assert grams == expected.get(settings["weights"], [False, False])
    has_norm = any(isinstance(layer, torch.nn.BatchNorm1d) for layer in model)
    assert has_norm is (settings["weights"] == "norm")


def diverging(part_of, method, options, data, **own):
    settings = {**part_of.SCALES["smoke"], **part_of.METHODS[method], **own}
    read = images.read_images(settings, data)
    return images.trained(settings, read, options, "seeds", lambda: True, part_of.NETWORKS)


def test_a_network_that_diverges_is_measured_where_it_stopped(data):
    found = diverging(no_normalisation, "he-gradient", {"lr": 1e8}, data, depth=4)
    assert 0.0 <= found["test_accuracy"] <= 0.5
    found = diverging(lipschitz, "sgd", {"lr": 1e30}, data)
    assert 0.0 <= found["test_accuracy"] <= 0.5 and found["attacked_0.5"] <= found["test_accuracy"]


# --- grokking ------------------------------------------------------------------------------


def test_pairs_are_products_and_no_test_pair_is_trained_on():
    torch.manual_seed(0)
    train, test = grokking.draw_pairs({"modulus": 7, "share": 0.5, "test_pairs": 100})
    for pairs in (train, test):
        first, second, sign = pairs.tokens.T
        assert torch.equal(first * second % 7, pairs.products) and set(sign.tolist()) == {7}
    rows = [tuple(row) for row in (*train.tokens.tolist(), *test.tokens.tolist())]
    assert len(set(rows)) == len(rows) == 49 and len(train.products) == 24


@pytest.mark.parametrize(("method", "bounded"), [("adam-bounded", True), ("adam-start", False)])
def test_rows_begin_at_the_bound_and_stay_there_if_they_are_bounded(method, bounded):
    settings = {**grokking.SCALES["smoke"], **grokking.METHODS[method]}
    torch.manual_seed(0)
    model, optimizer = grokking.make(settings, {"lr": 0.5, "radius": 2.0})
    hidden = [p for n, p in model.named_parameters() if ".attention." in n or ".mlp." in n]
    assert len(hidden) == 6
    for after in (False, True):
        norms = torch.cat([weight.detach().norm(dim=1) for weight in hidden])
        if after:
            assert bool((norms <= 2.0 + 1e-6).all()) is bounded
        else:
            torch.testing.assert_close(norms, torch.full_like(norms, 2.0))
        for _ in range(3):  # in the first step the head is 0, and hands no gradient on
            outputs = model(torch.randint(7, (30, 3)))
            torch.nn.functional.cross_entropy(outputs[:, -1], torch.randint(7, (30,))).backward()
            optimizer.step()


def test_grokking_runs_and_is_reported(smoke):
    experiment = grokking.EXPERIMENT
    records = smoke(experiment.name)
    assert list(records) == list(grokking.METHODS)
    for record in records.values():
        assert len(record.history["course"]) == 3
        assert record.values("steps") == [4 * len(c) for c in record.history["course"][2:]]
    assert len(experiment.tabulate(records).rows) == 6 and set(experiment.draw(records)) == {
        "steps"
    }
    assert {claim.order.verdict for claim in experiment.judge(records)} <= {"undecided", "no"}


def test_steps_are_compared_by_the_sign_test():
    def record(job, steps, missing):
        settings = {"label": job, "limit": 3000}
        return Record("grokking", job, 0, settings, final={"steps": steps, "missing": missing})

    late, early = [3000] * 5 + [2800], [300, 400, 500, 350, 800, 900]
    found = grokking.EXPERIMENT.judge(
        Records(
            [record("adamw", late, [0.1] * 5 + [0.0]), record("adam-bounded", early, [0.0] * 6)]
        )
    )
    assert [str(claim.order) for claim in found] == ["yes (sign test, n = 6, p = 0.031)"]
    assert "5 of 6 not within 3,000" in found[0].ours


# --- long-memory ---------------------------------------------------------------------------


def test_long_memory_runs_and_is_reported(smoke):
    experiment = long_memory.EXPERIMENT
    records = smoke(experiment.name)
    names = list(long_memory.METHODS)
    assert list(records) == [f"{n}-100" for n in names] + [f"swept-{n}-30" for n in names]
    assert len(experiment.tabulate(records).rows) == 5
    assert set(experiment.draw(records)) == {"recalled"}
    assert len(experiment.judge(records)) == 8
    for name, record in records.items():
        parts = ["seeds"] * 4 if "swept" in name else ["search"] * 2 + ["seeds"] * 2
        assert record.history["part"] == parts
        if "orthogonal" in name:
            assert max(record.history["gram_error"]) < 1e-5


def test_all_recurrent_networks_of_a_seed_begin_with_the_same_weights():
    settings = {"hidden": 8, "other_lr": 0.002}
    tokens, _ = long_memory.draw(3, wait=4)
    outputs = []
    for method in ("free", "orthogonal-gradient", "orthogonal-adam", "torch-orthogonal"):
        torch.manual_seed(1)
        own = {**settings, **long_memory.METHODS[method], "method": method}
        model, _ = long_memory.make(own, {"lr": 0.01})
        outputs.append(model(tokens))
    for other in outputs[1:]:
        torch.testing.assert_close(other, outputs[0], rtol=1e-4, atol=1e-5)


def test_a_network_that_knows_nothing_has_the_loss_of_guessing():
    _, answers = long_memory.draw(4000, wait=5)
    sure = torch.full((*answers.shape, long_memory.TOKENS), -30.0)
    sure[:-10, :, long_memory.BLANK] = 30.0
    sure[-10:, :, : long_memory.SYMBOLS] = 0.0
    loss = torch.nn.functional.cross_entropy(sure.flatten(0, 1), answers.flatten())
    assert float(loss) == pytest.approx(long_memory.guessing(5), rel=1e-4)


def test_learning_rates_that_work_are_counted_by_run():
    history = {"trial": [0, 0, 1, 1], "recalled": [0.95, 0.2, 0.91, None]}
    settings = {"trials": [{"lr": 0.1}, {"lr": 0.2}], "label": "A"}
    record = Record("long-memory", "a", 0, settings, history=history)
    assert long_memory_findings.working(record, "recalled") == [2.0, 0.0]


# --- quantisation --------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("by_row", [False, True])
def test_rounding_has_few_levels_and_least_error_is_less(bits, by_row):
    torch.manual_seed(0)
    weight = torch.randn(6, 500)
    weight[0, 0] = 9.0
    errors = []
    for least_error in (False, True):
        found = rounding.rounded(weight, bits, by_row=by_row, least_error=least_error)
        for row in found if by_row else found[None]:
            levels = row.unique()
            assert len(levels) <= 2**bits - 1
            steps = levels / levels.abs()[levels != 0].min()
            torch.testing.assert_close(steps, steps.round(), rtol=1e-4, atol=1e-3)
        errors.append(float((found - weight).square().sum()))
    assert errors[1] <= errors[0]
    if bits == 2:
        assert errors[1] < 0.8 * errors[0]


def test_the_last_level_is_the_largest_weight():
    weight = torch.tensor([[0.3, -1.2, 0.5]])
    found = rounding.rounded(weight, 3, by_row=True, least_error=False)
    torch.testing.assert_close(found, torch.tensor([[0.4, -1.2, 0.4]]))


def test_matrices_and_kernels_are_rounded_and_the_network_is_left_alone():
    torch.manual_seed(0)
    model = quantisation.make_network({"network": "cnn"})
    before = [p.detach().clone() for p in model.parameters()]
    made = rounding.rounded_model(model, 2, by_row=False, least_error=True)
    for old, new, kept in zip(before, made.parameters(), model.parameters(), strict=True):
        assert torch.equal(old, kept)
        assert len(new.unique()) <= 3 if new.dim() > 1 else torch.equal(old, new)


def test_weights_of_few_bits_are_measured_and_reported(smoke):
    experiment = quantisation.EXPERIMENT
    records = smoke(experiment.name)
    names = [f"{network}-{name}" for network in ("mlp", "cnn") for name in quantisation.METHODS]
    assert list(records) == names
    assert {len(own["trials"]) for own in quantisation.METHODS.values()} == {4}
    for record in records.values():
        kinds = [record.values(f"{kind}_2") for kind in quantisation_findings.KINDS]
        best = record.values("best_2")
        assert all(one in found for one, *found in zip(best, *kinds, strict=True))
    assert len(experiment.tabulate(records).rows) == len(names)
    assert set(experiment.draw(records)) == {"bits"} and len(experiment.judge(records)) == 14


@pytest.mark.parametrize("method", ["clip", "box", "circle"])
@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_bounded_weights_stay_bounded(method, network):
    settings = {"network": network, "width": 8, **quantisation.METHODS[method]}
    torch.manual_seed(0)
    options = {"lr": 0.5, "factor": 0.7}
    model, optimizer = quantisation.make(settings, options)
    batch = images.Part(torch.rand(20, 784), torch.randint(10, (20,)))
    for _ in range(5):
        assert images.descend(optimizer, quantisation.loss(model, settings, options, batch))
    for name, bound in quantisation.bounds(model, 0.7).items():
        weight = model.get_parameter(name).detach()
        assert float(weight.abs().max()) <= bound * (1 + 1e-6)


# --- plasticity ----------------------------------------------------------------------------


def test_many_tasks_run_and_are_reported(smoke):
    experiment = plasticity.EXPERIMENT
    records = smoke(experiment.name)
    assert list(records) == [*plasticity.METHODS, "line-box", "line-circle"]
    assert {len(own["trials"]) for own in plasticity.METHODS.values()} == {6}
    for record in records.values():
        parts = ["seeds"] * 4 if record.settings.get("line") else ["search"] * 2 + ["seeds"] * 2
        assert record.history["part"] == parts
        assert {len(course) for course in record.history["course"]} == {2}
    assert len(experiment.tabulate(records).rows) == len(plasticity.METHODS)
    assert set(experiment.draw(records)) == {"tasks", "temperature"}
    assert experiment.judge(records)


def test_networks_side_by_side_are_searched_as_one_by_one(tmp_path):
    asked = []

    def train(options, seeds, part, going):
        asked.append((part, [own["lr"] for own in options], list(seeds)))
        return [{"score": {0.1: 1.0, 0.2: 5.0}[own["lr"]]} for own in options]

    log = Log(job([{"lr": 0.1}, {"lr": 0.2}]), tmp_path)
    searching.search_together(log, train, "score")
    first = 2000 + searching.kit.RUNS
    assert asked == [
        ("search", [0.1, 0.2], [first] * 2),
        ("seeds", [0.2] * 3, [2000, 2001, 2002]),
    ]
    assert log.record.final["score"] == [5.0] * 3 and log.record.final["trial"] == 1


def small(method, trials, seeds, **more):
    settings = {**plasticity.SCALES["smoke"], **plasticity.METHODS[method], **more}
    return settings, plasticity.make(settings, trials, seeds)


@pytest.mark.parametrize("method", ["clip-gradient", "box-noise", "circle-noise", "box-adam"])
def test_each_network_has_its_own_bound(method):
    trials = [{"lr": 0.1, "factor": factor} for factor in (0.5, 2.0)]
    settings, members = small(method, trials, [7, 7])
    after = plasticity.afterwards(settings, trials, members)
    for _ in range(20):
        inputs, labels = torch.rand(2, 16, 196), torch.randint(10, (2, 16))
        members.step(torch.nn.functional.cross_entropy, inputs, labels)
        with torch.no_grad():
            after()
    for name, weight in members.parameters.items():
        if name.endswith("weight"):
            wide = weight.detach().abs().amax(dim=(1, 2)) * weight.shape[-1] ** 0.5
            assert wide[0] <= 0.5 * (1 + 1e-6) < wide[1] <= 2.0 * (1 + 1e-6)


def test_networks_of_a_seed_begin_with_the_same_weights_and_see_the_same_tasks():
    _, members = small("free-gradient", [{"lr": 0.1}] * 3, [7, 7, 8])
    first = members.parameters["0.weight"]
    assert torch.equal(first[0], first[1]) and not torch.equal(first[0], first[2])
    pool = images.Part(torch.rand(50, 196), torch.arange(50))
    inputs, labels = plasticity.draw_task(pool, [7, 7, 8], 3, 20)
    assert torch.equal(inputs[0], inputs[1]) and torch.equal(labels[0], labels[1])
    assert not torch.equal(labels[0], labels[2]) and len(labels[0].unique()) == 20
    torch.testing.assert_close(  # the same pixels in another order
        inputs.sort(dim=2).values[0], pool.inputs[labels[0]].sort(dim=1).values
    )


def test_decay_to_the_first_weights_leads_there():
    trials = [{"lr": 0.1, "decay": 5.0}, {"lr": 0.1, "decay": 0.0}]
    settings, members = small("initial-adam", trials, [7, 8])
    first = members.parameters["0.weight"].detach().clone()
    after = plasticity.afterwards(settings, trials, members)
    with torch.no_grad():
        members.parameters["0.weight"].add_(1.0)
        after()
    moved = (members.parameters["0.weight"].detach() - first).mean(dim=(1, 2))
    torch.testing.assert_close(moved, torch.tensor([0.5, 1.0]))
