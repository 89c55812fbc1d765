"""Figures 7 and 4.10, table 4.3: circles on a 1000-node network for Fashion-MNIST."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from colangevin.constraints import Circle
from colangevin.ensemble import Ensemble
from colangevin.lab import kit
from colangevin.lab.models import mlp
from colangevin.lab.runner import datasets

NAME = "fashion-circle"
PAPER: dict[str, Any] = {
    "runs": 5,
    "epochs": 400,
    "hidden": 1_000,
    "train_images": 10_000,
    "test_images": 60_000,
    "batch_size": 128,
    "measurements": 20,
}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        **PAPER,
        "runs": 2,
        "epochs": 2,
        "hidden": 20,
        "train_images": 256,
        "test_images": 500,
        "measurements": 2,
    },
    "laptop": {**PAPER, "runs": 2, "epochs": 30, "test_images": 10_000, "measurements": 10},
    "full": PAPER,
    # Adds its jobs to the records of the full scale.
    "grid": {**PAPER, "scale": "full", "grid": {"runs": 1}},
}
CIRCLES: dict[str, Any] = {"radii": [0.05, 0.1], "step_size": 0.3, "friction": 1.0}
METHODS: dict[str, dict[str, Any]] = {
    "c-cola-ud": {
        **CIRCLES,
        "label": "c-CoLA-ud (AOAB, delayed gradient)",
        "scheme": "AOAB",
        "delayed_gradient": True,
    },
    "c-cola-ud-oba": {**CIRCLES, "label": "c-CoLA-ud (OBA)", "scheme": "OBA"},
    **{
        name: {
            "label": name.replace("sgd-m-wd-", "SGD-m, WD ").replace("sgd-m", "SGD-m"),
            "lr": 0.1,
            "momentum": 0.8,
            "weight_decay": decay,
        }
        for name, decay in (
            ("sgd-m", 0.0),
            ("sgd-m-wd-1e-4", 1e-4),
            ("sgd-m-wd-5e-5", 5e-5),
            ("sgd-m-wd-1e-5", 1e-5),
        )
    },
}
"""The six methods: what differs between them."""

ACCURACIES: dict[str, tuple[float, float | None]] = {
    "c-cola-ud": (87.63, 0.04),
    "c-cola-ud-oba": (87.63, 0.04),
    "sgd-m": (87.39, 0.06),
    "sgd-m-wd-1e-4": (87.47, 0.38),
    "sgd-m-wd-5e-5": (87.29, 0.58),
    "sgd-m-wd-1e-5": (87.45, 0.06),
}
"""Test accuracy and its standard deviation in section 4.7.3.2."""
LOSSES = {"c-cola-ud": 0.386, "c-cola-ud-oba": 0.386}
STATED: dict[tuple[float, float, float], tuple[float, float]] = {
    (0.2, 0.8, 0.0): (87.18, 1.06),
    (0.2, 0.8, 1e-4): (84.05, 0.696),
    (0.2, 0.7, 0.0): (87.38, 0.890),
    (0.2, 0.7, 1e-4): (87.0, 0.547),
    (0.1, 0.9, 0.0): (86.97, 1.133),
    (0.1, 0.9, 1e-4): (85.35, 0.634),
    (0.1, 0.8, 0.0): (87.39, 0.824),
    (0.1, 0.8, 1e-4): (87.47, 0.531),
    (0.1, 0.7, 0.0): (87.39, 0.750),
    (0.1, 0.7, 1e-4): (87.25, 0.517),
    (0.05, 0.95, 0.0): (86.67, 1.226),
    (0.05, 0.95, 1e-4): (85.63, 0.623),
    (0.05, 0.9, 0.0): (87.33, 0.837),
    (0.05, 0.9, 1e-4): (86.24, 0.569),
    (0.05, 0.8, 0.0): (87.27, 0.719),
    (0.05, 0.8, 1e-4): (87.33, 0.511),
}
"""Table 4.3: test accuracy and test loss by step size, momentum and weight decay."""

OPTIONS = ("step_size", "friction", "scheme", "delayed_gradient", "lr", "momentum", "weight_decay")
CHUNK = 2_000
"""Images that are evaluated at once: the activations of all members must fit into memory."""
SPLIT_SEED = 2


class Images(NamedTuple):
    """Pixels as bytes [images, 784] and classes [images], for training and for testing."""

    train_inputs: Tensor
    train_labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per method; with ``grid``, one per cell of table 4.3 that is not among them."""
    shared = {key: value for key, value in settings.items() if key != "grid"}
    found = [kit.Job(NAME, name, {**shared, **own}) for name, own in METHODS.items()]
    for (lr, momentum, decay), _ in STATED.items():
        if "grid" not in settings or (lr, momentum) == (0.1, 0.8):
            continue
        name = f"grid-{lr:g}-{momentum:g}" + ("-wd" if decay else "")
        label = f"SGD-m, h = {lr:g}, mom {momentum:g}" + (", WD 1e-4" if decay else "")
        own = {"label": label, "lr": lr, "momentum": momentum, "weight_decay": decay, "grid": True}
        found.append(kit.Job(NAME, name, {**shared, **own, **settings["grid"]}))
    return found


