"""Moves with an energy: the Verlet step on a manifold, and its Metropolis test.

The step is B/2, A, B/2: half a kick, the geodesic (or RATTLE), half a kick with the new gradient.
It is reversible and keeps the volume. With O before it and the momentum turned round where it is
refused, the density exp(−H/τ) is kept exactly (generalised hybrid Monte Carlo), whatever h is.
A projection may fail, or find another point on the way back; then the step is not reversible, and
is refused. Closed-form geodesics need no such check.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from colangevin.constraints import State
from colangevin.ensemble.data import TEST, random_bits
from colangevin.errors import ConvergenceError
from colangevin.integrators.pieces import advance
from colangevin.integrators.scheme import Action, Drift, Impulse
from colangevin.optimizers.step.noise import Noise
from colangevin.sampling.chains import Chains, Part, weights_of

FRESH = 1 << 20
"""Number of the draws that are no part of a step of the engine."""

HALF_KICK = Impulse(1.0, 0.5, None)


class Phase(NamedTuple):
    """Where the chains are, with the energy and the forces there.

    Attributes:
        states: of the parts.
        energy: U of each chain.
        forces: the gradients of the parts.
    """

    states: list[State]
    energy: Tensor
    forces: list[Tensor]


class Moved(NamedTuple):
    """A Verlet step.

    Attributes:
        phase: where it leads.
        good: the chains whose projections have converged and can be reversed.
        change: ΔH of each chain.
    """

    phase: Phase
    good: Tensor
    change: Tensor


def noise(chains: Chains, part: Part, number: int) -> Any:
    """A function that draws standard normals for a part: of seed, step and number alone."""
    steps = [chains.steps] * len(part.bucket.parameters)
    return Noise(part.bucket, chains.seeds, steps, number).draw


def fresh_momenta(
    chains: Chains, parts: Sequence[Part], states: Sequence[State], step_size: float, number: int
) -> list[State]:
    """The states with momenta from the Maxwell–Boltzmann law, in the engine's units."""
    made = []
    for part, state in zip(parts, states, strict=True):
        scale = part.bucket.per_member_shape(chains.temperatures.sqrt() / step_size)
        geometry = part.bucket.constraint
        draw = noise(chains, part, FRESH + number)
        vector = geometry.impulse(state, None, 0.0, scale, draw)
        drawn = state._replace(momentum=vector.main, slack_momentum=vector.slack)
        made.append(geometry.close(drawn))
    return made


@torch.no_grad()
def refresh(chains: Chains) -> None:
    """Give the chains momenta from the Maxwell–Boltzmann law."""
    if not chains.has_momentum:
        return
    parts = chains.parts()
    states = chains.states(parts, momentum=True)
    drawn = fresh_momenta(chains, parts, states, chains.step_size, 1 << 10)
    for part, state in zip(parts, drawn, strict=True):
        part.bucket.write(state)


def verlet(chains: Chains, parts: Sequence[Part], start: Phase, step_size: float) -> Moved:
    """One step B/2, A, B/2 of all chains, from momenta in the engine's units.

    A chain whose projection fails stays where it is and is marked.
    """
    good = torch.ones(len(chains), dtype=torch.bool)
    states = []
    for part, state, force in zip(parts, start.states, start.forces, strict=True):
        moved, fine = moved_along(part, state, force, _opening(step_size))
        states.append(moved)
        good &= fine
    energy, forces = chains.energies(parts, states)
    ended = []
    for part, state, force in zip(parts, states, forces, strict=True):
        geometry = part.bucket.constraint
        ended.append(geometry.close(advance(geometry, state, force, [HALF_KICK], None)))
    good = good & _reversible(parts, start, ended, forces, step_size)
    change = energy - start.energy
    unit = step_size**2
    change = change + unit * (chains.kinetic(parts, ended) - chains.kinetic(parts, start.states))
    return Moved(Phase(ended, energy, forces), good & change.isfinite(), change)


def _opening(step_size: float) -> tuple[Action, ...]:
    """B/2 and A."""
    return HALF_KICK, Drift(-(step_size**2))


def moved_along(
    part: Part, state: State, force: Tensor, actions: Sequence[Action]
) -> tuple[State, Tensor]:
    """A part after some actions, in new memory, as the start is needed; who has converged."""
    geometry, members = part.bucket.constraint, part.bucket.members
    assert members is not None
    try:
        moved = advance(geometry, state.map(torch.clone), force, actions, None)
        return moved, torch.ones(members, dtype=torch.bool)
    except ConvergenceError as error:
        if isinstance(error.rest, State) and error.failed is not None:
            return _rest(part, state, error)
    return without_failures(part, state, force, actions)


