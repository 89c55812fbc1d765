"""Circles on Fashion-MNIST, on a few blurred stripes in the place of clothes."""

from dataclasses import replace

import pytest
import torch

from colangevin.lab.data.idx import ImageData
from colangevin.lab.experiments.images import fashion_circle
from colangevin.lab.runner import datasets
from colangevin.lab.runner.experiment import NO, YES
from colangevin.lab.runner.records import Record, Records
from colangevin.lab.runner.running import reproduce

SIZES = {"runs": 2, "epochs": 2, "hidden": 5, "batch_size": 16, "measurements": 2}


def stripes(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=generator)
    images = torch.randint(60, (count, 28, 28), generator=generator, dtype=torch.uint8)
    for image, label in zip(images, labels.tolist(), strict=True):
        image[2 * label : 2 * label + 3] += 150
    return images, labels


@pytest.fixture
def few_images(monkeypatch):
    data = ImageData(*stripes(70, 0), *stripes(30, 1))
    monkeypatch.setitem(datasets.LOADERS, "fashion-mnist", lambda directory: data)
    return data


def tiny(out, **settings):
    scale = {**fashion_circle.PAPER, **SIZES, **settings}
    small = replace(fashion_circle.EXPERIMENT, scales={"smoke": scale})
    return reproduce(small, "smoke", out=out, jobs=1)


def test_smoke_gives_figures_table_and_claims(few_images, tmp_path):
    records = tiny(tmp_path, train_images=40)
    assert list(records) == list(fashion_circle.METHODS)
    assert all(record.complete for record in records.values())
    for figure in fashion_circle.EXPERIMENT.draw(records).values():
        assert all(len(axis.lines) == 6 for axis in figure.axes)
        assert len(figure.legends) == 1
    assert len(fashion_circle.EXPERIMENT.tabulate(records).rows) == 6
    stated = 6 + 4  # accuracies, losses
    found = fashion_circle.EXPERIMENT.judge(records)
    assert len(found) == stated + 3 + 14  # orderings, and cells of the grid
    assert sum("not run" in answer.by for claim in found for answer in claim.answers) == 14
    bounded = records["c-cola-ud"]
    assert max(bounded.values("largest_output_weight")) <= 0.1
    assert bounded.final["violation"] < 1e-5


def test_images_are_divided_without_overlap(few_images):
    images = fashion_circle.read_images({"train_images": 40, "test_images": 1000}, None)
    assert [len(part) for part in images] == [40, 40, 60, 60]
    everything = torch.cat([images.train_inputs, images.test_inputs])
    assert len(everything.unique(dim=0)) == 100
    again = fashion_circle.read_images({"train_images": 40, "test_images": 7}, None)
    assert torch.equal(again.train_inputs, images.train_inputs)
    assert torch.equal(again.test_labels, images.test_labels[:7])


def test_scores_in_chunks_are_those_of_the_whole(few_images, monkeypatch):
    images = fashion_circle.read_images({"train_images": 40, "test_images": 1000}, None)
    ensemble = fashion_circle.make({**SIZES, **fashion_circle.METHODS["sgd-m"]}, [0, 1])
    whole = fashion_circle.score(ensemble, images.test_inputs, images.test_labels)
    monkeypatch.setattr(fashion_circle, "CHUNK", 17)
    parts = fashion_circle.score(ensemble, images.test_inputs, images.test_labels)
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other)


def test_grid_has_all_cells_of_the_table_and_keeps_the_jobs_of_full():
    experiment = fashion_circle.EXPERIMENT
    full = experiment.plan(experiment.settings("full", None, 0))
    grid = experiment.plan(experiment.settings("grid", None, 0))
    assert grid[:6] == full
    cells = {tuple(job.settings.get(k) for k in ("lr", "momentum", "weight_decay")) for job in grid}
    assert cells >= set(fashion_circle.STATED)
    assert len(grid) == 6 + 14
    asked = experiment.plan(experiment.settings("grid", 2, 0))
    assert {job.settings["runs"] for job in asked} == {2}


def test_verdicts_follow_the_records():
    def record(name, order, accuracy, loss):
        steps = (-2, -1, 0, 1, 2)
        final = {
            "test_accuracy": [accuracy + 0.0001 * step for step in steps],
            "test_loss": [loss + 0.001 * step for step in steps],
            "largest_output_weight": [0.1] * 5,
        }
        return Record("fashion-circle", name, order, fashion_circle.METHODS[name], final=final)

    records = Records([record("c-cola-ud", 0, 0.8763, 0.386), record("sgd-m", 1, 0.8739, 0.9)])
    found = {claim.text: claim for claim in fashion_circle.EXPERIMENT.judge(records)}
    assert found["test loss of SGD-m"].number.verdict == NO
    assert found["test accuracy, % of SGD-m"].number.verdict == YES
    assert found["test loss of c-CoLA-ud (AOAB, delayed gradient)"].number.verdict == YES
    assert found["test loss"].order.verdict == found["test accuracy, %"].order.verdict == YES
    behind = Records([record("c-cola-ud", 0, 0.86, 0.386), record("sgd-m", 1, 0.8739, 0.824)])
    found = {claim.text: claim for claim in fashion_circle.EXPERIMENT.judge(behind)}
    assert found["test accuracy, %"].order.verdict == NO
    missed = found["test accuracy, % of c-CoLA-ud (AOAB, delayed gradient)"]
    assert missed.number.verdict == NO and "leaves the circle" in missed.why
