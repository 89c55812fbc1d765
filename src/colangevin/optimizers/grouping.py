"""From names and module types to parameter groups."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn

from colangevin.constraints import Constraint
from colangevin.optimizers import placement

Rule = str | tuple[str, ...] | type[nn.Module]


def parameter_groups(
    model: nn.Module, rules: Mapping[Any, Constraint | None]
) -> list[dict[str, Any]]:
    """Sort a model's parameters into groups by constraint.

    Args:
        model: the network.
        rules: constraints by pattern; the first that matches wins. A string is matched
            against parameter names (``fnmatch``: "*.weight"), a tuple of strings likewise
            with any of its patterns, and a module type matches the weights (not the biases)
            of such modules. A tied parameter matches by any of its names. None leaves the
            parameters unconstrained.

    Returns:
        One group a rule, then one for the unmatched parameters, which stay unconstrained.

    Raises:
        ValueError: if a pattern matches nothing.
        TypeError: if a rule or a constraint is of another type.

    Example:
        >>> from colangevin import Circle
        >>> groups = parameter_groups(nn.Linear(2, 1), {"weight": Circle(0.5)})
        >>> [group["names"] for group in groups]
        [['weight'], ['bias']]
    """
    owners = _owners(model)
    aliases = _aliases(model)
    left = dict(model.named_parameters())
    groups: list[dict[str, Any]] = []
    for rule, constraint in rules.items():
        if constraint is not None and not isinstance(constraint, Constraint):
            raise TypeError(f"the rule for {rule!r} must be a constraint, got {constraint!r}")
        matched = [n for n in left if any(_matches(rule, alias, owners) for alias in aliases[n])]
        if not matched:
            raise ValueError(
                f"the pattern {_label(rule)!r} matches no parameter that is still free; "
                f"the model has {', '.join(owners)}"
            )
        groups.append(_group(_label(rule), {n: left.pop(n) for n in matched}, constraint))
    if left:
        groups.append(_group("unconstrained", left, None))
    return groups


def constrain_(
    model: nn.Module, rules: Mapping[Any, Constraint | None], *, strict: bool = False
) -> list[dict[str, Any]]:
    """Put a model's weights on their manifolds, in place, and return the groups.

    Orthogonal weights become the nearest orthogonal ones, which for a random weight is an
    orthogonal initialisation; circle and max-norm weights that are out of range are rescaled.

    Args:
        model: the network.
        rules: as in ``parameter_groups``.
        strict: raise instead of moving a weight.

    Raises:
        ValueError: nothing has been changed then.

    Example:
        >>> import torch
        >>> from colangevin import Orthogonal
        >>> model = nn.Linear(3, 3)
        >>> groups = constrain_(model, {"weight": Orthogonal()})
        >>> bool((model.weight.T @ model.weight - torch.eye(3)).abs().max() < 1e-5)
        True
    """
    groups = parameter_groups(model, rules)
    placements = [
        placed
        for group in groups
        if group["constraint"] is not None
        for placed in placement.of_group(group, strict)
    ]
    scratch: dict[Tensor, dict[str, Any]] = {
        parameter: {} for bucket, _ in placements for parameter in bucket.parameters
    }
    placement.commit(placements, scratch)
    return groups


def _group(name: str, members: dict[str, nn.Parameter], constraint: Any) -> dict[str, Any]:
    return {
        "params": list(members.values()),
        "names": list(members),
        "name": name,
        "constraint": constraint,
    }


def _owners(model: nn.Module) -> dict[str, type[nn.Module]]:
    """The type of module that owns each parameter, by every name of the parameter."""
    owners = {}
    for name, _ in model.named_parameters(remove_duplicate=False):
        owner, _, _ = name.rpartition(".")
        owners[name] = type(model.get_submodule(owner))
    return owners


def _aliases(model: nn.Module) -> dict[str, list[str]]:
    """All names of each parameter, by the first of them: tied parameters have several."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return {group[0]: group for group in names.values()}


def _matches(rule: object, name: str, owners: dict[str, type[nn.Module]]) -> bool:
    if isinstance(rule, str):
        return fnmatchcase(name, rule)
    if isinstance(rule, tuple) and all(isinstance(pattern, str) for pattern in rule):
        return any(fnmatchcase(name, pattern) for pattern in rule)
    if isinstance(rule, type) and issubclass(rule, nn.Module):
        return issubclass(owners[name], rule) and "weight" in name.rpartition(".")[2]
    raise TypeError(f"a rule must be a name pattern or a module type, got {rule!r}")


def _label(rule: object) -> str:
    if isinstance(rule, type):
        return rule.__name__
    return ", ".join(rule) if isinstance(rule, tuple) else str(rule)
