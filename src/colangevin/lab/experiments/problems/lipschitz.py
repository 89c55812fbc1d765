"""Networks that no small change of an image can mislead: a bound on every layer, and rivals."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from colangevin.constraints import Constraint, Orthogonal, Spectral
from colangevin.lab import kit
from colangevin.lab.experiments.problems import attacks, lipschitz_findings
from colangevin.lab.experiments.problems.images import Images, Networks, Part, search_on_images
from colangevin.lab.experiments.problems.searching import SEEDS, Options, jobs_of
from colangevin.lab.models import mlp
from colangevin.optimizers import CoLA, constrain_

NAME = "lipschitz"
CHOOSE = "valid_attacked"
GEOMETRIES: dict[str, Constraint] = {"orthogonal": Orthogonal(), "spectral": Spectral(1.0)}
PARAMETRIZED: dict[str, Any] = {
    "torch orthogonal": partial(parametrizations.orthogonal, orthogonal_map="cayley"),
    "torch spectral": parametrizations.spectral_norm,
}
"""Of the maps of torch's orthogonal, cayley is the fastest here, by five to eight times."""
LAPTOP: dict[str, Any] = {
    "runs": 5,
    "train_images": 15_000,
    "valid_images": 500,
    "test_images": 500,
    "hidden": [128, 128],
    "epochs": 4,
    "batch_size": 128,
    "attack_steps": 40,
    "pixel": 0.035,
}
"""``pixel`` is how far the fast gradient sign method moves a pixel."""
SCALES: dict[str, dict[str, Any]] = {
    "smoke": LAPTOP
    | {"runs": 2, "train_images": 200, "valid_images": 20, "test_images": 30, "hidden": [16, 16]}
    | {"epochs": 1, "attack_steps": 3, "tried": 2},
    "laptop": LAPTOP,
    "full": LAPTOP | {"train_images": 50_000, "test_images": 10_000, "epochs": 30},
}


def grid(lrs: list[float], name: str = "", values: tuple[float, ...] = ()) -> list[Options]:
    """Four trials: learning rates, or all pairs of one and of another option.

    Example:
        >>> grid([0.1, 0.2], "decay", (1e-3,))
        [{'lr': 0.1, 'decay': 0.001}, {'lr': 0.2, 'decay': 0.001}]
    """
    return [{"lr": lr} | ({name: v} if name else {}) for v in values or (0.0,) for lr in lrs]


def bounded(label: str, geometry: str, activation: str = "sort") -> dict[str, Any]:
    """A method that bounds every layer."""
    trials = grid([0.1, 0.4], "sharpness", (10.0, 40.0))
    own = {"label": label, "geometry": geometry, "activation": activation}
    return {**own, "trials": trials}


METHODS: dict[str, dict[str, Any]] = {
    "sgd": {"label": "SGD", "trials": grid([0.02, 0.05, 0.1, 0.2])},
    "decay": {
        "label": "weight decay",
        "trials": grid([0.05, 0.2], "decay", (3e-3, 1e-2)),
    },
    "attacked": {
        "label": "adversarial training",
        "trials": grid([0.05, 0.2], "radius", (0.5, 1.0)),
        "train_steps": 3,
    },
    "orthogonal-relu": bounded("Orthogonal, ReLU", "orthogonal", "relu"),
    "orthogonal-sort": bounded("Orthogonal, GroupSort", "orthogonal"),
    "spectral-sort": bounded("Spectral(1), GroupSort", "spectral"),
    "torch-orthogonal": bounded("torch orthogonal, GroupSort", "torch orthogonal"),
    "torch-spectral": bounded("torch spectral_norm, GroupSort", "torch spectral"),
}
"""What differs between methods. ``sharpness`` multiplies the outputs in the training loss: outputs
of a network whose bound is 1 are too close to one another for a cross entropy."""


SIDE = 28


class Halve(nn.Module):
    """Images of half the side: of four pixels their sum over 2, which no change can outgrow.

    Example:
        >>> Halve()(torch.ones(1, 784)).shape
        torch.Size([1, 196])
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """Its rows are orthonormal, so it has the Lipschitz bound 1."""
        half = SIDE // 2
        return inputs.view(-1, half, 2, half, 2).sum(dim=(2, 4)).flatten(1) / 2


class GroupSort(nn.Module):
    """Sorts pairs of entries: it keeps all norms, where ReLU loses what is negative.

    Example:
        >>> GroupSort()(torch.tensor([[1.0, 5.0, 2.0, 3.0]]))
        tensor([[2., 5., 1., 3.]])
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """Pairs are entries of the first and of the second half."""
        first, second = inputs.chunk(2, dim=-1)
        return torch.cat([torch.maximum(first, second), torch.minimum(first, second)], dim=-1)


