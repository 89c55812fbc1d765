"""The local learning coefficient: how degenerate a minimum is, measured by sampling around it.

λ̂ = nβ (E[L(w)] − L(w*)) with β = 1/log n, where w is drawn from the density
exp(−nβ L(w) − γ/2 |w − w*|²) around the minimum w* (Lau, Furman, Wang, Murfet and Wei, 2023;
devinterp has the same definition). A regular minimum of d weights has λ = d/2; a degenerate one has
less.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from colangevin import checks
from colangevin.constraints import Constraint
from colangevin.sampling.convergence import mcse
from colangevin.sampling.sampler import sample
from colangevin.sampling.traces import Trace


class LearningCoefficient(NamedTuple):
    """A local learning coefficient.

    Attributes:
        value: λ̂, over all chains.
        error: its Monte Carlo standard error.
        by_chain: λ̂ of each chain.
        loss: L(w*).
        trace: with the observable ``"own_loss"``, which is L(w).
    """

    value: float
    error: float
    by_chain: Tensor
    loss: float
    trace: Trace


def learning_coefficient(
    model: nn.Module,
    loss: Callable[..., Tensor],
    data: tuple[Tensor, Tensor] | None = None,
    points: int | None = None,
    localisation: float = 1.0,
    rules: Mapping[Any, Constraint | None] | None = None,
    **settings: Any,
) -> LearningCoefficient:
    """Estimate the local learning coefficient of a model at its present weights.

    Args:
        model: at the minimum w*, which it keeps.
        loss: ``loss(outputs, targets)``, a mean over the data; without data a function of the
            parameters by name.
        data: all of it: ``(inputs, targets)``.
        points: n; None for the number of data points.
        localisation: γ, in units of 1/weight².
        rules: constraints by pattern.
        settings: of ``sample``: ``chains``, ``draws``, ``thin``, ``warmup``, ``step_size``,
            ``adjust``, ``seed`` and others. The default friction is 2 √(γ/nβ): critical for
            directions that the localisation alone holds, the slowest there are.

    Raises:
        ValueError, TypeError: naming the argument.

    Example:
        >>> class Bowl(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.w = nn.Parameter(torch.zeros(4))
        >>> bowl = lambda own: own["w"].square().sum() / 2
        >>> found = learning_coefficient(
        ...     Bowl(), bowl, points=1000, chains=50, draws=200, thin=3
        ... )
        >>> abs(found.value - 2.0) < 0.2  # d/2
        True
    """
    checks.non_negative("localisation", localisation)
    if data is None and points is None:
        raise ValueError("points must be given where there are no data, got None")
    count = checks.count("points", len(data[0]) if points is None and data else points, least=2)
    if "observables" in settings or "temperature" in settings:
        raise TypeError("observables and temperature are chosen by the estimate itself")
    scale = count / math.log(count)
    centre = {n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}
    own_loss = _loss_of(model, loss, data)

    def potential(own: dict[str, Tensor]) -> Tensor:
        gaps = [(own[name] - start).square().sum() for name, start in centre.items()]
        return own_loss(own) + torch.stack(gaps).sum() * (localisation / (2.0 * scale))

    slowest = 2.0 * math.sqrt(localisation / scale) or 1.0
    trace = sample(
        copy.deepcopy(model),
        potential,
        rules=rules,
        temperature=1.0 / scale,
        observables={"own_loss": own_loss},
        **{"jitter": 0.0, "friction": slowest, "watch": ("loss", "own_loss"), **settings},
    )
    with torch.no_grad():
        start = float(own_loss(centre))
    gaps = scale * (trace["own_loss"].double() - start)
    return LearningCoefficient(
        float(gaps.mean()), float(mcse(gaps)), gaps.mean(dim=1), start, trace
    )


def _loss_of(
    model: nn.Module, loss: Callable[..., Tensor], data: tuple[Tensor, Tensor] | None
) -> Callable[[dict[str, Tensor]], Tensor]:
    """The loss as a function of the parameters that are sampled."""
    if data is None:
        return loss
    inputs, targets = data
    frozen = copy.deepcopy(model).eval()
    return lambda own: loss(functional_call(frozen, own, (inputs,)), targets)
