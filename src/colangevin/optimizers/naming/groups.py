"""Parameter groups: which parameters of a model have which constraint."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from colangevin.constraints import Constraint, Unconstrained
from colangevin.errors import ConstraintError
from colangevin.optimizers.naming.matching import (
    NamedParameter,
    is_weight,
    label,
    listed,
    named_parameters,
    take,
)
from colangevin.optimizers.step.place import Placement
from colangevin.optimizers.step.plan import Plan

NORMALISATIONS = ("BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "RMSNorm")
"""Words in the names of the types of normalisation layers."""


def parameter_groups(
    model: nn.Module, rules: Mapping[Any, Constraint | None]
) -> list[dict[str, Any]]:
    """Sort a model's parameters into groups by constraint.

    Frozen parameters (``requires_grad=False``) are in the groups too. The optimizer does not
    move them while they are frozen.

    Args:
        model: the network.
        rules: constraints by pattern. The first pattern that matches a parameter wins. A
            pattern is a string (compared with the parameters' names by ``fnmatch``:
            "*.weight"), a module type (the weights, not the biases, of all such modules), a
            module (all of its parameters), a parameter, or a tuple of these. A tied parameter
            matches by any of its names. The constraint None leaves the parameters
            unconstrained.

    Returns:
        One group for each rule, then one for the parameters that no rule matches. These stay
        unconstrained.

    Raises:
        ValueError: if a pattern matches nothing, or only what an earlier rule has taken.
        TypeError: if a pattern or a constraint is of another type.

    Warns:
        UserWarning: if a string constrains the weights of normalisation layers together with
            other parameters, which is rarely meant. A string that matches normalisation layers
            alone is taken as meant.

    Example:
        >>> from colangevin import Circle
        >>> groups = parameter_groups(nn.Linear(2, 1), {"weight": Circle(0.5)})
        >>> [group["names"] for group in groups]
        [['weight'], ['bias']]
    """
    return _sorted(model, rules)


def constrain_(
    model: nn.Module,
    rules: Mapping[Any, Constraint | None],
    *,
    strict: bool = False,
    frozen: bool = False,
) -> list[dict[str, Any]]:
    """Put a model's weights on their manifolds, in place, and return the groups.

    Orthogonal weights become the nearest orthogonal ones. For a random weight this is an
    orthogonal initialisation. Weights beyond the radius of a circle or a max-norm are scaled
    down. Frozen parameters (``requires_grad=False``) stay as they are, unless ``frozen``.

    Args:
        model: the network.
        rules: as in ``parameter_groups``, with the same warning.
        strict: raise instead of moving a weight.
        frozen: whether to put frozen parameters on their manifolds, too, such as those of an
            averaged model.

    Returns:
        The groups that ``parameter_groups`` returns.

    Raises:
        ValueError: for a rule as in ``parameter_groups``, or a weight that cannot have its
            constraint. The model is unchanged then.
        TypeError: if a pattern or a constraint is of another type.

    Example:
        >>> import torch
        >>> from colangevin import Orthogonal
        >>> model = nn.Linear(3, 3)
        >>> groups = constrain_(model, {"weight": Orthogonal()})
        >>> bool((model.weight.T @ model.weight - torch.eye(3)).abs().max() < 1e-5)
        True
    """
    groups = _sorted(model, rules)
    placements: list[Placement] = []
    memory: dict[Tensor, dict[str, Any]] = {}
    for group in groups:
        if group["constraint"] is not None:
            own = group if frozen else _trained(group)
            if own["params"]:
                plan = Plan(own, range(len(own["params"])), memory)
                placements += plan.settle(strict, frozen)
    for bucket, position, _ in placements:
        bucket.move_to(memory, position)
    return groups


def _sorted(model: nn.Module, rules: Mapping[Any, Constraint | None]) -> list[dict[str, Any]]:
    """The groups of ``parameter_groups``; warns on behalf of the function that calls it."""
    entries = named_parameters(model)
    left = list(entries)
    groups: list[dict[str, Any]] = []
    suspects: list[NamedParameter] = []
    for rule, constraint in rules.items():
        if constraint is not None and not isinstance(constraint, Constraint):
            raise TypeError(f"the rule for {rule!r} must be a constraint, got {constraint!r}")
        matched, left = take(rule, entries, left)
        groups.append(_group(label(rule), matched, constraint))
        if not isinstance(constraint, (Unconstrained, type(None))):
            suspects.extend(_swept_along(rule, matched))
    if left:
        groups.append(_group("unconstrained", left, None))
    if suspects:
        warnings.warn(_advice(suspects), UserWarning, stacklevel=3)
    return groups


def _group(name: str, members: Sequence[NamedParameter], constraint: Any) -> dict[str, Any]:
    return {
        "params": [entry.parameter for entry in members],
        "names": [entry.name for entry in members],
        "name": name,
        "constraint": constraint,
    }


def _trained(group: dict[str, Any]) -> dict[str, Any]:
    """The group without its frozen parameters, to which its constraint must not tie the others."""
    pairs = list(zip(group["params"], group["names"], strict=True))
    trained = [(parameter, name) for parameter, name in pairs if parameter.requires_grad]
    if group["constraint"].joint and 0 < len(trained) < len(pairs):
        frozen = listed(name for parameter, name in pairs if not parameter.requires_grad)
        raise ConstraintError(
            f"the constraint of {group['name']!r} moves all of its parameters together, but "
            f"these are frozen: {frozen}"
        )
    params, names = [p for p, _ in trained], [name for _, name in trained]
    return {**group, "params": params, "names": names}


# --- normalisation layers -----------------------------------------------------------------


def _swept_along(rule: object, matched: Iterable[NamedParameter]) -> list[NamedParameter]:
    """Weights of normalisation layers that a string matches together with other parameters."""
    patterns = rule if isinstance(rule, tuple) else (rule,)
    if not all(isinstance(pattern, str) for pattern in patterns):
        return []
    layers = [entry for entry in matched if _normalising(entry)]
    others = [entry for entry in matched if not _normalising(entry)]
    weights = [entry for entry in layers if any(map(is_weight, entry.names))]
    return weights if others else []


def _normalising(entry: NamedParameter) -> str:
    """The name of the normalisation layer's type that has this parameter, or nothing."""
    for owner in entry.owners:
        # By name: other libraries have normalisation layers that are no subclasses of torch's.
        bases = [base.__name__ for base in type(owner).__mro__]
        if any(word in base for base in bases for word in NORMALISATIONS):
            return type(owner).__name__
    return ""


def _advice(suspects: Sequence[NamedParameter]) -> str:
    types = list(dict.fromkeys(map(_normalising, suspects)))
    return (
        "a name pattern constrains the weights of normalisation layers: "
        f"{listed(entry.name for entry in suspects)}. To leave them free, put a rule with None "
        f"before it, such as {{{', '.join(f'{each}: None' for each in types)}, ...}}. To "
        "constrain them, give them a rule of their own."
    )
