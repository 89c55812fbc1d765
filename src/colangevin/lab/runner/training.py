"""Train networks one at a time as a job: measured, saved now and then, and resumed exactly."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from colangevin.errors import ConvergenceError
from colangevin.lab.runner.job_log import Log
from colangevin.optimizers import SubsetMultirate


class Parts(NamedTuple):
    """What is trained, and with what."""

    model: nn.Module
    optimizer: Optimizer
    scheduler: LRScheduler | None = None


@dataclass(frozen=True)
class Training:
    """What networks are trained on, and when they are measured.

    Attributes:
        begin: makes a network, its optimizer, and a scheduler that is stepped after each epoch.
        loss: of a network on some of the items, whose numbers it gets.
        measure: numbers by name, of a network in evaluation mode.
        items: how many there are in an epoch.
        batch_size: items in a batch.
        epochs: epochs in all.
        points: measurements in an epoch; 0.5 is one in two epochs.
        shuffle: draw a new order for every epoch.

    Example:
        >>> training = Training(None, None, None, items=10, batch_size=4, epochs=2)
        >>> training.steps, training.marks
        (3, [3, 6])
    """

    begin: Callable[[], Parts]
    loss: Callable[[nn.Module, Tensor], Tensor]
    measure: Callable[[nn.Module], Mapping[str, float]]
    items: int
    batch_size: int
    epochs: int
    points: float = 1
    shuffle: bool = True

    @property
    def steps(self) -> int:
        """Steps in an epoch; the last batch may be smaller."""
        return math.ceil(self.items / self.batch_size)

    @property
    def marks(self) -> list[int]:
        """Steps after which there is a measurement; the last one is the end."""
        count = round(self.epochs * min(self.points, self.steps))
        return [round(self.epochs * self.steps * (i + 1) / count) for i in range(count)]


class Run:
    """A network on its way through a training.

    All its randomness (weights, order, augmentation, dropout) is one stream of torch's global
    generator, which is left as it was found.

    Args:
        training: what to do.
        seed: of the stream.

    Attributes:
        model: the network.
        optimizer: its optimizer.
        step: steps done.
        diverged: the step at which the loss was no longer finite, or None.
        seconds: processor time of the steps, without measurements.

    Example:
        >>> def begin():
        ...     model = nn.Linear(1, 1)
        ...     return Parts(model, torch.optim.SGD(model.parameters(), lr=0.01))
        >>> def loss(model, items):
        ...     return (model(items[:, None].float()) - 1).square().mean()
        >>> run = Run(Training(begin, loss, dict, items=4, batch_size=2, epochs=50), seed=0)
        >>> for _ in range(100):
        ...     run.advance()
        >>> run.step, loss(run.model, torch.arange(4)).item() < 0.5
        (100, True)
    """

    def __init__(self, training: Training, seed: int) -> None:
        self._training = training
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model, self.optimizer, self._scheduler = training.begin()
            places = {parameter.device for parameter in self.model.parameters()}
            self._gpus = [device for device in places if device.type == "cuda"]
            self._keep_random()
        self.step = 0
        self.diverged: int | None = None
        self.seconds = 0.0
        self._order = torch.arange(training.items)
        self._losses: list[float] = []

    def advance(self) -> None:
        """Make one step, unless the run has diverged."""
        if self.diverged is None:
            begun = time.process_time()
            with torch.random.fork_rng(devices=self._gpus):
                torch.set_rng_state(self._random)
                for device, state in zip(self._gpus, self._random_of_gpus, strict=True):
                    torch.cuda.set_rng_state(state, device)
                self._descend()
                self._keep_random()
            self.seconds += time.process_time() - begun
        self.step += 1
        if self._scheduler is not None and self.step % self._training.steps == 0:
            self._scheduler.step()

    def _keep_random(self) -> None:
        """Dropout on a GPU draws from a generator of its own."""
        self._random = torch.get_rng_state()
        self._random_of_gpus = [torch.cuda.get_rng_state(device) for device in self._gpus]

    def _descend(self) -> None:
        training = self._training
        place = self.step % training.steps * training.batch_size
        if training.shuffle and place == 0:
            self._order = torch.randperm(training.items)
        loss = training.loss(self.model, self._order[place : place + training.batch_size])
        self._losses.append(float(loss.detach()))
        if not math.isfinite(self._losses[-1]):
            self.diverged = self.step
            return
        self.optimizer.zero_grad()
        loss.backward()
        try:
            self.optimizer.step()
        except ConvergenceError:  # a weight that is not finite
            self.diverged = self.step

    @torch.no_grad()
    def measure(self) -> dict[str, float]:
        """Measure the network; ``train_loss`` is the mean over the steps since the last time."""
        self.model.eval()
        with _whole(self.optimizer):
            found = dict(self._training.measure(self.model))
        self.model.train()
        found["train_loss"] = sum(self._losses) / max(1, len(self._losses))
        self._losses = []
        if self.diverged is not None:
            return dict.fromkeys(found, math.nan)
        return found

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self._scheduler is None else self._scheduler.state_dict(),
            "random": self._random,
            "random_of_gpus": self._random_of_gpus,
            "step": self.step,
            "diverged": self.diverged,
            "order": self._order,
            "losses": self._losses,
            "seconds": self.seconds,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where ``state_dict`` was taken."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self._scheduler is not None:
            self._scheduler.load_state_dict(state["scheduler"])
        self._random = state["random"]
        self._random_of_gpus = state.get("random_of_gpus", [])
        self.step, self.diverged = state["step"], state["diverged"]
        self._order, self._losses = state["order"], list(state["losses"])
        self.seconds = state["seconds"]


def _whole(optimizer: Optimizer) -> AbstractContextManager[None]:
    """In it no weight sleeps."""
    return optimizer.full_weights() if isinstance(optimizer, SubsetMultirate) else nullcontext()


def train(training: Training, seeds: Sequence[int], log: Log) -> list[Run] | None:
    """Train one network per seed, from where the log's checkpoint is, or from the start.

    The networks go from measurement to measurement together; the history has a row for each.

    Returns:
        The runs; None if the user wanted an end: everything is saved then.
    """
    runs = [Run(training, seed) for seed in seeds]
    saved = log.load()
    if saved is not None:
        for run, state in zip(runs, saved["runs"], strict=True):
            run.load_state_dict(state)
    measured = len(log.record.history.get("epoch", []))
    total = training.marks[-1] * len(runs)
    for mark in training.marks[measured:]:
        for run in runs:
            while run.step < mark:
                run.advance()
                done = sum(run.step for run in runs) / total
                if not log.advance(done, lambda: {"runs": [run.state_dict() for run in runs]}):
                    return None
        _note(mark / training.steps, runs, log)
    return runs


def _note(epoch: float, runs: Sequence[Run], log: Log) -> None:
    measured = [run.measure() for run in runs]
    columns = {name: [found[name] for found in measured] for name in measured[0]}
    log.append(epoch=int(epoch) if epoch == int(epoch) else epoch, **columns)


def extremes(series: Sequence[Sequence[float]], choose: Callable[..., float]) -> list[float]:
    """The least or the largest of each run's measurements; NaN for one that diverged.

    Example:
        >>> extremes([[1.0, 2.0], [0.5, math.nan]], min)
        [0.5, nan]
    """
    runs = zip(*series, strict=True)
    return [choose(run) if all(map(math.isfinite, run)) else math.nan for run in runs]


def divergences(runs: Sequence[Run]) -> list[dict[str, int]]:
    """The runs that diverged and when, for a record.

    Example:
        >>> divergences([])
        []
    """
    return [
        {"run": index, "step": run.diverged}
        for index, run in enumerate(runs)
        if run.diverged is not None
    ]