def _rest(part: Part, state: State, error: ConvergenceError) -> tuple[State, Tensor]:
    """What the chains have reached that did not fail; the others stay."""
    members = part.bucket.members or 1
    owner = part.bucket.per_member_shape(torch.arange(members)).flatten().long()
    good = torch.ones(members, dtype=torch.bool)
    good[owner[error.failed]] = False
    rows = good[owner]
    return _put(state, error.rest.map(lambda t: t[rows]), rows), good


def without_failures(
    part: Part, state: State, force: Tensor, actions: Sequence[Action]
) -> tuple[State, Tensor]:
    """The same for the chains that can; the others stay. In new memory, too."""
    geometry, members = part.bucket.constraint, part.bucket.members or 1
    owner = part.bucket.per_member_shape(torch.arange(members)).flatten().long()
    good = torch.ones(members, dtype=torch.bool)
    while bool(good.any()):
        rows = good[owner]
        chosen = state.map(lambda t, rows=rows: t[rows])  # type: ignore[misc]
        try:
            moved = advance(geometry, chosen, force[rows], actions, None)
        except ConvergenceError as error:
            failed = error.failed
            known = failed is not None and bool(failed.any())
            good[owner[rows][failed] if known else owner[rows]] = False
            continue
        return _put(state, moved, rows), good
    return state.map(torch.clone), good


def _put(state: State, part: State, rows: Tensor) -> State:
    found: list[Any] = []
    for whole, own in zip(state.tensors, part.tensors, strict=True):
        if whole is None or own is None:
            found.append(whole)
            continue
        filled = whole.clone()
        filled[rows] = own
        found.append(filled)
    return State._make([*found, part.outcome])


def _reversible(
    parts: Sequence[Part],
    start: Phase,
    ended: Sequence[State],
    forces: Sequence[Tensor],
    step_size: float,
) -> Tensor:
    """Whether the step from the end, with the momentum turned round, leads to the start."""
    members = parts[0].bucket.members
    assert members is not None
    good = torch.ones(members, dtype=torch.bool)
    for index, part in enumerate(parts):
        geometry, first = part.bucket.constraint, start.states[index]
        if not geometry.fallible:
            continue
        back, fine = moved_along(part, turned(ended[index]), forces[index], _opening(step_size))
        back = geometry.close(advance(geometry, back, start.forces[index], [HALF_KICK], None))
        tolerance = 1e-6 if first.position.dtype == torch.float64 else 1e-3
        good &= fine & (_distance(part, back, turned(first)) <= tolerance)
    return good


def _distance(part: Part, one: State, other: State) -> Tensor:
    """The largest difference of each chain, relative to the size of such tensors.

    The momentum counts too: a projection by another method may lead to a point from which the way
    back is open, with another momentum.
    """
    members = part.bucket.members or 1
    owner = part.bucket.per_member_shape(torch.arange(members)).flatten().long()
    worst = torch.zeros(members, dtype=other.position.dtype)
    for a, b in zip(one.tensors, other.tensors, strict=True):
        if a is not None and b is not None:
            size = b.abs().max().clamp_min(1e-30)
            gaps = ((a - b).abs() / size).reshape(len(a), -1).amax(dim=1)
            worst = worst.scatter_reduce(0, owner, gaps, "amax")
    return worst


def turned(state: State) -> State:
    """The state with its momentum turned round."""
    slack = None if state.slack_momentum is None else -state.slack_momentum
    assert state.momentum is not None
    return state._replace(momentum=-state.momentum, slack_momentum=slack)


Flow: TypeAlias = "Callable[[Chains, Sequence[Part], Phase, float], Moved]"
"""A step that can be made backwards, such as ``verlet``."""


