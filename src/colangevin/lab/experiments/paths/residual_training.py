"""One training of section 6.1: a network from a start, with steps and weight decay by block."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import MultiStepLR

from colangevin.diagnostics import loss_path, relative_distance
from colangevin.lab import kit
from colangevin.lab.data import augment
from colangevin.lab.data.idx import ImageData
from colangevin.lab.experiments.images.cifar_orthogonal import prepared
from colangevin.lab.models import VGG11, MobileNetV2, ResNet, resnet

BASE: dict[str, Any] = {
    "net": "resnet",
    "norm": True,
    "deeper": False,
    "narrow": None,
    "h": 0.1,
    "decay": 5e-4,
    "falling": True,
    "share": 1.0,
    "augmentation": "standard",
    "labels": "true",
    "start": None,
    "lines": ["whole"],
}
"""The base of section 6.1.3.1, which each training changes in some points.

``h`` and ``decay`` are numbers, or [of blocks with barriers, of the others]. ``falling``: h falls
to a tenth after each third of the epochs. ``start``: the name of an earlier training, or
"imagenet" for published weights, and what to take from it.
"""


@dataclass(frozen=True)
class Work:
    """What the trainings of a job share.

    Attributes:
        settings: of the job.
        images: to train on and to test on.
        device: where networks are.
    """

    settings: kit.Settings
    images: ImageData
    device: torch.device

    def inputs(self, images: Tensor) -> Tensor:
        """Normalised images of the wanted size."""
        found = prepared(images)
        factor = found.shape[-1] // self.settings["pixels"]
        return (functional.avg_pool2d(found, factor) if factor > 1 else found).to(self.device)


def network(
    settings: kit.Settings, options: Mapping[str, Any], narrow: Collection[int]
) -> nn.Module:
    """The network of a training.

    Example:
        >>> settings = {"blocks": [1, 1], "deeper_blocks": [2, 2], "width": 4, "vgg_width": 4}
        >>> list(blocks_of(network(settings, BASE, ())))
        ['stem', 'B1', 'B2', 'fc']
    """
    if options["net"] == "vgg":
        model: nn.Module = VGG11(settings["vgg_width"], norm=options["norm"], narrow=narrow)
    elif options["net"] == "mobilenet":
        model = MobileNetV2(classes=10)
    else:
        blocks = settings["deeper_blocks" if options["deeper"] else "blocks"]
        model = resnet(blocks, settings["width"], norm=options["norm"])
    found: nn.Module = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return found


def blocks_of(model: nn.Module) -> dict[str, str]:
    """Patterns of the layers or blocks that move one at a time, by name.

    A residual network moves by stages; of the last stage each block by itself, as in figure 6.16.

    Example:
        >>> blocks_of(resnet((1, 2), width=4))["B2.1"]
        'stages.1.1.*'
        >>> list(blocks_of(VGG11(4)))[7:]
        ['8', '9', '10', '11']
    """
    if isinstance(model, VGG11):
        layers = {str(n + 1): f"features.{n}.*" for n in range(8)}
        return layers | {str(n + 9): f"classifier.{n}.*" for n in range(3)}
    if isinstance(model, MobileNetV2):
        return {"features": "features.*", "fc": "classifier.*"}
    if not isinstance(model, ResNet):
        kinds = "a ResNet, a VGG11 or a MobileNetV2"
        raise TypeError(f"model must be {kinds}, got {type(model).__name__}")
    last = len(model.stages)
    found = {"stem": "stem.*"} | {f"B{n}": f"stages.{n - 1}.*" for n in range(1, last + 1)}
    size = sum(1 for _ in model.stages[-1].children())
    if size > 1:
        del found[f"B{last}"]
        found |= {f"B{last}.{n}": f"stages.{last - 1}.{n}.*" for n in range(size)}
    return found | {"fc": "head.*"}


MOBILE_STAGES = (range(1, 4), range(4, 7), range(7, 14), range(14, 18))
"""Blocks of a MobileNetV2 that stand in for the four of a ResNet; each halves the image."""


def names_in(model: nn.Module, block: str) -> set[str]:
    """Names of a state that belong to a block "B1" to "B4", or to "all" of the network.

    Example:
        >>> len(names_in(resnet((1, 2), width=4), "B2")), len(names_in(MobileNetV2(), "B1"))
        (30, 48)
    """
    names = set(model.state_dict())
    if block == "all":
        return names
    place = int(block.removeprefix("B")) - 1
    if isinstance(model, MobileNetV2):
        prefixes = tuple(f"features.{n}." for n in MOBILE_STAGES[place])
    else:
        prefixes = (f"stages.{place}.",)
    return {name for name in names if name.startswith(prefixes)}


def parts_of(model: nn.Module, prefix: str) -> dict[str, tuple[str, ...]]:
    """Names of the convolutions, affine parameters and statistics of a block (figure 6.18).

    Example:
        >>> {name: len(found) for name, found in parts_of(resnet((1, 1), 4), "stages.1").items()}
        {'convolutions': 3, 'BN weights and biases': 6, 'BN mean and variance': 6}
    """
    found: dict[str, list[str]] = {
        "convolutions": [],
        "BN weights and biases": [],
        "BN mean and variance": [],
    }
    for place, module in model.get_submodule(prefix).named_modules():
        for name, _ in module.named_parameters(recurse=False):
            kind = "convolutions" if isinstance(module, nn.Conv2d) else "BN weights and biases"
            found[kind].append(f"{prefix}.{place}.{name}")
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.is_floating_point():
                found["BN mean and variance"].append(f"{prefix}.{place}.{name}")
    return {name: tuple(names) for name, names in found.items()}


def lines_of(model: nn.Module, wanted: Collection[str]) -> dict[str, Any]:
    """What moves on each line: None for everything."""
    found: dict[str, Any] = {"whole": None}
    if "blocks" in wanted:
        found |= blocks_of(model)
    if "parts" in wanted and isinstance(model, ResNet):
        third = min(2, len(model.stages) - 1)
        found |= parts_of(model, f"stages.{third}")
    return found


def groups(
    model: nn.Module, options: Mapping[str, Any], barriers: Collection[str]
) -> list[dict[str, Any]]:
    """Parameter groups: those of blocks with barriers, and the others.

    Example:
        >>> options = {**BASE, "h": [0.1, 0.01]}
        >>> [g["lr"] for g in groups(resnet((1, 1), width=4), options, ["B2"])]
        [0.1, 0.01]
    """
    patterns = blocks_of(model)
    prefixes = tuple(patterns[name].removesuffix("*") for name in barriers)
    inside: list[nn.Parameter] = []
    outside: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        (inside if name.startswith(prefixes) else outside).append(parameter)
    found = []
    for place, members in enumerate((inside, outside)):
        own = {
            key: options[name][place] if isinstance(options[name], list) else options[name]
            for key, name in (("lr", "h"), ("weight_decay", "decay"))
        }
        if members:
            found.append({"params": members, **own})
    return found


def augmented(images: Tensor, kind: str) -> Tensor:
    """Images shifted and perhaps mirrored ("standard"), of other brightness too, or as they are."""
    if kind == "none":
        return images
    moved = augment.random_flip(augment.random_crop(images))
    return augment.random_brightness(moved, 0.05) if kind == "brightness" else moved


def training_of(
    work: Work,
    options: Mapping[str, Any],
    barriers: Collection[str],
    seed: int,
) -> kit.training.Training:
    """What to do for one run: the first weights and the order of images depend on its seed alone.

    Args:
        work: what the job's trainings share.
        options: ``BASE`` with changes.
        barriers: names of blocks with barriers.
        seed: of the run.
    """
    settings, images = work.settings, work.images
    random = options["labels"] == "random"
    labels = images.train_labels[: round(options["share"] * len(images.train_labels))]
    if random:  # of a stream of its own
        generator = torch.Generator().manual_seed(seed + 500)
        labels = torch.randint(10, labels.shape, generator=generator)
    epochs = settings["label_epochs" if random else "epochs"]

    def begin() -> kit.training.Parts:
        model = network(settings, options, narrow_layers(options, barriers)).to(work.device)
        optimizer = torch.optim.SGD(groups(model, options, barriers), momentum=0.9)
        thirds = [round(epochs * third / 3) for third in (1, 2)]
        fall = MultiStepLR(optimizer, thirds, gamma=0.1) if options["falling"] else None
        return kit.training.Parts(model, optimizer, fall)

    def loss(model: nn.Module, items: Tensor) -> Tensor:
        batch = augmented(images.train_images[items], options["augmentation"])
        return functional.cross_entropy(model(work.inputs(batch)), labels[items].to(work.device))

    def measure(model: nn.Module) -> dict[str, float]:
        return measure_all(work, model, labels)

    return kit.training.Training(begin, loss, measure, len(labels), settings["batch_size"], epochs)


def narrow_layers(options: Mapping[str, Any], barriers: Collection[str]) -> list[int]:
    """Layers of a VGG-11 to narrow: one, two or all with barriers, or all without.

    Example:
        >>> narrow_layers({"narrow": "free"}, [str(n) for n in range(3, 11)])
        [1, 2]
        >>> narrow_layers({"narrow": "two"}, ["4", "5", "6"])
        [4, 5]
    """
    if options["narrow"] is None:
        return []
    inside = [n for n in range(1, 11) if str(n) in barriers]
    if options["narrow"] == "free":
        return [n for n in range(1, 11) if n not in inside]
    return inside[: {"one": 1, "two": 2, "all": len(inside)}[options["narrow"]]]


def measure_all(work: Work, model: nn.Module, labels: Tensor) -> dict[str, float]:
    """Loss and accuracy on the test images, accuracy on some training images as they are."""
    images = work.images
    loss, accuracy = score(work, model, images.test_images, images.test_labels)
    some = images.train_images[: min(work.settings["train_tests"], len(labels))]
    return {
        "test_loss": loss,
        "test_accuracy": accuracy,
        "train_accuracy": score(work, model, some, labels[: len(some)])[1],
    }


def score(work: Work, model: nn.Module, images: Tensor, labels: Tensor) -> tuple[float, float]:
    """Mean loss and share of right labels."""
    loss = right = 0.0
    for part in torch.arange(len(labels)).split(500):
        wanted = labels[part].to(work.device)
        outputs = model(work.inputs(images[part]))
        loss += float(functional.cross_entropy(outputs, wanted, reduction="sum"))
        right += float((outputs.argmax(dim=1) == wanted).sum())
    return loss / len(labels), right / len(labels)


def explore(
    work: Work,
    run: kit.training.Run,
    start: Mapping[str, Any],
    options: Mapping[str, Any],
    random: Mapping[str, Any],
) -> dict[str, Any]:
    """Losses along the lines from the first to the last state, and the distance (6.3).

    Args:
        work: what the job's trainings share.
        run: a training at its end.
        start: the first state.
        options: ``BASE`` with changes.
        random: a random state, from which there is a line, too, if "random" is among the lines.
    """
    end = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    broken = any(not bool(t.isfinite().all()) for t in end.values() if t.is_floating_point())
    if run.diverged is not None or broken:
        return {"distance": math.nan, "paths": {}}
    count = work.settings["path_images"]
    images, labels = work.images.test_images[:count], work.images.test_labels[:count]
    inputs, wanted = work.inputs(images), labels.to(work.device)

    def evaluate(model: nn.Module) -> Tensor:
        parts = [
            functional.cross_entropy(model(some), own, reduction="sum")
            for some, own in zip(inputs.split(500), wanted.split(500), strict=True)
        ]
        return torch.stack(parts).sum() / len(wanted)

    paths = {}
    for name, only in lines_of(run.model, options["lines"]).items():
        points = work.settings["points" if name == "whole" else "block_points"]
        paths[name] = loss_path(run.model, start, end, evaluate, points, only).losses.tolist()
    if "random" in options["lines"]:
        points = work.settings["points"]
        paths["random"] = loss_path(run.model, random, end, evaluate, points).losses.tolist()
    return {"distance": relative_distance(run.model, start, end), "paths": paths}
