"""Images to train on, to choose with, and to test with; and a search among trainings on them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from colangevin.errors import ConvergenceError
from colangevin.lab import kit
from colangevin.lab.experiments.problems.searching import Going, Options, search


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


class Networks(NamedTuple):
    """How the networks of an experiment are trained: functions at module level.

    Attributes:
        make: a network and its optimizer, from settings and a trial.
        loss: of a network on a batch, with settings and a trial.
        measure: numbers by name of a network in evaluation mode, as many as its part needs.
    """

    make: Callable[[kit.Settings, Options], tuple[nn.Module, Optimizer]]
    loss: Callable[[nn.Module, kit.Settings, Options, Part], Tensor]
    measure: Callable[[nn.Module, kit.Settings, Images, str], dict[str, float]]


def search_on_images(
    job: kit.Job, log: kit.Log, *, choose: str, networks: Networks, sign: int = 1
) -> None:
    """Search among a method's trials, then train new seeds, and note their processor time.

    Args:
        job: with ``trials``, ``batch_size``, ``epochs`` and what ``read_images`` needs.
        log: of the job.
        choose: the number by which a trial is chosen.
        networks: how they are trained.
        sign: 1 if more of the number is better, -1 if less is.
    """
    images = read_images(job.settings, log.data)

    def train(options: Options, part: str, going: Going) -> dict[str, float] | None:
        return trained(job.settings, images, options, part, going, networks)

    search(log, train, choose, sign)


def trained(
    settings: kit.Settings,
    images: Images,
    options: Options,
    part: str,
    going: Going,
    networks: Networks,
) -> dict[str, float] | None:
    """Train and measure one network; the lr goes down to 0 on a line.

    A network that diverged is measured where it stopped.
    """
    model, optimizer = networks.make(settings, options)
    count, size = len(images.train.labels), settings["batch_size"]
    steps = settings["epochs"] * -(-count // size)
    falling = LambdaLR(optimizer, lambda step: 1 - step / steps)
    epochs = (torch.randperm(count).split(size) for _ in range(settings["epochs"]))
    seconds = 0.0
    for chosen in chain.from_iterable(epochs):
        if not going():
            return None
        begun = time.process_time()
        batch = Part(images.train.inputs[chosen], images.train.labels[chosen])
        if not descend(optimizer, networks.loss(model, settings, options, batch)):
            break
        falling.step()
        seconds += time.process_time() - begun
    model.eval()
    with torch.no_grad():
        return {**networks.measure(model, settings, images, part), "seconds": seconds}


def descend(optimizer: Optimizer, loss: Tensor) -> bool:
    """Make one step; False if there is no way on.

    Example:
        >>> weight = nn.Parameter(torch.ones(2))
        >>> optimizer = torch.optim.SGD([weight], lr=0.1)
        >>> descend(optimizer, weight.sum()), descend(optimizer, weight.sum() / 0), weight[0].item()
        (True, False, 0.8999999761581421)
    """
    if not math.isfinite(float(loss.detach())):
        return False
    optimizer.zero_grad()
    loss.backward()
    try:
        optimizer.step()
    except ConvergenceError:  # a weight that is not finite
        return False
    return True
