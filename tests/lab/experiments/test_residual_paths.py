"""residual-paths, on small files written here."""

import copy
from dataclasses import replace

import pytest
import torch

import small_data
from colangevin.lab.experiments.paths import path_findings, residual_training
from colangevin.lab.experiments.paths import residual_paths as residual
from colangevin.lab.experiments.paths.residual_training import BASE, groups, lines_of, narrow_layers
from colangevin.lab.models import VGG11, MobileNetV2, resnet
from colangevin.lab.report.results import results_of
from colangevin.lab.runner import job_log as logs
from colangevin.lab.runner.experiment import VERDICTS
from colangevin.lab.runner.job_log import Log
from colangevin.lab.runner.records import Record, Records, read_records


@pytest.fixture(scope="module")
def whole(smoke):
    """An uninterrupted run at the smallest scale, and its data."""
    with small_data.any_hash():
        yield smoke("residual-paths"), smoke.data


def test_smoke(whole, tmp_path):
    records, _ = whole
    planned = residual.parts(residual.SCALES["smoke"])
    assert {job: list(r.final["trainings"]) for job, r in records.items()} == {
        job: list(own) for job, own in planned.items()
    }
    real = [replace(r, settings={**r.settings, "scale": "full"}) for r in records.values()]
    results = results_of(Records(real, tmp_path))
    assert len(results.claims) > 40
    assert all(a.verdict in VERDICTS for claim in results.claims for a in claim.answers)
    numbers = [claim.number for claim in results.claims if claim.number is not None]
    assert all(answer.verdict == "not comparable" for answer in numbers)  # the scale is reduced
    assert residual.EXPERIMENT.reduction("full")
    assert set(results.figures()) == {
        "decay-and-steps",
        "starts",
        "random-blocks",
        "norms",
        "blocks",
        "data",
        "parts",
        "schemes",
    }
    assert results.table.rows
    part = Records([records["fixed-steps"]])
    assert residual.claims(part) and list(residual.figures(part)) == ["decay-and-steps"]
    alone = residual.figures(Records([records["schemes-resnet"]]))
    assert "starts" not in alone and "norms" not in alone, "panels without their own job"


def test_one_block_from_random_labels_at_each_weight_decay(whole):
    """Figure 6.13: block 4 has a barrier at 5e-4, where the others have a plateau."""
    record = copy.deepcopy(whole[0]["random-labels"])
    labels = {name: own for name, own in record.final["trainings"].items() if name[0] == "b"}
    assert len(labels) == 12
    for name, own in labels.items():
        own["train_accuracy"] = [1.0]
        wanted = {"0": ["monotone", "barrier"], "0.0005": ["barrier", "plateau"]}
        block, _, decay = name.partition("-")
        if decay in wanted:
            own["paths"]["whole"]["shape"] = [wanted[decay][block != "b4"]]
    claims = [c for c in residual.claims(Records([record])) if "from random labels" in c.text]
    lines = [c for c in claims if c.text.startswith("line")]
    stated = [*["monotone", *["barrier"] * 3], *["barrier", *["plateau"] * 3]]
    assert [c.source for c in lines] == stated
    assert {str(c.order) for c in lines} == {"undecided (n = 1)"}
    assert {c.why for c in lines} == {"in 1 of 1 runs"}


def test_lines_end_at_the_same_loss_and_blocks_begin_elsewhere(whole):
    paths = whole[0]["schemes-resnet"].final["trainings"]["base"]["paths"]
    assert list(paths)[:7] == ["whole", "stem", "B1", "B2", "B3", "B4", "fc"]
    ends = {own["losses"][0][-1] for own in paths.values()}
    assert max(ends) - min(ends) < 1e-5
    starts = {round(own["losses"][0][0], 5) for own in paths.values()}
    assert len(starts) > 3
    assert len(paths["whole"]["losses"][0]) == 11 and len(paths["B1"]["losses"][0]) == 3


