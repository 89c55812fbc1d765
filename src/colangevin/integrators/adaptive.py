"""Adaptive Langevin dynamics (2.58): the pieces C, D, E and F, and what one call does.

The friction ξ is a variable: dξ = ε(pᵀp − Nτ) dt raises it while the momenta are hotter than
τ and lowers it, below 0 if need be, while they are colder. So heat of unknown origin, such as
the noise of mini-batches, is taken out. Friction is ξ as in (2.58); the εξ of (3.31) is the same
with the coupling ε².

Momenta are in the units of ``torch.optim.SGD``, v = −p/h; ξ is a tensor without dimensions,
so that nothing has to wait for a device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from colangevin.constraints.base import Constraint, Draw, Scalar, State
from colangevin.integrators import pieces
from colangevin.integrators.scheme import Drift, Move, Run, Scheme, has_letter


class Part(NamedTuple):
    """Tensors that share a geometry; the parts of a group share ξ.

    Attributes:
        constraint: the geometry.
        state: where they are.
        gradient: what B kicks with.
        draw: the source of noise.
        spread: gives numbers, one per member, the shape of the batch; the identity without
            members.
        total: sums terms per entry of the batch, for each member or over all.
    """

    constraint: Constraint
    state: State
    gradient: Tensor
    draw: Draw | None = None
    spread: Callable[[Tensor], Tensor] = lambda value: value
    total: Callable[[Tensor], Tensor] = torch.sum


class AdaptiveDynamics(NamedTuple):
    """The physical settings of a group with an adaptive thermostat.

    Attributes:
        lr: h².
        temperature: τ.
        coupling: ε.
        driving_noise: σ_A.
        scheme: the word, read.
    """

    lr: Scalar
    temperature: Scalar
    coupling: Scalar
    driving_noise: Scalar
    scheme: Scheme

    @property
    def is_overdamped(self) -> bool:
        """It always has a momentum to control."""
        return False

    @property
    def step_size(self) -> Scalar:
        """h."""
        return self.lr**0.5


def damping(friction: Tensor, time: Scalar) -> Tensor:
    """C: p ← e^{−ξt} p; the factor.

    Example:
        >>> damping(torch.tensor(0.0), 0.5)
        tensor(1.)
    """
    return torch.exp(-friction * time)


def driven_variance(friction: Tensor, time: Scalar) -> Tensor:
    """F: the noise that dp = −ξp dt + σ_A dW gathers in the time t, as a variance over σ_A².

    It is (1 − e^{−2ξt})/(2ξ), which is t where ξ = 0 (D alone), and positive for ξ < 0 too.

    Example:
        >>> driven_variance(torch.tensor(0.0), 0.5)
        tensor(0.5000)
    """
    exponent = friction * (2.0 * time)
    still = exponent == 0.0
    ratio = -torch.expm1(-exponent) / torch.where(still, 1.0, exponent)
    return torch.where(still, 1.0, ratio) * time


def feedback(
    friction: Tensor, square: Tensor, freedom: int, temperature: Scalar, rate: Scalar
) -> Tensor:
    """E: ξ ← ξ + hε(pᵀp − Nτ).

    Args:
        friction: ξ.
        square: pᵀp in physical units.
        freedom: N, the degrees of freedom less the constraints.
        temperature: τ.
        rate: hε.

    Example:
        >>> feedback(torch.tensor(1.0), torch.tensor(3.0), 2, 1.0, 0.1)
        tensor(1.1000)
    """
    return friction + (square - freedom * temperature) * rate


def coefficients(run: Run, friction: Tensor, step: Scalar) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of a run of B, C, D and F: p ← c p + Π(weight · kick + noise · σ_A R).

    Args:
        run: of these letters.
        friction: ξ, which no piece of the run changes.
        step: h.

    Example:
        >>> coefficients((("B", 0.5), ("D", 1.0)), torch.tensor(0.0), 4.0)
        (tensor(1.), tensor(0.5000), tensor(2.))
    """
    momentum = torch.ones_like(friction)
    weight, variance = torch.zeros_like(friction), torch.zeros_like(friction)
    for letter, fraction in run:
        time = step * fraction
        if letter == "B":
            weight = weight + fraction
        elif letter == "D":
            variance = variance + time
        else:
            share = damping(friction, time)
            momentum, weight, variance = momentum * share, weight * share, variance * share**2
            if letter == "F":
                variance = variance + driven_variance(friction, time)
    return momentum, weight, variance.sqrt()


def advance(
    settings: AdaptiveDynamics,
    parts: Sequence[Part],
    friction: Tensor,
    freedom: int,
    moves: Sequence[Move],
) -> tuple[list[Part], Tensor]:
    """Apply moves to the parts of a group in lockstep, since E needs the momenta of all.

    The tensors of the parts' states may be written over.

    Args:
        settings: the group's numbers.
        parts: the group's tensors.
        friction: ξ.
        freedom: N of all parts together.
        moves: of a word of adaptive Langevin.

    Returns:
        The parts with their new states, and the new ξ.

    Example:
        >>> from colangevin.constraints import Unconstrained
        >>> from colangevin.integrators.scheme import parse
        >>> settings = AdaptiveDynamics(0.25, 1.0, 0.1, 0.0, parse("BACDEDCAB"))
        >>> state = State(torch.zeros(1), torch.ones(1))
        >>> part = Part(Unconstrained(), state, torch.zeros(1))
        >>> (moved,), friction = advance(
        ...     settings, [part], torch.tensor(0.0), 1, settings.scheme.moves
        ... )
        >>> friction  # pᵀp = h²v² = 0.25 is below τ = 1, so the friction falls by hε · 0.75
        tensor(-0.0375)
    """
    current = list(parts)
    for move in moves:
        if isinstance(move, Drift):
            current = [_drift(settings, part, move.step) for part in current]
        elif has_letter(move, "E"):
            square = 2.0 * settings.lr * _energy(current, friction)
            rate = settings.coupling * settings.step_size * move[0][1]
            friction = feedback(friction, square, freedom, settings.temperature, rate)
        else:
            current = [_kick(settings, part, friction, move) for part in current]
    return current, friction


def _energy(parts: Sequence[Part], friction: Tensor) -> Tensor:
    """½|v|² of all parts, in the dtype and on the device of ξ."""
    total = torch.zeros_like(friction)
    for part in parts:
        total = total + part.total(part.constraint.kinetic_terms(part.state)).to(friction)
    return total


def _drift(settings: AdaptiveDynamics, part: Part, fraction: Scalar) -> Part:
    step = _shaped(part, -settings.lr * fraction)
    return part._replace(state=part.constraint.drift(part.state, step))


def _kick(settings: AdaptiveDynamics, part: Part, friction: Tensor, run: Run) -> Part:
    decay, weight, spread = coefficients(run, friction, settings.step_size)
    noisy = has_letter(run, "DF") and _any_positive(settings.driving_noise)
    scale = spread * (settings.driving_noise / settings.step_size) * -1.0 if noisy else spread
    state = pieces.impulse(
        part.constraint,
        part.state,
        part.gradient if has_letter(run, "B") else None,
        _shaped(part, decay),
        _shaped(part, weight),
        _shaped(part, scale),
        part.draw if noisy else None,
    )
    return part._replace(state=state)


def _shaped(part: Part, value: Scalar) -> Scalar:
    return part.spread(value) if isinstance(value, Tensor) else value


def _any_positive(value: Scalar) -> bool:
    return bool((value > 0.0).any()) if isinstance(value, Tensor) else value > 0.0
