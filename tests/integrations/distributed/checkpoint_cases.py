"""What processes do in the tests of distributed checkpoints."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import shard_cases
import torch
import torch.distributed.checkpoint as dcp
from shard_cases import network, optimizer_of, train, whole
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

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


def train_and_save(rank: int, folder: str, shard: bool) -> dict[str, Tensor]:
    """6 steps, a checkpoint, 6 steps more."""
    torch.manual_seed(rank)
    model, optimizer = start(shard)
    train(model, optimizer, 6)
    save(model, optimizer, folder)
    train(model, optimizer, 6, first=6)
    return whole(model)


def resume(rank: int, folder: str, shard: bool) -> dict[str, Tensor]:
    """A new network from the checkpoint, and the last 6 steps."""
    torch.manual_seed(50 + rank)
    model, optimizer = start(shard)
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
