"""What processes do in the tests of sharded weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import colangevin as cl


def ellipse(weight: Tensor) -> Tensor:
    """Σ k w_k² = 4 over all weights."""
    factors = torch.linspace(1.0, 2.0, weight.numel(), dtype=weight.dtype)
    return (weight.flatten().square() * factors).sum() - 4.0


def balance(one: Tensor, other: Tensor) -> Tensor:
    """|a|² + |b|² = 3, of two parameters together."""
    return (one.square().sum() + other.square().sum() - 3.0)[None]


class Network(nn.Module):
    """Every geometry; tall, wide and square matrices, kernels, uneven and empty shards."""

    def __init__(self) -> None:
        super().__init__()
        self.tall = nn.Linear(5, 7)  # uneven on 2 and on 3
        self.square = nn.Linear(7, 7)
        self.circle = nn.Linear(7, 6)
        self.radii = nn.Linear(6, 6)
        self.sphere = nn.Linear(6, 5)
        self.unit = nn.Linear(5, 4)  # 2, 2, 0 rows on 3
        self.columns = nn.Linear(4, 6)
        self.wide = nn.Linear(6, 4)
        self.kernels = nn.Conv1d(2, 3, 2)  # 3 × 4: wide
        self.general = nn.Linear(9, 3)
        self.above = nn.Linear(3, 2)
        self.one = nn.Linear(2, 2, bias=False)
        self.other = nn.Linear(2, 1, bias=False)  # empty on all ranks but one
        self.stack = nn.Parameter(torch.randn(2, 4, 2))
        self.gain = nn.Parameter(torch.ones(3))
        self.norm = nn.Parameter(torch.randn(5, 3))  # one sphere, cut through
        self.norms = nn.Parameter(torch.randn(3, 2, 2))  # one for each matrix, cut between
        self.mixing = nn.Parameter(torch.rand(5, 3))  # its rows sum to one
        self.mixed = nn.Parameter(torch.rand(3, 5))  # its columns do, so it is gathered
        self.gains = nn.Parameter(0.2 * torch.randn(3, 2, 2))

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.square(self.tall(inputs)))
        hidden = torch.tanh(self.radii(self.circle(hidden)))
        hidden = self.columns(torch.tanh(self.unit(self.sphere(hidden))))
        hidden = torch.tanh(self.wide(hidden))
        hidden = self.kernels(hidden.view(-1, 2, 2).repeat(1, 1, 2)).flatten(1)
        hidden = torch.tanh(self.general(hidden)) * self.gain
        hidden = self.above(hidden)
        hidden = self.one(hidden)
        extra = (self.stack * 0.1).square().sum() + (self.stack[0, 0] * self.stack[1, 1]).sum()
        extra = extra + (self.norm[0] * self.norm[4]).sum() + self.norms.sin().sum()
        extra = extra + (self.mixing[0] * self.mixed[:, 1]).sum() + self.mixing[4, 2].square()
        return self.other(torch.tanh(hidden)) + extra + self.gains.sin().sum()


RULES: dict[str, cl.Constraint] = {
    "tall.weight": cl.Orthogonal(),
    "square.weight": cl.Orthogonal(scale=0.8),
    "wide.weight": cl.Orthogonal(),
    "kernels.weight": cl.Orthogonal(),
    "stack": cl.Orthogonal(batch_dims=1),
    "circle.weight": cl.Circle(0.3),
    "radii.weight": cl.Circle(torch.linspace(0.2, 0.4, 6)[:, None]),
    "sphere.weight": cl.Sphere(0.9),
    "unit.weight": cl.Sphere(1.1, equality=True),
    "columns.weight": cl.Sphere(0.7, dim=1),
    "gain": cl.Sphere(2.0),
    "norm": cl.Sphere(1.5, equality=True, dim=None),
    "norms": cl.Sphere(1.5, dim=None, batch_dims=1),
    "radii.bias": cl.Box(-0.1, 0.2),
    "sphere.bias": cl.Box(torch.linspace(-0.3, -0.1, 5), None),
    "mixing": cl.Simplex(),
    "mixed": cl.Simplex(dim=0),
    "gains": cl.Spectral(0.8, batch_dims=1),
    "general.weight": cl.General(ellipse),
    "above.weight": cl.General(ellipse, inequality=True),
    "o*.weight": cl.General(balance),
    "tall.bias": cl.Massive(torch.linspace(0.5, 4.0, 7)),
    "circle.bias": cl.Massive(2.0),
}


def network(dtype: torch.dtype = torch.float32) -> Network:
    torch.manual_seed(3)
    return Network().to(dtype)


def optimizer_of(model: nn.Module, matrices: cl.Direction | None = None, **options: Any) -> cl.CoLA:
    settings = {"lr": 0.002, "momentum": 0.9, "temperature": 1e-3, "seed": 11}
    groups = cl.parameter_groups(model, RULES)
    for group in groups:
        if matrices is None:
            break
        slack = matrices.tangent and not isinstance(group["constraint"], cl.Orthogonal)
        if all(parameter.dim() > 1 for parameter in group["params"]) and not slack:
            group["direction"] = matrices
    return cl.CoLA(groups, **{**settings, **options})


def train(model: nn.Module, optimizer: Any, steps: int, first: int = 0) -> None:
    """All processes see the same data: the trajectory is that of one process."""
    dtype = next(model.parameters()).dtype
    for step in range(first, first + steps):
        source = torch.Generator().manual_seed(1000 + step)
        inputs = torch.randn(16, 5, generator=source).to(dtype)
        optimizer.zero_grad()
        (model(inputs) - inputs[:, :1].sin()).square().mean().backward()
        optimizer.step()


def whole(model: nn.Module) -> dict[str, Tensor]:
    found = {}
    for name, parameter in model.named_parameters():
        tensor = parameter.detach()
        found[name] = (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).clone()
    return found


def sharded(model: nn.Module, **options: Any) -> nn.Module:
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    return fully_shard(model, mesh=mesh, **options)


def trajectory(
    rank: int, dtype: torch.dtype, options: dict[str, Any], steps: int = 100
) -> tuple[dict[str, Tensor], list[Any]]:
    """The weights after a training, and how well they hold their constraints."""
    model = sharded(network(dtype))
    optimizer = optimizer_of(model, **options)
    train(model, optimizer, steps)
    return whole(model), [tuple(v) for v in optimizer.violation()]


def ways(rank: int) -> dict[str, dict[str, Any]]:
    """How each constrained parameter is worked on, and how much of it lies here."""
    model = sharded(network())
    optimizer = optimizer_of(model)
    names = {parameter: name for name, parameter in model.named_parameters()}
    found: dict[str, Any] = {}
    for index, group in enumerate(optimizer.param_groups):
        plan = optimizer._plans[index]
        for shard in plan.shards if group["name"] in RULES else []:
            assert shard is not None
            if shard.place.is_whole and not (shard._through or shard._between):
                way = "whole"
            else:
                way = "sums" if shard._through else "copies"
                way = f"moved, {way}" if shard.moves else way
            found[names[shard.owner]] = way
    sizes = {name: p._local_tensor.numel() for p, name in names.items()}  # type: ignore[attr-defined]
    return {"ways": found, "sizes": sizes}
