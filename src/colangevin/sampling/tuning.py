"""The warm-up, and the step size that it finds.

Two questions. Is the energy error of a step small? It is read from Verlet steps at the positions
where the chains are, so it has an answer from the beginning. Do momenta and positions have the
temperature τ? That can be asked once the chains have settled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from colangevin.errors import DivergenceError
from colangevin.sampling.chains import Chains
from colangevin.sampling.moves import Metropolis, refresh
from colangevin.sampling.readings import (
    Ratio,
    configurational,
    energy_errors,
    longest_step,
    order_of,
    ratio,
)

ADJUSTED = 0.25
"""Largest energy error of a step with a test, in τ: nine of ten are accepted then."""
REFUSED = 1.0 / 3.0
"""Largest root mean square of energy errors that a guard clips, over its bound."""
ATTEMPTS = 40
LOWER = 0.7
"""Factor of a step size that has been found too large."""
ROUNDS = 4
HOT = 5.0
"""Standard deviations of a chain's kinetic temperature above τ: hotter chains are still falling."""
FAR = 10.0
"""Tolerances that a step within its bound does not exceed."""
PAIRS = 20
"""Places where the energy errors of h and 4h are compared."""
ROUNDING = 32.0
"""Units of the last place that an energy may be wrong by."""


@dataclass
class Tuning:
    """The step size of a sampling, and why.

    Attributes:
        step_size: h.
        chosen_by: "user" or "tuner".
        reason: in words.
        warmup: steps that the warm-up took.
        energy_error: root mean square of ΔH/τ per step and √(degree of freedom).
        kinetic: temperature of the momenta over τ, if it was read.
        configurational: temperature of the positions over τ, if it was read.
        tried: every step size that was used, with the reason for the change.
        settled: whether the temperatures agreed with τ in the end, as far as they were read.
        descent: steps of the optimisation before the warm-up.
        order: k if energy errors fall as h^k, 3 for a smooth potential; NaN if it was not read.
    """

    step_size: float
    chosen_by: str = "user"
    reason: str = "given by the user"
    warmup: int = 0
    energy_error: float = math.nan
    kinetic: Ratio | None = None
    configurational: Ratio | None = None
    tried: list[tuple[float, str]] = field(default_factory=list)
    settled: bool = True
    descent: int = 0
    order: float = math.nan

    def __str__(self) -> str:
        return f"step_size={self.step_size:.4g}: {self.reason}"

    def plain(self) -> dict[str, Any]:
        """As values of JSON."""
        found = dict(vars(self))
        for name in ("kinetic", "configurational"):
            found[name] = None if found[name] is None else list(found[name])
        return found

    @classmethod
    def read(cls, values: dict[str, Any]) -> Tuning:
        """Undo ``plain``."""
        made = dict(values)
        for name in ("kinetic", "configurational"):
            made[name] = None if made[name] is None else Ratio(*made[name])
        made["tried"] = [tuple(row) for row in made["tried"]]
        return cls(**made)


