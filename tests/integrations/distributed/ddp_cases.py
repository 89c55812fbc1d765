"""What processes do in the tests of replicas."""

from __future__ import annotations

import datetime
import math
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from world import failure

import colangevin as cl

STEPS = 200


def ellipse(weight: Tensor) -> Tensor:
    """Σ k w_k² = 4 over all weights."""
    factors = torch.linspace(1.0, 2.0, weight.numel(), dtype=weight.dtype)
    return (weight.flatten().square() * factors).sum() - 4.0


RULES: dict[str, cl.Constraint | None] = {
    "free": None,
    "circle": cl.Circle(0.3),
    "sphere": cl.Sphere(1.0),
    "sphere =": cl.Sphere(1.0, equality=True),
    "orthogonal": cl.Orthogonal(),
    "general": cl.General(ellipse),
    "general <=": cl.General(ellipse, inequality=True),
}


PLAIN = {"momentum": 0.0, "temperature": 0.0}
"""Without momentum and noise a replica that has made fewer steps is the same all the same."""


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def optimizer_of(model: nn.Module, rule: Any, **options: Any) -> cl.CoLA:
    rules = rule if isinstance(rule, dict) else {} if rule is None else {"*.weight": rule}
    settings = {"lr": 0.01, "momentum": 0.9, "temperature": 1e-4}
    return cl.CoLA(cl.parameter_groups(model, rules), **{**settings, **options})


def train(rank: int, model: nn.Module, optimizer: Any, steps: int) -> float:
    """Train on data of the rank's own; the last loss."""
    source = torch.Generator().manual_seed(100 + rank)
    loss = torch.zeros(())
    for _ in range(steps):
        inputs = torch.randn(8, 4, generator=source)
        optimizer.zero_grad()
        loss = (model(inputs) - inputs[:, :3].sin()).square().mean()
        loss.backward()
        optimizer.step()
    return float(loss)


def bits(model: nn.Module) -> list[bytes]:
    return [p.detach().numpy().tobytes() for p in model.parameters()]


def every_rule(rank: int) -> dict[str, list[bytes]]:
    """The final weights of every rule, momentum and temperature, ranks seeded differently."""
    found = {}
    for name, rule in RULES.items():
        for momentum in (0.0, 0.9):
            for temperature in (0.0, 1e-4):
                model = DistributedDataParallel(network())
                torch.manual_seed(7 + rank)
                options = {"momentum": momentum, "temperature": temperature}
                optimizer = optimizer_of(model, rule, **options)
                loss = train(rank, model, optimizer, STEPS)
                assert math.isfinite(loss)
                if rule is not None:
                    assert max(v.residual for v in optimizer.violation()) < 2e-6
                found[f"{name} {momentum} {temperature}"] = bits(model)
    return found


def seeds(rank: int) -> dict[str, Any]:
    """The noise with the user's seed, with independent chains, and with one process alone."""
    found: dict[str, Any] = {}
    for name, options in {
        "given": {"seed": 5},
        "chains": {"seed": 5, "independent_chains": True},
        "default": {},
    }.items():
        model = network()
        torch.manual_seed(rank)
        optimizer = optimizer_of(model, None, **options)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        for _ in range(3):
            optimizer.step()
        found[name] = bits(model), optimizer.state_dict()["param_groups"][0]["seed"]
    return found


def mistakes(rank: int) -> dict[str, str | None]:
    """What each rank says where ranks differ."""
    first = rank == 0
    found: dict[str, str | None] = {}
    cases: dict[str, tuple[Any, dict[str, Any]]] = {
        "temperature": (None, {"temperature": 0.1 if first else 0.2}),
        "lr": (None, {"lr": 0.1 if first else 0.2}),
        "scheme": (None, {"scheme": "OBA" if first else "BAOAB"}),
        "radius": (cl.Circle(0.3 if first else 0.4), {}),
        "radii": ({"0.weight": cl.Circle(torch.full((6, 1), 0.3 if first else 0.4))}, {}),
        "kind": (cl.Sphere() if first else cl.Orthogonal(), {}),
        "seed": (None, {"seed": rank}),
        "one seed": (None, {"seed": 3 if first else None}),
        "every": (None, {"check_replicas": 100 if first else 50}),
    }
    for name, (rule, options) in cases.items():
        model = network()
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer = optimizer_of(model, rule, **options)
        before = bits(model)
        found[name] = failure(optimizer.step)
        assert bits(model) == before
    model = network(rank)
    found["weights"] = failure(stepper(model, optimizer_of(model, None)))
    found["not compared"] = failure(stepper(model, optimizer_of(model, None, check_replicas=0)))
    model = nn.Linear(3 + rank, 2)
    found["shape"] = failure(stepper(model, optimizer_of(model, None)))
    return found


