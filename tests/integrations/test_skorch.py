"""CoLA as the optimizer of a skorch network."""

from __future__ import annotations

import numpy
import torch
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetClassifier
from torch import nn

import colangevin as cl


def data(size: int = 90) -> tuple[numpy.ndarray, numpy.ndarray]:
    chance = numpy.random.default_rng(0)
    inputs = chance.normal(size=(size, 4)).astype("float32")
    return inputs, (inputs[:, 0] * inputs[:, 1] > 0).astype("int64")


class Net(nn.Module):
    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs).softmax(dim=-1)


def test_grid_search_over_radius_and_temperature() -> None:
    torch.manual_seed(0)
    net = NeuralNetClassifier(
        Net, optimizer=cl.CoLA, lr=0.1, optimizer__momentum=0.9, max_epochs=3, verbose=0
    )
    grid = {
        "optimizer__param_groups": [
            [("layers.*.weight", {"constraint": cl.Circle(radius)})] for radius in (0.1, 1.0)
        ],
        "optimizer__temperature": [0.0, 1e-4],
    }
    search = GridSearchCV(net, grid, cv=2, scoring="accuracy").fit(*data())
    assert len(search.cv_results_["params"]) == 4
    best = search.best_estimator_
    radius = search.best_params_["optimizer__param_groups"][0][1]["constraint"].radius
    largest = max(float(p.detach().abs().max()) for n, p in best.module_.named_parameters()
                  if n.endswith("weight"))  # fmt: skip
    assert 0.0 < largest <= radius
