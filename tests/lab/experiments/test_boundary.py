"""boundary-digits: images between digits, targets, and what is found of groups."""

from pathlib import Path

import pytest
import torch

import small_data
from colangevin.lab.data.idx import ImageData
from colangevin.lab.experiments.boundaries import certainty as boundary_certainty
from colangevin.lab.experiments.boundaries import digit_images, findings
from colangevin.lab.experiments.boundaries import digits as boundary
from colangevin.lab.experiments.boundaries import plot as boundary_plot
from colangevin.lab.runner import datasets
from colangevin.lab.runner import job_log as logs
from colangevin.lab.runner.job_log import Log, pack
from colangevin.lab.runner.records import Record, Records, read_records


@pytest.fixture
def digits(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (80, 28, 28), dtype=torch.uint8, generator=generator)
    labels = torch.randint(10, (80,), generator=generator)
    found = ImageData(images[:60], labels[:60], images[60:], labels[60:])
    monkeypatch.setitem(datasets.LOADERS, "mnist", lambda directory: found)
    return found


def test_each_digit_is_in_three_pairs():
    assert len(set(digit_images.PAIRS)) == 15
    assert all(i < j for i, j in digit_images.PAIRS)
    counts = [sum(digit in pair for pair in digit_images.PAIRS) for digit in range(10)]
    assert counts == [3] * 10
    inputs = digit_images.between(torch.randn(10, 100))
    assert inputs.shape == (165, 100)


def test_lines_begin_and_end_at_the_digits():
    ends = torch.randn(10, 100)
    lines = digit_images.between(ends).view(15, 11, 100)
    for (i, j), line in zip(digit_images.PAIRS, lines, strict=True):
        torch.testing.assert_close(line[0], ends[i])
        torch.testing.assert_close(line[-1], ends[j])
        torch.testing.assert_close(line[5], (ends[i] + ends[j]) / 2)


def test_each_step_moves_both_networks_and_the_judge_learns():
    images = torch.full((16, 28, 28), 255, dtype=torch.uint8)
    forger = digit_images.Forger(images, 2, batch_size=8, seed=0)
    before = [network[0].weight.clone() for network in forger.networks]
    forger.advance()
    first = forger.losses[0]
    for network, weight in zip(forger.networks, before, strict=True):
        assert not torch.equal(network[0].weight, weight)
    for _ in range(60):
        forger.advance()
    assert forger.losses[0] < first - 0.3  # white images are told from forged ones


def test_forger_goes_on_exactly():
    images = torch.randint(256, (20, 28, 28), dtype=torch.uint8)
    whole, parts = [digit_images.Forger(images, 1, 4, seed=3) for _ in range(2)]
    for _ in range(4):
        whole.advance()
    for _ in range(2):
        parts.advance()
    again = digit_images.Forger(images, 1, 4, seed=9)
    again.load_state_dict(parts.state_dict())
    for _ in range(2):
        again.advance()
    noise = torch.randn(2, 100)
    assert again.losses == whole.losses
    assert torch.equal(again.draw(noise), whole.draw(noise))


def test_choice_takes_the_first_image_of_each_digit_that_is_recognised():
    """Not the clearest; of a digit that nobody recognises it is the clearest."""
    images = torch.zeros(4, 28, 28, dtype=torch.uint8)
    forger = digit_images.Forger(images, 1, 4, seed=0)
    table = torch.full((30, 10), 0.01)
    for digit in range(10):
        table[20 - digit, digit], table[25, digit] = 0.6, 0.99
    table[:, 9] = 0.1
    table[7, 9] = 0.4
    ends, clear = digit_images.choose(forger, lambda found: table[: len(found)], 30, seed=1)
    noise = torch.randn(30, 100, generator=torch.Generator().manual_seed(502))
    torch.testing.assert_close(ends, noise[[*range(20, 11, -1), 7]])
    assert clear == pytest.approx([0.6] * 9 + [0.4])


def test_climb_keeps_the_nearest_and_stops_within_the_tolerance():
    way = boundary.Climb([97.5, 98.0], 0.05)
    for step, reached in enumerate((90.0, 97.2, 97.46, 97.5, 98.2), start=1):
        way.note(reached, step, torch.tensor([step]))
    assert (way.found["97.5"]["step"], way.found["97.5"]["hit"]) == (3, True)
    assert (way.found["98"]["step"], way.found["98"]["hit"]) == (5, False)
    assert not way.done
    way.note(97.97, 6, torch.tensor([6]))
    assert way.done and way.found["98"]["accuracy"] == 97.97


