"""Weights of 8 to 2 bits without further training: bounded weights and their rivals."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from colangevin.constraints import Box, Circle
from colangevin.lab import kit
from colangevin.lab.experiments.problems import attacks
from colangevin.lab.experiments.problems import quantisation_findings as findings
from colangevin.lab.experiments.problems.images import Images, Networks, Part, search_on_images
from colangevin.lab.experiments.problems.rounding import rounded_model
from colangevin.lab.experiments.problems.searching import SEEDS, Options, jobs_of
from colangevin.lab.models import mlp
from colangevin.optimizers import CoLA, constrain_, penalty

NAME = "quantisation"
CHOOSE = "valid_2"
"""Accuracy on validation images with two bits, with the best of the four kinds of scales."""
LAPTOP: dict[str, Any] = {
    "runs": 5,
    "networks": ["mlp"],
    "train_images": 10_000,
    "valid_images": 2_000,
    "test_images": 10_000,
    "width": 128,
    "epochs": 6,
    "batch_size": 128,
}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": LAPTOP
    | {"runs": 2, "train_images": 200, "valid_images": 50, "test_images": 50}
    | {"networks": ["mlp", "cnn"]}
    | {"width": 16, "epochs": 1, "tried": 2},
    "laptop": LAPTOP,
    "full": LAPTOP
    | {"networks": ["mlp", "cnn"], "train_images": 50_000, "epochs": 30, "width": 300},
}
BOUNDS = [0.7, 1.2]
"""Times 1/√fan_in."""


def grid(lrs: list[float], **options: list[float]) -> list[Options]:
    """All combinations.

    Example:
        >>> grid([0.1, 0.2], decay=[1.0])
        [{'lr': 0.1, 'decay': 1.0}, {'lr': 0.2, 'decay': 1.0}]
    """
    found: list[Options] = [{"lr": lr} for lr in lrs]
    for name, values in options.items():
        found = [{**own, name: value} for own in found for value in values]
    return found


METHODS: dict[str, dict[str, Any]] = {
    "sgd": {"label": "SGD", "trials": grid([0.02, 0.05, 0.1, 0.2])},
    "adam": {
        "label": "Adam",
        "direction": "adam",
        "trials": grid([0.0005, 0.001, 0.002, 0.004]),
    },
    "decay": {
        "label": "SGD, weight decay",
        "trials": grid([0.05, 0.1], decay=[1e-3, 5e-3]),
    },
    "adam-decay": {
        "label": "AdamW",
        "direction": "adam",
        "trials": grid([0.001, 0.003], decay=[0.3, 1.0]),
    },
    "penalty": {
        "label": "SGD, penalty beyond a bound",
        "trials": grid([0.05], factor=[0.7, 1.2], strength=[30.0, 100.0]),
    },
    "clip": {"label": "SGD, clipped", "trials": grid([0.05, 0.1], factor=BOUNDS)},
    "box": {"label": "Box", "geometry": "box", "trials": grid([0.05, 0.1], factor=BOUNDS)},
    "circle": {"label": "Circle", "geometry": "circle", "trials": grid([0.05, 0.1], factor=BOUNDS)},
}
"""What differs between methods; each has four trials."""


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per network and method, with its trials.

    Example:
        >>> [job.name for job in jobs({**SCALES["smoke"], "seed": 0})][::8]
        ['mlp-sgd', 'cnn-sgd']
    """
    common = {key: value for key, value in settings.items() if key != "networks"}
    methods = {
        f"{network}-{name}": {**own, "network": network}
        for network in settings["networks"]
        for name, own in METHODS.items()
    }
    return jobs_of(NAME, methods, common)


def make_network(settings: kit.Settings) -> nn.Sequential:
    """A perceptron of two hidden layers, or two convolutions and a linear layer.

    Example:
        >>> sum(p.dim() > 1 for p in make_network({"network": "cnn", "width": 8}).parameters())
        3
    """
    if settings["network"] == "mlp":
        return mlp(784, [settings["width"]] * 2, 10)
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        *(nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(32 * 49, 10)),
    )


