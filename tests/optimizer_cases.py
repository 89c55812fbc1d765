"""Networks, constraints and schemes that the tests of the optimizers share."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import colangevin as cl


def ellipsoid(weight: Tensor) -> Tensor:
    """One equation for a whole weight: Σ a_i w_i² = 1 with axes between 1 and 2."""
    axes = torch.linspace(1.0, 2.0, weight.numel(), dtype=weight.dtype).reshape(weight.shape)
    return (axes * weight.square()).sum() - 1.0


def ball(weight: Tensor) -> Tensor:
    """‖w‖² ≤ 1, read as g ≤ 0."""
    return weight.square().sum() - 1.0


def balance(first: Tensor, second: Tensor) -> Tensor:
    """Two equations that couple two weights: a norm of √3 together, and ⟨w, w'⟩ = ½."""
    norm = first.square().sum() + second.square().sum()
    return torch.stack([norm - 3.0, (first * second).sum() - 0.5])


CONSTRAINTS: dict[str, Callable[[], cl.Constraint]] = {
    "unconstrained": cl.Unconstrained,
    "circle": lambda: cl.Circle(radius=0.5),
    "circle of radii": lambda: cl.Circle(radius=torch.tensor([[0.3], [0.4], [0.5], [0.6]])),
    "max-norm": lambda: cl.Sphere(radius=0.7),
    "unit-norm": lambda: cl.Sphere(radius=1.0, equality=True),
    "orthogonal": cl.Orthogonal,
    "general": lambda: cl.General(ellipsoid),
    "general inequality": lambda: cl.General(ball, inequality=True),
    "general of two": lambda: cl.General(balance),
}

SCHEMES: dict[str, dict[str, Any]] = {
    "overdamped": {"lr": 0.01},
    "OBA": {"lr": 0.02, "momentum": 0.8},
    "ABO": {"step_size": 0.15, "friction": 2.0, "scheme": "ABO"},
    "BAOAB": {"lr": 0.02, "momentum": 0.8, "scheme": "BAOAB"},
    "AOAB delayed": {"lr": 0.02, "momentum": 0.8, "scheme": "AOAB", "delayed_gradient": True},
}


def network(seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Sequential:
    """Two weights of one shape (so that they share a batch) between biases and a head."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = (nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
        return nn.Sequential(*layers).to(dtype)


def batch(step: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """The mini-batch of a step: the same in every run."""
    generator = torch.Generator().manual_seed(1000 + step)
    inputs = torch.randn(8, 4, generator=generator, dtype=torch.float64)
    return inputs.to(dtype), inputs.prod(dim=1, keepdim=True).to(dtype)


def backward(model: nn.Module, step: int) -> Tensor:
    """Fresh gradients of the step's loss."""
    dtype = next(model.parameters()).dtype
    inputs, targets = batch(step, dtype)
    model.zero_grad()
    loss = (model(inputs) - targets).square().mean()
    loss.backward()
    return loss.detach()


def constrained(model: nn.Module, constraint: cl.Constraint | None) -> list[dict[str, Any]]:
    """Groups with the constraint on the two equal weights."""
    return cl.parameter_groups(model, {("0.weight", "2.weight"): constraint})


def optimizer_for(
    model: nn.Module, constraint: str, scheme: str, temperature: float = 0.0, **options: Any
) -> cl.CoLA:
    """An optimizer by the names of its constraint and its scheme."""
    groups = constrained(model, CONSTRAINTS[constraint]())
    return cl.CoLA(groups, temperature=temperature, **{**SCHEMES[scheme], **options})


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    """Make the steps."""
    for step in steps:
        backward(model, step)
        optimizer.step()


def parameters_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Every parameter, in the order of the groups."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def values_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Copies of every parameter."""
    return [p.detach().clone() for p in parameters_of(optimizer)]


def contents(optimizer: cl.CoLA) -> dict[str, Any]:
    """Everything that an error must leave alone, copied.

    The noise needs no entry: it is a function of the seed, which is an option, and of the
    counts of steps, which are in the state.
    """
    options = [
        {name: value for name, value in group.items() if name != "params"}
        for group in optimizer.param_groups
    ]
    parameters = parameters_of(optimizer)
    return {
        "parameters": values_of(optimizer),
        "gradients": [None if p.grad is None else p.grad.detach().clone() for p in parameters],
        "state": [copy.deepcopy(optimizer.state.get(p)) for p in parameters],
        "members": [[id(p) for p in group["params"]] for group in optimizer.param_groups],
        "options": [dict(option) for option in options],
    }


def same(one: Any, other: Any) -> bool:
    """Equality to the bit through lists, dicts and tensors; NaN equals NaN."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.layout != torch.strided and other.layout == one.layout:
            return same(one.to_dense(), other.to_dense())
        return one.dtype == other.dtype and _bits_equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one is other or (type(one) is type(other) and bool(one == other))


def _bits_equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(
        one.detach().contiguous().view(torch.uint8) if one.dim() else one.detach().nan_to_num(),
        other.detach().contiguous().view(torch.uint8) if other.dim() else other.nan_to_num(),
    )
