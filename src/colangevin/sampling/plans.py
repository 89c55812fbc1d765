"""Plans: the arguments of a sampling, read and checked before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor

from colangevin import checks
from colangevin.integrators.scheme import parse
from colangevin.random import key_of
from colangevin.sampling.metrics import AUTO, DIAGONAL, FULL
from colangevin.sampling.priors import Prior, check_priors
from colangevin.sampling.stopping import read_until

Observable: TypeAlias = "Callable[[dict[str, Tensor]], Tensor]"
Factor: TypeAlias = "float | Sequence[float]"

LANGEVIN, MICROCANONICAL = "langevin", "microcanonical"
LARGE = 100_000
"""Free weights of a chain up to which a metric is learned without being asked for."""
DOWN = 4
"""Steps of a descent for each step of the warm-up, at most, if the user does not say."""


@dataclass(frozen=True)
class Plan:
    """The arguments of ``sample`` that are numbers, checked."""

    chains: int
    warmup: int
    draws: int
    thin: int
    temperature: Factor | None
    temperature_factor: Factor
    step_size: float | None
    friction: float | None
    scheme: str
    adjust: bool
    seed: int
    prior: Prior
    tolerance: float
    jitter: float
    memory: float
    descent: int | None = None
    guard: float | None = None
    metric: str | None = AUTO
    dynamics: str = LANGEVIN
    guess: float = 0.1
    until: str | None = None

    def __post_init__(self) -> None:
        for name, least in (("chains", 1), ("warmup", 0), ("draws", 1), ("thin", 1)):
            checks.count(name, getattr(self, name), least=least)
        if self.step_size is not None:
            checks.positive("step_size", self.step_size)
        elif self.warmup < 40:
            raise ValueError(
                f"the tuner needs a warmup of at least 40 steps, got {self.warmup}; or give "
                "step_size"
            )
        if self.friction is not None:
            checks.non_negative("friction", self.friction, infinite=True)
        if parse(self.scheme).adaptive:
            raise ValueError(f"scheme must be a word over A, B and O, got {self.scheme!r}")
        checks.flag("adjust", self.adjust)
        self._check_test()
        checks.seed("seed", self.seed)
        if isinstance(self.prior, Mapping):
            check_priors(self.prior)
        elif self.prior is not None:
            checks.positive("prior", self.prior)
        checks.positive("tolerance", self.tolerance)
        checks.positive("guess", self.guess)
        read_until(self.until)
        if self.metric is not None:
            checks.choice("metric", self.metric, (AUTO, FULL, DIAGONAL))
        checks.choice("dynamics", self.dynamics, (LANGEVIN, MICROCANONICAL))
        checks.non_negative("jitter", self.jitter)
        checks.positive("memory", self.memory)
        if self.descent is not None:
            checks.count("descent", self.descent, least=0)

    def _check_test(self) -> None:
        if self.guard is not None:
            checks.positive("guard", self.guard)
        if self.adjust and self.guard is not None:
            raise ValueError(f"adjust=True tests every step: leave guard None, got {self.guard!r}")
        if self.dynamics == MICROCANONICAL and self.friction == math.inf:
            raise ValueError("dynamics='microcanonical' needs a finite friction, got inf")
        if self.tests and self.scheme != "BAOAB":
            raise ValueError(
                f"{self.tests} has a step of its own, O and then B/2, A, B/2 with a test; leave "
                f"scheme as it is, got {self.scheme!r}"
            )

    @property
    def tests(self) -> str:
        """The argument that asks for steps outside of the engine; empty if none does."""
        if self.adjust or self.guard is not None:
            return "adjust=True" if self.adjust else "guard"
        return "dynamics='microcanonical'" if self.dynamics == MICROCANONICAL else ""

    @property
    def seeds(self) -> list[int]:
        """One per chain, none of which another seed shares."""
        return [key_of(self.seed, chain) >> 2 for chain in range(self.chains)]

    def temperatures(self, unit: float | None) -> list[float]:
        """τ of each chain.

        Args:
            unit: that of the Bayes posterior; None if the loss does not tell.

        Raises:
            ValueError: naming what is wrong.
        """
        if self.temperature is None and unit is None:
            raise ValueError(
                "temperature cannot be chosen: the loss is neither a mean nor a sum over the "
                "data. Give temperature=τ, where the density is exp(−loss/τ)"
            )
        base = unit if self.temperature is None else self.temperature
        found = [
            one * factor
            for one, factor in zip(
                self._column("temperature", base),
                self._column("temperature_factor", self.temperature_factor),
                strict=True,
            )
        ]
        for value in found:
            checks.positive("temperature", value)
        return found

    def _column(self, name: str, value: Any) -> list[float]:
        several = isinstance(value, (list, tuple)) or (isinstance(value, Tensor) and value.dim())
        column = [float(v) for v in value] if several else [checks.number(name, value)]
        if several and len(column) != self.chains:
            raise ValueError(f"{name} has {len(column)} values for {self.chains} chains")
        return column if several else column * self.chains

    def steps_down(self, fresh: bool) -> int:
        """Steps of the descent at most.

        Args:
            fresh: whether the chains start from weights that have seen no data, which there are.
        """
        if self.descent is not None:
            return self.descent
        return DOWN * self.warmup if fresh and self.step_size is None else 0

    def precision(self, unit: float | None) -> float:
        """The weight decay of a Gaussian prior N(0, prior²): the Bayes τ over its variance.

        Raises:
            ValueError: if the loss does not tell the Bayes τ.
        """
        if self.prior is not None and unit is None:
            raise ValueError("prior needs a loss that is a mean or a sum over the data")
        if self.prior is None or unit is None or isinstance(self.prior, Mapping):
            return 0.0
        return unit / float(self.prior) ** 2

    def damping(self, unit: float | None) -> float:
        """γ: as given; else critical for weights that only the prior holds, or 1 without one."""
        if self.friction is not None:
            return float(self.friction)
        return 2.0 * math.sqrt(self.precision(unit)) or 1.0

    def metric_up_to(self, whole: bool) -> float:
        """Free weights of a chain up to which there is a metric; 0 for none.

        A step of the user's is one in the weights' own units, and noise of mini-batches, which no
        covariance shows, has a scale of its own: there only who asks for a metric gets one.
        """
        if self.metric == AUTO:
            return LARGE if whole and self.step_size is None else 0.0
        return 0.0 if self.metric is None else math.inf

    def plain(self) -> dict[str, Any]:
        """What determines the draws, as values of JSON; more draws may be added later."""
        skip = ("draws", "until", "memory", "temperature", "temperature_factor")
        found = {k: v for k, v in vars(self).items() if k not in skip}
        if isinstance(self.prior, Mapping):
            found["prior"] = {pattern: str(own) for pattern, own in self.prior.items()}
        return {k: str(v) if v == math.inf else v for k, v in found.items()}


def check_observables(observables: Any, parameters: Sequence[str]) -> dict[str, Observable]:
    """Read the observables.

    Raises:
        ValueError, TypeError: for names that are taken, and what is no function.
    """
    if observables is None:
        return {}
    if not isinstance(observables, Mapping):
        raise TypeError(f"observables must be functions by name, got {type(observables).__name__}")
    for name, function in observables.items():
        if not isinstance(name, str) or not callable(function):
            raise TypeError(f"observables must be functions by name, got {name!r}: {function!r}")
        if name in parameters:
            raise ValueError(f"the observable {name!r} has the name of a parameter")
    return dict(observables)
