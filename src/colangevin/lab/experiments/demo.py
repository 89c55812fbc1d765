"""Five methods on the two-turn spiral (4.59): the setting of figure 4.1, with fewer epochs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from colangevin import checks
from colangevin.constraints import Circle
from colangevin.diagnostics.weights import largest_weight
from colangevin.lab.data import TWO_TURNS
from colangevin.lab.experiments.demo_result import Curve, Method, Result
from colangevin.lab.machine import threads
from colangevin.lab.models import mlp
from colangevin.optimizers import CoLA, parameter_groups

Columns: TypeAlias = list[tuple[nn.Parameter, ...]]

PAPER_EPOCHS = 10_000
CURVE_POINTS = 50


METHODS = (
    Method("SGD"),
    Method("SGD + WD", weight_decay=1e-4),
    Method("C-SGD", constrained=True),
    Method("SGLD", temperature=5e-5),
    Method("C-SGLD", constrained=True, temperature=5e-5),
)


class Stream(IntEnum):
    """What random numbers are for: from one seed, data and weights would be correlated."""

    DATA = 0
    WEIGHTS = 1
    BATCHES = 2
    NOISE = 3


SEEDS = 2**32 // len(Stream)


@dataclass(frozen=True)
class Settings:
    """What the five methods have in common: the paper's settings but for the epochs."""

    epochs: int = 600
    seed: int = 0
    hidden: int = 500
    train_points: int = 100
    test_points: int = 2000
    batch_size: int = 2
    lr: float = 0.05
    input_radius: float = 1.0
    output_radius: float = 5.0

    def __post_init__(self) -> None:
        for name in ("epochs", "hidden", "train_points", "test_points", "batch_size"):
            checks.count(name, getattr(self, name))
        # torch's generators use 32 bits of a seed, and each run takes as many as Stream has.
        if not 0 <= self.seed < SEEDS:
            raise ValueError(f"seed must lie between 0 and {SEEDS - 1}, got {self.seed}")

    def generator(self, stream: Stream) -> torch.Generator:
        """Return a fresh source of random numbers, the same at every call."""
        return torch.Generator().manual_seed(len(Stream) * self.seed + stream)


@dataclass(frozen=True)
class Data:
    """Inputs [n, 2] and labels [n], as floats, for training and for testing."""

    train_inputs: Tensor
    train_labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor


def make_data(settings: Settings) -> Data:
    """Draw the training and test points of a seed.

    Example:
        >>> make_data(Settings(test_points=50)).test_inputs.shape
        torch.Size([50, 2])
    """
    generator = settings.generator(Stream.DATA)
    train_inputs, train_labels = TWO_TURNS.sample(settings.train_points, generator=generator)
    test_inputs, test_labels = TWO_TURNS.sample(settings.test_points, generator=generator)
    return Data(train_inputs, train_labels.float(), test_inputs, test_labels.float())


