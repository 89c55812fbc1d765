"""Images to train on, to choose with, and to test with; training on them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from colangevin.errors import ConvergenceError
from colangevin.lab import kit


class Part(NamedTuple):
    """Pixels from 0 to 1, [images, pixels], and classes [images]."""

    inputs: Tensor
    labels: Tensor


class Images(NamedTuple):
    """Training and validation images are the first official training images, in their order."""

    train: Part
    valid: Part
    test: Part


def read_images(settings: kit.Settings, data: Path | None, name: str = "fashion-mnist") -> Images:
    """Fashion-MNIST or its like, as much of it as the settings ask for.

    Args:
        settings: with ``train_images``, ``valid_images`` and ``test_images``.
        data: the data directory.
        name: of the dataset.
    """
    found = kit.LOADERS[name](data)
    end = settings["train_images"]
    last = end + settings["valid_images"]
    return Images(
        _part(found.train_images[:end], found.train_labels[:end]),
        _part(found.train_images[end:last], found.train_labels[end:last]),
        _part(found.test_images, found.test_labels, settings["test_images"]),
    )


def _part(images: Tensor, labels: Tensor, count: int | None = None) -> Part:
    return Part(images[:count].flatten(1).float() / 255, labels[:count])


def learn(
    parts: kit.training.Parts,
    images: Part,
    settings: kit.Settings,
    going: Callable[[], bool],
    extra: Callable[[], Tensor | float] = lambda: 0.0,
) -> float | None:
    """Train a network until its epochs are done, or until it diverges.

    Args:
        parts: network, optimizer, and a schedule of its steps.
        images: to train on, in a new order in each epoch.
        settings: with ``epochs`` and ``batch_size``.
        going: whether to go on.
        extra: what is added to the loss.

    Returns:
        The seconds of processor time; None if it did not go on.
    """
    seconds = 0.0
    for _ in range(settings["epochs"]):
        for chosen in torch.randperm(len(images.labels)).split(settings["batch_size"]):
            if not going():
                return None
            begun = time.process_time()
            if not descend(parts, Part(images.inputs[chosen], images.labels[chosen]), extra):
                return seconds
            seconds += time.process_time() - begun
    return seconds


def descend(
    parts: kit.training.Parts, batch: Part, extra: Callable[[], Tensor | float] = lambda: 0.0
) -> bool:
    """Make one step; False if there is no way on."""
    loss = functional.cross_entropy(parts.model(batch.inputs), batch.labels) + extra()
    if not math.isfinite(float(loss.detach())):
        return False
    parts.optimizer.zero_grad()
    loss.backward()
    try:
        parts.optimizer.step()
    except ConvergenceError:  # a weight that is not finite
        return False
    if parts.scheduler is not None:
        parts.scheduler.step()
    return True
