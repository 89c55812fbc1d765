"""The way down: before chains sample, they look for weights that fit the data.

From random weights a network may have thousands of τ more energy than the posterior has. Dynamics
at the temperature τ come down slowly, and with a step that the steepest place allows. Adam's
directions, with a projection after each step, come down fast. They end where less is gained than
what the temperature gives back: in equilibrium U is about d τ/2 above its minimum for d degrees of
freedom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from colangevin.constraints import State
from colangevin.errors import ConvergenceError
from colangevin.integrators.pieces import advance
from colangevin.integrators.scheme import Action, Overdamped
from colangevin.sampling.chains import Chains, Part
from colangevin.sampling.moves import without_failures

RATE = 0.05
"""The first step, relative to the weights' root mean square."""
LOWER = 0.3
"""Factor of the step where a stretch has gained little."""
STRETCHES = 20
"""Stretches of a descent, after each of which the gain is looked at."""
LITTLE = 0.1
"""Of the thermal energy d τ/2: a smaller gain of a stretch is little."""
ENDS = 3
"""Stretches with little gain, each with a smaller step, after which the descent ends."""


class Adam:
    """Adam's directions for the parts, each entry by itself.

    Example:
        >>> adam = Adam()
        >>> bool((adam([torch.tensor([3.0, -0.1])])[0].abs() - 1.0).abs().max() < 1e-6)
        True
    """

    def __init__(self, first: float = 0.9, second: float = 0.999) -> None:
        self._rates, self._count = (first, second), 0
        self._means: list[Tensor] = []
        self._squares: list[Tensor] = []

    def __call__(self, forces: Sequence[Tensor]) -> list[Tensor]:
        """The directions, from the gradients."""
        if not self._means:
            self._means = [torch.zeros_like(f) for f in forces]
            self._squares = [torch.zeros_like(f) for f in forces]
        self._count += 1
        first, second = self._rates
        found = []
        for mean, square, force in zip(self._means, self._squares, forces, strict=True):
            mean.lerp_(force, 1.0 - first)
            square.lerp_(force.square(), 1.0 - second)
            size = (square / (1.0 - second**self._count)).sqrt_().add_(1e-12)
            found.append(mean / (1.0 - first**self._count) / size)
        return found


class Descent:
    """Leads chains to weights that fit the data.

    Args:
        chains: which.
        report: called with the number of steps made.
    """

    def __init__(self, chains: Chains, report: Callable[[int], None]) -> None:
        self.chains, self._report = chains, report
        self._parts = chains.parts()
        self.steps = 0

    @torch.no_grad()
    def run(self, steps: int) -> int:
        """Make at most so many steps; return how many were made.

        The last weights are given to the engine; its momenta stay as they were.
        """
        chains, parts = self.chains, self._parts
        states = chains.states(parts, momentum=False)
        stretch, adam, rate = max(1, steps // STRETCHES), Adam(), RATE * _size(states)
        little = LITTLE * chains.freedom / 2.0 * chains.temperatures
        best, poor = torch.full((len(chains),), torch.inf, dtype=torch.float64), 0
        while self.steps + stretch <= steps and poor < ENDS:
            found, energy = self._stretch(states, adam, rate, stretch)
            if not bool(energy.isfinite().all()):
                adam, rate, poor = Adam(), rate * LOWER, poor + 1
                continue
            states = found
            if bool((best - energy < little).all()):
                rate, poor = rate * LOWER, poor + 1
            best = torch.minimum(best, energy)
        for part, state in zip(parts, states, strict=True):
            part.bucket.write(state)
        chains.forget()
        return self.steps

    def _stretch(
        self, states: list[State], adam: Adam, rate: float, steps: int
    ) -> tuple[list[State], Tensor]:
        """So many steps; the new states, and the mean of U on the way."""
        chains, total = self.chains, torch.zeros(len(self.chains), dtype=torch.float64)
        for _ in range(steps):
            energy, forces = chains.energies(self._parts, states)
            total += energy
            action = Overdamped(rate, None, cold=True)
            states = [
                _moved(part, state, direction, action)
                for part, state, direction in zip(self._parts, states, adam(forces), strict=True)
            ]
            chains.ensemble.steps += 1
        self.steps += steps
        self._report(steps)
        return states, total / steps


def _moved(part: Part, state: State, direction: Tensor, action: Action) -> State:
    """A step along a direction; chains whose projection fails stay."""
    try:
        return advance(part.bucket.constraint, state.map(torch.clone), direction, [action], None)
    except ConvergenceError:
        return without_failures(part, state, direction, [action])[0]


def _size(states: Sequence[State]) -> float:
    """The root mean square of all weights; 1 if all are zero."""
    squares = sum(float(state.position.double().square().sum()) for state in states)
    count = sum(state.position.numel() for state in states)
    return (squares / max(1, count)) ** 0.5 or 1.0
