"""cifar-orthogonal, on small files written here."""

from dataclasses import replace

import pytest
import torch

import small_data
from colangevin.errors import DataError
from colangevin.lab.experiments.images import cifar_orthogonal as cifar
from colangevin.lab.runner import job_log as logs
from colangevin.lab.runner import running
from colangevin.lab.runner.job_log import Log
from colangevin.lab.runner.records import Record, Records, read_records


@pytest.fixture(scope="module")
def whole(smoke):
    """An uninterrupted run at the smallest scale, and its data."""
    with small_data.any_hash():
        yield smoke("cifar-orthogonal", runs=2), smoke.data


def test_every_method_has_a_whole_record(whole):
    records, _ = whole
    assert list(records) == [f"few-{name}" for name in cifar.METHODS]
    for record in records.values():
        assert record.complete
        assert record.history["epoch"] == [1, 2, 3]
        assert all(len(entry) == 2 for entry in record.history["test_loss"])
        assert record.final["diverged"] == []
    assert all(0 < value < 1e-5 for value in records["few-o-cola-ud"].values("violation"))
    plain = records["few-sgd-m"].history
    assert plain != records["few-sgd-m-wd"].history
    assert plain["test_loss"][0][0] != plain["test_loss"][0][1]


@pytest.mark.parametrize("job", ["few-o-cola-ud", "few-sgd"])
def test_stopped_within_an_epoch_and_resumed_equals_uninterrupted(
    tmp_path, whole, job, monkeypatch
):
    monkeypatch.setattr(logs, "REPORT_SECONDS", -1.0)
    records, data = whole
    settings = cifar.EXPERIMENT.settings("smoke", 2, 0)
    task = next(item for item in cifar.jobs(settings) if item.name == job)
    threads = torch.get_num_threads()
    torch.set_num_threads(records[job].versions["threads"])  # sums are divided among them
    try:
        for progress in (small_data.stop_after(3), lambda done: True):
            cifar.run(task, Log(task, tmp_path, data, progress=progress))
    finally:
        torch.set_num_threads(threads)
    found = read_records(tmp_path)[job]
    assert (found.history, found.final) == (records[job].history, records[job].final)


def steps_of(settings):
    """The step of every epoch."""
    _, optimizer, scheduler = cifar.begin(settings)
    seen = []
    for _ in range(settings["epochs"]):
        seen.append(optimizer.param_groups[1]["lr"])
        optimizer.step()
        scheduler.step()
    return seen


def test_images_are_only_moved_where_a_job_says_so(monkeypatch):
    moved = []
    monkeypatch.setattr(cifar.augment, "random_crop", lambda images: moved.append(1) or images)
    job = cifar.jobs(cifar.EXPERIMENT.settings("smoke", None, 0))[0]
    assert (job.settings["augmented"], job.settings["warm_up"]) == (False, True)
    images = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    data = cifar.ImageData(images, torch.tensor([0, 1]), images, torch.tensor([0, 1]))
    model = cifar.begin(job.settings).model
    for augmented in (False, True):
        cifar.batch_loss(model, data, torch.arange(2), augmented)
    assert moved == [1]


def test_steps_fall_by_ten_after_each_third():
    settings = {**cifar.MANY, **cifar.TINY, **cifar.METHODS["o-cola-ud"], "epochs": 6}
    assert steps_of(settings) == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])
    warm = steps_of({**settings, "warm_up": True, "epochs": 9})
    assert warm[:4] == pytest.approx([0.1 / 3, 0.2 / 3, 0.1, 0.01])
    assert cifar.begin({**settings, "momentum": 0.0}).scheduler is None


def test_weights_are_orthogonal_but_for_the_first():
    model = cifar.begin({**cifar.SCALES["smoke"], **cifar.METHODS["o-cola-od"]}).model
    for name, weight in model.named_parameters():
        if weight.dim() < 2:
            continue
        matrix = weight.detach().flatten(1)
        matrix = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
        error = (matrix @ matrix.T - torch.eye(len(matrix))).abs().max()
        assert (error < 1e-5) == (not name.startswith("stem")), name


def test_figures_table_and_claims_from_records(whole):
    records, _ = whole
    drawn = cifar.figures(records)
    assert list(drawn) == ["few", "few-overdamped"]
    for figure, count in zip(drawn.values(), (3, 2), strict=True):
        assert len(figure.axes) == 3
        for axis in figure.axes:
            assert len(axis.get_legend().get_texts()) == count
    assert len(cifar.table(records).rows) == 5
    assert len(cifar.claims(records)) == 4
    part = Records([records["few-sgd"]])
    assert list(cifar.figures(part)) == ["few-overdamped"]
    assert len(cifar.table(part).rows) == 1
    assert cifar.claims(part) == []


def test_many_images_are_added_to_the_full_scale_and_not_judged(whole):
    settings = cifar.EXPERIMENT.settings("long", None, 0)
    full = cifar.jobs(cifar.EXPERIMENT.settings("full", None, 0))
    planned = cifar.jobs(settings)
    assert planned[: len(full)] == full
    many = planned[len(full) :]
    assert [job.settings["epochs"] for job in many] == [12] * 5 + [40] * 3
    assert {job.settings["train_images"] for job in many} == {20_000}
    assert not any("warm_up" in job.settings for job in many)
    few = {name.removeprefix("few-"): record for name, record in whole[0].items()}
    made = [
        replace(few[job.name.removeprefix("long-")], job=job.name, settings=job.settings)
        for job in many
    ]
    records = Records([*whole[0].values(), *made])
    drawn = ["few", "few-overdamped", "momentum", "momentum-long", "overdamped"]
    assert list(cifar.figures(records)) == drawn
    assert len(cifar.claims(records)) == 4
    assert "1,000 of 50,000 images" in cifar.EXPERIMENT.reduction("long")