class Metropolis:
    """Steps with a test: O, then a reversible step, accepted with probability min(1, e^{−ΔH/τ}).

    Args:
        chains: which move. Their potential must be of all data.
        flow: the step.

    Attributes:
        exact: whether the test removes the bias of the step.
        bound: energy error in τ beyond which every step is refused.
    """

    exact = True
    bound = math.inf

    def __init__(self, chains: Chains, flow: Flow = verlet) -> None:
        self.chains, self.flow, self._parts = chains, flow, chains.parts()
        self._phase: Phase | None = None
        self.accepted = torch.zeros(len(chains), dtype=torch.float64)
        self.tried = self.irreversible = 0

    @property
    def rates(self) -> Tensor:
        """The share of accepted steps of each chain."""
        return self.accepted / max(self.tried, 1)

    def forget(self) -> None:
        """Begin to count anew; the states are read from the engine."""
        self._phase, self._parts = None, self.chains.parts()
        self.accepted = torch.zeros(len(self.chains), dtype=torch.float64)
        self.tried = self.irreversible = 0

    @torch.no_grad()
    def step(self) -> Tensor:
        """One step of every chain; U before it, the prior included."""
        chains, parts = self.chains, self._parts
        if self._phase is None:
            states = chains.states(parts, momentum=True)
            closed = [p.bucket.constraint.close(s) for p, s in zip(parts, states, strict=True)]
            self._phase = Phase(closed, *chains.energies(parts, closed))
        before = self._phase
        start, moved = self._made(before)
        accept = self._decide(moved)
        self._phase = self._chosen(start, moved.phase, accept)
        self.accepted += accept.double()
        self.irreversible += int((~moved.good).sum())
        self.tried += 1
        chains.ensemble.steps += 1
        return before.energy

    def _made(self, before: Phase) -> tuple[Phase, Moved]:
        """Where the step begins, after O, and what it leads to."""
        states = [self._refresh(p, s) for p, s in zip(self._parts, before.states, strict=True)]
        start = before._replace(states=states)
        return start, self.flow(self.chains, self._parts, start, self.chains.step_size)

    def _refresh(self, part: Part, state: State) -> State:
        """O: p ← Π(e^{−γh} p + sqrt(τ(1 − e^{−2γh})) R)."""
        chains, geometry = self.chains, part.bucket.constraint
        step_size = chains.step_size
        decay = math.exp(-chains.friction * step_size)
        scale = chains.temperatures.sqrt() * (math.sqrt(1.0 - decay**2) / step_size)
        action = Impulse(decay, None, part.bucket.per_member_shape(scale))
        draw = noise(chains, part, 0)
        moved = advance(geometry, state.map(torch.clone), state.position, [action], draw)
        return geometry.close(moved)

    def _decide(self, moved: Moved) -> Tensor:
        chains = self.chains
        bits = random_bits(chains.seeds, TEST, chains.steps, 1).squeeze(1)
        level = ((bits >> 11) & (2**53 - 1)).double() * 2.0**-53
        chance = torch.exp((-moved.change / chains.temperatures).clamp_max(0.0))
        return moved.good & (level < chance)

    def _chosen(self, start: Phase, end: Phase, accept: Tensor) -> Phase:
        states, forces = [], []
        numbers = accept.double()
        for index, part in enumerate(self._parts):
            mask = part.bucket.per_member_shape(numbers) > 0.5
            back = turned(start.states[index])
            states.append(_either(mask, end.states[index], back))
            forces.append(torch.where(mask, end.forces[index], start.forces[index]))
        return Phase(states, torch.where(accept, end.energy, start.energy), forces)

    def write(self) -> None:
        """Give the states to the engine, which keeps weights and momenta."""
        if self._phase is None:
            return
        for part, state in zip(self._parts, self._phase.states, strict=True):
            part.bucket.write(state)
        self._phase = None  # read anew, as a run that is resumed does

    def weights(self) -> dict[str, Tensor]:
        """The chains' weights by name."""
        if self._phase is None:
            return self.chains.weights
        return weights_of(self._parts, self._phase.states)

    @property
    def losses(self) -> Tensor:
        """The loss of each chain, without the prior."""
        assert self._phase is not None
        losses = self._phase.energy - self.chains.prior(self._parts, self._phase.states)
        return self.chains.plain_losses(losses, self.weights())

    def statistics(self) -> dict[str, Tensor]:
        """What is recorded beside a draw."""
        return {"loss": self.losses}


class Guard(Metropolis):
    """Steps that are refused where their energy error is large, in either direction.

    The step back has the opposite error, so refusing is reversible as the step is, and keeps the
    volume: what small errors do to the density stays, jumps do not happen. Fewer steps are refused
    than by a Metropolis test, so that chains keep their direction.

    Args:
        chains: which move. Their potential must be of all data.
        bound: the largest |ΔH|, in τ.
        flow: the step.
    """

    exact = False

    def __init__(self, chains: Chains, bound: float, flow: Flow = verlet) -> None:
        super().__init__(chains, flow)
        self.bound = bound

    def _decide(self, moved: Moved) -> Tensor:
        return moved.good & (moved.change.abs() <= self.bound * self.chains.temperatures)

    def statistics(self) -> dict[str, Tensor]:
        """With the temperature of the momenta, which a guard does not keep exactly."""
        assert self._phase is not None
        kinetic = self.chains.temperature_of(self._parts, self._phase.states)
        return {**super().statistics(), "kinetic_temperature": kinetic}


class Untested(Metropolis):
    """Steps that are all made, but for those that lead nowhere: what is not finite is refused."""

    exact = False

    def _decide(self, moved: Moved) -> Tensor:
        return moved.good


def _either(mask: Tensor, one: State, other: State) -> State:
    found: list[Any] = []
    for a, b in zip(one.tensors, other.tensors, strict=True):
        if a is None or b is None:
            found.append(None)
            continue
        shaped = mask.reshape(-1, *[1] * (a.dim() - 1)) if mask.dim() != a.dim() else mask
        found.append(torch.where(shaped, a, b))
    return State._make([*found, None])
