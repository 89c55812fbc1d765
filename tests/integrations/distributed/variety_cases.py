"""Sharded weights in less usual surroundings, compared with the same training without shards."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

import shard_cases
import torch
import torch.distributed as dist
from shard_cases import network, optimizer_of, sharded, train, whole
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from world import failure

import colangevin as cl

DOUBLE = torch.float64


def distance(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    return max(float((one[k] - other[k]).abs().max() / other[k].abs().max()) for k in other)


Run = Callable[[nn.Module], Any]


def compared(run: Run, shard: Callable[[nn.Module], nn.Module] = sharded) -> float:
    """How far apart a training with shards and one without end."""
    plain: nn.Module = network(DOUBLE)
    cut = shard(copy.deepcopy(plain))
    run(plain)
    run(cut)
    return distance(whole(cut), whole(plain))


def usual(model: nn.Module) -> None:
    train(model, optimizer_of(model), 5)


def replicas_of_shards(model: nn.Module) -> nn.Module:
    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (size, 1), mesh_dim_names=("replicas", "shards"))
    return fully_shard(model, mesh=mesh)


def along(dim: int) -> Callable[[nn.Module], nn.Module]:
    """Tensor parallel: every weight is cut along one of its dimensions."""

    def cut(model: nn.Module) -> nn.Module:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        return _placed(model, lambda p: (mesh, [Shard(dim % p.dim())]))

    return cut


def mixed_meshes(model: nn.Module) -> nn.Module:
    size = dist.get_world_size()
    one, two = init_device_mesh("cpu", (size,)), init_device_mesh("cpu", (1, size))

    def place(parameter: Tensor) -> tuple[Any, list[Any]]:
        if parameter.dim() == 1:
            return one, [Replicate()]
        if parameter.numel() % 2:
            return one, [Shard(0)]
        return two, [Shard(0), Shard(1)]

    return _placed(model, place)


def _placed(model: nn.Module, place: Callable[[Tensor], tuple[Any, list[Any]]]) -> nn.Module:
    for name, parameter in list(model.named_parameters()):
        owner, _, last = name.rpartition(".")
        cut = nn.Parameter(distribute_tensor(parameter.detach(), *place(parameter)))
        setattr(model.get_submodule(owner), last, cut)
    return model


def with_gradients(model: nn.Module) -> None:
    """Without a forward pass: gradients of their own, cut as the weights or whole."""
    optimizer = optimizer_of(model)
    for step in range(5):
        source = torch.Generator().manual_seed(step)
        for parameter in model.parameters():
            own = torch.randn(parameter.shape, generator=source, dtype=DOUBLE)
            parameter.grad = own
            if isinstance(parameter, DTensor):
                places = (
                    parameter.placements if step % 2 else [Replicate()] * len(parameter.placements)
                )
                parameter.grad = distribute_tensor(own, parameter.device_mesh, places)
        optimizer.step()


def clipped(model: nn.Module) -> None:
    optimizer = optimizer_of(model)
    for step in range(5):
        optimizer.zero_grad()
        train(model, _Silent(model), 1, step)
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()


class _Silent:
    """Makes no steps, so that gradients can be changed before one is made."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model

    def zero_grad(self) -> None:
        self._model.zero_grad()

    def step(self) -> None:
        pass


def large_steps(model: nn.Module) -> None:
    """Projections that fail, so that the polar factor is used."""
    rules = {k: v for k, v in shard_cases.RULES.items() if isinstance(v, cl.Orthogonal)}
    optimizer = cl.CoLA(
        cl.parameter_groups(model, rules), lr=0.3, momentum=0.9, temperature=5.0, seed=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train(model, optimizer, 5)
    assert sum(v.fallbacks for v in optimizer.violation()) > 0
    assert max(v.residual for v in optimizer.violation()[:-1]) < 1e-10


def adaptive(model: nn.Module) -> None:
    optimizer = optimizer_of(model, momentum=None, thermostat="adaptive", scheme="BACDEDCAB")
    train(model, optimizer, 5)
    kinetic = [value for value in cl.kinetic_temperature(optimizer) if value is not None]
    model.extra = torch.tensor([*cl.friction_variable(optimizer), *kinetic])  # type: ignore[assignment]


def two_rates(model: nn.Module) -> None:
    inner: Any = model
    slow = cl.CoLA(
        [{"params": [inner.tall.weight, inner.wide.weight], "constraint": cl.Orthogonal()}],
        lr=0.002,
        momentum=0.9,
        temperature=1e-3,
        seed=4,
    )
    taken = {id(inner.tall.weight), id(inner.wide.weight)}
    fast = cl.CoLA([p for p in model.parameters() if id(p) not in taken], lr=0.002, momentum=0.9)
    with cl.Multirate(fast, slow, period=2) as optimizer:
        train(model, optimizer, 5)


def handed_over(model: nn.Module) -> None:
    first = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9)
    train(model, first, 2)
    second = cl.hand_over(first, optimizer_of(model))
    train(model, second, 2, 2)
    third = cl.hand_over(second, optimizer_of(model, lr=0.001))
    train(model, third, 2, 4)
    train(
        model,
        cl.hand_over(third, torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)),
        2,
        6,
    )


