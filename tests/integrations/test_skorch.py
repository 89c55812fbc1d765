"""skorch: searches, schedules, histories, files, and what is refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetRegressor
from skorch.callbacks import LRScheduler
from torch import nn

import colangevin as cl
from colangevin.integrations.skorch import Monitor, groups_from
from integrations.small import KINDS, data


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs)


def arrays() -> tuple[numpy.ndarray, numpy.ndarray]:
    inputs, targets = data()
    return inputs.numpy(), targets[:, None].numpy()


def net(kind: str = "circle", **options: Any) -> NeuralNetRegressor:
    torch.manual_seed(1)
    settings: dict[str, Any] = {
        "optimizer__param_groups": groups_from({"layers.0.weight": KINDS[kind]}),
        "optimizer__momentum": 0.9,
        "optimizer__temperature": 1e-4,
        "optimizer__seed": 0,
        "lr": 0.02,
        "max_epochs": 4,
        **options,
    }
    return NeuralNetRegressor(Net, optimizer=cl.CoLA, train_split=None, verbose=0, **settings)


def cooling(epochs: int = 4) -> LRScheduler:
    return LRScheduler(cl.TemperatureScheduler, factor=cl.annealing(epochs, shape="linear"))


def test_grid_search_over_radius_and_temperature() -> None:
    grid = {
        "optimizer__param_groups": [
            groups_from({"layers.*.weight": cl.Circle(radius)}) for radius in (0.1, 1.0)
        ],
        "optimizer__temperature": [0.0, 1e-4],
    }
    search = GridSearchCV(net(), grid, cv=2).fit(*arrays())
    assert len(search.cv_results_["params"]) == 4
    radius = search.best_params_["optimizer__param_groups"][0][1]["constraint"].radius
    weights = [p for n, p in search.best_estimator_.module_.named_parameters() if "weight" in n]
    assert 0.0 < max(float(weight.detach().abs().max()) for weight in weights) <= radius


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_has_the_losses_of_a_whole_one(kind: str, tmp_path: Path) -> None:
    def made(epochs: int) -> NeuralNetRegressor:
        return net(kind, max_epochs=epochs, callbacks=[("cool", cooling()), ("monitor", Monitor())])

    whole, half = made(4).fit(*arrays()), made(2).fit(*arrays())
    files = {f"f_{part}": tmp_path / part for part in ("params", "optimizer", "history")}
    half.save_params(**files)
    resumed = made(2).initialize()
    resumed.load_params(**files)
    resumed.partial_fit(*arrays())
    assert resumed.history[:, "train_loss"] == whole.history[:, "train_loss"]
    name = "temperature/layers.0.weight"
    # Recorded before or after the schedule's step, by the order of the callbacks: here after.
    assert whole.history[:, name] == pytest.approx([0.75e-4, 0.5e-4, 0.25e-4, 0.0])
    assert resumed.history[:, name] == whole.history[:, name]
    assert whole.history[:, "event_lr"] == [0.02] * 4
    if KINDS[kind] is not None:
        assert max(whole.history[:, "violation/layers.0.weight"]) < 1e-6


def test_copies_and_pickles() -> None:
    first = net().fit(*arrays())
    second = pickle.loads(pickle.dumps(first))
    inputs = arrays()[0]
    assert numpy.array_equal(first.predict(inputs), second.predict(inputs))
    torch.manual_seed(1)
    again = clone(first).fit(*arrays())
    assert again.history[:, "train_loss"] == first.history[:, "train_loss"]


def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match="skorch matches names only"):
        groups_from({nn.Linear: cl.Circle(1.0)})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"the rule for '\*' must be a constraint, got 0\.5"):
        groups_from({"*": 0.5})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="lr and step_size are two ways to say the same"):
        net(optimizer__step_size=0.1, optimizer__momentum=None).initialize()
    with pytest.raises(TypeError, match="constraint__radius"):
        net(optimizer__constraint__radius=0.1).initialize()
    with pytest.raises(cl.ConstraintError, match="at least 2 dimensions"):  # the biases
        net(optimizer__param_groups=[], optimizer__constraint=cl.Orthogonal()).initialize()