def train(
    settings: Settings,
    data: Data,
    methods: Sequence[Method] = METHODS,
    keep_going: Callable[[int], bool] = lambda epoch: True,
) -> list[Result]:
    """Train one network with each method, from the same weights and on the same batches.

    Args:
        settings: Epochs, seed, sizes, learning rate and radii.
        data: The points, see :func:`make_data`.
        methods: The methods to compare.
        keep_going: Called after each epoch with the number of epochs done; training ends
            early where it returns False.

    Returns:
        One result a method, in the order of ``methods``.

    Example:
        >>> settings = Settings(epochs=1, hidden=8, train_points=10, test_points=10)
        >>> [result.method.name for result in train(settings, make_data(settings))]
        ['SGD', 'SGD + WD', 'C-SGD', 'SGLD', 'C-SGLD']
    """
    networks = _networks(settings, len(methods))
    columns = _columns(networks)
    optimizers = [_optimizer(*pair, settings) for pair in zip(methods, networks, strict=True)]
    curves = [Curve() for _ in methods]
    batches = settings.generator(Stream.BATCHES)
    spacing = -(-settings.epochs // CURVE_POINTS)
    with threads(1):  # on small tensors, starting a second costs more than it saves
        _record(curves, 0, networks, data)
        for epoch in range(1, settings.epochs + 1):
            _run_epoch(columns, optimizers, data, settings.batch_size, batches)
            going = keep_going(epoch) and epoch < settings.epochs
            if not going or epoch % spacing == 0:
                _record(curves, epoch, networks, data)
            if not going:
                break
    outcomes = zip(methods, networks, optimizers, curves, strict=True)
    return [_result(*outcome, data) for outcome in outcomes]


def shares(parts: int, methods: Sequence[Method] = METHODS) -> list[tuple[Method, ...]]:
    """Divide the methods into at most ``parts`` runs of neighbours, for as many processes.

    Example:
        >>> [[method.name for method in share] for share in shares(2)]
        [['SGD', 'SGD + WD', 'C-SGD'], ['SGLD', 'C-SGLD']]
    """
    size = -(-len(methods) // checks.count("parts", parts))
    return [tuple(methods[i : i + size]) for i in range(0, len(methods), size)]


def train_share(
    task: tuple[Settings, Sequence[Method]], keep_going: Callable[[int], bool]
) -> list[Result]:
    """Do :func:`train` as a task for a process of its own."""
    settings, methods = task
    return train(settings, make_data(settings), methods, keep_going)


def _columns(networks: Sequence[nn.Sequential]) -> Columns:
    """Gather the networks' parameters by their place: all first weights, all first biases, …."""
    return list(zip(*(network.parameters() for network in networks), strict=True))


def _logits(columns: Columns, inputs: Tensor) -> Tensor:
    """Evaluate all networks on one batch, as [networks, points].

    At this size a step is overhead of calls, not arithmetic: several networks with their
    weights stacked cost little more than one.
    """
    weight, bias, out_weight, out_bias = (torch.stack(column) for column in columns)
    batch = inputs.expand(len(weight), *inputs.shape)
    hidden = torch.baddbmm(bias.unsqueeze(1), batch, weight.mT).relu()
    return torch.baddbmm(out_bias.unsqueeze(1), hidden, out_weight.mT).squeeze(-1)


def _networks(settings: Settings, copies: int) -> list[nn.Sequential]:
    """Make networks of equal weights, without a trace in torch's global random state."""
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(settings.generator(Stream.WEIGHTS).get_state())
        network = mlp(2, [settings.hidden], 1)
    return [copy.deepcopy(network) for _ in range(copies)]


def _optimizer(method: Method, network: nn.Sequential, settings: Settings) -> CoLA:
    """CoLA without momentum: SGD, SGLD, or one of them on the circles |weight| ≤ radius."""
    circles = {
        "0.weight": Circle(radius=settings.input_radius),
        "2.weight": Circle(radius=settings.output_radius),
    }
    return CoLA(
        parameter_groups(network, circles if method.constrained else {}),
        lr=settings.lr,
        momentum=0.0,
        temperature=method.temperature,
        weight_decay=method.weight_decay,
        generator=settings.generator(Stream.NOISE),
    )


def _run_epoch(
    columns: Columns,
    optimizers: Sequence[CoLA],
    data: Data,
    batch_size: int,
    generator: torch.Generator,
) -> None:
    order = torch.randperm(len(data.train_labels), generator=generator)
    inputs = data.train_inputs[order].split(batch_size)
    labels = data.train_labels[order].split(batch_size)
    for batch_inputs, batch_labels in zip(inputs, labels, strict=True):
        # The sum over the networks, each with its mean over the batch: no network sees another.
        losses = _losses(_logits(columns, batch_inputs), batch_labels)
        for optimizer in optimizers:
            optimizer.zero_grad()
        losses.sum().backward()
        for optimizer in optimizers:
            optimizer.step()


def _losses(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean loss of each network, from logits [networks, points]."""
    targets = labels.expand_as(outputs)
    return functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none").mean(1)


@torch.no_grad()
def _record(
    curves: Sequence[Curve], epoch: int, networks: Sequence[nn.Sequential], data: Data
) -> None:
    for curve, network in zip(curves, networks, strict=True):
        curve.epochs.append(epoch)
        # One network at a time: on 2000 points, stacked activations would not fit the cache.
        train_outputs, test_outputs = network(data.train_inputs).T, network(data.test_inputs).T
        curve.train_loss.append(float(_losses(train_outputs, data.train_labels)))
        curve.test_loss.append(float(_losses(test_outputs, data.test_labels)))


@torch.no_grad()
def _result(
    method: Method, network: nn.Sequential, optimizer: CoLA, curve: Curve, data: Data
) -> Result:
    def accuracy(inputs: Tensor, labels: Tensor) -> float:
        return float(((network(inputs)[:, 0] > 0) == (labels > 0)).float().mean())

    violation = max(group.residual for group in optimizer.violation())
    return Result(
        method=method,
        network=network,
        curve=curve,
        train_accuracy=accuracy(data.train_inputs, data.train_labels),
        test_accuracy=accuracy(data.test_inputs, data.test_labels),
        largest_weight=largest_weight(network),
        violation=violation if method.constrained else None,
    )
