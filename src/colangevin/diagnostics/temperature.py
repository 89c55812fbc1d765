"""Temperatures and friction: what a user of thermostats watches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from colangevin import checks
from colangevin.constraints import Unconstrained
from colangevin.integrators.recipe import direction
from colangevin.optimizers.cola import CoLA
from colangevin.optimizers.options import is_adaptive
from colangevin.optimizers.step.execute import degrees_of_freedom
from colangevin.optimizers.step.friction import friction_of
from colangevin.optimizers.violation import moved_buckets


@torch.no_grad()
def kinetic_temperature(optimizer: CoLA) -> list[float | None]:
    """For each group pᵀp/N, which at equilibrium is τ on average (3.38).

    N is the number of degrees of freedom less the constraints. One reading scatters by a share
    of √(2/N); average several. The momenta are those between two calls of ``step``; for BAOAB
    that is before the closing half kick, where on a Gaussian target their variance is τ whatever
    the step (after it, τ(1 − h²k/4) for a stiffness k).

    Returns:
        A number per group; None for a group without momenta (overdamped, or not yet moved).

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(100))
        >>> optimizer = CoLA([weight], step_size=0.1, friction=1.0, temperature=0.5)
        >>> for _ in range(100):
        ...     weight.grad = weight.detach().clone()
        ...     optimizer.step()
        >>> 0.2 < kinetic_temperature(optimizer)[0] < 0.8
        True
    """
    return [_kinetic(optimizer, index) for index in range(len(optimizer.param_groups))]


def _kinetic(optimizer: CoLA, index: int) -> float | None:
    plan, state_of = optimizer._view(index), optimizer.state
    buckets = [bucket for bucket, momentum in moved_buckets(plan, state_of) if momentum]
    states = [bucket.look(state_of, momentum=True) for bucket in buckets]
    freedom = degrees_of_freedom(buckets)
    if freedom == 0 or not any(int(bucket.counts.max()) for bucket in buckets):
        return None
    energy = sum(
        float(bucket.per_member(bucket.constraint.kinetic_terms(state)))
        for bucket, state in zip(buckets, states, strict=True)
    )
    return 2.0 * float(optimizer.param_groups[index]["lr"]) * energy / freedom


def friction_variable(optimizer: CoLA) -> list[float | None]:
    """For each group with an adaptive thermostat ξ, None for the others.

    ξ is state of the group's parameters; the group's option ``friction`` is its initial value.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(3))
        >>> friction_variable(CoLA([weight], lr=0.01, thermostat="adaptive"))
        [0.0]
    """
    groups, state = optimizer.param_groups, optimizer.state
    return [friction_of(group, state) if is_adaptive(group) else None for group in groups]


class Configurational(NamedTuple):
    """One reading of the two sides of E|∇L|² = τ E ΔL.

    Attributes:
        square: |∇L|² of the group.
        laplacian: ΔL, the trace of the group's Hessian, estimated.
    """

    square: float
    laplacian: float

    @property
    def temperature(self) -> float:
        """The quotient; over several readings divide the sums, not average the quotients.

        It is infinite where the loss has no curvature.
        """
        return self.square / self.laplacian if self.laplacian else math.inf


def configurational_temperature(
    optimizer: CoLA,
    loss: Callable[[], Tensor],
    probes: int = 1,
    generator: torch.Generator | None = None,
) -> list[Configurational | None]:
    """For each group |∇L|² and ΔL, whose means have the quotient τ at equilibrium.

    The weight decay λ of a group belongs to what it samples, so L has the term λ|θ|²/2 here.
    Unlike the kinetic temperature it shows what the positions sample, so it holds for
    overdamped groups too. ΔL = E vᵀHv over random signs v (Hutchinson), a Hessian–vector
    product per probe. Gradients of the parameters are left alone.

    Args:
        optimizer: its groups say which parameters belong together.
        loss: evaluates the loss that is sampled, on all data: the noise of a mini-batch would
            count as heat.
        probes: how many random v to average over.
        generator: source of the signs.

    Returns:
        A reading per group; None for a constrained group, where the law is another one.

    Example:
        >>> weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
        >>> optimizer = CoLA([weight], lr=0.1)
        >>> configurational_temperature(optimizer, lambda: weight.square().sum() / 2)
        [Configurational(square=25.0, laplacian=2.0)]
    """
    checks.count("probes", probes)
    groups = optimizer.param_groups
    parameters = [p for group in groups for p in group["params"] if p.requires_grad]
    with torch.enable_grad():
        gradients = torch.autograd.grad(
            loss(), parameters, create_graph=True, allow_unused=True, materialize_grads=True
        )
    slopes = dict(zip(parameters, gradients, strict=True))
    traces = dict.fromkeys(parameters, 0.0)
    for _ in range(probes):
        signs = [_signs(p, generator) for p in parameters]
        products = _hessian_vector(parameters, gradients, signs)
        for p, v, hv in zip(parameters, signs, products, strict=True):
            traces[p] += float((v * hv).sum()) / probes
    return [_reading(group, slopes, traces) for group in optimizer.param_groups]


def _reading(
    group: dict[str, Any], slopes: dict[Tensor, Tensor], traces: dict[Tensor, float]
) -> Configurational | None:
    if not isinstance(group["constraint"], Unconstrained):
        return None
    decay, moving = group["weight_decay"], [p for p in group["params"] if p in slopes]
    squares = [direction(slopes[p].detach(), p.detach(), decay).square().sum() for p in moving]
    laplacian = sum(traces[p] + decay * p.numel() for p in moving)
    return Configurational(float(sum(squares)), laplacian)


def _signs(like: Tensor, generator: torch.Generator | None) -> Tensor:
    device = like.device if generator is None else generator.device
    drawn = torch.randint(2, like.shape, generator=generator, device=device)
    return drawn.to(like) * 2 - 1


def _hessian_vector(
    parameters: list[Tensor], gradients: tuple[Tensor, ...], vectors: list[Tensor]
) -> tuple[Tensor, ...]:
    pairs = [(g, v) for g, v in zip(gradients, vectors, strict=True) if g.requires_grad]
    if not pairs:  # a loss that is linear in all of them
        return tuple(torch.zeros_like(p) for p in parameters)
    return torch.autograd.grad(
        [g for g, _ in pairs],
        parameters,
        [v for _, v in pairs],
        retain_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )
