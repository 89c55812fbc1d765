"""What processes do in the tests of directions: the paths of ``along`` with sharded weights."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from shard_cases import whole
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from along import SAVED, STEPS, Weights, expected, follow, optimizer_of


def sharded(name: str, seed: int = 0) -> nn.Module:
    """The weights of a case as FSDP2 cuts them."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return fully_shard(Weights(name, seed), mesh=mesh)


def gaps(rank: int, folder: str, direction: str, names: list[str]) -> dict[str, float]:
    """How far apart paths with shards, saved and loaded on their way, and those without end."""

    def start(name: str, seed: int) -> tuple[nn.Module, Any]:
        model = sharded(name, seed)
        return model, optimizer_of(model, name, direction)

    def states(runs: dict[str, tuple[nn.Module, Any]]) -> dict[str, Any]:
        both = {name: get_state_dict(*run) for name, run in runs.items()}
        return {f"{name} {i}": own for name, pair in both.items() for i, own in enumerate(pair)}

    first = {name: start(name, 0) for name in names}
    for name, (model, optimizer) in first.items():
        follow(list(model.parameters()), optimizer, name, range(SAVED))
    dcp.save(states(first), checkpoint_id=folder)
    second = {name: start(name, 5) for name in names}
    loaded = states(second)
    dcp.load(loaded, checkpoint_id=folder)
    found = {}
    for name, (model, optimizer) in second.items():
        own = {"model_state_dict": loaded[f"{name} 0"], "optim_state_dict": loaded[f"{name} 1"]}
        set_state_dict(model, optimizer, **own)
        follow(list(model.parameters()), optimizer, name, range(SAVED, STEPS))
        ends = zip(whole(model).values(), expected(name, direction), strict=True)
        found[name] = max(float((one - two).abs().max()) for one, two in ends)
    return found
