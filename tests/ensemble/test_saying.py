"""What an ensemble says: nothing left to train, wrong metrics and losses, weights that are NaN."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.constraints import State

POINTS = torch.randn(16, 2, generator=torch.Generator().manual_seed(0))
TARGETS = POINTS.sum(dim=1, keepdim=True)
mse = nn.functional.mse_loss


def linear() -> nn.Module:
    return nn.Linear(2, 1)


def made(seeds: Any = (1, 2, 3), rules: Any = None, **options: Any) -> cl.Ensemble:
    return cl.Ensemble(linear, seeds, rules, **{"lr": 0.1, "compile": False, **options})


def fit(ensemble: cl.Ensemble, epochs: int = 2, loss: Any = mse, **settings: Any) -> Any:
    return ensemble.fit(loss, POINTS, TARGETS, epochs=epochs, batch_size=8, **settings)


# --- nothing left to train ---------------------------------------------------------------------


def test_a_second_fit_to_the_same_total_says_that_it_trains_nothing() -> None:
    ensemble = made()
    fit(ensemble)
    with pytest.warns(UserWarning, match="already at epoch 2.* pass epochs=4 to train 2 more"):
        history = fit(ensemble)
    assert history.epochs == [] and ensemble.epochs == 2
    fit(ensemble, epochs=4)
    assert ensemble.epochs == 4


def test_the_warning_points_to_the_line_that_called_fit() -> None:
    ensemble = made()
    ensemble.fit(mse, POINTS, TARGETS, epochs=1, batch_size=8)
    with pytest.warns(UserWarning, match="already at epoch 1") as found:
        ensemble.fit(mse, POINTS, TARGETS, epochs=1, batch_size=8)
    assert found[0].filename == __file__


def test_a_resumed_training_goes_on_to_its_total_without_a_word() -> None:
    first, second = made(), made()
    fit(first, epochs=1)
    second.load_state_dict(first.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit(second, epochs=2).epochs == [2]


def test_a_training_whose_checkpoint_is_complete_says_so(tmp_path: Any) -> None:
    fit(made(), checkpoint=tmp_path / "run.pt")
    with pytest.warns(UserWarning, match="already at epoch 2"):
        history = fit(made(), checkpoint=tmp_path / "run.pt")
    assert history.epochs == [1, 2]


def test_a_fit_without_members_says_that_it_trains_nothing() -> None:
    ensemble = made(lr=1e30)
    with pytest.warns(cl.DivergenceWarning):
        fit(ensemble, epochs=5)
    with pytest.warns(UserWarning, match="all 3 members were removed"):
        fit(ensemble, epochs=9)


# --- metrics and losses ------------------------------------------------------------------------


def test_a_metric_cannot_be_called_loss() -> None:
    ensemble = made()
    with pytest.raises(ValueError, match="'loss' is reserved for the training loss"):
        fit(ensemble, metrics={"loss": lambda e: e.evaluate(mse, POINTS, TARGETS)})
    assert ensemble.steps == 0


def test_a_metric_must_be_a_function() -> None:
    ensemble = made()
    with pytest.raises(TypeError, match=r"metrics\['accuracy'\] must be a function of the ensem"):
        fit(ensemble, metrics={"accuracy": 0.5})
    with pytest.raises(TypeError, match="metrics must be functions by name"):
        fit(ensemble, metrics=[mse])
    assert ensemble.steps == 0


def test_a_metric_may_return_a_number_for_all_or_a_list() -> None:
    metrics = {
        "number": lambda e: 0.5,
        "count": lambda e: e.steps,
        "scalar": lambda e: torch.tensor(2.0),
        "list": lambda e: [1.0, 2.0, 3.0],
    }
    history = fit(made(), epochs=1, metrics=metrics)
    assert history["number"].tolist() == [[0.5] * 3]
    assert history["count"].tolist() == [[2.0] * 3]
    assert history["scalar"].tolist() == [[2.0] * 3]
    assert history["list"].tolist() == [[1.0, 2.0, 3.0]]


@pytest.mark.parametrize(
    "value, message",
    [
        (torch.zeros(2), r"metrics\['right'\].* one number per member, 3.* shape \(2,\)"),
        (torch.zeros(3, 4), r"metrics\['right'\].* shape \(3, 4\)"),
        ([1.0], r"metrics\['right'\].* shape \(1,\)"),
    ],
)
def test_a_metric_of_a_wrong_shape_is_named(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(made(), metrics={"right": lambda e: value})


@pytest.mark.parametrize("value", [None, "good", {"a": 1.0}])
def test_a_metric_that_returns_no_numbers_is_named(value: Any) -> None:
    with pytest.raises(TypeError, match=r"metrics\['right'\].* got (NoneType|str|dict)"):
        fit(made(), metrics={"right": lambda e: value})


def test_a_loss_that_is_no_single_number_is_refused() -> None:
    ensemble = made()
    with pytest.raises(ValueError, match=r"loss must return one number.* shape \(8, 1\).*mean"):
        fit(ensemble, loss=lambda y, t: (y - t).square())
    with pytest.raises(TypeError, match="loss must return a tensor with one number, got float"):
        fit(ensemble, loss=lambda y, t: 1.0)
    assert ensemble.steps == 0


def test_a_penalty_that_is_no_single_number_is_refused() -> None:
    ensemble = made(penalty=lambda weights: weights["weight"].square())
    with pytest.raises(ValueError, match=r"penalty must return one number.* shape \(1, 2\)"):
        fit(ensemble)


# --- the history -------------------------------------------------------------------------------


def test_a_history_is_shown_in_one_line() -> None:
    history = fit(made(), epochs=9, metrics={"twice": lambda e: torch.full((3,), 2.0)})
    assert len(repr(history)) < 120 and "\n" not in repr(history)
    loss = history["loss"][-1].mean().item()
    expected = f"History(3 seeds, 9 times up to epoch 9; last means: loss {loss:.4g}, twice 2)"
    assert repr(history) == str(history) == expected
    assert repr(type(history)()) == "History(nothing measured)"


def test_the_history_of_diverged_members_is_shown() -> None:
    history = type(fit(made(), epochs=1))([1], {"loss": [torch.tensor([torch.nan, 2.0])]})
    assert repr(history) == "History(2 seeds, 1 time up to epoch 1; last means: loss 2)"


# --- weights that are no longer finite ---------------------------------------------------------


def per_member() -> tuple[Tensor, Tensor]:
    targets = TARGETS.repeat(3, 1, 1)
    targets[1] = 100.0
    return POINTS.repeat(3, 1, 1), targets


def smooth(outputs: Tensor, targets: Tensor) -> Tensor:
    """A NaN in the slope alone, for targets above 50: √0 in the branch that is not taken."""
    zero = (outputs - outputs.detach()).abs()
    bent = torch.where(targets > 50, zero, torch.ones_like(zero)).sqrt().sum()
    return (outputs - targets).square().mean() + 0 * bent


@pytest.mark.parametrize(
    "rules",
    [{}, {"weight": cl.Circle(5.0)}, {"weight": cl.Orthogonal()}],
    ids=["free", "circle", "orthogonal"],
)
def test_members_whose_last_step_made_them_nan_are_removed(rules: Any) -> None:
    """Orthogonal weights stay finite: their member rests, and no loss or weight would show it."""
    ensemble = cl.Ensemble(
        lambda: nn.Linear(2, 1, bias=False), (1, 2, 3), rules, lr=0.01, compile=False
    )
    with pytest.warns(cl.DivergenceWarning, match=r"1 of 3 members .* seeds \[2\]"):
        history = ensemble.fit(smooth, *per_member(), epochs=1, batch_size=16, per_member=True)
    assert ensemble.active == [0, 2] and [r.member for r in ensemble.removed] == [1]
    assert history["loss"][-1].isnan().tolist() == [False, True, False]
    assert all(bool(p.isfinite().all()) for member in ensemble for p in member.parameters())


def test_large_weights_are_no_reason_to_remove_a_member() -> None:
    ensemble = cl.Ensemble(lambda: nn.Linear(8, 1, bias=False), (1, 2), lr=1e-3, compile=False)
    ensemble.parameters["weight"].fill_(1e38)  # their sum is no number of float32
    ensemble.epoch(mse, torch.zeros(4, 8), torch.zeros(4, 1), batch_size=2)
    assert ensemble.active == [0, 1]


# --- violation -----------------------------------------------------------------------------------


def test_violation_is_that_of_an_optimizer() -> None:
    rules = {"weight": cl.Circle(2.0)}
    ensemble = made(rules=rules, momentum=0.9)
    fit(ensemble)
    torch.manual_seed(2)
    alone = linear()
    optimizer = cl.CoLA(cl.constrain_(alone, rules), lr=0.1, momentum=0.9)
    found, expected = ensemble.violation(), optimizer.violation()
    assert len(found) == len(expected) == 2  # the weight, and the bias
    assert all(isinstance(one, cl.Violation) for one in (*found, *expected))
    for one in found:
        assert one._fields == expected[0]._fields
        assert isinstance(one.residual, float) and one.residual < 1e-6
        assert isinstance(one.cotangency, float) and one.cotangency < 1e-6
        assert len(one.members) == 3 and max(one.members) == one.residual
        again = pickle.loads(pickle.dumps(one))
        assert again == one and again.members == one.members


def test_violation_counts_by_group() -> None:
    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))

    def build() -> cl.Ensemble:
        rules = {"0.weight": cl.Orthogonal(), "1.weight": cl.Circle(2.0)}
        return cl.Ensemble(network, (1, 2, 3), rules, lr=100.0, momentum=0.5, compile=False)

    ensemble = build()
    inputs = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(0))
    with pytest.warns(cl.ProjectionWarning):
        ensemble.step(mse, inputs, inputs[..., :1])
    first = ensemble.violation()
    assert first[0].iterations > 0 and first[0].fallbacks == ensemble.fallbacks > 0
    assert [one.fallbacks for one in first[1:]] == [0] * (len(first) - 1)
    again = build()
    again.load_state_dict(ensemble.state_dict())
    assert [one.fallbacks for one in again.violation()] == [one.fallbacks for one in first]


class Stacked(cl.Circle):
    """A residual with the equations before the rows: not what the contract says."""

    def residual(self, state: State) -> Tensor:
        return torch.stack([super().residual(state)] * 2)


def test_a_residual_of_another_layout_is_explained() -> None:
    ensemble = made(rules={"weight": Stacked(2.0)})
    message = r"Stacked.residual .* first dimension.* shape \(3, 1, 2\).* shape \(2, 3, 1, 2\)"
    with pytest.raises(ValueError, match=message):
        ensemble.violation()
