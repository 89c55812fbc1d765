"""Making the members: modules from seeds, each with its rules and options, stacked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer

from colangevin import checks
from colangevin.constraints import Constraint
from colangevin.optimizers import CoLA, parameter_groups
from colangevin.optimizers.step.layout import HALF, MASTER
from colangevin.optimizers.step.place import unannounced

Factory: TypeAlias = Callable[..., nn.Module]
Method: TypeAlias = "Callable[[nn.Module], Optimizer]"
Rules: TypeAlias = "Mapping[Any, Constraint | Sequence[Constraint] | None]"
DECAYS = ("weight_decay", "decoupled_weight_decay")
NUMBERS = ("lr", "momentum", "step_size", "friction", "temperature", *DECAYS)
"""What may differ between members: a number, or one per member."""
OPTIONS = (*NUMBERS, "scheme", "delayed_gradient", "direction", "rounding")
"""All that an ensemble can be set to."""


def check_seeds(seeds: Sequence[int]) -> list[int]:
    """Return the seeds as a list, if all are integers and no two the same.

    Example:
        >>> check_seeds(range(3))
        [0, 1, 2]
    """
    found = list(seeds)
    if not found:
        raise ValueError("seeds must name at least one member, got none")
    for seed in found:
        checks.seed("each of seeds", seed)
    if len(set(found)) < len(found):
        twice = next(seed for seed in found if found.count(seed) > 1)
        raise ValueError(f"seeds must differ, got {twice} more than once")
    return found


def make(factory: Factory, seed: int) -> nn.Module:
    """The module that ``torch.manual_seed(seed); factory()`` makes, without a trace in torch.

    A factory with a parameter is given the seed.
    """
    with torch.random.fork_rng(devices=[]):
        if torch.accelerator.is_available():
            torch.manual_seed(seed)
        else:  # which takes a millisecond less than for devices that are not there
            torch.default_generator.manual_seed(seed)
        module = factory(seed) if _takes_seed(factory) else factory()
    if not isinstance(module, nn.Module):
        raise TypeError(f"factory must return a torch.nn.Module, got {module!r}")
    for name, parameter in module.named_parameters():
        if parameter.dtype not in (torch.float32, torch.float64, *HALF):
            raise TypeError(
                f"{name} must be float32 or float64, or half precision, got {parameter.dtype}"
            )
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


def spread(options: Mapping[str, Any], members: int) -> list[dict[str, Any]]:
    """The options of each member.

    Example:
        >>> spread({"lr": [0.1, 0.2], "scheme": "OBA"}, 2)[1]
        {'lr': 0.2, 'scheme': 'OBA'}
    """
    columns: dict[str, list[Any]] = {}
    for name, value in options.items():
        columns[name] = [value] * members
        if is_column(name, value, members):
            columns[name] = [v.item() if isinstance(v, Tensor) else v for v in value]
    return [{name: columns[name][i] for name in columns} for i in range(members)]


def is_column(name: str, value: Any, members: int) -> bool:
    """Whether an option has one value for each member.

    Raises:
        ValueError: if it cannot differ between members, or has another number of values.
    """
    if not isinstance(value, (list, tuple, range, Tensor)):
        return False
    if isinstance(value, Tensor) and value.dim() != 1:
        return False
    if name not in NUMBERS:
        raise ValueError(f"{name} cannot differ between members, got {value!r}")
    if len(value) != members:
        raise ValueError(f"{name} has {len(value)} values for {members} members")
    return True


def stack(modules: Sequence[nn.Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Parameters and buffers with the members as their first dimension."""
    stacked = []
    for kind in ("named_parameters", "named_buffers"):
        tables = [dict(getattr(module, kind)()) for module in modules]
        shapes = [{name: tensor.shape for name, tensor in table.items()} for table in tables]
        if any(other != shapes[0] for other in shapes):
            raise ValueError("factory must make modules of the same names and shapes")
        stacked.append(
            {name: torch.stack([t[name].detach() for t in tables]) for name in tables[0]}
        )
    return stacked[0], stacked[1]


def masters(
    optimizers: Sequence[CoLA], names: Sequence[Mapping[Tensor, str]], stacked: Mapping[str, Tensor]
) -> dict[Tensor, dict[str, Any]]:
    """The float32 copies of half-precision weights, which were placed more exactly than these."""
    found: dict[str, list[Tensor]] = {}
    for optimizer, own in zip(optimizers, names, strict=True):
        for parameter, entry in optimizer.state.items():
            if MASTER in entry and own[parameter] in stacked:
                found.setdefault(own[parameter], []).append(entry[MASTER])
    return {stacked[name]: {MASTER: torch.stack(own)} for name, own in found.items()}


def methods_of(
    rules: Rules, options: Sequence[Mapping[str, Any]], seeds: Sequence[int]
) -> list[Method]:
    """For each member, what makes its optimizer from its module."""

    def method(own: Mapping[Any, Any], given: Mapping[str, Any], seed: int) -> Method:
        step = {} if "step_size" in given else {"lr": 1.0}
        settings = {**step, **given, "seed": seed}
        return lambda module: CoLA(parameter_groups(module, own), **settings)

    return list(map(method, rules_of(rules, len(seeds)), options, seeds))


def optimizer_of(method: Method, module: nn.Module, seed: int) -> CoLA:
    """A member's optimizer, with the member's seed, if it can be vectorised."""
    with unannounced():
        made = method(module)
        if type(made) is torch.optim.SGD:
            made = from_sgd(made)
    if not isinstance(made, CoLA) or getattr(made, "needs_closure", False):
        raise TypeError(
            "method must make a CoLA, one of its presets whose step needs no closure, or a "
            f"torch.optim.SGD, got {type(made).__name__}"
        )
    if made._capturable:
        raise ValueError("capturable=True has no effect in an ensemble; leave it out")
    for group in made.param_groups:
        if group["constraint"].learns:
            raise ValueError(
                f"{group['constraint']!r} finds its radius at another step in each member, so they "
                "are no one computation: train them one by one"
            )
        group["seed"] = seed
    return made


def from_sgd(optimizer: torch.optim.SGD) -> CoLA:
    """The CoLA that follows ``torch.optim.SGD`` step for step."""
    groups = []
    for group in optimizer.param_groups:
        for name, neutral in (("nesterov", False), ("dampening", 0), ("maximize", False)):
            if group[name] != neutral:
                raise ValueError(f"{name}={group[name]!r} of torch.optim.SGD is not supported")
        groups.append({n: group[n] for n in ("params", "lr", "momentum", "weight_decay")})
    return CoLA(groups)