@pytest.mark.parametrize("calls", [2, 4, 8])
def test_stopped_and_resumed_equals_uninterrupted(calls, digits, tmp_path: Path, monkeypatch):
    """Stopped among the reference networks, in the generator, and among the others."""
    monkeypatch.setattr(logs, "REPORT_SECONDS", -1.0)
    (task,) = boundary.jobs(boundary.EXPERIMENT.settings("smoke", None, 0))
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    boundary.run(task, Log(task, tmp_path / "whole"))
    # Saved at every step, as if it took long: what is saved must not change what follows.
    small_data.save_always(monkeypatch)
    stopped = Log(task, tmp_path / "parts", progress=small_data.stop_after(calls))
    boundary.run(task, stopped)
    assert not stopped.record.complete
    boundary.run(task, Log(task, tmp_path / "parts"))
    whole, parts = [read_records(tmp_path / name)["digits"] for name in ("whole", "parts")]
    assert whole.final == parts.final


def answers(labels):
    """Probabilities (networks, images, 10) with 0.91 for the label."""
    return 0.01 + 0.9 * torch.nn.functional.one_hot(torch.tensor(labels), 10)


def test_row_of_known_labels():
    """Images: both agree; A; C; both disagree; both agree on other labels."""
    networks = answers([[1, 2, 3, 4, 5], [1, 0, 3, 0, 5]])
    reference = torch.tensor([[1, 2, 3, 4, 6], [1, 2, 0, 1, 6]])
    row = findings.row_of(networks, reference)
    assert row.shares == {"A": 20.0, "B, disagree": 20.0, "B, agree": 20.0, "C": 20.0}
    assert (row.all, row.two.mean) == (40.0, 40.0)
    assert row.any_wrong == 40.0  # the second and the last
    assert row.wrong.mean == pytest.approx(30.0)
    assert row.softmax["C"].mean == pytest.approx(0.91)


def faked(nine, clear=0.9, images=4, sets=1):
    own = {"accuracy": [97.5, 97.5], "hit": [True, False]}
    groups = {
        "diverse": {
            target: {**own, "answers": pack(answers(labels)), "members": labels}
            for target, labels in nine.items()
        }
    }
    settings = {"scale": "paper", "seeds": 2, "features": 64, "forger_steps": 5, "sets": sets}
    reference = {"labels": pack(torch.zeros(2, images, dtype=torch.uint8))}
    final = {"groups": groups, "reference": reference, "clear": [0.99] * 9 + [clear]}
    return Records([Record("boundary-digits", "digits", 0, settings, final=final)])


def test_verdicts_on_the_course():
    fewer = {
        "97.5": [[0, 0, 0, 0], [0, 1, 1, 1]],
        "98": [[0, 0, 0, 0], [0, 0, 1, 1]],
        "98.5": [[0, 0, 0, 0], [0, 0, 0, 1]],
    }
    more = dict(zip(fewer, reversed(fewer.values()), strict=True))
    for nine, way in ((fewer, "as stated"), (more, "not as stated")):
        claims = {claim.text: claim for claim in findings.claims(faked(nine))}
        for text in ("not all networks agree: falls with the test accuracy, %", "type A: falls, %"):
            assert claims[text].order.verdict == "undecided"
            assert claims[text].why == f"{way} at every step"
        unclear = findings.claims(faked(nine, 0.4))
        assert {a.verdict for c in unclear for a in c.answers} == {"not comparable"}


@pytest.mark.parametrize(
    ("course", "way"),
    [
        ((1.2, 1.0, 0.6), "as stated"),
        ((1.2, 2.4, 0.6), "not as stated"),
        ((2.4, 2.4, 0.6), "not as stated"),
    ],
)
def test_a_course_has_the_stated_way_at_every_step(course, way):
    values = {t: [v] for t, v in zip(("97.5", "98", "98.5"), course, strict=True)}
    claim = findings._course("x", values, findings.FALLS, "falls")
    assert claim.why == f"{way} at every step"


@pytest.mark.parametrize(
    ("last", "verdict"), [(1.0, "yes"), (3.0, "no"), (2.0, "undecided"), (None, "undecided")]
)
def test_several_sets_of_images_decide_a_course(last, verdict):
    """From 3 to 2, and then on; or one set alone."""
    spread = [0.0, 0.1, 0.2, 0.1, 0.05] if last else [0.0]
    twisted = [0.1, 0.0, 0.1, 0.2, 0.1] if last else [0.0]
    values = {"97.5": [3 + v for v in spread], "98": [2 + v for v in twisted]}
    values["98.5"] = [(last or 1.0) + v for v in spread]
    claim = findings._course("x", values, findings.FALLS, "falls")
    assert claim.order.verdict == verdict