def read_images(settings: kit.Settings, data: Path | None) -> Images:
    """A fixed random part of the official training images to train on; all others to test on."""
    found = datasets.LOADERS["fashion-mnist"](data)
    count = len(found.train_labels)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(SPLIT_SEED))
    chosen, rest = order.split([kept := min(settings["train_images"], count - 1), count - kept])
    images = torch.cat([found.train_images[rest], found.test_images])[: settings["test_images"]]
    labels = torch.cat([found.train_labels[rest], found.test_labels])[: settings["test_images"]]
    return Images(
        found.train_images[chosen].flatten(1), found.train_labels[chosen], images.flatten(1), labels
    )


def make(settings: kit.Settings, seeds: Sequence[int]) -> Ensemble:
    """The ensemble of a job: circles on the weights if it has radii, biases are free.

    Example:
        >>> make({"hidden": 5, **METHODS["c-cola-ud"]}, [0, 1])
        Ensemble(2 members, 0 steps)
    """
    radii = settings.get("radii", [])
    rules = {name: Circle(r) for name, r in zip(("0.weight", "2.weight"), radii, strict=False)}
    options = {key: settings[key] for key in OPTIONS if key in settings}
    return Ensemble(lambda: mlp(784, [settings["hidden"]], 10), seeds, rules, **options)


def run(job: kit.Job, log: kit.Log) -> None:
    """Train all runs of a method as one ensemble."""
    settings = job.settings
    images = read_images(settings, log.data)
    ensemble = make(settings, kit.seeds_of(settings))
    training = kit.ensembles.Training(
        loss=functional.cross_entropy,
        inputs=pixels(images.train_inputs),
        targets=images.train_labels,
        batch_size=settings["batch_size"],
        epochs=settings["epochs"],
        points=settings["measurements"],
        measure=lambda members: measure(members, images),
    )
    if not kit.ensembles.train(ensemble, training, log):
        return
    worst = kit.ensembles.worst_violation(ensemble)
    log.finish(violation=worst, removed=kit.ensembles.removals(ensemble))


def pixels(images: Tensor) -> Tensor:
    """Bytes as numbers from 0 to 1.

    Example:
        >>> pixels(torch.tensor([0, 255], dtype=torch.uint8))
        tensor([0., 1.])
    """
    return images.float() / 255


def measure(ensemble: Ensemble, images: Images) -> dict[str, Tensor]:
    """Losses and accuracies, and the largest weight of the output layer."""
    train_loss, train_accuracy = score(ensemble, images.train_inputs, images.train_labels)
    test_loss, test_accuracy = score(ensemble, images.test_inputs, images.test_labels)
    members = [ensemble.member(index) for index in ensemble.active]
    outputs = [member.get_parameter("2.weight").detach().abs().max() for member in members]
    return {
        "train_loss": train_loss,
        "train_accuracy": train_accuracy,
        "test_loss": test_loss,
        "test_accuracy": test_accuracy,
        "largest_output_weight": torch.stack(outputs),
    }


