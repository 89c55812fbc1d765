"""Carries recipes out: points, networks and optimizers from settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.constraints import Constraint
from colangevin.lab import data as generators
from colangevin.lab.explorer.recipes import CHANGE, Call, Recipe, data_call, recipe_of
from colangevin.lab.explorer.slopes import Sine
from colangevin.lab.models import mlp

TEST_EVERY = 4
"""Every fourth drawn point is a test point."""


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
    "sine": Sine,
}


class Points(NamedTuple):
    """Training and test points: [points, 2], and classes as floats [points]."""

    train_inputs: Tensor
    train_labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor


def points_of(data: Mapping[str, Any]) -> Points:
    """The points of a section ``data``.

    Example:
        >>> from colangevin.lab.explorer.spec import parse
        >>> points_of(parse({"data": {"train": 8}}).data).train_inputs.shape
        torch.Size([8, 2])
    """
    call = data_call(data)
    if call is None:
        return _drawn(data["points"])
    source = getattr(generators, call.name)(**call.options)
    generator = torch.Generator().manual_seed(data["seed"])
    train, labels = source.sample(data["train"], generator=generator)
    test, test_labels = source.sample(data["test"], generator=generator)
    return Points(train, labels.float(), test, test_labels.float())


def _drawn(points: Any) -> Points:
    table = torch.tensor(points)
    chosen = torch.arange(len(table)) % TEST_EVERY == TEST_EVERY - 1
    train, test = table[~chosen], table[chosen] if chosen.any() else table
    return Points(train[:, :2], train[:, 2], test[:, :2], test[:, 2])


def network_of(network: Mapping[str, Any]) -> nn.Sequential:
    """A network, with torch's numbers as they come."""
    hidden = [network["width"]] * network["depth"]
    return mlp(2, hidden, 1, ACTIVATIONS[network["activation"]])


def bounded_norm(radius: float) -> cl.General:
    """The constraint ‖W‖ ≤ r of a whole matrix, as a user would write it.

    Example:
        >>> bounded_norm(2.0).inequality
        True
    """
    return cl.General(lambda weight: weight.square().sum() - radius**2, inequality=True)


def constraint_of(call: Call) -> Constraint:
    """Make a constraint."""
    maker: Any = bounded_norm if call.name == "bounded_norm" else getattr(cl, call.name[3:])
    made: Constraint = maker(**call.options)
    return made


def by_shape(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Matrices along the polar factor, and vectors, which have none, along Adam's direction.

    Example:
        >>> groups = by_shape(cl.parameter_groups(nn.Linear(2, 3), {}))
        >>> [(group["names"], group["direction"]) for group in groups]
        [(['weight'], 'polar'), (['bias'], 'adam')]
    """
    found = []
    for group in groups:
        for direction, vectors in (("polar", False), ("adam", True)):
            pairs = zip(group["names"], group["params"], strict=True)
            own = [(name, p) for name, p in pairs if (p.dim() < 2) == vectors]
            named = {"names": [name for name, _ in own], "params": [p for _, p in own]}
            found += [{**group, **named, "direction": direction}] if own else []
    return found


def optimizer_of(
    run: Mapping[str, Any], network: Mapping[str, Any], model: nn.Module, seed: int, change: int = 0
) -> torch.optim.Optimizer:
    """The optimizer of a run after so many changes of its settings."""
    recipe = recipe_of(run, network["depth"])
    options = dict(recipe.call.options)
    if recipe.seeded:
        options["seed"] = seed + CHANGE * change
    made: torch.optim.Optimizer = _function(recipe.call.name)(*_parts(recipe, model), **options)
    return made


def _function(name: str) -> Any:
    if name == "torch.optim.SGD":
        return torch.optim.SGD
    return cl.Multirate.sgd if name == "cl.Multirate.sgd" else getattr(cl, name[3:])


def _parts(recipe: Recipe, model: nn.Module) -> tuple[Any, ...]:
    if recipe.parts == "parameters":
        return (model.parameters(),)
    if recipe.parts.startswith("cl."):
        return tuple(getattr(cl, recipe.parts[3:])(model))
    rules = {pattern: constraint_of(call) for pattern, call in recipe.rules.items()}
    shaped = recipe.parts == "by_shape"
    groups = cl.constrain_(model, rules) if rules or shaped else None
    if groups is not None and shaped:
        return (by_shape(groups),)
    if recipe.parts == "output":
        return (cl.partition(model, by="output", groups=groups),)
    return (model.parameters() if groups is None else groups,)
