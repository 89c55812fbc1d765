"""Microcanonical moves: B/2, A, B/2 at one speed, on every geometry.

The speed of all weights together is √(nτ), n the degrees of freedom: each has a mean square
velocity τ, as at the temperature τ, so that steps and frictions mean the same as in Langevin
dynamics. In the papers' units ε = h√n and L = √n/γ. On a constraint gradients are projected and
the drift is the geodesic or RATTLE. RATTLE keeps the speed up to the order h³ of its error; then it
is put right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from colangevin.constraints import State
from colangevin.constraints.base import match_dims
from colangevin.integrators.scheme import Drift
from colangevin.sampling.chains import Chains, Part
from colangevin.sampling.moves import Moved, Phase, Untested, moved_along
from colangevin.sampling.turning import turn

LEAST = 2
"""Degrees of freedom: a velocity of fixed length on a line never turns."""


Refresh: TypeAlias = "Callable[[Part, State], State]"


def isokinetic(
    chains: Chains,
    parts: Sequence[Part],
    start: Phase,
    step_size: float,
    refresh: Refresh | None = None,
) -> Moved:
    """One step of all chains, whatever the length of the momenta is: B/2, A, B/2.

    A chain whose projection fails stays where it is and is marked.

    Args:
        chains: which.
        parts: of them.
        start: where they are.
        step_size: h.
        refresh: O of a part, in the middle of A, where positions of a Gaussian are free of its
            bias; the step cannot be made backwards then.
    """
    good = torch.ones(len(chains), dtype=torch.bool)
    states = at_speed(chains, parts, start.states, step_size)
    states, first = _turned(chains, parts, states, start.forces, step_size)
    for half in range(1 if refresh is None else 2):
        if half and refresh is not None:
            states = [refresh(part, state) for part, state in zip(parts, states, strict=True)]
            states = at_speed(chains, parts, states, step_size)
        drift = Drift(-(step_size**2) / (1.0 if refresh is None else 2.0))
        for index, part in enumerate(parts):
            state = states[index]
            state, fine = moved_along(part, state, state.position, (drift,))
            states[index], good = part.bucket.constraint.close(state), good & fine
        states = at_speed(chains, parts, states, step_size)
    energy, forces = chains.energies(parts, states)
    states, second = _turned(chains, parts, states, forces, step_size)
    gains = (chains.freedom - 1) * chains.temperatures * (first + second)
    change = energy - start.energy + gains
    return Moved(Phase(states, energy, forces), good & change.isfinite(), change)


class Microcanonical(Untested):
    """B/2, A/2, O, A/2, B/2 at one speed: all steps are made that lead somewhere.

    Args:
        chains: which move.
    """

    def __init__(self, chains: Chains) -> None:
        super().__init__(chains, isokinetic)

    def _made(self, before: Phase) -> tuple[Phase, Moved]:
        moved = isokinetic(self.chains, self._parts, before, self.chains.step_size, self._refresh)
        return before, moved


def at_speed(
    chains: Chains, parts: Sequence[Part], states: Sequence[State], step_size: float
) -> list[State]:
    """The states with momenta whose length is √(nτ), in the engine's units."""
    length = (chains.freedom * chains.temperatures).sqrt() / step_size
    factor = length / (2.0 * chains.kinetic(parts, states)).sqrt()
    return [_combined(p, s, factor, None, factor) for p, s in zip(parts, states, strict=True)]


def _turned(
    chains: Chains,
    parts: Sequence[Part],
    states: Sequence[State],
    forces: Sequence[Tensor],
    step_size: float,
) -> tuple[list[State], Tensor]:
    """B/2, and what it adds to the kinetic energy over n − 1.

    The engine's momenta are −p/h: they turn towards the gradient.
    """
    n, tau = chains.freedom, chains.temperatures
    length = (n * tau).sqrt() / step_size
    slopes = []
    for part, state, force in zip(parts, states, forces, strict=True):
        slope = part.bucket.constraint.impulse(state, force, 1.0, 0.0, None)
        slopes.append(state._replace(momentum=slope.main, slack_momentum=slope.slack))
    size = (2.0 * chains.kinetic(parts, slopes)).sqrt()
    each = list(zip(parts, states, slopes, strict=True))
    unit = size.clamp_min(torch.finfo(size.dtype).tiny).reciprocal()
    both = [_combined(p, s, 1.0 / length, g, unit) for p, s, g in each]
    # |u + e|² = 2 + 2u·e; without a force there is no direction and nothing turns.
    cosine = torch.where(size > 0.0, chains.kinetic(parts, both) - 1.0, 0.0)
    found = turn(cosine, step_size / 2.0 * size * math.sqrt(n) / (tau.sqrt() * (n - 1)))
    toward = found.toward * length * unit
    return [_combined(p, s, found.keep, g, toward) for p, s, g in each], found.gain


def _combined(part: Part, state: State, keep: Tensor, other: State | None, share: Tensor) -> State:
    """The state with keep · momentum + share · that of another, one number each per chain."""
    factors = [part.bucket.per_member_shape(numbers) for numbers in (keep, share)]

    def sum_of(own: Tensor | None, second: Tensor | None) -> Tensor | None:
        if own is None:
            return None
        found = own * match_dims(factors[0], own)
        return found if second is None else found + second * match_dims(factors[1], second)

    return state._replace(
        momentum=sum_of(state.momentum, None if other is None else other.momentum),
        slack_momentum=sum_of(
            state.slack_momentum, None if other is None else other.slack_momentum
        ),
    )
