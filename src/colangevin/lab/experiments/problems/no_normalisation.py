"""Deep plain networks: orthogonal weights, an orthogonal start, and batch normalisation."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from colangevin.constraints import Orthogonal
from colangevin.lab import kit
from colangevin.lab.experiments.problems import attacks, no_normalisation_findings
from colangevin.lab.experiments.problems.images import Images, learn, read_images
from colangevin.lab.experiments.problems.search import SEEDS, Going, Options, search
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


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per depth and method, with its learning rates.

    Example:
        >>> [job.name for job in jobs({**SCALES["smoke"], "seed": 0})][:2]
        ['orthogonal-gradient-10', 'orthogonal-adam-10']
    """
    common = {key: value for key, value in settings.items() if key not in ("tried", "depths")}
    found = []
    for depth in settings["depths"]:
        for name, own in METHODS.items():
            trials = own["trials"][: settings.get("tried")]
            together = {**common, **own, "trials": trials, "depth": depth}
            found.append(kit.Job(NAME, f"{name}-{depth}", together))
    return found


def network(settings: kit.Settings) -> nn.Sequential:
    """A perceptron; "N.weight" of its hidden matrices have the numbers of ``hidden``.

    Example:
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


def make(settings: kit.Settings, options: Options, steps: int) -> kit.training.Parts:
    """A network, its optimizer, and the schedule of the lr: down to 0 on a line.

    Example:
        >>> settings = {"depth": 3, "width": 8, **METHODS["orthogonal-adam"]}
        >>> groups = make(settings, {"lr": 0.1}, 9).optimizer.param_groups
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
    optimizer = CoLA(groups, lr=options["lr"], momentum=momentum, direction=direction)
    return kit.training.Parts(model, optimizer, LambdaLR(optimizer, lambda s: 1 - s / steps))


def run(job: kit.Job, log: kit.Log) -> None:
    """Search among learning rates, then train new seeds."""
    settings = job.settings
    images = read_images(settings, log.data)

    def train(options: Options, part: str, going: Going) -> dict[str, float] | None:
        return trained(settings, images, options, part, going)

    search(log, train, CHOOSE)


def trained(
    settings: kit.Settings, images: Images, options: Options, part: str, going: Going
) -> dict[str, float] | None:
    """Train and measure one network."""
    steps = settings["epochs"] * -(-len(images.train.labels) // settings["batch_size"])
    parts = make(settings, options, steps)
    seconds = learn(parts, images.train, settings, going)
    return None if seconds is None else measure(parts.model, images, part, seconds)


@torch.no_grad()
def measure(model: nn.Module, images: Images, part: str, seconds: float) -> dict[str, float]:
    """Accuracies; a network that diverged guesses."""
    model.eval()
    found = {CHOOSE: attacks.accuracy(model, *images.valid), "seconds": seconds}
    if part == SEEDS:
        found["test_accuracy"] = attacks.accuracy(model, *images.test)
    return found


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
    claimed=(
        "with orthogonal weights a deep plain network trains without normalisation, and better "
        "than from an orthogonal start"
    ),
    ours="images, network, depths, epochs and learning rates",
    settings_stated=(
        ("data", "four-turn spiral", "Fashion-MNIST, {train_images} images"),
        ("hidden layers", "1 to 8", "{depth}"),
        ("nodes a layer", "100", "{width}"),
        ("runs", "10", "{runs}"),
    ),
    reduced={"laptop": "6,000 of 60,000 images, 4 epochs"},
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures={"depth": no_normalisation_findings.draw},
    table=no_normalisation_findings.TABLE,
    claims=no_normalisation_findings.CLAIMS,
    data=("fashion-mnist",),
    note=NOTE,
    times={"smoke": "10 s", "laptop": "6 min", "full": "5 h"},
)