def test_sets_of_images_are_judged_one_by_one():
    """In the first half of the images the networks agree, in the second one of them differs."""
    nine = {t: [[0, 0, 0, 0], [0, 0, 1, 1]] for t in ("97.5", "98", "98.5")}
    (record,) = faked(nine, sets=2).values()
    parts = findings.sets_of(record)
    found = [findings.rows_of(part)["diverse"]["98"][0].shares["A"] for part in parts]
    assert found == [0.0, 100.0]
    assert findings.rows_of(record)["diverse"]["98"][0].shares["A"] == 50.0


def test_the_reference_is_of_a_kind_that_is_not_judged():
    for settings in boundary.SCALES.values():
        assert settings["reference_kind"] not in [*settings["kinds"], *settings["group_kinds"]]


def test_one_set_of_images_decides_no_number():
    """Nine networks, of which one differs on 4, then on 3, then on 2 of 40 images."""
    nine = {
        target: [[0] * 40] * 8 + [[1] * count + [0] * (40 - count)]
        for target, count in (("97.5", 4), ("98", 3), ("98.5", 2))
    }
    claims = [c for c in findings.claims(faked(nine, images=40)) if "of nine" in c.text]
    assert len(claims) == 3
    assert {(c.number.verdict, c.number.by) for c in claims} == {("undecided", findings.ONE_SET)}


def test_claims_on_certainty():
    """Ten images: the reference is sure of the first six, 3 to 1 of two and 2 to 2 of two."""
    reference = torch.zeros(4, 10, dtype=torch.long)
    reference[3, 6:8] = 1
    reference[2:, 8:] = 1
    sure = torch.tensor([1.0] * 6 + [0.9, 0.7, 0.9, 0.7], dtype=torch.float64)
    surer = torch.tensor([1.0] * 10, dtype=torch.float64)
    kinds = {"mlp": {"98": surer}, "cnn": {"98": sure}}
    needed, lowest, higher, relation = boundary_certainty.claims(kinds, reference)
    assert needed.number.verdict == "not comparable"
    assert {c.order.verdict for c in (lowest, higher, relation)} == {"undecided"}
    assert lowest.ours == "MLP 100; CNN 80"
    assert higher.ours == "MLP 100; CNN 80; reference 62"
    assert "CNN 0.00" in relation.ours


def test_the_scale_of_the_thesis_has_its_networks(digits):
    settings = boundary.EXPERIMENT.settings("paper", None, 0)
    planned = boundary.networks(settings)
    assert len(planned) == 9 + 3 * 100
    assert len({place for _, place in planned.values()}) == len(planned)
    work = boundary.Work(settings, digits, None, {}, 1)
    for name in ("mlp3", "cnn3", "vit3"):
        own = boundary.NINE[name]
        run = boundary.kit.training.Run(boundary.training_of(work, own, epochs=1), seed=0)
        run.advance()
        assert run.diverged is None
        group = run.optimizer.param_groups[0]
        assert (group["lr"], group["weight_decay"]) == (own["h"], own["decay"])
    sizes = [layer.out_features for layer in boundary.network(settings, "mlp")[1][::2]]
    assert sizes == [500, 500, 10]


def test_certainty_is_that_of_a_repetition():
    """Two networks agree, the two of the next repetition do not; all four would be half sure."""
    record = faked({"97.5": [[0] * 4] * 2})["digits"]
    own = {"answers": pack(answers([[0] * 4, [0] * 4, [1] * 4, [2] * 4]))}
    record.final["groups"] = {"mlp": {"97.5": own}}
    figure = boundary_plot.certainties(record, torch.zeros(2, 4, dtype=torch.long))
    (line, *_) = figure.axes[0].lines
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([100.0], [75.0])


def test_networks_are_tested_as_often_as_their_kind_says(digits, monkeypatch):
    settings = boundary.EXPERIMENT.settings("smoke", None, 0)
    settings |= {"check": {"mlp": 2, "cnn": 5, "vit": 7}, "epochs": {"mlp": 5}, "targets": [100.0]}
    images = torch.zeros(3, 28, 28, dtype=torch.uint8)
    state = {"reference": [], "sets": [{"images": images}], "networks": {}, "current": None}
    work, tested = boundary.Work(settings, digits, None, state, 1), []
    monkeypatch.setattr(boundary.Work, "going", lambda *about: True)
    monkeypatch.setattr(boundary.Climb, "note", lambda way, reached, step, own: tested.append(step))
    assert boundary.climb(work, "mlp/0", boundary.NINE["mlp1"], 0)
    assert tested == [2, 4, 5]  # and at the end
