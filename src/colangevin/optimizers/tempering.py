"""Simulated tempering: the temperature is a random variable on a ladder."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin import checks
from colangevin.optimizers.cola import CoLA
from colangevin.optimizers.options import is_adaptive
from colangevin.optimizers.step.layout import MOMENTUM, SLACK_MOMENTUM
from colangevin.random import key_of

SLOW = 0.6
"""The first half of the burn-in learns at the rate n^−0.6, the second at 1/n."""
COUNTS = ("rung", "steps", "moves", "accepted")
LISTS = ("visits", "log_weights", "temperatures")
"""What is saved."""


class SimulatedTempering:
    """Moves an optimizer up and down a ladder of temperatures, so that it leaves minima.

    Weights q and rung k are sampled together, from exp(g_k − U(q)/τ_k), where U is the loss on
    all data and the weight decay's λ|q|²/2. Every few steps a neighbour k' of the rung is
    proposed and accepted with the probability min(1, exp(g_k' − g_k − U/τ_k' + U/τ_k)). Momenta
    are multiplied by sqrt(τ_k'/τ_k). So the weights that are seen while ``rung`` is 0 are samples
    at the lowest temperature, and they come from all the minima that the hottest rung can reach.
    With BAOAB the last half kick of a step waits for the next gradient, so the momenta are
    multiplied before it: an error of order h in a momentum, at accepted moves only.

    The numbers g make all rungs equally frequent. They are learnt in the burn-in, from the
    probabilities of the rungs at the present U (self-adjusted mixture sampling), and then stay
    fixed: only what comes after it counts as a sample.

    Args:
        optimizer: its groups all get the temperature of the rung; it begins at the lowest.
        temperatures: the ladder, at least two, positive and ascending. Neighbours should be so
            near that about a third of the moves is accepted.
        every: steps from one proposal to the next.
        burn_in: proposals in which g is learnt; 0 keeps ``log_weights`` from the beginning.
        log_weights: g to begin with, one per rung; 0 by default.
        seed: of the proposals.

    Attributes:
        temperatures: the ladder.
        rung: where it is, from 0.
        log_weights: g.
        visits: how often a proposal found it at each rung, after the burn-in.
        accepted: accepted proposals after the burn-in.
        moves: proposals so far.

    Raises:
        ValueError, TypeError: naming the argument, its value and what is allowed.

    Example:
        >>> import colangevin as cl
        >>> weight = torch.nn.Parameter(torch.zeros(1))
        >>> optimizer = cl.CoLA([weight], lr=0.01, momentum=0.9, seed=0)
        >>> tempering = SimulatedTempering(optimizer, [0.1, 0.2, 0.4], every=5, burn_in=20)
        >>> for _ in range(200):
        ...     optimizer.zero_grad()
        ...     weight.square().sum().backward()
        ...     optimizer.step()
        ...     rung = tempering.step(lambda: weight.square().sum())
        >>> tempering.moves, optimizer.param_groups[0]["temperature"] in tempering.temperatures
        (40, True)
    """

    def __init__(
        self,
        optimizer: CoLA,
        temperatures: Sequence[float],
        *,
        every: int = 10,
        burn_in: int = 1000,
        log_weights: Sequence[float] | None = None,
        seed: int = 0,
    ) -> None:
        _check_optimizer(optimizer)
        self._optimizer = optimizer
        ladder = [checks.positive("temperatures", value) for value in temperatures]
        if len(ladder) < 2 or any(b <= a for a, b in itertools.pairwise(ladder)):
            raise ValueError(f"temperatures must be at least two, ascending, got {ladder}")
        self.temperatures = ladder
        self.every = checks.count("every", every)
        self.burn_in = checks.count("burn_in", burn_in, least=0)
        self.log_weights = self._checked_weights(log_weights)
        self._seed = checks.seed("seed", seed)
        self.visits = [0] * len(self.temperatures)
        self.rung = self.steps = self.moves = self.accepted = 0
        self._set_temperature()

    @property
    def temperature(self) -> float:
        """That of the rung."""
        return self.temperatures[self.rung]

    @property
    def adapting(self) -> bool:
        """Whether g is still learnt."""
        return self.moves < self.burn_in

    def step(self, loss: float | Tensor | Callable[[], float | Tensor]) -> int:
        """Count a step of the optimizer; call it after each ``optimizer.step()``.

        Args:
            loss: the loss on all data at the present weights, or a function that evaluates it,
                which is called for proposals only. The noise of a mini-batch would count as heat.

        Returns:
            The rung.

        Raises:
            ValueError, TypeError: if the loss is no finite number. Nothing has been changed then.
        """
        if (self.steps + 1) % self.every:
            self.steps += 1
            return self.rung
        energy = self._energy(loss)
        self.steps += 1
        old, new = self.rung, self.rung + (1 if self._uniform(0) <= 0.5 else -1)
        if 0 <= new < len(self.temperatures):  # beyond an end of the ladder it is refused
            logits = self._logits(energy)
            accept = math.log(self._uniform(1)) < logits[new] - logits[old]
            if accept:
                self.rung = new
                self._rescale(math.sqrt(self.temperatures[new] / self.temperatures[old]))
                self._set_temperature()
            self.accepted += accept and not self.adapting
        self._learn(energy)
        self.moves += 1
        return self.rung

    # --- moves ------------------------------------------------------------------------------

    def _energy(self, loss: float | Tensor | Callable[[], float | Tensor]) -> float:
        """U: the loss and the weight decay."""
        with torch.no_grad():
            value = loss() if callable(loss) else loss
            energy = checks.number("loss", value)
            for group in self._optimizer.param_groups:
                if decay := float(group["weight_decay"]):
                    squares = sum(float(p.square().sum()) for p in group["params"])
                    energy += decay * squares / 2
        if not math.isfinite(energy):
            raise ValueError(f"loss must be finite, got {energy}")
        return energy

    def _logits(self, energy: float) -> list[float]:
        """Logarithms of the rungs' probabilities at an energy, up to a constant."""
        return [g - energy / t for g, t in zip(self.log_weights, self.temperatures, strict=True)]

    def _uniform(self, draw: int) -> float:
        """A number above 0 and up to 1: a function of the seed and the count of proposals."""
        return ((key_of(self._seed, self.moves, draw) & (2**53 - 1)) + 1) * 2.0**-53

    def _learn(self, energy: float) -> None:
        if not self.adapting:
            self.visits[self.rung] += 1
            return
        count, early = self.moves + 1, self.burn_in // 2
        rate = count**-SLOW if count <= early else 1.0 / (count - early + early**SLOW)
        chances = torch.tensor(self._logits(energy), dtype=torch.float64).softmax(0).tolist()
        gain = min(1.0, rate * len(chances))
        moved = [g - gain * chance for g, chance in zip(self.log_weights, chances, strict=True)]
        self.log_weights = [g - moved[0] for g in moved]

    def _rescale(self, factor: float) -> None:
        """Momenta of the old temperature become momenta of the new one."""
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                entry = self._optimizer.state.get(parameter, {})
                for key in (MOMENTUM, SLACK_MOMENTUM):
                    if key in entry:
                        entry[key].mul_(factor)

    def _set_temperature(self) -> None:
        for group in self._optimizer.param_groups:
            group["temperature"] = self.temperature

    # --- saving -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Counts, rung and g; save it with the optimizer's state dict."""
        return {
            **{key: getattr(self, key) for key in COUNTS},
            **{key: list(getattr(self, key)) for key in LISTS},
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where ``state_dict`` was taken; load the optimizer's state dict, too.

        Raises:
            ValueError, TypeError: if it is of another ladder. Nothing has been changed then.
        """
        missing = [key for key in (*COUNTS, *LISTS) if key not in state_dict]
        if missing:
            raise ValueError(
                f"no state dict of a SimulatedTempering: it has no {' and no '.join(missing)}"
            )
        if list(state_dict["temperatures"]) != self.temperatures:
            raise ValueError(
                f"the state dict has the temperatures {state_dict['temperatures']}, "
                f"this ladder has {self.temperatures}"
            )
        counts = {key: checks.count(key, state_dict[key], least=0) for key in COUNTS}
        visits = [checks.count("visits", value, least=0) for value in state_dict["visits"]]
        weights = self._checked_weights(state_dict["log_weights"])
        for name, length in (("rung", counts["rung"] + 1), ("visits", len(visits))):
            if length > len(self.temperatures):
                raise ValueError(f"{name} of the state dict is beyond the ladder: {length}")
        for key, value in counts.items():
            setattr(self, key, value)
        self.visits, self.log_weights = visits, weights
        self._set_temperature()

    def _checked_weights(self, values: Sequence[float] | None) -> list[float]:
        if values is None:
            return [0.0] * len(self.temperatures)
        found = [checks.number("log_weights", value) for value in values]
        if len(found) != len(self.temperatures) or not all(map(math.isfinite, found)):
            raise ValueError(
                f"log_weights must be {len(self.temperatures)} finite numbers, one per "
                f"temperature, got {list(values)}"
            )
        return found


def _check_optimizer(optimizer: object) -> None:
    if not isinstance(optimizer, CoLA):
        raise TypeError(f"optimizer must be a CoLA, got {optimizer!r}")
    if any(is_adaptive(group) for group in optimizer.param_groups):
        raise ValueError(
            "simulated tempering needs thermostat='langevin': the law of an adaptive friction "
            "depends on the temperature"
        )
