"""The works (a) to (d): which weights are moved, and by whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from colangevin.lab.bench import peers
from colangevin.lab.bench.contestant import Weight
from colangevin.lab.bench.ours import Build, cola, draw_alone
from colangevin.lab.bench.printed_formulas import ITERATIONS, printed
from colangevin.lab.models import resnet

SGD = "SGD, fused"
SGD_MOMENTUM = "SGD with momentum, fused"
ADAM = "Adam, fused"
MUON = "Muon"
MUON_FLOAT32 = "Muon, float32 products"
EUCLIDEAN = "geoopt, Euclidean Stiefel"
CANONICAL = "geoopt, canonical Stiefel"
POGO = "POGO"
POGO_STACKED = "POGO, one stacked tensor"
TORCH = "torch parametrizations.orthogonal"
GEOTORCH = "geotorch.orthogonal"
LITERAL_CIRCLE = "the printed formulas"
LITERAL = f"the printed formulas, K = {ITERATIONS}"
DRAW = "normal_ alone, one number per weight"
CIRCLE = "CoLA circle"
CIRCLE_EAGER = "CoLA circle, eager"
OVERDAMPED = "CoLA circle overdamped"
OVERDAMPED_EAGER = "CoLA circle overdamped, eager"
NOISY = "CoLA circle, τ > 0"
NOISY_EAGER = "CoLA circle, τ > 0, eager"
ORTHOGONAL = "CoLA orthogonal"
ORTHOGONAL_STACKED = "CoLA orthogonal, one stacked tensor"
ORTHOGONAL_OVERDAMPED = "CoLA orthogonal overdamped"
ORTHOGONAL_NOISY = "CoLA orthogonal, τ > 0"
BOTH = "CoLA orthogonal and circle"
BOTH_EAGER = "CoLA orthogonal and circle, eager"
SCHEDULED = ", lr changed every step"


@dataclass(frozen=True)
class Entry:
    """A contestant of a work.

    Attributes:
        label: its name.
        build: makes it.
        baselines: what its time is divided by: the first of these that was measured.
        ours: whether it is this library's.
        cubic: whether it goes matrix by matrix, at a cost of third order in the sides, so
            that its time can be told beforehand from that of one matrix.
        stacked: whether it moves the weights of the work as one stacked tensor.
    """

    label: str
    build: Build
    baselines: tuple[str, ...] = (SGD_MOMENTUM,)
    ours: bool = False
    cubic: bool = False
    stacked: bool = False


@dataclass(frozen=True)
class Work:
    """Weights, and who moves them.

    Attributes:
        letter: its name.
        title: what it is.
        weights: kinds and shapes.
        entries: the contestants.
        lr: learning rate of all that set none.
        series: tells parts of a work apart.
        x: of a scaling study, the size.
    """

    letter: str
    title: str
    weights: Sequence[Weight]
    entries: Sequence[Entry]
    lr: float = 0.1
    series: str = ""
    x: float | None = None


@dataclass(frozen=True)
class Sizes:
    """How large the works are; smaller ones serve quick runs and tests.

    Attributes:
        hidden: (a), nodes of the hidden layer.
        width: (b), channels of the first stage of the ResNet-34.
        matrices: (c), how many.
        tall: (c), their longer side; the other is half of it.
        model: (d), width of the transformer.
        layers: (d), how many.
        batch: (e), images in a batch for the small ResNet.
        blocks: (e), blocks in each stage of the small ResNet.
        channels: (e), channels of its first stage.
        parameters: (f), numbers of circle-constrained weights.
        sides: (f), sides of a square orthogonal matrix.
        counts: (f), numbers of matrices as in (c).
        nodes: (g), nodes of the hidden layer.
        seeds: (g), numbers of networks.
        noisy_seeds: (g), the one of them with noise as well.
        chains: (s), of samplers that move many at once.
        warmup: (s), steps before their first draw.
        draws: (s), of each of these chains.
        few_chains: (s), of samplers that move them one by one.
        few_draws: (s), of each of those chains.
        laws: (s), names of those to be sampled; all of them if there is none.
    """

    hidden: int = 1000
    width: int = 64
    matrices: int = 64
    tall: int = 64
    model: int = 512
    layers: int = 6
    batch: int = 64
    blocks: tuple[int, ...] = (2, 2, 2)
    channels: int = 16
    parameters: tuple[int, ...] = (10**4, 10**5, 10**6, 10**7, 10**8)
    sides: tuple[int, ...] = (32, 64, 128, 256, 512, 1024, 2048)
    counts: tuple[int, ...] = (1, 4, 16, 64, 256, 1024)
    nodes: int = 500
    seeds: tuple[int, ...] = (1, 10, 100, 1000)
    noisy_seeds: int = 100
    chains: int = 500
    warmup: int = 200
    draws: int = 600
    few_chains: int = 2
    few_draws: int = 120
    laws: tuple[str, ...] = ()


QUICK = Sizes(
    width=32,
    model=256,
    layers=3,
    batch=16,
    blocks=(1, 1, 1),
    parameters=(10**4, 10**5, 10**6),
    sides=(32, 64, 128, 256),
    counts=(1, 16, 256),
    seeds=(1, 100),
    chains=100,
    warmup=80,
    draws=40,
    few_chains=2,
    few_draws=40,
)


def mlp_weights(hidden: int) -> list[Weight]:
    """784-hidden-10: bounded weights, free biases."""
    return [
        Weight((hidden, 784), "circle", 0.05),
        Weight((hidden,)),
        Weight((10, hidden), "circle", 0.1),
        Weight((10,)),
    ]


def work_a(sizes: Sizes) -> Work:
    """Circle constraints on a fully connected network."""
    entries = [
        Entry(SGD_MOMENTUM, peers.sgd(momentum=True)),
        Entry(SGD, peers.sgd(momentum=False)),
        Entry(ADAM, peers.torch_optimizer("Adam", fused=True)),
        Entry(CIRCLE, cola(), ours=True),
        Entry(CIRCLE + SCHEDULED, cola(scheduled=True), ours=True),
        Entry(CIRCLE_EAGER, cola(fused=False), ours=True),
        Entry(OVERDAMPED, cola(momentum=False), (SGD,), ours=True),
        Entry(OVERDAMPED_EAGER, cola(momentum=False, fused=False), (SGD,), ours=True),
        Entry(NOISY, cola(noise=True), ours=True),
        Entry(NOISY_EAGER, cola(noise=True, fused=False), ours=True),
        Entry(DRAW, draw_alone),
        Entry(LITERAL_CIRCLE, printed),
    ]
    title = f"circle constraints, network 784-{sizes.hidden}-10"
    return Work("a", title, mlp_weights(sizes.hidden), entries)


def work_b(sizes: Sizes) -> Work:
    """Orthogonal kernels of a deep convolutional network."""
    with torch.device("meta"):  # only the shapes count
        network = resnet(34, width=sizes.width)
    kernels = [m.weight for m in network.modules() if isinstance(m, nn.Conv2d)]
    weights = [Weight(tuple(kernel.shape), "orthogonal") for kernel in kernels]
    to = (EUCLIDEAN, SGD_MOMENTUM)
    entries = [
        Entry(EUCLIDEAN, peers.geoopt(canonical=False), to),
        Entry(ORTHOGONAL, cola(), to, ours=True),
        Entry(ORTHOGONAL + SCHEDULED, cola(scheduled=True), to, ours=True),
        Entry(ORTHOGONAL_OVERDAMPED, cola(momentum=False), to, ours=True),
        Entry(ORTHOGONAL_NOISY, cola(noise=True), to, ours=True),
        Entry(POGO, peers.pogo(), to),
        Entry(MUON, peers.muon, to, cubic=True),
        Entry(MUON_FLOAT32, peers.muon_float32, to, cubic=True),
        Entry(SGD_MOMENTUM, peers.sgd(momentum=True), to),
        Entry(ADAM, peers.torch_optimizer("Adam", fused=True), to),
        Entry(LITERAL, printed, to),
        Entry(CANONICAL, peers.geoopt(canonical=True), to, cubic=True),
        Entry(TORCH, peers.parametrized("torch"), to, cubic=True),
        Entry(GEOTORCH, peers.parametrized("geotorch"), to, cubic=True),
    ]
    title = f"all {len(weights)} kernels of a ResNet-34 of width {sizes.width}, orthogonal"
    return Work("b", title, weights, entries)


HOT = 2.0
"""A learning rate at which feasibility is hard."""


def work_c(sizes: Sizes) -> Work:
    """Many small orthogonal matrices."""
    shape = (sizes.tall, sizes.tall // 2)
    weights = [Weight(shape, "orthogonal")] * sizes.matrices
    to = (POGO_STACKED, SGD_MOMENTUM)
    hot = f", lr {HOT:g}"
    to_hot = (POGO_STACKED + hot, SGD_MOMENTUM)
    entries = [
        Entry(POGO_STACKED, peers.pogo(), to, stacked=True),
        Entry(ORTHOGONAL, cola(), to, ours=True),
        Entry(ORTHOGONAL + SCHEDULED, cola(scheduled=True), to, ours=True),
        Entry(ORTHOGONAL_STACKED, cola(), to, ours=True, stacked=True),
        Entry(ORTHOGONAL_OVERDAMPED, cola(momentum=False), to, ours=True),
        Entry(ORTHOGONAL_NOISY, cola(noise=True), to, ours=True),
        Entry(POGO_STACKED + hot, peers.pogo(lr=HOT), to_hot, stacked=True),
        Entry(ORTHOGONAL_STACKED + hot, cola(lr=HOT), to_hot, ours=True, stacked=True),
        Entry(POGO, peers.pogo(), to),
        Entry(SGD_MOMENTUM, peers.sgd(momentum=True), to),
        Entry(ADAM, peers.torch_optimizer("Adam", fused=True), to),
        Entry(MUON, peers.muon, to),
        Entry(MUON_FLOAT32, peers.muon_float32, to),
        Entry(EUCLIDEAN, peers.geoopt(canonical=False), to),
        Entry(CANONICAL, peers.geoopt(canonical=True), to),
        Entry(TORCH, peers.parametrized("torch"), to),
        Entry(GEOTORCH, peers.parametrized("geotorch"), to),
        Entry(LITERAL, printed, to),
    ]
    title = f"{sizes.matrices} orthogonal matrices of {shape[0]} × {shape[1]}, lr 0.5"
    return Work("c", title, weights, entries, lr=0.5)


def work_one(sizes: Sizes) -> Work:
    """One small orthogonal matrix: the cost of a step that computes next to nothing."""
    shape = (sizes.tall, sizes.tall // 2)
    to = (POGO, SGD_MOMENTUM)
    entries = [
        Entry(POGO, peers.pogo(), to),
        Entry(ORTHOGONAL, cola(), to, ours=True),
        Entry(ORTHOGONAL + SCHEDULED, cola(scheduled=True), to, ours=True),
        Entry(SGD_MOMENTUM, peers.sgd(momentum=True), to),
    ]
    series = f"one of them alone, {shape[0]} × {shape[1]}"
    return Work("c", work_c(sizes).title, [Weight(shape, "orthogonal")], entries, 0.5, series)


def work_d(sizes: Sizes) -> Work:
    """A transformer encoder with both constraints."""
    n = sizes.model
    attention = [Weight((n, n), "orthogonal")] * 4
    feed_forward = [Weight((4 * n, n), "circle"), Weight((n, 4 * n), "circle")]
    free = [Weight((n,))] * 4 + [Weight((4 * n,)), Weight((n,))] + [Weight((n,))] * 4
    weights = (attention + feed_forward + free) * sizes.layers
    entries = [
        Entry(SGD_MOMENTUM, peers.sgd(momentum=True)),
        Entry(BOTH, cola(), ours=True),
        Entry(BOTH + SCHEDULED, cola(scheduled=True), ours=True),
        Entry(BOTH_EAGER, cola(fused=False), ours=True),
        Entry(EUCLIDEAN + " and SGD", peers.geoopt(canonical=False)),
        Entry(POGO + " and SGD", peers.pogo()),
        Entry(MUON + " and SGD", peers.muon, cubic=True),
        Entry(MUON_FLOAT32 + ", and SGD", peers.muon_float32, cubic=True),
        Entry(ADAM, peers.torch_optimizer("Adam", fused=True)),
        Entry(CANONICAL + " and SGD", peers.geoopt(canonical=True), cubic=True),
        Entry(LITERAL, printed),
    ]
    title = (
        f"{sizes.layers}-layer transformer encoder of width {n}: attention matrices orthogonal, "
        "feed-forward weights on circles, the rest free"
    )
    return Work("d", title, weights, entries)
