"""The recorded runs: they are of the presets, and show what the presets' words claim."""

import base64
from statistics import mean
from typing import Any

import pytest

from colangevin.lab.explorer import opening, readings
from colangevin.lab.explorer.presets import PRESETS, Preset
from colangevin.lab.explorer.runs import Training
from colangevin.lab.explorer.session import SCORES
from colangevin.lab.explorer.spec import parse


def scores(frame: dict[str, Any], letter: str, name: str) -> list[float]:
    found: list[float] = frame["runs"][letter]["scores"][SCORES.index(name)]
    return found


@pytest.mark.parametrize("name", PRESETS)
def test_the_record_is_of_the_preset(name: str) -> None:
    preset, record = PRESETS[name], opening.read(name)
    assert record["spec"] == parse(preset.spec).plain()
    assert record["seeds"] == list(range(preset.spec["training"]["members"]))
    assert len(record["seeds"]) >= 3
    steps = [frame["steps"] for frame in record["frames"]]
    assert (steps[0], steps[-1], len(steps)) == (0, preset.steps, opening.FRAMES)
    assert steps == sorted(steps)
    for frame in record["frames"]:
        for run in frame["runs"].values():
            assert len(base64.b64decode(run["region"])) == opening.SIDE**2
            assert run["stopped"] == [None] * len(record["seeds"])


@pytest.mark.parametrize("name", PRESETS)
def test_what_is_claimed_holds_with_every_seed(name: str) -> None:
    last = opening.read(name)["frames"][-1]
    for score, claimed in PRESETS[name].ahead.items():
        sign = -1.0 if score.endswith("loss") else 1.0
        pairs = zip(scores(last, "a", score), scores(last, "b", score), strict=True)
        leads = {"b" if sign * (b - a) > 0.0 else "a" for a, b in pairs}
        assert leads == ({"a", "b"} if claimed == "neither" else {claimed}), score


def test_the_first_preset_is_the_most_convincing_one() -> None:
    lasts = [opening.read(name)["frames"][-1] for name in PRESETS]
    first, *others = [
        mean(scores(last, "b", "test_accuracy")) - mean(scores(last, "a", "test_accuracy"))
        for last in lasts
    ]
    assert first > max(others)
    assert next(iter(PRESETS.values())).ahead == {"test_accuracy": "b", "test_loss": "b"}


def test_words_name_both_scores_or_none() -> None:
    for preset in PRESETS.values():
        assert set(preset.ahead) in (set(), {"test_accuracy", "test_loss"})


def test_a_record_can_be_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"data": {"train": 20, "test": 20}, "network": {"width": 6}, "training": {"members": 3}}
    run = {"method": "cola", "h": 0.1, "tau": 1e-4, "input": "circle"}
    spec = {**small, "a": {"method": "sgd"}, "b": run}
    monkeypatch.setitem(PRESETS, "small", Preset("small", "?", "words", spec, 30, {}))
    first, again = opening.record("small"), opening.record("small")
    assert opening.written(first) == opening.written(again)
    training = Training(parse(spec))
    for _ in range(30):
        training.step()
    expected = readings.scores(training.runs["b"], training.points)
    found = first["frames"][-1]["runs"]["b"]["scores"]
    assert [list(column) for column in zip(*found, strict=True)] == expected
