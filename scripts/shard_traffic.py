"""Count what processes send in a step of a sharded orthogonal weight, for docs/distributed.md.

    python scripts/shard_traffic.py

Two processes of the backend gloo make one step with momentum and noise. Every collective
operation of the step is counted, with the bytes that a process sends if the operation goes round
in a ring: an all-reduce of n bytes over k processes sends 2(k - 1)/k · n, an all-gather sends
k - 1 parts. "Gathered" is the same step by a geometry that needs the whole weight.
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as spawning
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.utils._python_dispatch import TorchDispatchMode

import colangevin as cl
from colangevin.constraints.sums import Cut

PROCESSES = 2
SHAPES = [(1024, 64), (64, 1024), (1024, 256), (256, 256)]


class Gathered(cl.Orthogonal):
    """The same geometry, which is not cut."""

    def cut(self, shape: torch.Size, dim: int) -> Cut:
        """Never."""
        return Cut.NEVER


class Traffic(TorchDispatchMode):
    """Counts collective operations and what they send."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.bytes = 0, 0.0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Let an operation be done, and look at it."""
        name = function.name()
        reduces = name.startswith("c10d::allreduce")
        if reduces or name == "_c10d_functional::all_gather_into_tensor":
            size = sum(t.numel() * t.element_size() for t in tensors_of(args[0]))
            factor = 2 * (PROCESSES - 1) / PROCESSES if reduces else PROCESSES - 1
            self.calls += 1
            self.bytes += factor * size
        return function(*args, **(kwargs or {}))


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors in a tensor, or a list."""
    return [value] if isinstance(value, torch.Tensor) else list(value)


def measure(rank: int, store: str) -> None:
    """Print the rows of the table."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=PROCESSES)
    mesh = init_device_mesh("cpu", (PROCESSES,))
    if rank == 0:
        print("| Weight | Cut along | Messages | Bytes sent | Gathered: messages | Bytes sent |")
        print("| --- | --- | ---: | ---: | ---: | ---: |")
    for shape in SHAPES:
        for dim in (0, 1):
            found = [step(shape, dim, rule, mesh) for rule in (cl.Orthogonal(), Gathered())]
            if rank == 0:
                (calls, size), (whole_calls, whole) = found
                side = "rows" if dim == 0 else "columns"
                print(
                    f"| {shape[0]} × {shape[1]} | {side} | {calls} | {size:,.0f} "
                    f"| {whole_calls} | {whole:,.0f} |"
                )
    dist.destroy_process_group()


def step(shape: tuple[int, int], dim: int, rule: cl.Orthogonal, mesh: Any) -> tuple[int, float]:
    """Collective operations and bytes of a step after the first."""
    torch.manual_seed(0)
    start = rule.place(torch.randn(1, max(shape), min(shape)))[0]
    weight = start if shape[0] >= shape[1] else start.T.contiguous()
    parameter = torch.nn.Parameter(distribute_tensor(weight, mesh, [Shard(dim)]))
    slope = distribute_tensor(torch.randn(shape), mesh, [Shard(dim)])
    optimizer = cl.CoLA(
        [parameter], lr=1e-6, momentum=0.9, temperature=1e-6, seed=0, constraint=rule
    )
    parameter.grad = slope
    optimizer.step()
    with Traffic() as traffic:
        optimizer.step()
    return traffic.calls, traffic.bytes


if __name__ == "__main__":
    spawning.spawn(measure, (tempfile.mktemp(),), nprocs=PROCESSES)
