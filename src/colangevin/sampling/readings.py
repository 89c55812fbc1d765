"""Readings of the chains: energy errors, and temperatures of momenta and positions.

The configurational temperature holds on every manifold: E|∇_M U|² = τ E Δ_M U, with the tangential
gradient and the Laplace–Beltrami operator. The latter is the mean of the second derivatives of U
along geodesics γ with standard normal velocities, here a difference of ⟨∇U, γ'⟩ on either side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from colangevin.constraints import State
from colangevin.errors import ConvergenceError
from colangevin.integrators.pieces import advance
from colangevin.integrators.scheme import Drift
from colangevin.sampling.chains import Chains, Part
from colangevin.sampling.moves import FRESH, Flow, Phase, fresh_momenta, noise, verlet

NEAR = 0.3
"""Of a thermal step h√τ: how far the Laplacian's two points lie from the middle."""
STRAIGHT = 0.9
"""Chord over path of a step that does not turn back yet: a circle's at an angle of 1 has it."""


def start_of(chains: Chains, parts: Sequence[Part]) -> Phase:
    """Where the chains are, without momenta."""
    states = chains.states(parts, momentum=False)
    return Phase(states, *chains.energies(parts, states))


@torch.no_grad()
def energy_errors(
    chains: Chains, step_size: float, readings: int = 1, flow: Flow = verlet
) -> Tensor:
    """ΔH/τ of steps from fresh momenta at the present positions: [readings, chains].

    It is infinite where a step fails.
    """
    parts = chains.parts()
    start = start_of(chains, parts)
    found = []
    for number in range(readings):
        states = fresh_momenta(chains, parts, start.states, step_size, 64 * number)
        moved = flow(chains, parts, start._replace(states=states), step_size)
        scaled = moved.change / chains.temperatures
        found.append(torch.where(moved.good, scaled, math.inf))
    return torch.stack(found)


@torch.no_grad()
def longest_step(chains: Chains) -> float:
    """The largest Verlet step whose geodesics do not turn back; infinite where none does.

    A potential that is flat on a circle allows any step by its energy error. But a step of many
    turns leads nowhere, and rounding makes its end wrong.
    """
    found = math.inf
    for part in chains.parts():
        geometry = part.bucket.constraint
        state = part.bucket.look(chains.ensemble._state, False).map(torch.clone)
        moving = geometry.sample_momentum(state, 1.0, noise(chains, part, FRESH + 33))
        speed = math.sqrt(2.0 * float(geometry.kinetic_terms(moving).double().sum()))
        size = math.sqrt(_square(state.position, geometry.slack_of(state))) or 1.0
        for power in range(-20, 21):
            path = size * 2.0 ** (power / 2.0)
            if not speed or path >= found * speed:
                break
            if not _chord(part, moving, path / speed) >= STRAIGHT * path:
                found = path / speed
                break
    return found / math.sqrt(float(chains.temperatures.max()))


def _chord(part: Part, state: State, reach: float) -> float:
    """How far apart the ends of a geodesic are; 0 if it fails."""
    geometry = part.bucket.constraint
    try:
        end = _end(part, state, reach)
    except ConvergenceError:
        return 0.0
    before, after = geometry.slack_of(state), geometry.slack_of(end)
    slack = None if before is None or after is None else after - before
    return math.sqrt(_square(end.position - state.position, slack))


def _end(part: Part, state: State, reach: float) -> State:
    """Where the geodesic of a state leads, in new memory."""
    start = state.map(torch.clone)
    return advance(part.bucket.constraint, start, state.position, [Drift(reach)], None)


def _square(position: Tensor, slack: Tensor | None) -> float:
    """The sum of squares of positions and slacks."""
    own = 0.0 if slack is None else float(slack.double().square().sum())
    return float(position.double().square().sum()) + own