# --- the paper's scale ----------------------------------------------------------------------


def paper_job(name, **smaller):
    planned = cifar.jobs({**cifar.EXPERIMENT.settings("paper", None, 0), **smaller})
    return next(job for job in planned if job.name == name)


def test_the_papers_scale_has_its_settings():
    planned = cifar.jobs(cifar.EXPERIMENT.settings("paper", None, 0))
    assert [job.name for job in planned] == [*cifar.METHODS, *cifar.FRICTION]
    for job in planned:
        settings = job.settings
        assert (settings["epochs"], settings["runs"], settings["batch_size"]) == (150, 5, 128)
        assert (settings["train_images"], settings["batches"]) == (50_000, [1, 2, 3, 4, 5])
    names = {job.name: job.settings for job in planned}
    assert names["sgd-m"]["momentum"] == names["o-cola-ud"]["momentum"] == 0.9
    assert names["o-cola-ud-friction"]["friction"] == 0.5


def test_the_papers_network_and_steps():
    model, optimizer, scheduler = cifar.begin(paper_job("o-cola-ud-friction").settings)
    convolutions = [m for m in model.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convolutions) == 33 + 3  # 34 layers with the last one, and three shortcuts
    assert 21e6 < sum(p.numel() for p in model.parameters()) < 22e6
    seen = []
    for epoch in range(150):
        group = optimizer.param_groups[1]
        if epoch % 50 == 2:  # after the warm-up
            seen.append((group["lr"], group["friction"], group["momentum"]))
        optimizer.step()
        scheduler.step()
    assert [lr for lr, *_ in seen] == pytest.approx([0.1, 0.01, 0.001])
    assert {(friction, momentum) for _, friction, momentum in seen} == {(0.5, None)}


def test_the_papers_scale_makes_steps(tmp_path):
    small_data.write_cifar(tmp_path, more=[f"data_batch_{i}" for i in (3, 4, 5)])
    smaller = {"width": 8, "epochs": 3, "runs": 1, "train_images": 160, "batch_size": 80}
    with small_data.any_hash():
        plan = running.prepare(cifar.EXPERIMENT, "paper", data=tmp_path, out=tmp_path / "out")
        assert len(plan.todo) == 6
        for name in ("sgd-m-wd", "o-cola-ud-friction"):
            job = paper_job(name, **smaller)
            log = Log(job, tmp_path, tmp_path)
            cifar.run(job, log)
            assert log.record.history["epoch"] == [1, 2, 3]
            assert log.record.final["diverged"] == []
            assert log.record.values("violation")[0] < 1e-5


def test_missing_batches_are_named_before_anything_runs(tmp_path):
    small_data.write_cifar(tmp_path)
    with small_data.any_hash():
        running.prepare(cifar.EXPERIMENT, "full", data=tmp_path, out=tmp_path / "out")
        with pytest.raises(DataError, match=r"all batches: .*data_batch_3") as found:
            running.prepare(cifar.EXPERIMENT, "paper", data=tmp_path, out=tmp_path / "out")
    assert "COLA_DATA" in str(found.value)


def faked(scale, **accuracies):
    rows = []
    for order, (job, values) in enumerate(accuracies.items()):
        name = job.replace("_", "-")
        losses = [1 - value for value in values]
        final = {"test_accuracy": values, "test_loss": losses, "train_loss": losses}
        rows.append(Record("x", name, order, {**scale, **cifar.METHODS[name]}, final=final))
    return Records(rows)


def test_verdicts():
    low, high = [0.80, 0.81, 0.82, 0.81, 0.80], [0.90, 0.91, 0.93, 0.91, 0.90]
    swinging = [0.70, 0.95, 0.72, 0.97, 0.80]
    for other, own, verdict in (
        (low, high, "yes"),
        (high, low, "no"),
        (low, swinging, "undecided"),
        (low[:4], high[:4], "undecided"),
        ([0.1] * 5, [0.11] * 5, "not comparable"),
    ):
        found = cifar.claims(faked(cifar.PAPER, sgd_m=other, o_cola_ud=own))
        accuracy = next(claim for claim in found if "accuracy" in claim.text)
        assert accuracy.order.verdict == verdict
        assert ("ends at a training loss of" in accuracy.why) == (verdict in ("no", "undecided"))
    assert not cifar.EXPERIMENT.reduction("paper")


def test_divergence_does_not_end_the_job(tmp_path, whole):
    task = cifar.jobs(cifar.EXPERIMENT.settings("smoke", 1, 0))[0]
    wild = replace(task, settings={**task.settings, "lr": 1e38})
    log = Log(wild, tmp_path, whole[1])
    cifar.run(wild, log)
    assert log.record.final["diverged"][0]["run"] == 0
    assert cifar.table(Records([log.record])).rows
