"""The experiments on deep networks: tiny runs through the framework, verdicts from records."""

from dataclasses import replace

import pytest
import torch

from colangevin.lab.experiments.depth import depth
from colangevin.lab.experiments.depth import orthogonal as depth_orthogonal
from colangevin.lab.experiments.depth import penalty as depth_penalty
from colangevin.lab.experiments.depth import temperature as depth_temperature
from colangevin.lab.runner.experiment import NO, NOT_COMPARABLE, YES
from colangevin.lab.runner.records import Record, Records
from colangevin.lab.runner.running import reproduce

TINY = {**depth.TINY, "epochs": 2, "hidden": 6, "train_points": 50, "test_points": 20}
CASES = {
    "depth-orthogonal": {"depths": [1, 4]},
    "depth-penalty": {"depths": [3], "steps": [0.1, 0.05], "penalties": [0.05, 0.5]},
    "depth-temperature": {"depths": [3]},
}
FIGURES = {
    "depth-orthogonal": {"accuracy", "depth"},
    "depth-penalty": {"accuracy", "grid"},
    "depth-temperature": {"accuracy"},
}


def tiny(experiment, out, **settings):
    scale = {**TINY, **CASES[experiment.name], **settings}
    return reproduce(replace(experiment, scales={"smoke": scale}), "smoke", out=out, jobs=1)


EXPERIMENTS = [depth_orthogonal.EXPERIMENT, depth_penalty.EXPERIMENT, depth_temperature.EXPERIMENT]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_smoke_gives_figures_table_and_claims(experiment, tmp_path):
    records = tiny(experiment, tmp_path)
    assert all(record.complete for record in records.values())
    figures = experiment.draw(records)
    assert set(figures) == FIGURES[experiment.name]
    for figure in figures.values():
        assert all(axis.lines for axis in figure.axes)
        assert figure.legends or all(axis.get_legend() for axis in figure.axes)
    assert experiment.tabulate(records).rows
    assert experiment.judge(records)


def test_constrained_weights_are_orthogonal_and_all_methods_agree_without_hidden_weights(tmp_path):
    records = tiny(depth_orthogonal.EXPERIMENT, tmp_path)
    assert records["o-cola-od-4"].final["violation"] < 1e-5
    shallow = [records[f"{method}-1"].history for method in depth.METHODS]
    assert all(history == shallow[0] for history in shallow)


def test_step_sizes_share_their_data_and_are_told_apart(tmp_path):
    records = tiny(depth_penalty.EXPERIMENT, tmp_path)
    assert len(records["penalty-0.05-3"].history["test_loss"][-1]) == 4  # two steps, two runs
    assert len(records["o-cola-od-3"].history["test_loss"][-1]) == 2


def test_divergence_is_reported(tmp_path):
    with pytest.warns(UserWarning, match="diverged"):
        records = tiny(depth_penalty.EXPERIMENT, tmp_path, penalties=[1000.0], epochs=8)
    assert len(records["penalty-1000-3"].final["removed"]) == 4
    cells = depth_penalty.table(records).rows[0]
    assert cells[-1] == "all 2 runs diverged"
    depth_penalty.figures(records)


def test_penalty_has_the_value_and_the_gradient_of_its_formula():
    weight = torch.randn(5, 5, requires_grad=True, generator=torch.Generator().manual_seed(0))
    literal = 0.3 * (weight.mT @ weight - torch.eye(5)).square().sum()
    (expected,) = torch.autograd.grad(literal, weight)
    value = depth.Penalty(0.3, ["w"])({"w": weight})
    (gradient,) = torch.autograd.grad(value, weight)
    torch.testing.assert_close(value, literal)
    torch.testing.assert_close(gradient, expected)


def test_claims_of_figure_4_are_for_more_than_three_hidden_layers():
    def record(method, layers, accuracy):
        label = depth.METHODS[method]["label"]
        history = {"epoch": [1], "test_accuracy": [[accuracy + 0.001 * n for n in range(5)]]}
        settings = {"label": label, "depth": layers}
        return Record("depth-orthogonal", f"{method}-{layers}", 0, settings, history=history)

    good = {"o-cola-od": 0.97}
    records = Records(
        [
            record(m, d, good.get(m, 0.65 if d > 4 else 0.99))
            for m in depth.METHODS
            for d in (3, 4, 5)
        ]
    )
    found = depth_orthogonal.EXPERIMENT.judge(records)
    assert [claim.order.verdict for claim in found] == [NO, YES]
    assert "5 hidden layers" in found[1].text


@pytest.mark.parametrize(
    ("large", "small", "expected"),
    [
        ([0.5, 0.5, 0.6, 0.5, 0.5, 0.5], [0.8, 0.9, 0.8, 0.9, 0.9, 0.8], YES),
        ([None] * 6, [0.8, 0.9, 0.8, 0.9, 0.9, 0.8], YES),
        ([0.8, 0.9, 0.8, 0.9, 0.9, 0.8], [0.5, 0.5, 0.6, 0.5, 0.5, 0.5], NO),
        ([0.5] * 6, [0.52, 0.53, 0.52, 0.53, 0.52, 0.53], NOT_COMPARABLE),
    ],
)
def test_a_large_penalty_needs_a_smaller_step(large, small, expected):
    def record(strength, values):
        settings = {"penalty": strength, "lr": [0.1, 0.05], "runs": 6, "label": f"λ = {strength}"}
        return Record("x", f"p-{strength}", 0, settings, history={"test_accuracy": [values] * 3})

    soft = [record(5.0, large + small), record(0.5, [0.9] * 6 + [0.5] * 6)]
    (claim,) = depth_penalty._best_step(soft, "here")
    assert claim.order.verdict == expected
    assert claim.source == "λ = 5.0, h = 0.05 > λ = 5.0, h = 0.1"
