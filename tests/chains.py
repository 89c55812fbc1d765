"""Many independent chains as one batch, through the integrators or through the optimizer."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

import colangevin as cl
from colangevin.constraints import Constraint, State
from colangevin.integrators import Dynamics, advance, parse
from colangevin.optimizers.step.layout import MOMENTUM, SLACK, SLACK_MOMENTUM
from targets import batch_means_mcse

OVERDAMPED = "overdamped"
Observable = Callable[[State], Tensor]


class Target(NamedTuple):
    """A density exp(-U / temperature) on a manifold, and where every chain starts.

    The potential maps a batch of positions to one energy a chain; the constraint takes the
    leading dimension of a batch as its copies.
    """

    constraint: Constraint
    start: Tensor
    potential: Callable[[Tensor], Tensor]
    temperature: float = 1.0

    def batch(self, chains: int) -> Tensor:
        return self.start.double().expand(chains, *self.start.shape).clone()

    def gradient(self, position: Tensor) -> Tensor:
        leaf = position.detach().requires_grad_()
        return torch.autograd.grad(self.potential(leaf).sum(), leaf)[0]


class Run(NamedTuple):
    """How long to run: ``burn`` is thrown away, then every ``every`` units of time one sample."""

    word: str
    step: float
    burn: float
    samples: int
    every: float
    chains: int
    friction: float = 1.0

    def dynamics(self, temperature: float) -> Dynamics:
        """In the optimizer's units: lr = h overdamped, h^2 otherwise."""
        if self.word == OVERDAMPED:
            return Dynamics(self.step, 0.0, temperature, parse("OBA"))
        decay = math.exp(-self.friction * self.step)
        return Dynamics(self.step**2, decay, temperature, parse(self.word))

    def schedule(self) -> Iterator[int]:
        """Numbers of steps up to each sample."""
        yield round((self.burn + self.every) / self.step)
        for _ in range(self.samples - 1):
            yield round(self.every / self.step)


def normals(seed: int) -> Callable[[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return lambda like: torch.empty_like(like).normal_(generator=generator)


def at_rest(constraint: Constraint, position: Tensor, momentum: bool) -> State:
    slack = constraint.lift(position)
    if not momentum:
        return State(position, slack=slack)
    own = slack is not None and not constraint.elementwise
    return State(
        position,
        torch.zeros_like(position),
        slack,
        torch.zeros_like(slack) if own and slack is not None else None,
    )


def integrate(target: Target, run: Run, seed: int = 0) -> Iterator[State]:
    """Samples of the state; momenta are in the optimizer's units, v = -p / h."""
    position = target.batch(run.chains).clone()
    constraint = target.constraint.bind([position.shape])
    dynamics = run.dynamics(target.temperature)
    state = at_rest(constraint, position, momentum=not dynamics.is_overdamped)
    draw = normals(seed)
    first = True
    for steps in run.schedule():
        for _ in range(steps):
            actions = dynamics.actions(first)
            state = advance(constraint, state, target.gradient(state.position), actions, draw)
            first = False
        yield state.map(torch.clone)


def optimize(target: Target, run: Run, seed: int = 0) -> Iterator[State]:
    """The same through CoLA, with the sum of the chains' energies as the loss."""
    weight = torch.nn.Parameter(target.batch(run.chains))
    overdamped = run.word == OVERDAMPED
    optimizer = cl.CoLA(
        [weight],
        step_size=run.step,
        friction=math.inf if overdamped else run.friction,
        temperature=target.temperature,
        scheme="OBA" if overdamped else run.word,
        constraint=target.constraint,
        seed=seed,
    )
    for steps in run.schedule():
        for _ in range(steps):
            optimizer.zero_grad()
            target.potential(weight).sum().backward()
            optimizer.step()
        kept = optimizer.state[weight]
        slack, slack_momentum = kept.get(SLACK), kept.get(SLACK_MOMENTUM)
        yield State(weight.detach().clone(), kept.get(MOMENTUM), slack, slack_momentum)


class Estimate(NamedTuple):
    mean: float
    mcse: float

    def distance(self, value: float) -> float:
        """From a value, in Monte Carlo standard errors."""
        return abs(self.mean - value) / self.mcse

    def check(self, exact: float, *wrong: float) -> None:
        """Within 4 standard errors of the exact value, and at least 8 from each wrong one."""
        found = f"{self.mean:.5f} with a standard error of {self.mcse:.5f}"
        assert self.distance(exact) <= 4.0, f"found {found}, expected {exact:.5f}"
        for value in wrong:
            assert self.distance(value) >= 8.0, (
                f"{found} does not tell {exact:.5f} from {value:.5f}"
            )


def estimates(states: Iterable[State], observables: dict[str, Observable]) -> dict[str, Estimate]:
    """Means over times and chains; the chains are independent, so each is one batch."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in observables}
    for state in states:
        for name, observable in observables.items():
            found[name].append(observable(state).numpy())
    arrays = {name: np.stack(values) for name, values in found.items()}
    return {
        name: Estimate(float(array.mean()), batch_means_mcse(array, batches=1))
        for name, array in arrays.items()
    }