def bounds(model: nn.Module, factor: float) -> dict[str, float]:
    """``factor``/√fan_in of every weight, by name.

    Example:
        >>> bounds(nn.Linear(4, 2), 1.0)
        {'weight': 0.5}
    """
    weights = {name: p for name, p in model.named_parameters() if p.dim() > 1}
    return {n: factor / math.sqrt(p.numel() // len(p)) for n, p in weights.items()}


def make(settings: kit.Settings, options: Options) -> tuple[nn.Module, CoLA]:
    """A network and its optimizer.

    Example:
        >>> settings = {"network": "mlp", "width": 8, "geometry": "box"}
        >>> _, optimizer = make(settings, {"lr": 0.1, "factor": 1.0})
        >>> [str(group["constraint"])[:3] for group in optimizer.param_groups]
        ['Box', 'Box', 'Box', 'Unc']
    """
    model, adam = make_network(settings), settings.get("direction") == "adam"
    geometry, rules = settings.get("geometry"), {}
    for name, bound in bounds(model, options.get("factor", 1.0)).items() if geometry else ():
        rules[name] = Circle(bound) if geometry == "circle" else Box(-bound, bound)
    optimizer = CoLA(
        constrain_(model, rules),
        lr=options["lr"],
        momentum=0.0 if adam else 0.9,
        direction="adam" if adam else "gradient",
        **{"decoupled_weight_decay" if adam else "weight_decay": options.get("decay", 0.0)},
    )
    if "factor" in options and not geometry and "strength" not in options:
        clip(model, optimizer, options["factor"])
    return model, optimizer


def clip(model: nn.Module, optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Clip the weights after every step."""
    walls = bounds(model, factor)

    @torch.no_grad()
    def after(*_: Any) -> None:
        for name, wall in walls.items():
            model.get_parameter(name).clamp_(-wall, wall)

    optimizer.register_step_post_hook(after)


def loss(model: nn.Module, settings: kit.Settings, options: Options, batch: Part) -> Tensor:
    """Cross entropy, and a penalty on what is beyond a bound if that is the method."""
    found = functional.cross_entropy(model(batch.inputs), batch.labels)
    if "strength" not in options:
        return found
    circles = {name: Circle(bound) for name, bound in bounds(model, options["factor"]).items()}
    return found + penalty(model, circles, options["strength"])


def measure(
    model: nn.Module, settings: kit.Settings, images: Images, part: str
) -> dict[str, float]:
    """Accuracy of the network as it is, and rounded; on test images for new seeds alone."""
    found = {"valid_accuracy": attacks.accuracy(model, *images.valid)}
    valid = {name: _with(model, 2, *own, images.valid) for name, own in findings.KINDS.items()}
    found[CHOOSE] = max(valid.values())
    if part != SEEDS:
        return found
    found["test_accuracy"] = attacks.accuracy(model, *images.test)
    for bits in findings.BITS:
        for name, own in findings.KINDS.items():
            found[f"{name}_{bits}"] = _with(model, bits, *own, images.test)
    # A quantiser would choose its kind of scale, too: on the validation images, for two bits.
    found["best_2"] = found[f"{max(valid, key=lambda name: valid[name])}_2"]
    weights = [p.flatten() for p in model.parameters() if p.dim() > 1]
    found["outlier"] = max(float(w.abs().max() / w.std()) for w in weights)
    return found


def _with(model: nn.Module, bits: int, by_row: bool, least_error: bool, part: Any) -> float:
    own = rounded_model(model, bits, by_row=by_row, least_error=least_error)
    return attacks.accuracy(own, *part)


NETWORKS = Networks(make, loss, measure)
NOTE = (
    "Laptop is reduced: 10,000 of 60,000 images, 6 epochs, and a perceptron of two hidden layers "
    "of 128 alone; at full scale there is also a network of 16 and 32 kernels of 3 by 3 with "
    "stride 2 and one linear layer. After training all matrices and kernels are rounded to "
    "2^b − 1 levels symmetric about 0; biases and activations are not, and nothing is trained or "
    "calibrated afterwards. The last level is the largest weight, or the one of 46 fractions of "
    "it with the least squared error; there is one scale for a tensor, or one for each row. Each "
    "method has four trials with one seed. The one with the most right answers with two bits on "
    "2,000 other training images, with the best of the four kinds of scales, has five new seeds. "
    "Bounds are multiples (factor) of 1/√fan_in. Momentum is 0.9, and all lr fall to 0 on a line. "
    "Seconds are processor time on one thread of a machine with other work."
)
EXPERIMENT = kit.Experiment(
    name=NAME,
    title="weights of 8, 4, 3 and 2 bits without further training",
    phrase="weights of few bits",
    source="R2-loss and its relatives, not the paper",
    claimed="""networks whose weights are kept small by a penalty on the largest lose less when
        they are rounded to two bits""",
    ours="hard bounds in the place of a penalty, images, networks, quantisers and trials",
    settings_stated="""
        network | MobileNet, ResNet-18 | {network}
        images | ImageNet | Fashion-MNIST, {train_images}
        epochs | not compared | {epochs}
        runs | 1 | {runs}
    """,
    reduced={"laptop": "10,000 of 60,000 images, 6 epochs, the perceptron alone"},
    scales=SCALES,
    jobs=jobs,
    run=partial(search_on_images, choose=CHOOSE, networks=NETWORKS),
    figures={"bits": findings.draw},
    table=findings.TABLE,
    claims=findings.CLAIMS,
    data=("fashion-mnist",),
    note=NOTE,
    times={"smoke": "10 s", "laptop": "7 min", "full": "4 h"},
)
