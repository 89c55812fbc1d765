"""skorch: a grid search over radius and temperature, then a stop and a resumption.

python examples/skorch_search.py
"""

import logging
import tempfile

import numpy
import torch
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetClassifier
from skorch.callbacks import LRScheduler
from torch import nn

import colangevin as cl
from colangevin.integrations.skorch import Monitor, groups_from

logging.getLogger("colangevin").setLevel(logging.ERROR)
EPOCHS = 20


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 2), nn.Softmax(dim=-1))


def rings(count: int = 240) -> tuple[numpy.ndarray, numpy.ndarray]:
    chance = numpy.random.default_rng(0)
    points = chance.normal(size=(count, 2)).astype("float32")
    return points, (numpy.linalg.norm(points, axis=1) > 1.2).astype("int64")


def net(radius: float = 2.0) -> NeuralNetClassifier:
    torch.manual_seed(1)
    return NeuralNetClassifier(
        network,
        optimizer=cl.CoLA,
        lr=0.2,
        optimizer__momentum=0.9,
        optimizer__temperature=1e-4,
        optimizer__seed=0,
        optimizer__param_groups=groups_from({"*.weight": cl.Circle(radius)}),
        callbacks=[
            ("monitor", Monitor()),
            ("cooling", LRScheduler(cl.TemperatureScheduler, factor=cl.annealing(EPOCHS))),
        ],
        max_epochs=EPOCHS,
        train_split=None,
        verbose=0,
    )


def main() -> None:
    points, labels = rings()
    grid = {
        "optimizer__param_groups": [
            groups_from({"*.weight": cl.Circle(radius)}) for radius in (0.1, 0.5, 2.0)
        ],
        "optimizer__temperature": [0.0, 1e-4],
    }
    search = GridSearchCV(net(), grid, cv=3, scoring="accuracy").fit(points, labels)
    for found, score in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
    ):
        radius = found["optimizer__param_groups"][0][1]["constraint"].radius
        temperature = found["optimizer__temperature"]
        print(f"radius {radius}, temperature {temperature}: accuracy {score:.2f}")

    whole = net().fit(points, labels)
    half = net().set_params(max_epochs=EPOCHS // 2).fit(points, labels)
    with tempfile.TemporaryDirectory() as folder:
        files = {f"f_{part}": f"{folder}/{part}" for part in ("params", "optimizer", "history")}
        half.save_params(**files)
        resumed = net().initialize()
        resumed.load_params(**files)
    resumed.set_params(max_epochs=EPOCHS - EPOCHS // 2).partial_fit(points, labels)
    last, again = whole.history[-1, "train_loss"], resumed.history[-1, "train_loss"]
    print(f"loss {whole.history[0, 'train_loss']:.3f} -> {last:.3f}")
    print(f"resumed after {EPOCHS // 2} of {EPOCHS} epochs: {again:.3f}, the same: {again == last}")
    print(f"bound holds to 1e-6: {whole.history[-1, 'violation/_.weight'] < 1e-6}")


if __name__ == "__main__":
    main()
