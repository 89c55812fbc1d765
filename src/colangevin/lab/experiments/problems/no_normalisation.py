"""Deep plain networks: orthogonal weights, an orthogonal start, and batch normalisation."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from colangevin.constraints import Orthogonal
from colangevin.lab import kit
from colangevin.lab.experiments.problems import attacks, no_normalisation_findings
from colangevin.lab.experiments.problems.images import Images, Networks, Part, search_on_images
from colangevin.lab.experiments.problems.searching import SEEDS, Options, jobs_of
from colangevin.optimizers import CoLA, constrain_

NAME = "no-normalisation"
CHOOSE = "valid_accuracy"
GAIN = math.sqrt(2.0)
"""Of a weight behind a ReLU, which takes half of the squares away."""
LAPTOP: dict[str, Any] = {
    "runs": 5,
    "depths": [10, 30, 50],
    "train_images": 6_000,
    "valid_images": 2_000,
    "test_images": 10_000,
    "width": 64,
    "epochs": 4,
    "batch_size": 100,
}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": LAPTOP
    | {"runs": 2, "depths": [10], "train_images": 200, "valid_images": 50, "test_images": 50}
    | {"width": 16, "epochs": 2, "tried": 2},
    "laptop": LAPTOP,
    "full": LAPTOP | {"train_images": 50_000, "epochs": 20, "width": 128},
}
GRADIENT = [{"lr": lr} for lr in (0.001, 0.003, 0.01, 0.03, 0.1)]
ADAM = [{"lr": lr} for lr in (0.0001, 0.0003, 0.001, 0.003, 0.01)]
WEIGHTS = {
    "orthogonal": "Orthogonal",
    "start": "orthogonal start",
    "norm": "BatchNorm",
    "he": "He's start",
}
METHODS: dict[str, dict[str, Any]] = {
    f"{weights}-{direction}": {
        "label": f"{shown}, {'Adam' if direction == 'adam' else 'SGD'}",
        "weights": weights,
        "direction": direction,
        "trials": ADAM if direction == "adam" else GRADIENT,
    }
    for weights, shown in WEIGHTS.items()
    for direction in ("gradient", "adam")
}
"""What differs between methods. SGD has momentum 0.9."""


def network(settings: kit.Settings) -> nn.Sequential:
    """A perceptron; "N.weight" of its hidden matrices have the numbers of ``hidden``.

    Example:
        >>> import torch
        >>> model = network({"depth": 3, "width": 8, "weights": "start"})
        >>> gram = model[2].weight @ model[2].weight.mT
        >>> bool((gram - 2 * torch.eye(8)).abs().max() < 1e-5)
        True
    """
    sizes = [784, *[settings["width"]] * settings["depth"]]
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers.append(nn.Linear(fan_in, fan_out))
        layers += [nn.BatchNorm1d(fan_out)] if settings["weights"] == "norm" else []
        layers.append(nn.ReLU())
    model = nn.Sequential(*layers, nn.Linear(sizes[-1], 10))
    for layer in model:
        if isinstance(layer, nn.Linear) and settings["weights"] != "norm":
            begin(layer, settings["weights"])
    return model


def begin(layer: nn.Linear, weights: str) -> None:
    """First weights: orthogonal between hidden layers, else of He's size; biases are 0."""
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    nn.init.zeros_(layer.bias)
    if weights != "he" and layer.in_features == layer.out_features:
        nn.init.orthogonal_(layer.weight, GAIN)


def make(settings: kit.Settings, options: Options) -> tuple[nn.Module, CoLA]:
    """A network and its optimizer.

    Example:
        >>> settings = {"depth": 3, "width": 8, **METHODS["orthogonal-adam"]}
        >>> groups = make(settings, {"lr": 0.1})[1].param_groups
        >>> [(type(group["constraint"]).__name__, len(group["params"])) for group in groups]
        [('Orthogonal', 1), ('Orthogonal', 1), ('Unconstrained', 6)]
    """
    model = network(settings)
    rules = {}
    if settings["weights"] == "orthogonal":
        hidden = [f"{2 * place}.weight" for place in range(1, settings["depth"])]
        rules = dict.fromkeys(hidden, Orthogonal(scale="relu"))
    direction = settings["direction"]
    momentum = 0.9 if direction == "gradient" else 0.0
    groups = constrain_(model, rules)
    return model, CoLA(groups, lr=options["lr"], momentum=momentum, direction=direction)


def loss(model: nn.Module, settings: kit.Settings, options: Options, batch: Part) -> Tensor:
    """Cross entropy."""
    return functional.cross_entropy(model(batch.inputs), batch.labels)


def measure(
    model: nn.Module, settings: kit.Settings, images: Images, part: str
) -> dict[str, float]:
    """Accuracies; a network that diverged guesses."""
    found = {CHOOSE: attacks.accuracy(model, *images.valid)}
    if part == SEEDS:
        found["test_accuracy"] = attacks.accuracy(model, *images.test)
    return found


NETWORKS = Networks(make, loss, measure)
NOTE = (
    "Laptop is reduced: 6,000 of 60,000 images, 4 epochs, perceptrons of width 64 with ReLU. Only "
    "the weights between hidden layers are orthogonal, times √2, or begin so; the first and the "
    "last begin with He's weights in all networks without normalisation. BatchNorm has torch's "
    "first weights. Every method has five learning rates at each depth with one seed; the one with "
    "the best accuracy on 2,000 other training images has five new seeds and is tested on the "
    "10,000 test images. SGD has momentum 0.9, and all lr fall to 0 on a line. Seconds are "
    "processor time on one thread of a machine with other work."
)
EXPERIMENT = kit.Experiment(
    name=NAME,
    title="plain networks of 10 to 50 layers without normalisation, and their rivals",
    phrase="deep plain networks",
    source="the paper's claim for deep networks, on images instead of spirals",
    claimed="""with orthogonal weights a deep plain network trains without normalisation, and
        better than from an orthogonal start""",
    ours="images, network, depths, epochs and learning rates",
    settings_stated="""
        data | four-turn spiral | Fashion-MNIST, {train_images} images
        hidden layers | 1 to 8 | {depth}
        nodes a layer | 100 | {width}
        runs | 10 | {runs}
    """,
    reduced={"laptop": "6,000 of 60,000 images, 4 epochs"},
    scales=SCALES,
    jobs=partial(jobs_of, NAME, METHODS, each=("depths", "depth")),
    run=partial(search_on_images, choose=CHOOSE, networks=NETWORKS),
    figures={"depth": no_normalisation_findings.draw},
    table=no_normalisation_findings.TABLE,
    claims=no_normalisation_findings.CLAIMS,
    data=("fashion-mnist",),
    note=NOTE,
    times={"smoke": "10 s", "laptop": "6 min", "full": "5 h"},
)
