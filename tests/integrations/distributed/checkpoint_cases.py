"""What processes do in the tests of distributed checkpoints."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import shard_cases
import torch
import torch.distributed.checkpoint as dcp
from shard_cases import network, optimizer_of, train, whole
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)
from torch.nn.parallel import DistributedDataParallel

import colangevin as cl


def start(shard: bool, **options: Any) -> tuple[nn.Module, cl.CoLA]:
    """A network, sharded or not, and its optimizer; another seed, which a checkpoint replaces."""
    model: nn.Module = network(torch.float64)
    if shard:
        model = shard_cases.sharded(model)
    return model, optimizer_of(model, seed=None, **options)


def save(model: nn.Module, optimizer: Any, folder: str) -> None:
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)


def load(model: nn.Module, optimizer: Any, folder: str) -> None:
    weights, state = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)


def train_and_save(
    rank: int, folder: str, shard: bool, options: Mapping[str, Any]
) -> dict[str, Tensor]:
    """6 steps, a checkpoint, 6 steps more."""
    torch.manual_seed(rank)
    model, optimizer = start(shard, **options)
    train(model, optimizer, 6)
    save(model, optimizer, folder)
    train(model, optimizer, 6, first=6)
    return whole(model)


def resume(rank: int, folder: str, shard: bool, options: Mapping[str, Any]) -> dict[str, Tensor]:
    """A new network from the checkpoint, and the last 6 steps."""
    torch.manual_seed(50 + rank)
    model, optimizer = start(shard, **options)
    load(model, optimizer, folder)
    train(model, optimizer, 6, first=6)
    return whole(model)


def entries(rank: int) -> dict[str, dict[str, tuple[tuple[int, ...], str]]]:
    """The entries of the state: shapes of the whole, and how they are cut."""
    model, optimizer = start(True)
    names = {parameter: name for name, parameter in model.named_parameters()}
    return {
        names[parameter]: {
            key: (tuple(value.shape), str(getattr(value, "placements", None)))
            for key, value in entry.items()
        }
        for parameter, entry in optimizer.state.items()
    }


def plain_state(rank: int, state: dict[str, Any], weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """A sharded run that continues from the state dict of one process without shards."""
    model: nn.Module = network(torch.float64)
    model.load_state_dict(weights)
    model = shard_cases.sharded(model)
    optimizer = optimizer_of(model, seed=None)
    optimizer.load_state_dict(state)
    train(model, optimizer, 6, first=6)
    return whole(model)


def long_run(rank: int, folder: str, steps: int, dies: int | None) -> dict[str, Tensor]:
    """A run that saves after every 4th step, and goes on from the last checkpoint."""
    model, optimizer = start(True)
    done = sorted(Path(folder).glob("*/.metadata"), key=lambda path: int(path.parent.name))
    first = 0
    if done:
        first = int(done[-1].parent.name)
        load(model, optimizer, str(done[-1].parent))
    for step in range(first, steps):
        train(model, optimizer, 1, first=step)
        if step + 1 == dies and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if (step + 1) % 4 == 0:
            save(model, optimizer, f"{folder}/{step + 1}")
    return whole(model)


# --- multirate ------------------------------------------------------------------------------


def small() -> nn.Sequential:
    torch.manual_seed(7)
    layers = nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1)
    return nn.Sequential(*layers).double()


def rates_of_sgd(model: nn.Sequential) -> Any:
    slow = [*model[0].parameters(), *model[2].parameters()]
    return cl.Multirate.sgd(model[4].parameters(), slow, lr=0.2, momentum=0.9, period=4)


def rates_of_adam_and_cola(model: nn.Sequential) -> Any:
    slow = cl.CoLA(
        [model[0].weight, model[2].weight],
        lr=0.1,
        momentum=0.9,
        temperature=1e-4,
        constraint=cl.Orthogonal(),
    )
    rest = [
        p for p in model.parameters() if not any(p is q for q in slow.param_groups[0]["params"])
    ]
    return cl.Multirate(torch.optim.Adam(rest, lr=0.01), slow, period=4)


def three_rates(model: nn.Sequential) -> Any:
    parts = [torch.optim.SGD(model[i].parameters(), 0.05, 0.9) for i in (0, 2, 4)]
    return cl.Multirate(parts[2], cl.Multirate(parts[1], parts[0], period=3), period=2)


def at_once(model: nn.Sequential) -> Any:
    slow = [*model[0].parameters(), *model[2].parameters()]
    return cl.Multirate.sgd(model[4].parameters(), slow, lr=0.2, period=4, drift=False)


def subsets(model: nn.Sequential) -> Any:
    return cl.SubsetMultirate(model.parameters(), lr=0.05, momentum=0.9, period=4, seed=3)


RATES = {
    "sgd": rates_of_sgd,
    "adam and cola": rates_of_adam_and_cola,
    "three rates": three_rates,
    "at once": at_once,
    "subsets": subsets,
}
STOPS = (3, 4, 6)
"""Steps of the checkpoints: within a stretch, at its end, and within the next one."""


def walk(model: nn.Module, optimizer: Any, first: int, stop: int) -> None:
    """Steps with the same data in all processes, so that their number does not matter."""
    for step in range(first, stop):
        generator = torch.Generator().manual_seed(step)
        data = torch.randn(5, 3, generator=generator, dtype=torch.float64)
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()


def wrapped(model: nn.Module) -> nn.Module:
    return DistributedDataParallel(model, find_unused_parameters=True)


def multirate_saved(rank: int, folder: str, name: str, flat: bool) -> list[Tensor]:
    """10 steps under DDP, with checkpoints."""
    inner = small()
    model, optimizer = wrapped(inner), RATES[name](inner)
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    done = 0
    for stop in STOPS:
        walk(model, optimizer, done, stop)
        done = stop
        weights, state = get_state_dict(model, optimizer, options=options)
        dcp.save({"model": weights, "optimizer": state}, checkpoint_id=f"{folder}/{stop}")
    walk(model, optimizer, done, 10)
    return [p.detach().clone() for p in inner.parameters()]


def multirate_resumed(
    rank: int, folder: str, name: str, flat: bool, ddp: bool
) -> list[list[Tensor]]:
    """New networks from the checkpoints, trained to the end."""
    found = []
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    for stop in STOPS:
        inner = small()
        with torch.no_grad():
            for parameter in inner.parameters():
                parameter.mul_(0.5)
        model, optimizer = wrapped(inner) if ddp else inner, RATES[name](inner)
        weights, state = get_state_dict(model, optimizer, options=options)
        dcp.load({"model": weights, "optimizer": state}, checkpoint_id=f"{folder}/{stop}")
        set_state_dict(
            model, optimizer, model_state_dict=weights, optim_state_dict=state, options=options
        )
        walk(model, optimizer, stop, 10)
        found.append([p.detach().clone() for p in inner.parameters()])
    return found


def saved_at_the_start(rank: int, name: str) -> bool:
    """Whether a run is the same if its state was asked for before the first step."""
    found = []
    for asked in (False, True):
        model = small()
        optimizer = RATES[name](model)
        if asked:
            get_state_dict(model, optimizer)
        walk(model, optimizer, 0, 6)
        found.append([p.detach().clone() for p in model.parameters()])
    return all(map(torch.equal, *found))


def exchanged(rank: int) -> dict[str, Tensor]:
    """Accelerate's way with FSDP2: the optimizer is made first, its parameters are exchanged."""
    model: nn.Module = network(torch.float64)
    optimizer = optimizer_of(model)
    train(model, optimizer, 3)
    names = {parameter: name for name, parameter in model.named_parameters()}
    places = [[names[p] for p in group["params"]] for group in optimizer.param_groups]
    model = shard_cases.sharded(model)
    own = dict(model.named_parameters())
    for group, wanted in zip(optimizer.param_groups, places, strict=True):
        group["params"] = [own[name] for name in wanted]
    assert set(optimizer.state_dict()["state"]) == set(range(len(own)))
    train(model, optimizer, 3, first=3)
    assert set(optimizer.state) == set(own.values())
    return whole(model)
