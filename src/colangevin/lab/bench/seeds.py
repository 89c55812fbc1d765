"""The work (g): many seeds of the spiral's network, as a Python loop and as one ensemble."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from colangevin.constraints import Circle
from colangevin.ensemble import Ensemble
from colangevin.lab.bench.contestant import Contestant, Setting, bytes_of
from colangevin.lab.bench.ours import Build
from colangevin.lab.bench.works import Entry, Sizes, Work
from colangevin.lab.models import mlp

LOOP = "a loop over networks with SGD"
ENSEMBLE = "ensemble"
NOISY = "ensemble, circles, τ > 0"
SERIES = "number of seeds of the 2-500-1 network, batches of 2"
BATCH, LR, TEMPERATURE, RADII = 2, 0.05, 5e-5, (1.0, 5.0)


def work_g(sizes: Sizes) -> list[Work]:
    """One work a number of seeds; noise where the bars are, because it takes long to compile."""
    found = []
    for count in sizes.seeds:
        entries = [
            Entry(LOOP, _loop(count, sizes.nodes), (LOOP,)),
            Entry(ENSEMBLE, _ensemble(count, sizes.nodes, {}), (LOOP,), ours=True),
        ]
        if count == sizes.noisy_seeds:
            options = {"temperature": TEMPERATURE, "circles": True}
            entries.append(Entry(NOISY, _ensemble(count, sizes.nodes, options), (LOOP,), ours=True))
        found.append(Work("g", "many seeds", [], entries, lr=LR, series=SERIES, x=count))
    return found


def loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Binary cross entropy of logits."""
    return binary_cross_entropy_with_logits(outputs[:, 0], labels)


def _batch(count: int, setting: Setting) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(setting.seed)
    inputs = torch.randn(count, BATCH, 2, generator=generator)
    return inputs.to(setting.device), (inputs[:, :, 0] > 0).float().to(setting.device)


def _loop(count: int, nodes: int) -> Build:
    """What one writes without an ensemble: a training step of every network in turn."""

    def build(setting: Setting) -> Contestant:
        networks = [mlp(2, [nodes], 1).to(setting.device) for _ in range(count)]
        optimizers = [torch.optim.SGD(network.parameters(), lr=LR) for network in networks]
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


def _ensemble(count: int, nodes: int, options: Mapping[str, Any]) -> Build:
    def build(setting: Setting) -> Contestant:
        circles = {
            "0.weight": Circle(RADII[0]),
            "2.weight": Circle(RADII[1]),
        }
        ensemble = Ensemble(
            lambda: mlp(2, [nodes], 1).to(setting.device),
            range(count),
            circles if options.get("circles") else None,
            compile=True,
            lr=LR,
            temperature=options.get("temperature", 0.0),
        )
        inputs, labels = _batch(count, setting)

        def step() -> None:
            ensemble.step(loss, inputs, labels)

        return Contestant(
            step=step,
            gradients=[],
            parameters=count * _size(ensemble.member(0)),
            state_bytes=lambda: 4 * sum(t.numel() for t in ensemble.state_tensors()),
            violation=lambda: float(ensemble.violation().max()),
            constrained=bool(options.get("circles")),
            compiles=True,
        )

    return build


def _size(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