def off_the_manifold(model: nn.Module) -> None:
    """The user writes weights that are far off in mid-run."""
    optimizer = optimizer_of(model)
    train(model, optimizer, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    train(model, optimizer, 3, 2)


def other_rules(model: nn.Module) -> None:
    rules: dict[str, cl.Constraint] = {
        "tall.weight": cl.Circle("initial"),
        "circle.weight": cl.Circle("initial", blocks=2),
        "radii.weight": cl.Orthogonal(blocks=3),
        "columns.weight": cl.Orthogonal(blocks=2),
        "wide.weight": cl.Sphere(0.9, dim=1, blocks=2),
        "sphere.weight": cl.Sphere(torch.linspace(0.8, 1.2, 5).double(), equality=True),
        "above.weight": cl.General(shard_cases.ellipse, batch_dims=0),
        "general.weight": cl.General(lambda row: row.square().sum() - 1.0, batch_dims=1),
    }
    train(
        model,
        cl.CoLA(
            cl.parameter_groups(model, rules), lr=0.002, momentum=0.9, temperature=1e-3, seed=2
        ),
        5,
    )


CASES: dict[str, tuple[Run, Callable[[nn.Module], nn.Module]]] = {
    "replicas of shards": (usual, replicas_of_shards),
    "rows": (with_gradients, along(0)),
    "columns": (with_gradients, along(1)),
    "mixed meshes": (with_gradients, mixed_meshes),
    "clipped": (clipped, sharded),
    "large steps": (large_steps, sharded),
    "adaptive": (adaptive, sharded),
    "two rates": (two_rates, sharded),
    "handed over": (handed_over, sharded),
    "off the manifold": (off_the_manifold, sharded),
    "other rules": (other_rules, sharded),
}


def case(rank: int, name: str) -> float:
    return compared(*CASES[name])


def messages(rank: int) -> dict[str, list[int]]:
    """What a step adds up for a sphere whose 3 rows are cut: numbers, one entry per message."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    found: dict[str, list[int]] = {}
    words = {"overdamped": (0.0, "OBA"), "OBA": (0.9, "OBA"), "BAOAB": (0.9, "BAOAB")}
    for equality in (True, False):
        for name, (momentum, scheme) in words.items():
            torch.manual_seed(0)
            weight = torch.nn.functional.normalize(torch.randn(3, 8)) * (1.0 if equality else 0.5)
            cut = nn.Parameter(distribute_tensor(weight, mesh, [Shard(1)]))
            optimizer = cl.CoLA(
                [cut],
                lr=0.01,
                momentum=momentum,
                temperature=1e-4,
                scheme=scheme,
                constraint=cl.Sphere(1.0, equality=equality),
            )
            cut.grad = distribute_tensor(torch.randn(3, 8), mesh, [Shard(1)])
            optimizer.step()
            sizes = found.setdefault(f"{name} {equality}", [])
            real = dist.all_reduce

            def counting(tensor: Tensor, *args: Any, _sizes: Any = sizes, **kwargs: Any) -> Any:
                _sizes.append(tensor.numel())
                return real(tensor, *args, **kwargs)  # noqa: B023

            dist.all_reduce = counting
            try:
                optimizer.step()
            finally:
                dist.all_reduce = real
    return found


def half_precision(rank: int) -> dict[str, Any]:
    """Mixed precision of FSDP2 (float32 state), and bfloat16 weights; products by element."""

    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.linspace(-0.2, 0.25, 12).view(4, 3))

        def forward(self, inputs: Tensor) -> Tensor:
            return (self.weight * inputs).sum(dim=(1, 2))

    found: dict[str, Any] = {}
    for name, dtype in {"mixed": torch.float32, "bfloat16": torch.bfloat16}.items():
        ends = []
        for shard in (False, True):
            model: nn.Module = Scale().to(dtype)
            if shard:
                half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
                model = sharded(model, **({"mp_policy": half} if name == "mixed" else {}))
            groups = cl.parameter_groups(model, {"weight": cl.Circle(0.3)})
            optimizer = cl.CoLA(groups, lr=0.01, momentum=0.9, temperature=1e-4, seed=1)
            for step in range(10):
                inputs = torch.full((2, 4, 3), 0.5 + step % 2).to(dtype)
                optimizer.zero_grad()
                model(inputs).square().mean().backward()
                optimizer.step()
            ends.append(whole(model)["weight"].float())
            entry = optimizer.state[next(iter(model.parameters()))]
            assert {v.dtype for k, v in entry.items() if k != "step"} == {torch.float32}
            assert optimizer.violation()[0].residual < 1e-6
        found[name] = float((ends[0] - ends[1]).abs().max())
    return found


def refused(parameter: Tensor, rule: cl.Constraint) -> str | None:
    return failure(lambda: cl.CoLA([parameter], lr=0.1, constraint=rule))


def mistakes(rank: int) -> dict[str, str | None]:
    """What each rank says to sharded weights that cannot be trained."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    found: dict[str, str | None] = {}
    summed = nn.Parameter(DTensor.from_local(torch.ones(3, 2), mesh, [Partial()]))
    found["sum"] = failure(lambda: cl.CoLA([summed], lr=0.1))
    flat = nn.Parameter(torch.ones(5))
    flat._is_flat_param = True  # type: ignore[attr-defined]
    for rule in (cl.Sphere(), cl.Circle(2.0)):
        found[f"flat {type(rule).__name__}"] = refused(flat, rule)
    cut = nn.Parameter(distribute_tensor(torch.randn(4, 2), mesh, [Shard(0)]))
    found["shape"] = failure(
        lambda: cl.CoLA(
            [nn.Parameter(cut.detach()[:, 0].clone())], lr=0.1, constraint=cl.Orthogonal()
        )
    )
    zeros = nn.Parameter(distribute_tensor(torch.zeros(4, 2), mesh, [Shard(0)]))
    found["zeros"] = failure(lambda: cl.CoLA([zeros], lr=0.1, constraint=cl.Orthogonal()))
    chains = cl.CoLA([cut], lr=0.1, independent_chains=True)
    cut.grad = torch.zeros_like(cut)
    found["chains"] = failure(chains.step)
    lonely = cl.CoLA([cut], lr=0.1 if rank else 0.2, temperature=1.0)
    found["settings"] = failure(lonely.step)
    finite = cl.CoLA([cut], lr=0.1, momentum=0.9, constraint=cl.Orthogonal())
    before = cut.detach().full_tensor().clone()
    with torch.no_grad():  # in one of the processes alone
        cut.grad._local_tensor.fill_(float("nan") if rank == 0 else 0.0)
    found["nan"] = failure(finite.step)
    assert torch.equal(cut.detach().full_tensor(), before)
    return found


def replicas(rank: int) -> dict[str, Any]:
    """HSDP: chains of replicas, and a replica that was changed."""
    found: dict[str, Any] = {}
    model = replicas_of_shards(network(DOUBLE))
    optimizer = optimizer_of(model, independent_chains=True)
    train(model, optimizer, 2)
    found["chains"] = model.tall.weight._local_tensor.sum().item()  # type: ignore[union-attr]
    model = replicas_of_shards(network(DOUBLE))
    optimizer = optimizer_of(model, check_replicas=2)
    train(model, optimizer, 1)
    if rank == 1:
        model.tall.bias._local_tensor[0] += 1e-3  # type: ignore[union-attr,index]
    train(model, optimizer, 1, 1)
    found["tampered"] = failure(lambda: train(model, optimizer, 2, 2))  # told one step later
    return found


def strict_gradients(rank: int) -> tuple[str | None, bool]:
    """A gradient that is NaN in the part of one process alone."""
    model = fully_shard(network(DOUBLE))
    optimizer_of(model)  # moves the weights onto their constraints
    optimizer = optimizer_of(model, strict=True)
    train(model, optimizer, 1)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    if rank == 1:
        model.circle.weight.grad._local_tensor.fill_(math.nan)  # type: ignore[union-attr]
    before = model.tall.weight._local_tensor.clone()  # type: ignore[union-attr]
    message = failure(optimizer.step)
    return message, torch.equal(before, model.tall.weight._local_tensor)  # type: ignore[union-attr]