def some_chains(rank: int) -> str | None:
    """One rank is a chain of its own, the other is not and waits."""
    patient = torch.distributed.new_group(timeout=datetime.timedelta(seconds=2))
    chain, model = rank == 0, network()
    before = bits(model)
    optimizer = optimizer_of(model, None, independent_chains=chain, process_group=patient)
    message = failure(stepper(model, optimizer))
    assert (bits(model) == before) != chain
    return message


def stepper(model: nn.Module, optimizer: cl.CoLA) -> Any:
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return optimizer.step


def tampered(rank: int) -> dict[str, Any]:
    """A replica is changed in mid-run; at which step does who complain?"""
    found: dict[str, Any] = {}
    for name, options in {
        "every 10": {"check_replicas": 10},
        "never": {"check_replicas": 0},
        "chains": {"check_replicas": 10, "independent_chains": True},
    }.items():
        model = DistributedDataParallel(network())
        optimizer = optimizer_of(model, cl.Circle(0.3), **options)
        train(rank, model, optimizer, 13)
        if rank == 1:
            with torch.no_grad():
                model.module[2].weight[1, 2] += 1e-3
        taken, message = 0, None
        for _ in range(12):
            message = failure(lambda: train(rank, model, optimizer, 1))  # noqa: B023
            if message is not None:
                break
            taken += 1
        found[name] = taken, message
    return found


def uneven(rank: int) -> tuple[str | None, list[bytes], int]:
    """Three epochs of 25 and 15 batches, which ``join`` brings to one end; how often it warns."""
    model = DistributedDataParallel(network())
    optimizer = optimizer_of(model, cl.Orthogonal(), check_replicas=10, **PLAIN)

    def run() -> None:
        for _ in range(3):
            with model.join():
                train(rank, model, optimizer, 15 if rank else 25)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        message = failure(run)
    said = sum("fewer steps than another one" in str(one.message) for one in caught)
    return message, bits(model), said


def skipped(rank: int) -> tuple[str | None, int]:
    """One process leaves out a step, and goes on."""
    model = network()
    optimizer = cl.CoLA(model.parameters(), lr=0.01, check_replicas=5, seed=1)

    def run() -> None:
        for step in range(12):
            optimizer.zero_grad()
            (step * model(torch.ones(3, 4)).square().mean()).backward()
            if rank == 0 or step != 3:
                optimizer.step()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        message = failure(run)
    return message, sum("fewer steps than another one" in str(one.message) for one in caught)


def notes(rank: int) -> int:
    """How many notes stay in the store after 60 comparisons."""
    model = DistributedDataParallel(network())
    optimizer = optimizer_of(model, None, check_replicas=1)
    store = torch.distributed.distributed_c10d._get_default_store()
    before = store.num_keys()
    train(rank, model, optimizer, 60)
    torch.distributed.barrier()
    return store.num_keys() - before


def multirate(rank: int) -> tuple[list[bytes], str | None]:
    """Multirate under DDP: with unused parameters looked for, and without."""

    def run(**options: Any) -> list[bytes]:
        model = DistributedDataParallel(network(), **options)
        torch.manual_seed(7 + rank)
        slow = cl.CoLA(
            [{"params": [model.module[0].weight], "constraint": cl.Orthogonal()}],
            lr=0.02,
            momentum=0.9,
            temperature=1e-4,
        )
        fast = cl.CoLA([*model.module[2].parameters(), model.module[0].bias], lr=0.01, momentum=0.9)
        with cl.Multirate(fast, slow, period=3) as optimizer:
            train(rank, model, optimizer, 20)
        return bits(model)

    return run(find_unused_parameters=True), failure(run)


def zero(rank: int) -> dict[str, Any]:
    """ZeroRedundancyOptimizer: trained, stopped, resumed."""
    import copy

    from torch.distributed.optim import ZeroRedundancyOptimizer

    def start() -> tuple[Any, Any]:
        model = DistributedDataParallel(network())
        optimizer = ZeroRedundancyOptimizer(
            model.parameters(),
            optimizer_class=cl.CoLA,
            lr=0.01,
            momentum=0.9,
            temperature=1e-4,
            seed=3,
            independent_chains=True,
        )
        return model, optimizer

    model, optimizer = start()
    train(rank, model, optimizer, 6)
    optimizer.consolidate_state_dict(to=0)
    box = [optimizer.state_dict() if rank == 0 else None, copy.deepcopy(model.state_dict())]
    torch.distributed.broadcast_object_list(box, src=0)
    train(rank, model, optimizer, 6)
    expected = bits(model)
    model, optimizer = start()
    model.load_state_dict(box[1])
    optimizer.load_state_dict(box[0])
    train(rank, model, optimizer, 6)
    resumed = bits(model)
    model, optimizer = start()
    wrong = failure(
        lambda: train(
            rank,
            model,
            ZeroRedundancyOptimizer(model.parameters(), optimizer_class=cl.CoLA, lr=0.01),
            1,
        )
    )
    return {"expected": expected, "resumed": resumed, "wrong": wrong}
