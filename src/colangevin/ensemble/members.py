"""Making the members: modules from seeds, on their manifolds, stacked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from colangevin.constraints import Constraint
from colangevin.optimizers import constrain_

Factory: TypeAlias = Callable[..., nn.Module]
NARROW = 16
"""Columns from which on a loop over them is long enough."""

Rules: TypeAlias = "Mapping[Any, Constraint | Sequence[Constraint] | None]"


def check_seeds(seeds: Sequence[int]) -> list[int]:
    """Return the seeds as a list.

    Raises:
        TypeError, ValueError: if there is none, one is no integer, or one comes twice.

    Example:
        >>> check_seeds(range(3))
        [0, 1, 2]
    """
    found = list(seeds)
    if not found:
        raise ValueError("seeds must name at least one member, got none")
    for seed in found:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise TypeError(f"seeds must be integers, got {seed!r}")
        if not 0 <= seed < 2**63:
            raise ValueError(f"seeds must lie between 0 and 2**63 - 1, got {seed}")
    if len(set(found)) < len(found):
        twice = next(seed for seed in found if found.count(seed) > 1)
        raise ValueError(f"seeds must differ, got {twice} more than once")
    return found


def make(factory: Factory, seed: int) -> nn.Module:
    """The module that ``torch.manual_seed(seed); factory()`` makes, without a trace in torch.

    A factory with a parameter is given the seed.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = factory(seed) if _takes_seed(factory) else factory()
    if not isinstance(module, nn.Module):
        raise TypeError(f"factory must return a torch.nn.Module, got {module!r}")
    for name, parameter in module.named_parameters():
        if parameter.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"{name} must be float32 or float64, got {parameter.dtype}")
    return module


def _takes_seed(factory: Factory) -> bool:
    if isinstance(factory, type):
        return False
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # a builtin
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(p.kind in positional and p.default is p.empty for p in parameters)


def rules_of(rules: Rules, members: int) -> list[dict[Any, Constraint | None]]:
    """The rules of each member.

    Raises:
        ValueError: if a rule has another number of constraints than there are members.

    Example:
        >>> from colangevin.constraints import Circle
        >>> rules_of({"weight": [Circle(1.0), Circle(2.0)]}, 2)[1]["weight"].radius
        2.0
    """
    for pattern, rule in rules.items():
        if isinstance(rule, Sequence) and len(rule) != members:
            raise ValueError(
                f"the rule for {pattern!r} has {len(rule)} constraints for {members} members"
            )
    return [
        {key: rule[i] if isinstance(rule, Sequence) else rule for key, rule in rules.items()}
        for i in range(members)
    ]


def groups_of(module: nn.Module, rules: Mapping[Any, Constraint | None]) -> list[dict[str, Any]]:
    """Put a member's weights on their manifolds; its groups, without what is frozen."""
    groups = constrain_(module, rules)
    for group in groups:
        learns = [parameter.requires_grad for parameter in group["params"]]
        for key in ("params", "names"):
            group[key] = [item for item, does in zip(group[key], learns, strict=True) if does]
    return [group for group in groups if group["params"]]


def stack(modules: Sequence[nn.Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Parameters and buffers with the members as their first dimension.

    Raises:
        ValueError: if the modules differ in names or shapes.
    """
    stacked = []
    for kind in ("named_parameters", "named_buffers"):
        tables = [dict(getattr(module, kind)()) for module in modules]
        shapes = [{name: tensor.shape for name, tensor in table.items()} for table in tables]
        for other in shapes[1:]:
            if other != shapes[0]:
                raise ValueError("factory must make modules of the same names and shapes")
        stacked.append(
            {name: torch.stack([t[name].detach() for t in tables]) for name in tables[0]}
        )
    return stacked[0], stacked[1]


def aligned(tensor: Tensor) -> Tensor:
    """Stacked weights of few columns with the rows next to each other in memory.

    A compiled loop runs along memory: over two columns it would be several times slower than
    over hundreds of rows.

    Example:
        >>> aligned(torch.zeros(3, 500, 2)).stride()
        (1000, 1, 500)
    """
    narrow = tensor.dim() == 3 and tensor.shape[2] < NARROW and tensor.shape[2] < tensor.shape[1]
    return tensor.mT.contiguous().mT if narrow else tensor.contiguous()