def network(settings: kit.Settings) -> nn.Sequential:
    """A network, with torch's parametrizations if they are the method.

    Example:
        >>> network({"hidden": [8], "activation": "sort"})[2]
        GroupSort()
    """
    activation = GroupSort if settings.get("activation") == "sort" else nn.ReLU
    model = nn.Sequential(Halve(), *mlp((SIDE // 2) ** 2, settings["hidden"], 10, activation))
    parametrize = PARAMETRIZED.get(settings.get("geometry", ""))
    for layer in model:
        if parametrize is not None and isinstance(layer, nn.Linear):
            parametrize(layer)
    return model


def make(settings: kit.Settings, options: Options) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A network and its optimizer.

    Example:
        >>> _, optimizer = make({"hidden": [8], "geometry": "spectral"}, {"lr": 0.4})
        >>> [str(group["constraint"])[:8] for group in optimizer.param_groups]
        ['Spectral', 'Unconstr']
    """
    model = network(settings)
    lr, geometry = options["lr"] / options.get("sharpness", 1.0), settings.get("geometry", "")
    if geometry in PARAMETRIZED:
        return model, torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    rules = {"*.weight": GEOMETRIES[geometry]} if geometry else {}
    decay = options.get("decay", 0.0)
    return model, CoLA(constrain_(model, rules), lr=lr, momentum=0.9, weight_decay=decay)


def loss(model: nn.Module, settings: kit.Settings, options: Options, batch: Part) -> Tensor:
    """Cross entropy, on attacked images if that is the method."""
    inputs = batch.inputs
    if "radius" in options:
        count = settings["train_steps"]
        inputs = attacks.strongest(model, inputs, batch.labels, options["radius"], count)
    return functional.cross_entropy(options.get("sharpness", 1.0) * model(inputs), batch.labels)


def measure(
    model: nn.Module, settings: kit.Settings, images: Images, part: str
) -> dict[str, float]:
    """Accuracies with and without attacks; those on test images for new seeds alone."""
    steps, middle = settings["attack_steps"], lipschitz_findings.RADII[1]
    attacked = attacks.strongest(model, *images.valid, middle, steps)
    found = {
        "valid_accuracy": attacks.accuracy(model, *images.valid),
        CHOOSE: attacks.accuracy(model, attacked, images.valid.labels),
    }
    if part != SEEDS:
        return found
    inputs, labels = images.test
    found["test_accuracy"] = attacks.accuracy(model, inputs, labels)
    moved = attacks.one_step(model, inputs, labels, settings["pixel"])
    found["signs"] = attacks.accuracy(model, moved, labels)
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    norms = attacks.spectral_norms(layer.weight for layer in layers)
    certain = attacks.certified_radii(model(inputs), labels, float(norms.prod()))
    for radius in lipschitz_findings.RADII:
        attacked = attacks.strongest(model, inputs, labels, radius, steps)
        found[f"attacked_{radius:g}"] = attacks.accuracy(model, attacked, labels)
        found[f"certified_{radius:g}"] = float((certain > radius).double().mean())
    found["bound"], found["norm_excess"] = float(norms.prod()), float(norms.max()) - 1.0
    found["gram_error"] = max(gram_error(layer.weight) for layer in layers)
    return found


def gram_error(weight: Tensor) -> float:
    """Largest entry of WᵀW − I, or of WWᵀ − I for a wide weight, in double precision.

    Example:
        >>> gram_error(torch.diag(torch.tensor([1.0, 2.0])))
        3.0
    """
    tall = weight.double() if len(weight) >= weight.shape[1] else weight.double().mT
    return float((tall.mT @ tall - torch.eye(tall.shape[1], dtype=tall.dtype)).abs().max())


NETWORKS = Networks(make, loss, measure)
NOTE = (
    "Laptop is reduced: 15,000 of 60,000 images, 4 epochs, a perceptron of two hidden layers with "
    "128 nodes behind a pooling of 28 by 28 to 14 by 14 pixels. Pixels are between 0 and 1, and "
    "radii are Euclidean, of 28 by 28 pixels. Each method has four trials with one seed. The one "
    "with the most right answers on 500 other training images, attacked within 0.5, has five new "
    "seeds. Attacks have 40 steps along the margin, from a random point of the ball, with the "
    "worst point of the path; they are on the first 500 test images. An image is certified "
    "within its margin over √2 times the product of the layers' largest singular values, in "
    "double precision (the pooling has 1). Bounded networks have outputs that are multiplied by "
    "their sharpness in the training loss. Adversarial training has 3 steps of the same attack in "
    "each batch. Momentum is 0.9, and lr falls to 0 on a line. Seconds are processor time on one "
    "thread of a machine with other work."
)
EXPERIMENT = kit.Experiment(
    name=NAME,
    title="networks with a bound on every layer: attacks and certificates",
    phrase="layers that resist attacks",
    source="figures of the field on Lipschitz networks, not of the paper",
    claimed="""layers with singular values of at most one make a network resist attacks, for
        about one point of accuracy, with a certificate that no attack can break""",
    ours="images, network, attacks, trials and the radius for which they are chosen",
    settings_stated="""
        network | several | perceptron, hidden layers {hidden}
        images to train on | 60,000 | {train_images}
        epochs | not stated | {epochs}
        runs | not stated | {runs}
    """,
    reduced={"laptop": "15,000 of 60,000 images, 4 epochs, 14 by 14 pixels"},
    scales=SCALES,
    jobs=partial(jobs_of, NAME, METHODS),
    run=partial(search_on_images, choose=CHOOSE, networks=NETWORKS),
    figures={"radii": lipschitz_findings.draw},
    table=lipschitz_findings.TABLE,
    claims=lipschitz_findings.CLAIMS,
    data=("fashion-mnist",),
    note=NOTE,
    times={"smoke": "10 s", "laptop": "8 min", "full": "3 h"},
)
