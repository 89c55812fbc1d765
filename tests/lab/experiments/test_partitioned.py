"""The experiments of chapters 3 and 6.2: each at its smallest scale, and what they share."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import small_data
from colangevin.lab.experiments.background import background
from colangevin.lab.experiments.partitioned import noise as partitioned_noise
from colangevin.lab.experiments.partitioned import overfitting as partitioned_overfitting
from colangevin.lab.experiments.partitioned import partitioned, weight_distributions
from colangevin.lab.experiments.partitioned import spirals as partitioned_spirals
from colangevin.lab.experiments.partitioned.adam import AdamEnsemble
from colangevin.lab.experiments.paths import loss_paths
from colangevin.lab.runner.experiment import Job
from colangevin.lab.runner.job_log import Log
from colangevin.lab.runner.records import Record, Records, read_records
from colangevin.optimizers import AdLaLa, partition


def settings_of(**own: object) -> dict[str, object]:
    return {
        "scale": "smoke",
        "seed": 0,
        "runs": 3,
        "hidden": 4,
        "train_points": 40,
        "test_points": 20,
        "batch_size": 10,
        "steps": 40,
        "data": {"turns": 2.0},
        "label": "x",
        **own,
    }


ADLALA = {"kind": "adlala", "h": 0.2, "sigma": 0.01, "tau": 1e-4, "gamma": 0.5, "epsilon": 0.1}


@pytest.mark.parametrize("method", [ADLALA, {"kind": "adam", "h": 0.01}])
def test_a_run_that_is_stopped_goes_on_exactly(method: dict[str, object], tmp_path: Path) -> None:
    job = Job("partitioned-overfitting", "a", settings_of(method=method))
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    partitioned.run(job, Log(job, tmp_path / "whole"))
    stopped = Log(job, tmp_path / "parts", progress=small_data.stop_after(1))
    stopped._reported = -1e9
    partitioned.run(job, stopped)
    assert not stopped.record.complete
    partitioned.run(job, Log(job, tmp_path / "parts"))
    whole, parts = [read_records(tmp_path / name)["a"] for name in ("whole", "parts")]
    assert whole.complete
    assert whole.history == parts.history


def test_members_follow_adam_alone() -> None:
    settings = settings_of(method={"kind": "adam", "h": 0.01})
    points = partitioned.draw_points(settings, range(3))
    ensemble = AdamEnsemble(lambda: partitioned.network(settings), range(3), lr=0.01)
    alone = ensemble.member(1)
    optimizer = torch.optim.Adam(alone.parameters(), lr=0.01)
    for step in range(5):
        batch = slice(8 * step, 8 * step + 8)
        ensemble.step(
            partitioned.loss, points.train_inputs[:, batch], points.train_labels[:, batch]
        )
        optimizer.zero_grad()
        inputs, labels = points.train_inputs[1, batch], points.train_labels[1, batch]
        partitioned.loss(alone(inputs), labels).backward()
        optimizer.step()
    for mine, theirs in zip(ensemble.member(1).parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_diverged_member_of_adam_leaves_the_others_alone() -> None:
    settings = settings_of(method={"kind": "adam", "h": 0.01})
    points = partitioned.draw_points(settings, range(3))
    both = []
    for broken in (False, True):
        inputs = points.train_inputs.clone()
        if broken:
            inputs[0] = torch.inf
        ensemble = AdamEnsemble(lambda: partitioned.network(settings), range(3), lr=0.01)
        data = (partitioned.loss, inputs, points.train_labels)
        for _ in range(3):
            if broken and ensemble.epochs == 0:
                with pytest.warns(match="diverged"):
                    ensemble.epoch(*data, batch_size=10, per_member=True)
            else:
                ensemble.epoch(*data, batch_size=10, per_member=True)
        both.append(ensemble)
    assert both[1].active == [1, 2]
    for mine, theirs in zip(*[e.member(2).parameters() for e in both], strict=True):
        torch.testing.assert_close(mine, theirs)


def test_the_hybrid_goes_on_from_where_the_first_method_ended(tmp_path: Path) -> None:
    """With a second step of nearly 0, the second method changes nothing."""
    own = {"part": "hybrid", "first": {"kind": "dhsgd", "h": 0.2}, "first_steps": 20}
    job = Job(
        "partitioned-spirals", "hybrid-a", settings_of(method={"kind": "sgd", "h": 1e-12}, **own)
    )
    partitioned_spirals.run(job, Log(job, tmp_path))
    record = read_records(tmp_path)["hybrid-a"]
    at = [row for row, step in enumerate(record.history["step"]) if step == 20]
    losses = record.series("test_loss")
    assert losses[at[0]] == pytest.approx(losses[-1], abs=1e-5)
    assert losses[0] != pytest.approx(losses[-1], abs=1e-3)
    assert record.history["step"][-1] == 40


def test_the_lines_of_noise_have_the_defaults_of_adlala() -> None:
    model = partitioned.network({"hidden": 4})
    usual = AdLaLa(partition(model, by="output"), 0.15).param_groups
    for key, value in (("epsilon", "0.1"), ("tau2", "0.0001")):
        method = partitioned_noise.methods_of({"varied": key})[value]
        found = partitioned.optimizer(model, method).param_groups
        assert [{k: v for k, v in group.items() if k != "params"} for group in found] == [
            {k: v for k, v in group.items() if k != "params"} for group in usual
        ]


@pytest.mark.parametrize(("value", "verdict"), [(0.85, "yes"), (0.9, "undecided"), (0.99, "no")])
def test_another_coupling_that_is_ahead_refutes_the_range(value: float, verdict: str) -> None:
    values = partitioned_noise.LINES["epsilon"]["values"]
    pixels = {f"{e:g}": several(0.9 if e in (0.05, 0.1) else 0.8) for e in values}
    pixels["2"] = several(value)
    record = Record("x", "epsilon", 0, {"label": "ε"}, final={"pixels": pixels}, complete=True)
    (claim,) = partitioned_noise.EXPERIMENT.judge(Records([record]))
    assert claim.order.verdict == verdict
    assert ("ε = 2 (" in claim.why) == (verdict != "yes")


def several(value: float) -> list[float]:
    """Five runs around a value."""
    return [value + 0.002 * step for step in (-2, -1, 0, 1, 2)]


def pool(label: str, near_zero: float, share: float = 1.0) -> Record:
    """Weights of one method: evenly on [-3, 3], as far as they are within."""
    own = {
        "density": [share / 6] * weight_distributions.BINS,
        "near_zero": near_zero,
        "deviation": 1.0,
        "largest": 4.0,
    }
    seen = {"epoch": 1, "w1": own, "w2": own}
    settings = {"label": label}
    return Record("x", label, 0, settings, final={"seen": [seen], "test_accuracy": [0.9]})


def test_numbers_of_all_runs_together_decide_nothing() -> None:
    methods = {"sgd": 0.3, "adam": 0.3, "sgld": 0.002, "adlala-0.5": 0.002}
    pools = [
        replace(pool(name, near), job=f"pooled-{name}", order=order)
        for order, (name, near) in enumerate(methods.items())
    ]
    (near,) = weight_distributions.many_near_zero(Records(pools), "two turns", "pooled-*")
    courses = [replace(pool(name, 0.0), job=f"two-{name}") for name in ("sgld", "adlala")]
    for record, size in zip(courses, (2.0, 1.0), strict=True):
        record.final["seen"][0]["b1"] = {"deviation": size}
    (larger,) = weight_distributions.larger(Records(courses), "two")
    for claim in (near, larger):
        assert claim.order.verdict == "undecided" and "no error" in claim.order.by
    assert near.ours == "sgd 30.0; adam 30.0; sgld 0.2; adlala-0.5 0.2"
    assert larger.ours == "sgld 1.00 and 2.00; adlala 1.00 and 1.00"


@pytest.mark.parametrize(("worst", "verdict"), [(0.2, "yes"), (0.0, "no"), (0.105, "undecided")])
def test_zeros_of_the_worst_and_the_best_tenth_of_runs(worst: float, verdict: str) -> None:
    record = pool("Adam", 0.0)
    accuracies = [*[0.7] * 5, *[0.9] * 40, *[0.98] * 5, None]  # the last one diverged
    around = [-0.01, 0.0, 0.0, 0.0, 0.01]
    zeros = [*[worst + v for v in around], *[0.5] * 40, *[0.1 + v for v in around], None]
    record.final["seen"][0].update(accuracy=accuracies, zeros=zeros)
    records = Records([replace(record, job="pooled-adam")])
    (claim,) = [
        c for made in weight_distributions.OF_POOLS for c in made(records) if "tenth" in c.text
    ]
    assert claim.order.verdict == verdict
    assert claim.ours.startswith(f"worst runs {100 * worst:.1f} ± 0.7 (5 runs); best runs 10.0")


def test_eigenvalues_meet_where_their_arguments_are_equal() -> None:
    apart, met = [-2.0, -1.0, 1.0, 2.0], [-1.0, -1.0, 1.0, 1.0]
    final = {"RA-0": {"argument": [apart, met]}, "RA-1": {"argument": [apart, apart]}}
    records = Records([Record("background", "averaging", 0, {}, final=final)])
    for name, stated in (("RA-0", True), ("RA-1", False)):
        assert background._crossing(records, name, stated).order.verdict == "yes"
        assert background._crossing(records, name, not stated).order.verdict == "no"


def test_adam_again_has_the_same_start_and_other_batches() -> None:
    settings = loss_paths.EXPERIMENT.settings("smoke", None, 0)
    job = next(job for job in loss_paths.jobs(settings) if job.name == "methods-two")
    data = loss_paths.read_data(job.settings, None)
    methods = job.settings["methods"]
    once, again = (
        loss_paths._make(job.settings, methods[name], [0, 1]) for name in ("adam", loss_paths.AGAIN)
    )
    for name, first in once.parameters.items():
        assert torch.equal(first, again.parameters[name])
    for ensemble in (once, again):
        ensemble.epoch(loss_paths.loss, data.inputs, data.targets, batch_size=25)
    assert any(not torch.equal(t, again.parameters[name]) for name, t in once.parameters.items())


def test_weights_beyond_a_histogram_are_counted_in_its_legend() -> None:
    records = Records([replace(pool("LOL", 0.0, share=0.07), job="pooled-lol")])
    figure = weight_distributions.pools(records)
    texts = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert texts == ["w1 (93 % outside)", "w2 (93 % outside)"]
    assert "beyond ±3" in figure.get_suptitle()


@pytest.mark.parametrize(
    ("sgd", "adlala", "verdicts"),
    [
        (0.3, 0.01, ["yes", "yes", "yes"]),
        (0.3, 0.06, ["yes", "no", "yes"]),
        (0.03, 0.01, ["no", "yes", "yes"]),
        (0.02, 0.02, ["no", "yes", "undecided"]),
    ],
)
def test_one_bar_tells_for_all_methods_whether_a_loss_rises(
    sgd: float, adlala: float, verdicts: list[str]
) -> None:
    records = Records(
        Record("x", job, 0, {"label": label}, history={"test_loss": [[0.5] * 5, several(end)]})
        for job, label, end in (("sgd", "SGD", 0.5 + sgd), ("adlala", "AdLaLa", 0.5 + adlala))
    )
    claims = partitioned_overfitting.EXPERIMENT.judge(records)
    assert [claim.order.verdict for claim in claims] == verdicts
    assert [claim.why for claim in claims[:2]] == ["taken as above 0.05", "taken as below 0.05"]


def test_few_runs_are_compared_late_and_not_at_their_last_measurement() -> None:
    """The last measurement of AdLaLa is a dip."""
    steps = {"step": [0, 50, 95, 100]}
    rows = {
        "regions-adam": [[0.5] * 5, [0.7] * 5, several(0.8), several(0.8)],
        "regions-adlala": [[0.5] * 5, [0.8] * 5, [0.98] * 5, several(0.7)],
    }
    records = Records(
        Record(
            "x",
            job,
            place,
            {"label": job, "part": "regions"},
            history={**steps, "test_accuracy": found, "test_loss": found},
            final={"turning": [[3.0] * 5, [2.0, 2.0, 2.0, 2.0, None]][place]},
        )
        for place, (job, found) in enumerate(rows.items())
    )
    accuracy, loss, smooth = partitioned_spirals.EXPERIMENT.judge(records)
    assert accuracy.ours.startswith("regions-adlala 84.0 ± 0.2")
    assert [accuracy.order.verdict, loss.order.verdict] == ["yes", "no"]
    assert smooth.text.startswith("turning") and "sign test, n = 5" in smooth.order.by