def score(ensemble: Ensemble, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean loss and share of right answers of every member, some images at a time.

    Example:
        >>> ensemble = make({"hidden": 5, **METHODS["sgd-m"]}, [0, 1])
        >>> blank = torch.zeros(3, 784, dtype=torch.uint8)
        >>> [values.shape for values in score(ensemble, blank, torch.zeros(3, dtype=torch.long))]
        [torch.Size([2]), torch.Size([2])]
    """
    total = torch.zeros(2, len(ensemble), dtype=torch.float64)
    for some, right in zip(inputs.split(CHUNK), labels.split(CHUNK), strict=True):
        total += ensemble.evaluate(_sums, pixels(some), right).double().cpu().T
    loss, accuracy = total / len(labels)
    return loss, accuracy


def _sums(outputs: Tensor, labels: Tensor) -> Tensor:
    right = (outputs.argmax(dim=1) == labels).sum()
    return torch.stack([functional.cross_entropy(outputs, labels, reduction="sum"), right])


WHY = {
    "c-cola-ud": "the authors' circle step leaves the circle (errata, 8), this one does not",
    "c-cola-ud-oba": "the paper's numbers are of AOAB with a delayed gradient",
}
ACCURACY = kit.Quantity("test_accuracy", "test accuracy, %", 1, 100.0)
LOSS = kit.Quantity("test_loss", "test loss", digits=3)
TRAIN = replace(ACCURACY, key="train_accuracy", label="train accuracy, %")
WEIGHT = kit.Quantity("largest_output_weight", "largest |weight| of the output layer", digits=3)
COMPARED = (ACCURACY, LOSS, WEIGHT)


def stated(key: str) -> kit.Column:
    """A column of what the paper states: accuracies (0), or losses (1)."""
    place = ("test_accuracy", "test_loss").index(key)

    def text(record: kit.Record) -> str:
        value = _stated(record.job, record)[place]
        return kit.NONE if value is None else f"{value:g}" if place else f"{value:.2f}"

    return kit.Column("paper", text)


def _stated(job: str, record: kit.Record) -> tuple[float | None, float | None]:
    """The paper's accuracy and loss of a job; None for what it does not state."""
    settings = record.settings
    cell = STATED.get(tuple(settings.get(key) for key in ("lr", "momentum", "weight_decay")))  # type: ignore[arg-type]
    accuracy = ACCURACIES[job][0] if job in ACCURACIES else None
    if cell is None:
        return accuracy, LOSSES.get(job)
    return cell[0] if accuracy is None else accuracy, cell[1]


def numbers(records: kit.Records) -> list[kit.Claim]:
    """Every number that the paper states."""
    found = []
    for job, record in records.items():
        for quantity, value in zip((ACCURACY, LOSS), _stated(job, record), strict=True):
            if value is None:
                continue
            spread = ACCURACIES.get(job, (0.0, None))[1] if quantity is ACCURACY else None
            said = f"{value:.{2 if value > 1.2 else 3}f}" + (f" ± {spread:g}" if spread else "")
            text, why = f"{quantity.label} of {{label}}", WHY.get(job, "")
            found += kit.Near(quantity, job, said, text=text, why=why)(records)
    return found + _not_measured(records)


def _not_measured(records: kit.Records) -> list[kit.Claim]:
    """Cells of table 4.3 without a record; the scale grid has them."""
    settings = [record.settings for record in records.values()]
    there = {tuple(own.get(key) for key in ("lr", "momentum", "weight_decay")) for own in settings}
    return [
        kit.Claim(
            f"test accuracy, % and test loss of SGD-m, h = {cell[0]:g}, momentum {cell[1]:g}"
            + (", WD 1e-4" if cell[2] else ""),
            f"{accuracy:.2f}, {loss:g}",
            "–",
            number=kit.Answer(kit.UNDECIDED, "not run: the scale grid measures it"),
        )
        for cell, (accuracy, loss) in STATED.items()
        if cell not in there
    ]


RIVALS = tuple(name for name in METHODS if name.startswith("sgd-m"))
EXPERIMENT = kit.Experiment(
    name=NAME,
    title="circle constraints and SGD with momentum on Fashion-MNIST",
    phrase="circles beside SGD",
    source="figures 7 and 4.10, table 4.3",
    claimed="""on Fashion-MNIST, c-CoLA-ud reaches a lower test loss and a higher accuracy than SGD
        with momentum, with and without weight decay, with smaller weights""",
    ours="""our circle step stays on the circle, the authors' does not (errata 8); one run a cell in
        most of table 4.3; the split of the images""",
    settings_stated="""
        scheme of c-CoLA-ud | AOAB with a delayed gradient, by the authors' public code | that,
          and the library's default OBA
        circle step | leaves the circle (errata 8) | stays on it
        c-CoLA-ud: h, γ, radii | 0.3, 1, 0.05 and 0.1 | the same
        runs | 5 | {runs}
        epochs, nodes, batch | 400, 1,000, 128 | {epochs}, {hidden}, {batch_size}
        training and test images | 10,000 and 60,000 | {train_images} and {test_images}, a fixed
          random split
    """,
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures={
        "curves": kit.Curves([LOSS, ACCURACY], {"": tuple(METHODS)}, first=1),
        "weights": kit.Curves([WEIGHT, LOSS], {"": tuple(METHODS)}, first=1, logarithmic=True),
    },
    table=[
        kit.METHOD,
        ACCURACY,
        stated("test_accuracy"),
        LOSS,
        stated("test_loss"),
        TRAIN,
        WEIGHT,
    ],
    claims=[
        numbers,
        *[kit.Ahead(own, "c-cola-ud", RIVALS) for own in COMPARED],
    ],
    data=("fashion-mnist",),
    note="""The full scale is the paper's. The 10,000 training images are a random part of the
        official training set, one for all runs; the test images are the other 50,000 and the
        official test set. Pixels are between 0 and 1; biases are unconstrained. Results are those
        after the last epoch. `--scale grid` adds the rest of table 4.3 to the results of `--scale
        full`, with one run per cell, which decides nothing.""",
    gpus=True,
    times={"smoke": "5 s", "laptop": "4 min", "full": "80 min", "grid": "100 min"},
)
