"""The work (g): many seeds of the spiral's network, as a Python loop and as one ensemble."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim import Optimizer

from colangevin.constraints import Circle
from colangevin.ensemble import Ensemble
from colangevin.lab.bench.contestant import Contestant, Setting, Unavailable, bytes_of
from colangevin.lab.bench.ours import Build
from colangevin.lab.bench.works import Entry, Sizes, Work
from colangevin.lab.models import mlp
from colangevin.optimizers import AdLaLa, partition

LOOP = "a loop over networks with SGD"
ENSEMBLE = "ensemble"
NOISY = "ensemble, circles, τ > 0"
ADLALA_LOOP = "a loop over networks with AdLaLa"
ADLALA = "ensemble, AdLaLa"
SERIES = "number of seeds of the 2-500-1 network, batches of 2"
BATCH, LR, TEMPERATURE, RADII = 2, 0.05, 5e-5, (1.0, 5.0)
STEP_SIZE = 0.15
"""Of AdLaLa."""


def work_g(sizes: Sizes) -> list[Work]:
    """One work per number of seeds; noise and AdLaLa only where the bars are, they take long."""
    return [_work(sizes, count) for count in sizes.seeds]


def _work(sizes: Sizes, count: int) -> Work:
    plain = {"lr": LR}
    entries = [
        Entry(LOOP, _loop(count, sizes.nodes, _sgd), (LOOP,)),
        Entry(ENSEMBLE, _ensemble(count, sizes.nodes, plain), (LOOP,), ours=True),
    ]
    if count == sizes.noisy_seeds:
        circles = {"0.weight": Circle(RADII[0]), "2.weight": Circle(RADII[1])}
        noisy = {"rules": circles, "lr": LR, "temperature": TEMPERATURE}
        adlala, to = {"method": _adlala}, (ADLALA_LOOP,)
        entries += [
            Entry(NOISY, _ensemble(count, sizes.nodes, noisy), (LOOP,), ours=True),
            Entry(ADLALA_LOOP, _loop(count, sizes.nodes, _adlala), to),
            Entry(ADLALA, _ensemble(count, sizes.nodes, adlala), to, ours=True),
        ]
    return Work("g", "many seeds", [], entries, lr=LR, series=SERIES, x=count)


def loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Binary cross entropy of logits."""
    return binary_cross_entropy_with_logits(outputs[:, 0], labels)


def _sgd(network: nn.Module) -> Optimizer:
    return torch.optim.SGD(network.parameters(), lr=LR)


def _adlala(network: nn.Module) -> Optimizer:
    return AdLaLa(partition(network, by="output"), step_size=STEP_SIZE)


def _batch(count: int, setting: Setting) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(setting.seed)
    inputs = torch.randn(count, BATCH, 2, generator=generator)
    return inputs.to(setting.device), (inputs[:, :, 0] > 0).float().to(setting.device)


def _loop(count: int, nodes: int, method: Callable[[nn.Module], Optimizer]) -> Build:
    """What one writes without an ensemble: a training step of every network in turn."""

    def build(setting: Setting) -> Contestant:
        networks = [mlp(2, [nodes], 1).to(setting.device) for _ in range(count)]
        optimizers = [method(network) for network in networks]
        inputs, labels = _batch(count, setting)
        batches = list(zip(inputs, labels, strict=True))

        def step() -> None:
            for network, optimizer, (x, y) in zip(networks, optimizers, batches, strict=True):
                optimizer.zero_grad()
                loss(network(x), y).backward()
                optimizer.step()

        return Contestant(
            step=step,
            gradients=[],
            parameters=count * _size(networks[0]),
            state_bytes=lambda: bytes_of(optimizers),
        )

    return build


def _ensemble(count: int, nodes: int, options: dict[str, Any]) -> Build:
    """An ensemble with the given options, and with the default of everything else."""

    def build(setting: Setting) -> Contestant:
        if "method" in options and "method" not in inspect.signature(Ensemble).parameters:
            raise Unavailable("not run: this version of Ensemble takes no method")
        ensemble = Ensemble(lambda: mlp(2, [nodes], 1).to(setting.device), range(count), **options)
        inputs, labels = _batch(count, setting)

        def step() -> None:
            ensemble.step(loss, inputs, labels)

        return Contestant(
            step=step,
            gradients=[],
            parameters=count * _size(ensemble.member(0)),
            state_bytes=lambda: 4 * sum(t.numel() for t in ensemble.state_tensors()),
            violation=lambda: max(group.residual for group in ensemble.violation()),
            constrained="rules" in options,
            compiles=True,
            settles=True,
        )

    return build


def _size(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
