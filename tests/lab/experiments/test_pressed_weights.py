"""The script of the pressed weights, with a small network; its verdict can fail."""

import json
import math
import runpy
from pathlib import Path

import pytest
import torch

from colangevin.lab.data.idx import ImageData
from colangevin.lab.runner import datasets

ROOT = Path(__file__).parents[3]
METHOD = "c-cola-ud-oba"


@pytest.fixture
def script(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (100, 28, 28), generator=generator, dtype=torch.uint8)
    labels = torch.randint(10, (100,), generator=generator)
    data = ImageData(images[:70], labels[:70], images[70:], labels[70:])
    monkeypatch.setitem(datasets.LOADERS, "fashion-mnist", lambda directory: data)
    return runpy.run_path(str(ROOT / "scripts" / "pressed_weights.py"))


def run(script, folder, epochs=2):
    out = folder / "record.json"
    sizes = ["--hidden", "6", "--train-images", "40", "--test-images", "60"]
    given = ["--methods", METHOD, "--epochs", str(epochs), *sizes, "--work", str(folder)]
    code = script["main"]([*given, "--before", str(folder), "--out", str(out)])
    return code, json.loads(out.read_text(encoding="utf-8"))[METHOD]


def test_a_short_run_counts_every_slack(script, tmp_path):
    code, found = run(script, tmp_path)
    assert code == 0 and found["passed"] and found["before"] is None
    assert {name: counts["weights"] for name, counts in found["slacks"].items()} == {
        "0.weight": 6 * 784,
        "2.weight": 60,
    }
    assert 0.0 < found["slacks"]["2.weight"]["smallest_in_radii"] < 1.0


def test_a_run_that_was_stopped_goes_on_as_if_it_was_not(script, tmp_path):
    for folder in ("whole", "parts"):
        (tmp_path / folder).mkdir()
    _, whole = run(script, tmp_path / "whole", epochs=3)
    run(script, tmp_path / "parts", epochs=1)
    _, found = run(script, tmp_path / "parts", epochs=3)
    assert found["measured"] == whole["measured"] and found["slacks"] == whole["slacks"]


def test_it_is_compared_with_the_runs_before_at_the_same_epoch(script, tmp_path):
    runs = [1.0, 2.0, 3.0]
    history = {"epoch": [0, 7], **{name: [runs, runs] for name in script["QUANTITIES"]}}
    (tmp_path / f"{METHOD}.json").write_text(json.dumps({"history": history}), encoding="utf-8")
    found = {"epochs": 7, "measured": dict.fromkeys(script["QUANTITIES"], 4.0)}
    beside = script["compare"](METHOD, found, tmp_path)["test_loss"]
    assert beside["distance"] == pytest.approx(2.0 / math.sqrt(4 / 3))
    assert not beside["between_smallest_and_largest"]
    assert script["compare"](METHOD, {**found, "epochs": 8}, tmp_path) is None


@pytest.mark.parametrize("slack", [1e-40, 0.0, 1e-6])
def test_a_slack_that_is_too_small_fails(script, tmp_path, slack, monkeypatch):
    count = script["count_small"]

    def one_dead(slacks, radius):
        return count(slacks.clone().flatten().index_fill_(0, torch.tensor([3]), slack), radius)

    monkeypatch.setitem(script["result"].__globals__, "count_small", one_dead)
    code, found = run(script, tmp_path)
    assert code == 1 and not found["slacks_alive"]
    assert found["slacks"]["0.weight"]["denormal"] == (slack < 1e-38)


def test_the_committed_record_passes():
    path = ROOT / "benchmarks" / "results" / "pressed_weights.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record and all(found["passed"] for found in record.values())