@torch.no_grad()
def order_of(pairs: Tensor, rounding: float) -> float:
    """k if energy errors fall as h^k: 3 for a smooth potential, 1 for a wrong gradient.

    Args:
        pairs: errors of the same steps with h and with 4h, [2, ...].
        rounding: errors of h that are no larger say nothing.

    Returns:
        NaN if they say nothing.

    Example:
        >>> order_of(torch.tensor([[1.0, 2.0], [64.0, 128.0]]), rounding=0.1)
        3.0
    """
    short, long = pairs.flatten(1)[:, pairs.flatten(1).isfinite().all(dim=0)].square().mean(dim=1)
    if not float(short) > rounding**2 or not float(long) > 0.0:
        return math.nan
    return math.log(float(long) / float(short)) / (2.0 * math.log(4.0))


class Configurational(NamedTuple):
    """One reading of each chain.

    Attributes:
        square: |∇_M U|².
        laplacian: Δ_M U, estimated.
    """

    square: Tensor
    laplacian: Tensor


@torch.no_grad()
def configurational(chains: Chains) -> Configurational:
    """Both sides of E|∇_M U|² = τ E Δ_M U, for each chain."""
    parts = chains.parts()
    start = start_of(chains, parts)
    square = torch.zeros(len(chains), dtype=torch.float64)
    moving = []
    for part, state, force in zip(parts, start.states, start.forces, strict=True):
        geometry = part.bucket.constraint
        slope = geometry.impulse(state, force, 1.0, 0.0, None)
        along = state._replace(momentum=slope.main, slack_momentum=slope.slack)
        square += 2.0 * part.bucket.per_member(geometry.kinetic_terms(along)).double()
        draw = noise(chains, part, FRESH + 32)
        moving.append(geometry.sample_momentum(state, 1.0, draw))
    reach = NEAR * chains.step_size * math.sqrt(float(chains.temperatures.min()))
    ends = [_slope_along(chains, parts, moving, side * reach) for side in (1.0, -1.0)]
    return Configurational(square, (ends[0] - ends[1]) / (2.0 * reach))


def _slope_along(
    chains: Chains, parts: Sequence[Part], states: Sequence[State], reach: float
) -> Tensor:
    """⟨∇U, γ'⟩ of each chain at the end of its geodesic."""
    ends = [_end(part, state, reach) for part, state in zip(parts, states, strict=True)]
    _, forces = chains.energies(parts, ends)
    total = torch.zeros(len(chains), dtype=torch.float64)
    for part, end, force in zip(parts, ends, forces, strict=True):
        product = force * part.bucket.constraint.velocity(end)
        total += part.bucket.per_member(product.reshape(len(product), -1).sum(dim=1)).double()
    return total


class Ratio(NamedTuple):
    """A temperature over τ, with its standard error."""

    value: float
    error: float

    def is_off(self, tolerance: float) -> bool:
        """Whether it differs from 1 by more than the tolerance, beyond its scatter."""
        return not abs(self.value - 1.0) - 2.0 * self.error <= tolerance

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.error:.3f}"


def ratio(above: Tensor, below: Tensor, parts: int = 5, least: float = 0.0) -> Ratio:
    """Σ above / Σ below over readings and chains, with its standard error.

    The error is the larger of two: from the scatter of stretches, and from that of whole chains,
    whose energy hardly changes while the friction is low.

    Args:
        above: [readings, chains].
        below: likewise.
        parts: stretches of a chain that count as independent in the first one.
        least: an error that is known from elsewhere, where few chains scatter too little.

    Example:
        >>> ratio(torch.ones(10, 4), 2 * torch.ones(10, 4))
        Ratio(value=0.5, error=0.0)
    """
    value = float(above.sum() / below.sum())
    errors = [_error(value, above, below, count) for count in (parts, 1)]
    return Ratio(value, max(*errors, least))


def _error(value: float, above: Tensor, below: Tensor, parts: int) -> float:
    share = max(1, len(above) // parts)
    count = len(above) // share
    tops = above[: count * share].unflatten(0, (count, share)).sum(dim=1).flatten()
    bottoms = below[: count * share].unflatten(0, (count, share)).sum(dim=1).flatten()
    if len(tops) < 2:
        return 0.0 if parts == 1 else math.inf  # a single chain has only its stretches
    spread = (tops - value * bottoms) / bottoms.mean()
    return float(spread.std() / math.sqrt(len(spread)))
