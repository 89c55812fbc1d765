"""Images to train on, to choose with, and to test with."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from torch import Tensor

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


def read_images(
    settings: kit.Settings, data: Path | None, name: str = "fashion-mnist"
) -> Images:
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