@pytest.mark.parametrize("job", ["random-labels", "resets"])
def test_stopped_and_resumed_equals_uninterrupted(tmp_path, whole, job, monkeypatch):
    monkeypatch.setattr(logs, "REPORT_SECONDS", -1.0)
    records, data = whole
    task = next(
        item
        for item in residual.jobs(residual.EXPERIMENT.settings("smoke", None, 0))
        if item.name == job
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(records[job].versions["threads"])
    try:
        for progress in (small_data.stop_after(4), lambda done: True):
            residual.run(task, Log(task, tmp_path, data, progress=progress))
    finally:
        torch.set_num_threads(threads)
    assert read_records(tmp_path)[job].final == records[job].final


def test_steps_and_decay_by_block():
    model = resnet((1, 1), width=2)
    options = {**BASE, "h": [0.1, 0.01], "decay": [0.0, 5e-4]}
    inside, outside = groups(model, options, ["B2", "fc"])
    assert (inside["lr"], inside["weight_decay"]) == (0.1, 0.0)
    assert (outside["lr"], outside["weight_decay"]) == (0.01, 5e-4)
    chosen = [p for n, p in model.named_parameters() if n.startswith(("stages.1.", "head."))]
    assert [id(p) for p in inside["params"]] == [id(p) for p in chosen]
    assert len(inside["params"]) + len(outside["params"]) == len(list(model.parameters()))
    (only,) = groups(model, {**BASE, "h": 0.1}, [])
    assert only["lr"] == 0.1


def test_parts_of_a_block_cover_it():
    model = resnet((1, 1, 1), width=2)
    lines = lines_of(model, ["whole", "parts"])
    names = {name for kind, found in lines.items() if kind != "whole" for name in found}
    block = {
        name
        for name, tensor in model.state_dict().items()
        if name.startswith("stages.2.") and tensor.is_floating_point()
    }
    assert names == block


def test_layers_to_narrow():
    barriers = [str(n) for n in range(4, 11)]
    found = {which: narrow_layers({"narrow": which}, barriers) for which in ("one", "all", "free")}
    assert found == {"one": [4], "all": list(range(4, 11)), "free": [1, 2, 3]}
    assert narrow_layers(BASE, barriers) == []


@pytest.mark.parametrize("model", [resnet((1, 1, 1, 2), width=2), MobileNetV2(classes=10)])
def test_what_a_start_takes_from_another_state(model):
    own = model.state_dict()
    source = {name: torch.full_like(t, 7) for name, t in own.items()}

    def sevens(take):
        found = residual.taken(model, source, take)
        return {name for name, t in found.items() if bool((t == 7).all())}

    blocks = [sevens(f"B{n}") for n in range(1, 5)]
    assert sevens("all") == set(own)
    assert all(sevens(f"not B{n}") == set(own) - blocks[n - 1] for n in range(1, 5))
    assert sum(map(len, blocks)) == len(set().union(*blocks)), "no name twice"
    left = {name.split(".")[0] for name in set(own) - set().union(*blocks)}
    assert left == ({"stem", "head"} if "stem.0.weight" in own else {"features", "classifier"})


def test_blocks_of_a_mobilenet_are_its_inverted_residuals():
    model = MobileNetV2()
    found = set().union(*(residual_training.names_in(model, f"B{n}") for n in range(1, 5)))
    assert found == {name for name in model.state_dict() if ".conv." in name}


def test_a_classifier_of_other_classes_is_not_taken():
    model = MobileNetV2(classes=10)
    source = {name: torch.full_like(t, 7) for name, t in MobileNetV2().state_dict().items()}
    found = residual.taken(model, source, "all")
    kept = {name for name, t in found.items() if not bool((t == 7).all())}
    assert kept == {"classifier.1.weight", "classifier.1.bias"}


def test_a_start_on_the_line_of_an_earlier_run(tmp_path, whole):
    task = residual.jobs(residual.EXPERIMENT.settings("smoke", None, 0))[0]
    log = Log(task, tmp_path, whole[1])
    model = resnet((1, 1), width=2)
    zeros = {name: torch.zeros_like(t) for name, t in model.state_dict().items()}
    ones = {name: torch.ones_like(t) for name, t in zeros.items()}
    model.load_state_dict(zeros)
    state = {
        "ends": {"a": [ones]},
        "done": {"a": [{"paths": {"whole": [1.0, 0.5, 0.9, 0.1, 0.0]}}], "now": []},
    }
    start = {"from": "a", "take": "barrier", "offset": 0.1}
    middle = residual._first_state(model, start, state, log)
    assert middle["head.weight"].unique().item() == pytest.approx(0.6)
    state["done"]["a"][0]["paths"]["whole"] = [1.0, 0.5, 0.0]
    assert residual._first_state(model, start, state, log) is None


def test_random_labels_end_once_they_are_learnt(tmp_path, whole, monkeypatch):
    """One image is learnt at once."""
    settings = residual.EXPERIMENT.settings("smoke", None, 0)
    task = next(job for job in residual.jobs(settings) if job.name == "random-labels")
    trainings = {"random-labels": task.settings["trainings"]["random-labels"]}
    more = {"train_images": 1, "batch_size": 1, "label_epochs": 200, "trainings": trainings}
    monkeypatch.setattr(residual_training, "augmented", lambda images, kind: images)
    # Batch normalisation needs more than one value per channel: not of one image at one pixel.
    task = replace(task, settings={**task.settings, **more, "pixels": 16, "width": 4})
    log = Log(task, tmp_path, whole[1])
    residual.run(task, log)
    found = log.record.final["trainings"]["random-labels"]
    assert found["train_accuracy"] == [1.0]
    assert found["epochs"][0] < 200


def test_measured_barriers_decide_where_they_are_asked_for(whole):
    settings = dict(whole[0]["schemes-vgg"].settings)
    names = list(residual_training.blocks_of(VGG11(2)))
    paths = {name: [1.0, 0.5, 0.0] for name in names} | {"3": [1.0, 1.5, 0.0]}
    done = {"base": [{"paths": paths}]}
    for wanted, found in (("measured", ["3"]), ("stated", [str(n) for n in range(4, 11)])):
        work = residual_training.Work({**settings, "barriers": wanted}, None, torch.device("cpu"))
        assert residual.barriers_of(work, done) == found


def faked(scale, accuracies):
    path = {"losses": [[1.0, 0.5]], "shape": ["monotone"], "height": [0.0], "alpha": [None]}
    trainings = {
        name: {
            "test_accuracy": values,
            "train_accuracy": values,
            "distance": [1.0] * len(values),
            "paths": {"whole": path},
        }
        for name, values in accuracies.items()
    }
    settings = {**residual.PAPER, "scale": scale}
    record = Record("residual-paths", "schemes-vgg", 0, settings, final={"trainings": trainings})
    return Records([record])


@pytest.mark.parametrize("scale", ["paper", "full"])
def test_verdicts_on_what_layers_without_barriers_tolerate(scale):
    base, lower = [0.92, 0.93, 0.92, 0.93, 0.92], [0.90, 0.91, 0.90, 0.92, 0.90]
    ahead = {"base": base, "h-low-free": base, "h-low-barrier": lower}
    behind = {**ahead, "h-low-free": [v - 0.05 for v in lower]}
    for accuracies, verdict in ((ahead, "yes"), (behind, "no")):
        claims = residual.claims(faked(scale, accuracies))
        (cost,) = [claim for claim in claims if "costs" in claim.text]
        assert cost.order.verdict == verdict


def test_networks_that_learnt_nothing_get_no_verdict():
    idle = {"base": [0.92, 0.93], "h-low-barrier": [0.10, 0.11]}
    claims = residual.claims(faked("paper", idle))
    (claim,) = [claim for claim in claims if "test accuracy" in claim.text]
    assert claim.order.verdict == "not comparable"
    assert claim.order.by == "learnt nothing here: h0 = 0.01 (B), 0.1 (NB)"


def test_the_scale_of_the_thesis_trains(tmp_path, whole):
    """ResNet-18 and VGG-11 at full width, on a few images: two steps and two points of a line."""
    settings = residual.EXPERIMENT.settings("paper", 1, 0)
    sizes = {"resnet": 11_173_962, "vgg": 9_753_674}
    few = {"batches": [1], "train_images": 4, "test_images": 4, "train_tests": 4, "epochs": 1}
    few |= {"path_images": 2, "batch_size": 2, "points": 2}
    for net, size in sizes.items():
        model = residual_training.network(settings, {**BASE, "net": net}, ())
        assert sum(p.numel() for p in model.parameters()) == size
        task = residual.jobs(settings)[0]
        own = {**task.settings, **few, "trainings": {"one": {"net": net}}}
        log = Log(replace(task, settings=own), tmp_path, whole[1])
        residual.run(log.job, log)
        assert len(log.record.final["trainings"]["one"]["paths"]["whole"]["losses"][0]) == 2


def test_a_start_from_published_weights(tmp_path, whole, monkeypatch):
    records, data = whole
    weights = MobileNetV2().state_dict()
    weights["features.18.1.bias"].fill_(1.0)  # what the classifier gets is no longer near 0
    monkeypatch.setitem(residual.kit.LOADERS, "mobilenet", lambda directory: weights)
    settings = residual.EXPERIMENT.settings("smoke", None, 0)
    planned = residual.jobs({**settings, "imagenet": {"pixels": 32, "runs": 1}})
    assert [job.name for job in planned][-2:] == ["imagenet", "imagenet-resets"]
    assert planned[:-2] == residual.jobs(settings), "the others stay as they are"
    made = [Log(job, tmp_path, data, order=9 + n) for n, job in enumerate(planned[-2:])]
    for log in made:
        residual.run(log.job, log)
    trained = made[0].record.final["trainings"]
    assert list(trained["mobilenet"]["paths"]) == ["whole"]
    paths = trained["mobilenet-imagenet"]["paths"]
    (taught,), (random,) = paths["whole"]["losses"], paths["random"]["losses"]
    assert taught[-1] == random[-1] and taught[0] != random[0]
    (scratch,) = trained["mobilenet"]["paths"]["whole"]["losses"]
    assert random[0] == scratch[0], "the same random weights"
    for own in made[1].record.final["trainings"].values():
        assert own["paths"]["whole"]["losses"][0][0] == taught[0], "all but a block was taken"
    all_records = Records([*records.values(), *(log.record for log in made)])
    found = [claim for claim in residual.claims(all_records) if "ImageNet" in claim.text]
    assert len(found) == 6 and all("MobileNetV2 for the ResNets" in c.why for c in found)
    assert len(residual.figures(all_records)["imagenet"].axes) == 2


@pytest.mark.parametrize("top", [0.4, 1.0])
def test_runs_from_a_barrier_are_compared_with_those_that_have_one(top):
    """The second run has no barrier to start from, so that the second of two is the third's.

    A barrier at the end of the line is a trained network: to go on from it shows less.
    """

    def training(values, shapes):
        path = {"losses": [[1.0, 0.5]] * len(values), "shape": shapes}
        path |= {"height": [0.0] * len(values), "alpha": [0.3, 1.0, top][: len(values)]}
        own = {"test_accuracy": values, "train_accuracy": values, "distance": [1.0]}
        curve = [{"train_loss": [2.0, 1.0 - value]} for value in values]
        return {**own, "curve": curve, "paths": {"whole": path}}

    trainings = {
        "scratch": training([0.4, 0.9, 0.5], ["barrier", "monotone", "barrier"]),
        "at": training([0.42, 0.53], ["monotone"] * 2),
    }
    settings = {**residual.PAPER, "scale": "paper"}
    record = Record("residual-paths", "barrier-start", 0, settings, final={"trainings": trainings})
    claims = residual.claims(Records([record]))
    plain = {**settings, "trainings": residual.parts(residual.FULL)["barrier-start"]}
    small = Records([replace(record, settings=plain)])
    others = residual.claims(small)
    rows = residual.EXPERIMENT.table(small).rows
    assert [row[1] for row in rows] == ["no WD, as a start, VGG-11", "from the barrier, VGG-11"]
    assert all("VGG-11 for the ResNet" in c.why for c in others if "from the barrier" in c.text)
    assert not any("VGG-11 for the ResNet" in claim.why for claim in claims)
    test, train, faster = [c for c in claims if "start from the barrier" in c.text][:3]
    assert "91.12" in test.text and "99.86" in train.text
    assert faster.ours.endswith("no WD, as a start, with a barrier 1.275 ± 0.035 (2 runs)")
    for claim in (test, train):
        assert claim.ours.endswith("no WD, as a start, with a barrier 45.0 ± 7.1 (2 runs)")
    assert {str(claim.order) for claim in (test, train, faster)} == {"undecided (n = 2)"}
    assert ("in 1 of 2 runs the top" in test.why) == (top == 1.0)
    missing = [c for c in claims if "from before the barrier" in c.text]
    assert [c.order.by[:6] for c in missing] == ["no run"] * 3


def test_losses_that_are_not_finite_are_no_barrier_and_no_claim_without_one():
    assert residual.barrier_place([1.0, float("inf"), 0.0], 0.1) is None
    own = {"shape": ["monotone", "not finite"]}
    assert path_findings.shapes(own) == "1 monotone, 1 not finite"
    record = Record("loss-paths", "a", 0, {}, final={"paths": {"all": own, "layer": own}})
    assert path_findings.smooth(record, "all") == [1.0, 0.0]
    assert path_findings.barriers(record, "all,layer") == [0.0, 0.0]
    (claim,) = path_findings.without("a", "all", "a line")(Records([record]))
    assert claim.ours == "in 1 of 2 runs" and claim.order.verdict == "undecided"
