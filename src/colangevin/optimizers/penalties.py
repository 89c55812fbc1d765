"""Soft penalties of the same rules: the other way to hold a constraint, for comparisons.

A hard constraint holds g(θ) = 0 exactly. Its soft twin adds g(θ)²/ε² to the loss (section 4.1). As
ε → 0 the minimum goes to the one with the hard constraint, and the penalty becomes stiff: a step
that was stable diverges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from colangevin import checks
from colangevin.constraints import Constraint, Unconstrained
from colangevin.errors import ConstraintError
from colangevin.optimizers.naming.groups import parameter_groups


def penalty(model: nn.Module, rules: Mapping[Any, Constraint | None], strength: float) -> Tensor:
    """strength · Σ g(θ)², the soft twin of constraints, to be added to a loss.

    The sum is over all equations of all rules: θ² − r² for a circle, ‖w‖² − r² for a sphere, the
    entries of QᵀQ − scale²·I for orthogonal weights (tall, wide and convolution kernels as in
    ``Orthogonal``), those off the diagonal for ``DiagonalGram``, the distance to the walls of a
    box, 1 − Σw and the negative weights for a simplex, σ − r for ``Spectral``, and the user's g. Of
    an inequality g ≤ 0 only what exceeds 0 counts.
    Frozen parameters count too, but get no gradient.

    Args:
        model: the network.
        rules: constraints by pattern, as in ``parameter_groups``.
        strength: 1/ε², at least 0. The curvature of the penalty grows with it, so the largest
            stable step falls as 1/strength.

    Returns:
        A number that can be differentiated. Weights with NaN give NaN, as in any other loss.

    Raises:
        ValueError: if the model has no parameters, a pattern matches nothing, the strength is
            negative, or a radius is "initial" or "inflection" (it would follow the weights).
        TypeError: if a rule is no constraint, or one of your own without a soft form.

    Example:
        >>> from colangevin import Orthogonal
        >>> model = nn.Linear(3, 3, bias=False)
        >>> _ = nn.init.constant_(model.weight, 0.0)
        >>> float(penalty(model, {"weight": Orthogonal()}, strength=0.5).detach())
        1.5
    """
    groups = parameter_groups(model, rules)
    found = [p for group in groups for p in group["params"]]
    if not found:
        raise ValueError(f"model must have parameters, got {type(model).__name__} without any")
    total = torch.zeros((), dtype=found[0].dtype, device=found[0].device)
    factor = checks.non_negative("strength", strength)
    for group in groups:
        constraint = group["constraint"]
        if constraint is not None and not isinstance(constraint, Unconstrained):
            total = total + squares(constraint, group["params"])
    return factor * total


def squares(constraint: Constraint, parameters: Sequence[Tensor]) -> Tensor:
    """Σ g(θ)² of one constraint on parameters, each by itself or all together if it couples them.

    Example:
        >>> from colangevin import Circle
        >>> squares(Circle(1.0), [torch.tensor([0.5, 2.0])])
        tensor(9.)
    """
    radius = constraint.describe().get("radius")
    if radius == "initial" or constraint.learns:
        raise ConstraintError(f"radius={radius!r} has no soft form; give the radius as a number")
    if constraint.joint:
        bound = constraint.bind([parameter.shape for parameter in parameters])
        whole = torch.cat([bound.to_batch(parameter) for parameter in parameters], dim=-1)
        return bound.violated(whole).square().sum()
    parts = []
    for parameter in parameters:
        bound = constraint.bind([parameter.shape])
        parts.append(bound.violated(bound.to_batch(parameter)).square().sum())
    return torch.stack(parts).sum()
