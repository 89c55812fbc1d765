"""Chains: the members of an ensemble that sample, and their state as the geometries see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.func import vmap

from colangevin.constraints import Constraint, State, Unconstrained
from colangevin.constraints.base import rows_of
from colangevin.ensemble import Ensemble
from colangevin.ensemble.gradients import Found
from colangevin.ensemble.groups import MemberGroup, finite
from colangevin.ensemble.members import make
from colangevin.errors import ConvergenceError, DivergenceError
from colangevin.integrators.recipe import direction
from colangevin.optimizers import CoLA, parameter_groups
from colangevin.optimizers.step.bucket import Bucket
from colangevin.optimizers.step.execute import degrees_of_freedom
from colangevin.optimizers.step.layout import HALF, MOMENTUM, SLACK_MOMENTUM, STEP
from colangevin.sampling.metrics import Whitened
from colangevin.sampling.priors import penalty_of
from colangevin.sampling.targets import Target

Weights = dict[str, Tensor]
Step = Callable[[Found], None]


class Dynamics(NamedTuple):
    """How the chains move.

    Attributes:
        step_size: h.
        friction: γ.
        scheme: the word.
        temperatures: τ of each chain.
        precision: of the Gaussian prior of free weights in units of the loss, its weight decay.
        compile: as in ``Ensemble``.
        tuned: whether the step size is to be found, so that the user has chosen none.
        prior: distributions by pattern, besides.
        metric: numbers up to which the free weights have a metric; 0 for none.
    """

    step_size: float
    friction: float
    scheme: str
    temperatures: Sequence[float]
    precision: float
    compile: bool | None = None
    tuned: bool = False
    metric: float = 0.0
    prior: Mapping[str, Distribution] | None = None


class Part(NamedTuple):
    """A parameter of all chains, or several under a joint constraint.

    Attributes:
        bucket: where it lies.
        decay: its weight decay.
    """

    bucket: Bucket
    decay: float


class Chains:
    """The chains of a sampling.

    Args:
        target: what they sample.
        rules: the constraints by pattern.
        seeds: one per chain.
        dynamics: how they move.
    """

    def __init__(
        self,
        target: Target,
        rules: Mapping[Any, Constraint | None],
        seeds: Sequence[int],
        dynamics: Dynamics,
    ) -> None:
        self.target, self.dynamics = target, dynamics
        self.friction, self.gradients = dynamics.friction, 0
        own = Whitened()

        def method(module: nn.Module) -> CoLA:
            groups = parameter_groups(module, rules)
            for group in groups:
                free = isinstance(group.get("constraint") or Unconstrained(), Unconstrained)
                group["weight_decay"] = dynamics.precision if free else 0.0
            return CoLA(
                whitened(groups, own, dynamics.metric),
                step_size=dynamics.step_size,
                friction=dynamics.friction,
                temperature=dynamics.temperatures[0],
                scheme=dynamics.scheme,
                seed=seeds[0],  # the engine replaces it by each chain's own
            )

        # The seed is an argument of the factory: a chain's start is its own.
        factory = lambda seed: target.factory(seed)  # noqa: E731
        self._penalty = None
        if dynamics.prior is not None and target.unit is not None:
            names = [name for name, _ in make(factory, seeds[0]).named_parameters()]
            self._penalty = penalty_of(dynamics.prior, names, target.unit)
        self.ensemble = Ensemble(
            factory, seeds, method=method, penalty=self._penalty, compile=dynamics.compile
        )
        self.temperatures = torch.tensor(dynamics.temperatures, dtype=torch.float64)
        self.ensemble.set(temperature=list(dynamics.temperatures))
        self.step_size = dynamics.step_size
        held = any(bucket.constraint is own for group in self.groups for bucket in group.buckets)
        self.metric = own if held else None
        self._last: Found | None = None
        self._next: Found | None = None

    # --- what they are ------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.ensemble)

    @property
    def seeds(self) -> list[int]:
        """One per chain."""
        return self.ensemble.seeds

    @property
    def steps(self) -> int:
        """Steps made."""
        return self.ensemble.steps

    @property
    def weights(self) -> Weights:
        """The stacked parameters that are sampled, [chains, ...]: those of the engine."""
        return self.ensemble._learned

    @property
    def groups(self) -> list[MemberGroup]:
        """The parameter groups."""
        return self.ensemble._groups

    @property
    def has_momentum(self) -> bool:
        """Whether there are momenta: all but Euler–Maruyama's step have them."""
        return all(group.momentum for group in self.groups)

    @property
    def metric_is_known(self) -> bool:
        """Whether the free weights have a metric that was learned."""
        return self.metric is not None and self.metric.factor is not None

    @property
    def is_free(self) -> bool:
        """Whether no weight has a constraint."""
        buckets = [bucket for group in self.groups for bucket in group.buckets]
        return all(isinstance(bucket.constraint, Unconstrained) for bucket in buckets)

    @property
    def freedom(self) -> int:
        """Degrees of freedom of one chain, less the constraints."""
        return degrees_of_freedom([bucket for group in self.groups for bucket in group.buckets])

    def parts(self) -> list[Part]:
        """The parameters one by one, as buckets for one reading."""
        found = []
        for group in self.groups:
            decay = float(group.options[0]["weight_decay"])
            for bucket in group.buckets:
                found += [Part(own, decay) for own in bucket.singles()]
        return found

    def states(self, parts: Sequence[Part], momentum: bool) -> list[State]:
        """Copies of the states of the parts."""
        read = [part.bucket.look(self.ensemble._state, momentum) for part in parts]
        return [state.map(torch.clone) for state in read]

    # --- losses and gradients -----------------------------------------------------------------

    def slopes(self, weights: Weights | None = None) -> Found:
        """Losses and gradients on the batch of the present step."""
        target = self.target
        self.gradients += 1
        inputs, targets, shared = target.source.at(self.steps)
        return self.ensemble.slopes(target.loss, inputs, targets, shared=shared, weights=weights)

    def peek(self) -> Found:
        """The losses and gradients that the next step takes."""
        if self._next is None:
            self._next = self.slopes()
        return self._next

    def energies(
        self, parts: Sequence[Part], states: Sequence[State]
    ) -> tuple[Tensor, list[Tensor]]:
        """U of each chain, the prior included, and the gradients of the parts."""
        found = self.slopes(weights_of(parts, states))
        total = found.losses.detach().double() + self.prior(parts, states)
        forces = []
        for (bucket, decay), state in zip(parts, states, strict=True):
            slope = bucket.gather([finite(found.gradients[name]) for name in bucket.names])
            forces.append(direction(slope, state.position, decay))
        return total, forces

    def prior(self, parts: Sequence[Part], states: Sequence[State]) -> Tensor:
        """The weight decay's share of U, of each chain."""
        total = torch.zeros(len(self), dtype=torch.float64)
        for (bucket, decay), state in zip(parts, states, strict=True):
            if decay:
                squares = bucket.per_member(rows_of(state.position.square()))
                total = total + squares.double() * (decay / 2)
        return total

    def plain_losses(self, losses: Tensor, weights: Weights) -> Tensor:
        """The losses of the batch, without the distributions of a prior."""
        if self._penalty is None:
            return losses.detach().double()
        with torch.no_grad():
            return losses.detach().double() - vmap(self._penalty)(weights).double()

    def kinetic(self, parts: Sequence[Part], states: Sequence[State]) -> Tensor:
        """½|v|² of each chain, in the units of the engine: times h² it is the energy."""
        terms = [
            part.bucket.per_member(part.bucket.constraint.kinetic_terms(state)).double()
            for part, state in zip(parts, states, strict=True)
        ]
        return torch.stack(terms).sum(dim=0)

    @torch.no_grad()
    def kinetic_temperatures(self) -> Tensor:
        """pᵀp/N of each chain (3.38); NaN without momenta."""
        if not self.has_momentum:
            return torch.full((len(self),), torch.nan, dtype=torch.float64)
        parts = self.parts()
        return self.temperature_of(parts, self.states(parts, momentum=True))

    def temperature_of(self, parts: Sequence[Part], states: Sequence[State]) -> Tensor:
        """pᵀp/N of states."""
        return self.kinetic(parts, states) * (2.0 * self.step_size**2 / self.freedom)

    # --- moving -------------------------------------------------------------------------------

    def step(self) -> Tensor:
        """One step of every chain; the losses before it.

        Raises:
            DivergenceError: naming the chain; nothing has been changed.
        """
        found, self._next = self.peek(), None
        self.watch(found)
        try:
            self.ensemble.walk(found)
        except ConvergenceError as error:
            raise DivergenceError(
                f"a projection failed at step {self.steps}: {error}; {self._advice()}",
                step=self.steps,
                largest_gradient=largest(found.gradients),
            ) from error
        return found.losses.detach()

    def watch(self, found: Found) -> None:
        """Keep the gradients for a report, or make one if a loss is no longer finite.

        Raises:
            DivergenceError: naming the chain, the step and the largest gradient.
        """
        good = found.losses.isfinite()
        if bool(good.all()):
            self._last = found
            return
        bad = (~good).nonzero().flatten().tolist()
        chain = bad[0]
        size = float("nan") if self._last is None else largest(self._last.gradients, chain)
        raise DivergenceError(
            f"chain {chain} (seed {self.seeds[chain]}) diverged at step {self.steps} ({len(bad)} "
            f"of {len(self)} chains did): its loss is {float(found.losses[chain])}, the largest "
            f"entry of its last finite gradient was {size:.3g}. {self._advice()}",
            chain,
            self.steps,
            size,
        )

    def _advice(self) -> str:
        """What to do about a step that failed."""
        if not self.dynamics.tuned:
            return (
                f"Take a smaller step_size than {self.step_size:.3g} or leave it to the tuner "
                "(step_size=None), or give a prior"
            )
        return (
            f"The step_size, {self.step_size:.3g}, is the tuner's. So the loss is NaN or infinite "
            "in a part of the space, or too steep there for any step. Make it finite, keep the "
            "weights away by a constraint or a prior, or take adjust=True or guard=3.0, which "
            "refuse steps that lead there"
        )

    def set_temperature(self, factor: float) -> None:
        """Set every chain's temperature to its own times a factor."""
        self.ensemble.set(temperature=[float(t) * factor for t in self.temperatures])

    def set_step_size(self, step_size: float, friction: float | None = None) -> None:
        """Change h and keep the physical momenta: those of the engine are v = −p/h.

        Args:
            step_size: h.
            friction: γ; None leaves it.
        """
        ratio = self.step_size / step_size
        self.friction = self.friction if friction is None else friction
        self.ensemble._set_alike(step_size=step_size, friction=self.friction)
        for entry in self.ensemble._state.values():
            for key in (MOMENTUM, SLACK_MOMENTUM):
                if key in entry:
                    entry[key].mul_(ratio)
        self.step_size = step_size

    def forget(self) -> None:
        """The weights have been written from outside: gradients must be computed anew."""
        self._next = None

    # --- going back -----------------------------------------------------------------------------

    def snapshot(self) -> Callable[[], None]:
        """Remember where the chains are; a function that takes them back there."""
        ensemble, step_size, friction = self.ensemble, self.step_size, self.friction
        tensors = [*self.weights.values(), *ensemble._buffers.values(), *ensemble.state_tensors()]
        counts = [entry[STEP] for entry in ensemble._state.values()]
        kept = [tensor.clone() for tensor in (*tensors, *counts)]
        steps = ensemble.steps

        @torch.no_grad()
        def back() -> None:
            self.set_step_size(step_size, friction)
            for tensor, old in zip((*tensors, *counts), kept, strict=True):
                tensor.copy_(old)
            ensemble.steps = steps
            self.forget()

        return back

    # --- saving -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything that is needed to go on exactly."""
        return {
            "ensemble": self.ensemble.state_dict(),
            "step_size": self.step_size,
            "friction": self.friction,
            "metric": None if self.metric is None else self.metric.factor,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state_dict`` was taken."""
        self._next = None
        self.ensemble.load_state_dict(state["ensemble"])
        self.step_size, self.friction = float(state["step_size"]), float(state["friction"])
        if self.metric is not None:
            self.metric.load(state["metric"])


def whitened(
    groups: Sequence[dict[str, Any]], metric: Whitened, most: float
) -> list[dict[str, Any]]:
    """The groups with all free weights in one, which has the metric.

    They stay as they are where the free weights have masses of the user's, different types or
    half precision, or are more than ``most`` numbers.
    """
    kinds = (type(None), Unconstrained)
    free = [group for group in groups if type(group["constraint"]) in kinds]
    pairs = [
        (parameter, name)
        for group in free
        for parameter, name in zip(group["params"], group["names"], strict=True)
        if parameter.requires_grad and parameter.numel()
    ]
    params, names = [p for p, _ in pairs], [name for _, name in pairs]
    alike = len({(p.dtype, p.device) for p in params}) == 1 and params[0].dtype not in HALF
    if not alike or sum(p.numel() for p in params) > most:
        return list(groups)
    joint = {**free[0], "params": params, "names": names, "constraint": metric}
    return [*(group for group in groups if type(group["constraint"]) not in kinds), joint]


def weights_of(parts: Sequence[Part], states: Sequence[State]) -> Weights:
    """The positions by the parameters' names."""
    found: Weights = {}
    for part, state in zip(parts, states, strict=True):
        found.update(zip(part.bucket.names, part.bucket.scatter(state.position), strict=True))
    return found


def largest(gradients: Mapping[str, Tensor], chain: int | None = None) -> float:
    """The largest entry of the gradients, of one chain or of all.

    Example:
        >>> largest({"w": torch.tensor([[1.0], [-3.0]])}, 1)
        3.0
    """
    chosen = [g if chain is None else g[chain] for g in gradients.values()]
    return max(float(g.detach().abs().max()) for g in chosen if g.numel())