class WarmUp:
    """Brings chains to where they sample, and finds the step size if none is given.

    Args:
        chains: which.
        step: makes one step of all chains.
        tested: what tests the steps, if anything does. If it is exact, the energy error counts.
        tolerance: of the temperatures, relative.
        report: called with the number of steps made.
    """

    def __init__(
        self,
        chains: Chains,
        step: Callable[[], Tensor],
        tested: Metropolis | None,
        tolerance: float,
        report: Callable[[int], None],
    ) -> None:
        self.chains, self._step, self._tested = chains, step, tested
        self._tolerance, self._report = tolerance, report
        self._exact = tested is not None and tested.exact
        self._scale = 1.0 if self._exact else math.sqrt(chains.freedom)
        self._bound = ADJUSTED if self._exact else tolerance / 2.0
        self._largest = math.inf if tested is None else tested.bound
        # Below what clipped errors can reach at all, or every step would do.
        self._bound = min(self._bound, self._largest * REFUSED / self._scale)
        self._longest = math.inf
        self.tuning = Tuning(chains.step_size)

    # --- with a step size of the user ---------------------------------------------------------

    def plain(self, steps: int) -> Tuning:
        """Make the steps, and no more."""
        for _ in range(steps):
            self._step()
            self._report(1)
        self.tuning.warmup = steps
        return self.tuning

    # --- without ------------------------------------------------------------------------------

    def tuned(self, steps: int) -> Tuning:
        """Find a step size in the warm-up.

        The first half follows the energy error, the next quarter averages it, the last quarter
        compares the temperatures, and is repeated with smaller steps while they are off.
        """
        self.tuning.chosen_by = "tuner"
        self._longest = longest_step(self.chains)
        self._search()
        self._refresh()
        window = max(1, steps // 40)
        for _ in range(20):
            self._advance(window)
            self._cool()
            self._follow(1, 0.5)
        self._refresh()  # of all, since only hot momenta were drawn anew
        found = []
        for _ in range(10):
            self._advance(window)
            found.append(self._errors(1))
        self._settle_on(self._rms(torch.cat(found)))
        if self._exact:
            self._advance(10 * window)
            self._explain()
            return self.tuning
        self._compare(10 * window)
        self._explain()
        return self.tuning

    def _errors(self, readings: int, step_size: float | None = None) -> Tensor:
        h = self._verlet_step if step_size is None else step_size
        return energy_errors(self.chains, h, readings)

    @property
    def _verlet_step(self) -> float:
        """h of a Verlet step of the same reach: Euler–Maruyama's h is half its square."""
        h = self.chains.step_size
        return h if self.chains.has_momentum else math.sqrt(2.0 * h)

    def _settle(self) -> None:
        """After the engine's state was written: steps begin there."""
        if self._tested is not None:
            self._tested.forget()

    def _rms(self, errors: Tensor) -> float:
        """A step that the guard refuses counts as its bound, one that fails as infinite."""
        sizes = errors.abs()
        counted = torch.where(sizes.isfinite(), sizes.clamp_max(self._largest), sizes)
        return float(counted.square().mean().sqrt()) / self._scale

    def _set(self, verlet_step: float, why: str) -> None:
        step = min(verlet_step, self._longest)
        h = step if self.chains.has_momentum else step**2 / 2.0
        self.chains.set_step_size(h)
        self._settle()
        self.tuning.tried.append((h, why))

    def _search(self) -> None:
        """The largest step whose energy error is within its bound at the start."""
        h, best = min(self._verlet_step, self._longest), 0.0
        for _ in range(ATTEMPTS):
            error = self._rms(self._errors(2, h))
            factor = (self._bound / max(error, 1e-12)) ** (1 / 3) if math.isfinite(error) else 0.1
            if error <= self._bound:
                best = max(best, h)
            if best and (0.8 <= factor <= 1.6 or best == self._longest):
                break
            h = min(h * min(max(0.9 * factor, 0.1), 3.0), self._longest)
        if not best:
            raise DivergenceError(
                "no step size was found: even the smallest that was tried, "
                f"{h:.3g}, has an energy error of {error:.3g} τ per step; is the loss finite and "
                "differentiable around the start?"
            )
        self._set(best, "energy error at the start")

    def _follow(self, readings: int, gain: float) -> None:
        error = self._rms(self._errors(readings))
        if not math.isfinite(error):
            self._set(self._verlet_step / 2.0, "a step failed")
            return
        factor = (self._bound / max(error, 1e-12)) ** (gain / 3)
        self._set(self._verlet_step * min(max(factor, 0.5), 1.5), "energy error")

    def _settle_on(self, error: float) -> None:
        factor = (self._bound / max(error, 1e-12)) ** (1 / 3) if math.isfinite(error) else 0.5
        self._set(self._verlet_step * min(max(factor, 0.5), 1.5), "averaged energy error")

    def _cool(self) -> None:
        """Draw fresh momenta while chains fall.

        The heat of a fall would leave at the rate of the friction alone, and as long as the
        chains are hot the energy error asks for small steps.
        """
        if not self.chains.has_momentum:
            return
        hot = 1.0 + HOT * math.sqrt(2.0 / max(1, self.chains.freedom))
        if bool((self.chains.kinetic_temperatures() > hot * self.chains.temperatures).any()):
            self._refresh()

    def _refresh(self) -> None:
        refresh(self.chains)
        self._settle()

    def _advance(self, steps: int) -> None:
        """Make steps; if a chain diverges, go back and take half the step size."""
        for _ in range(ATTEMPTS):
            before = self.chains.state_dict()
            try:
                for _ in range(steps):
                    self._step()
            except DivergenceError as error:
                last = error
                self.chains.load_state_dict(before)
                self._set(self._verlet_step / 2.0, "a chain diverged")
                continue
            if self._tested is not None:
                # Readings, fresh momenta and a change of step are of the engine's state.
                self._tested.write()
            self._report(steps)
            self.tuning.warmup += steps
            return
        raise last

    # --- temperatures -------------------------------------------------------------------------

    def _compare(self, steps: int) -> None:
        """Lower the step until the temperatures agree.

        With all data a step within its bound cannot put them far off: chains that have not
        settled do. Then a smaller step would only delay them.
        """
        whole = self.chains.target.source.whole
        for attempt in range(ROUNDS):
            self._read(steps)
            found = [r for r in (self.tuning.kinetic, self.tuning.configurational) if r is not None]
            off = [r for r in found if r.is_off(self._tolerance)]
            if whole and any(abs(r.value - 1.0) > FAR * self._tolerance for r in off):
                self.tuning.settled = False
                return
            if not off or attempt == ROUNDS - 1:
                self.tuning.settled = not off
                return
            self._set(self._verlet_step * LOWER, "temperatures off")

    def _read(self, steps: int) -> None:
        kinetic, squares, laplacians, pairs = [], [], [], []
        every = max(1, steps // 40)
        whole = self.chains.target.source.whole
        for count, _ in enumerate(range(0, steps, every)):
            self._advance(every)
            kinetic.append(self.chains.kinetic_temperatures())
            if count < 2 * PAIRS and count % 2:
                h = self._verlet_step
                pairs.append(torch.stack([self._errors(1, h), self._errors(1, 4.0 * h)]))
            if whole:
                reading = configurational(self.chains)
                squares.append(reading.square)
                laplacians.append(reading.laplacian)
        taus, least = self.chains.temperatures, self._thermal_error(steps)
        if self.chains.has_momentum:
            found = torch.stack(kinetic)
            self.tuning.kinetic = ratio(found / taus, torch.ones_like(found), least=least)
        scaled = torch.stack(laplacians) * taus if whole else taus
        if whole and bool(scaled.any()):  # a flat potential has no such temperature
            self.tuning.configurational = ratio(torch.stack(squares), scaled, least=least)
        if pairs:
            self.tuning.order = order_of(torch.cat(pairs, dim=1), self._rounding())

    def _rounding(self) -> float:
        """How far an energy difference may be wrong by rounding, in τ."""
        chains = self.chains
        epsilon = max(torch.finfo(w.dtype).eps for w in chains.weights.values())
        sizes = chains.slopes().losses.detach().double().abs() / chains.temperatures
        return ROUNDING * epsilon * (float(sizes.max()) + chains.freedom)

    def _thermal_error(self, steps: int) -> float:
        """Of a temperature over so many steps: √(2/N) per chain and per time 2/γ of forgetting."""
        chains = self.chains
        if not chains.has_momentum:
            return 0.0
        times = max(1.0, steps * chains.step_size * chains.dynamics.friction / 2.0)
        return math.sqrt(2.0 / (max(1, chains.freedom) * len(chains) * times))

    def _explain(self) -> None:
        tuning = self.tuning
        tuning.step_size = self.chains.step_size
        tuning.energy_error = self._rms(self._errors(4))
        words = [f"energy error per step {tuning.energy_error:.3g} τ"]
        words[0] += " per √(degree of freedom)" if not self._exact else ""
        words[0] += f" (bound {self._bound:.3g})"
        for name, found in (
            ("kinetic", tuning.kinetic),
            ("configurational", tuning.configurational),
        ):
            if found is not None:
                words.append(f"{name} temperature {found} τ")
        if self._verlet_step >= self._longest:
            words.append("a longer step would turn back on the constraint")
        if not tuning.settled:
            words.append("the chains have not settled: raise warmup")
        tuning.reason = "; ".join(words)
