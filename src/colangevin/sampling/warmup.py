"""The warm-up, and what it finds: step size, friction and metric.

Three questions. Is the energy error of a step small? It is read from steps at the positions where
the chains are, so it has an answer from the beginning. How far do chains move before they forget
where they came from? Their draws say so, and how wide the law is. Do momenta and positions have
the temperature τ? That can be asked once the chains have settled.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from colangevin.errors import DivergenceError
from colangevin.sampling.chains import Chains
from colangevin.sampling.learning import Learner
from colangevin.sampling.microcanonical import Microcanonical
from colangevin.sampling.moves import Flow, Metropolis, refresh, verlet
from colangevin.sampling.readings import (
    configurational,
    energy_errors,
    longest_step,
    order_of,
    ratio,
)
from colangevin.sampling.tuning import Tuning

ADJUSTED = 0.25
"""Largest energy error of a step with a test, in τ: nine of ten are accepted then."""
REFUSED = 1.0 / 3.0
"""Largest root mean square of energy errors that a guard clips, over its bound."""
NORMAL_MEDIAN = 0.6745
"""Median of |x| for a standard normal x."""
ATTEMPTS = 40
LOWER = 0.7
"""Factor of a step size that has been found too large."""
ROUNDS = 4
HOT = 5.0
"""Standard deviations of a chain's kinetic temperature above τ: hotter chains are still falling."""
FAR = 10.0
"""Tolerances that a step within its bound does not exceed."""
THROWN = 100.0
"""τ per degree of freedom: a rise of the energy in a window that is no heat."""
THROWS = 8
"""How often a smaller step may follow. At a wall of infinite losses no step would be small enough,
and with a very small one no chain would meet the wall, so that nobody would hear of it."""
PAIRS = 20
"""Places where the energy errors of h and 4h are compared."""
ROUNDING = 32.0
"""Units of the last place that an energy may be wrong by."""
LONG = 0.25
"""Largest energy error of BAOAB in free weights, in τ per √(degree of freedom).

It has no bias in the positions of a Gaussian: a law that is nearly one allows long steps. What is
not, shows in the temperature of the positions."""
LONGER, ROUND = 0.5, 0.8
"""The same in the end, and with a test in τ, if the step is as long as that over the width of the
law: then no place is steeper than the width says. In a Gaussian 0.25 τ belong to a step of 1."""
ONE_SPEED = 0.01
"""The same at one speed and the default tolerance, by which variances of a Gaussian are then off.

Robnik and others have 0.022, where they are 3 % too large. They are off as h², and the error is as
h³, so it goes as tolerance^(3/2)."""
USUAL = 0.02
"""That tolerance."""
FAINT = 1e-5
"""What a force changes of a momentum in a step, over the momentum: less is rounding."""
STEEP = 0.02
"""A step that is shorter over the width of the law."""
WINDOWS = 40
"""Equal parts of a warm-up."""
SETTLING, LEARNING, AVERAGING, COMPARING = 6, (4, 6, 8), 6, 10
"""How many of them are for what; learning has three rounds."""


class WarmUp:
    """Brings chains to where they sample, and finds step size, friction and metric if not given.

    Args:
        chains: which.
        step: makes one step of all chains.
        tested: what makes the steps, if that is not the engine. If its test is exact, the energy
            error counts.
        tolerance: of the temperatures, relative.
        report: called with the number of steps made.
        metric: "auto", "dense" or "diagonal", where the chains have one.
        damping: whether the friction is to be found.
    """

    def __init__(
        self,
        chains: Chains,
        step: Callable[[], Tensor],
        tested: Metropolis | None,
        tolerance: float,
        report: Callable[[int], None],
        metric: str | None = None,
        damping: bool = False,
    ) -> None:
        self.chains, self._step, self._tested = chains, step, tested
        self._tolerance, self._report = tolerance, report
        self._whole = chains.target.source.whole
        self._throws = 0
        self._at_one_speed = isinstance(tested, Microcanonical)
        self._exact = tested is not None and tested.exact
        self._scale = 1.0 if self._exact else math.sqrt(chains.freedom)
        self._largest = math.inf if tested is None else tested.bound
        self._flow: Flow = verlet if tested is None else tested.flow
        # Below what clipped errors can reach at all, or every step would do.
        self._bound = min(self._allowed(), self._largest * REFUSED / self._scale)
        self._longest = math.inf
        weights = (lambda: chains.weights) if tested is None else tested.weights
        self._learner = Learner(chains, weights, metric, damping and self._whole)
        self.tuning = Tuning(chains.step_size)

    def _allowed(self) -> float:
        """The energy error that a step may have: what its bias in the positions allows."""
        if self._exact:
            return ADJUSTED
        chains = self.chains
        if self._at_one_speed:
            return ONE_SPEED * (self._tolerance / USUAL) ** 1.5
        unbiased = self._tested is None and chains.dynamics.scheme == "BAOAB"
        if unbiased and chains.has_momentum and self._whole and chains.is_free:
            return LONG
        return self._tolerance / 2.0

    # --- with a step size of the user ---------------------------------------------------------

    def plain(self, steps: int) -> Tuning:
        """Make the steps; learn the metric in the first half of them, if there is one."""
        learner, made = self._learner, 0
        learner.damping = False
        if learner.learns:
            every = learner.begin(1, steps // 2)
            while made < steps // 2:
                self._walk(every)
                learner.record()
                made += every
            if learner.learn_metric():
                self._refresh()
        if steps > made:
            self._walk(steps - made)
        return self._ended()

    def _walk(self, steps: int) -> None:
        for _ in range(steps):
            self._step()
            self._report(1)
        self._write()
        self.tuning.warmup += steps

    # --- without ------------------------------------------------------------------------------

    def tuned(self, steps: int) -> Tuning:
        """Find a step size in the warm-up, and what else is to be found.

        Of 40 windows 6 follow the energy error, 18 learn the metric and the friction in three
        rounds, 6 average the energy error, and 10 compare the temperatures, and are repeated with
        smaller steps while they are off.
        """
        self.tuning.chosen_by = "tuner"
        self._longest = longest_step(self.chains)
        self._search("energy error at the start")
        self._refresh()
        window = max(1, steps // WINDOWS)
        self._settle_in(SETTLING, window)
        for windows in LEARNING:
            self._learn(windows, window)
        self._refresh()  # of all, since only hot momenta were drawn anew
        every, found = self._learner.begin(AVERAGING, window), []
        for _ in range(AVERAGING):
            self._advance(window, every)
            found.append(self._errors(1))
        self._settle_on(self._rms(torch.cat(found)))
        self._damp()
        if self._exact:
            self._advance(COMPARING * window)
        else:
            self._compare(COMPARING * window)
        self._explain()
        return self._ended()

    def _ended(self) -> Tuning:
        chains, tuning = self.chains, self.tuning
        tuning.step_size, tuning.friction = chains.step_size, chains.friction
        tuning.metric = self._learner.kind if chains.metric_is_known else ""
        tuning.gradients = chains.gradients
        return tuning

    def _settle_in(self, windows: int, window: int, every: int = 0) -> None:
        """Follow the energy error."""
        for _ in range(windows):
            self._advance(window, every)
            self._cool()
            self._follow(1, 0.5)

    def _learn(self, windows: int, window: int) -> None:
        """A round: the draws of some windows give the metric and the friction of the next."""
        learner = self._learner
        self._settle_in(windows, window, learner.begin(windows, window) if learner.active else 0)
        self._damp()
        if not learner.learn_metric():
            return
        if learner.damping:
            self.chains.set_step_size(self.chains.step_size, 1.0)  # critical for a round law
        self._refresh()
        self._search("energy error with a new metric")

    def _damp(self) -> None:
        friction = self._learner.friction()
        if friction is not None:
            self.chains.set_step_size(self.chains.step_size, friction)
            self._settle()

    def _errors(self, readings: int, step_size: float | None = None) -> Tensor:
        h = self._verlet_step if step_size is None else step_size
        return energy_errors(self.chains, h, readings, self._flow)

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
        """A step that the guard refuses counts as its bound, one that fails as infinite.

        At one speed no error throws a chain out, so that rare large ones may be: there it is the
        median, times what makes it the same for normal errors.
        """
        sizes = errors.abs()
        if self._at_one_speed:
            return float(sizes.median()) / (NORMAL_MEDIAN * self._scale)
        counted = torch.where(sizes.isfinite(), sizes.clamp_max(self._largest), sizes)
        return float(counted.square().mean().sqrt()) / self._scale

    def _set(self, verlet_step: float, why: str) -> None:
        step = min(verlet_step, self._longest)
        h = step if self.chains.has_momentum else step**2 / 2.0
        self.chains.set_step_size(h)
        self._settle()
        self.tuning.tried.append((h, why))

    def _search(self, why: str) -> None:
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
        self._set(best, why)

    def _follow(self, readings: int, gain: float) -> None:
        error = self._rms(self._errors(readings))
        if not math.isfinite(error):
            self._set(self._verlet_step * LOWER, "a step failed")
            return
        factor = (self._bound / max(error, 1e-12)) ** (gain / 3)
        self._set(self._verlet_step * min(max(factor, 0.5), 1.5), "energy error")

    def _settle_on(self, error: float) -> None:
        factor = (self._bound / max(error, 1e-12)) ** (1 / 3) if math.isfinite(error) else LOWER
        known = self._learner.learns and self.chains.metric_is_known
        if known and self._bound in (LONG, ADJUSTED) and self._verlet_step * factor >= ROUND:
            self._bound, factor = LONGER, factor * (LONGER / LONG) ** (1 / 3)
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

    def _advance(self, steps: int, every: int = 0) -> None:
        """Make steps; if a chain diverges, go back and take half the step size.

        Args:
            steps: how many.
            every: how many there are between positions to learn from; 0 for none.
        """
        for _ in range(ATTEMPTS):
            back, kept = self.chains.snapshot(), self._learner.recorded
            losses = self._losses()
            try:
                for number in range(steps):
                    self._step()
                    if every and number % every == 0:
                        self._learner.record()
                self._check_thrown(losses)
            except DivergenceError as error:
                last = error
                back()
                self._learner.cut(kept)
                self._set(self._verlet_step / 2.0, "a chain diverged")
                continue
            self._write()
            self._report(steps)
            self.tuning.warmup += steps
            return
        raise last

    def _losses(self) -> Tensor | None:
        """U of the chains, where it is known and a chain may be thrown out of its law."""
        if not self._whole or self._at_one_speed or self._tested is not None:
            return None
        return self.chains.peek().losses.detach().double()

    def _check_thrown(self, before: Tensor | None) -> None:
        """A chain whose energy has risen far beyond the heat has diverged, if not to infinity yet.

        Raises:
            DivergenceError: if there is one.
        """
        after = self._losses()
        if before is None or after is None or self._throws >= THROWS:
            return
        rise = (after - before) / self.chains.temperatures
        if bool((rise > THROWN * max(1, self.chains.freedom)).any()):
            self._throws += 1
            raise DivergenceError(
                "a chain was thrown out of its law in the warm-up: the loss is very steep there; "
                "try dynamics='microcanonical'"
            )

    def _write(self) -> None:
        """Readings, fresh momenta and a change of step are of the engine's state."""
        if self._tested is not None:
            self._tested.write()

    # --- temperatures -------------------------------------------------------------------------

    def _compare(self, steps: int) -> None:
        """Lower the step until the temperatures agree.

        Their error grows as h². With all data a small step cannot put them far off: chains that
        have not settled do. Then a smaller step would only delay them.
        """
        for attempt in range(ROUNDS):
            self._read(steps)
            found = [r for r in (self.tuning.kinetic, self.tuning.configurational) if r is not None]
            off = [r for r in found if r.is_off(self._tolerance)]
            worst = max((abs(r.value - 1.0) for r in off), default=0.0)
            small = self._at_one_speed or self._rms(self._errors(1)) <= self._tolerance / 2.0
            far = self._whole and small and worst > FAR * self._tolerance
            if not off or far or self._at_one_speed or attempt == ROUNDS - 1:
                self.tuning.settled = not far if self._at_one_speed else not off
                return
            factor = math.sqrt(self._tolerance / worst) if math.isfinite(worst) else LOWER
            self._set(self._verlet_step * min(max(factor, LOWER / 2.0), LOWER), "temperatures off")

    def _read(self, steps: int) -> None:
        kinetic, squares, laplacians, pairs = [], [], [], []
        every = max(1, steps // 40)
        # Up to h where that is allowed to be near its stability.
        short = self._verlet_step / (4.0 if self._bound > self._tolerance else 1.0)
        for count, _ in enumerate(range(0, steps, every)):
            self._advance(every)
            kinetic.append(self.chains.kinetic_temperatures())
            if count < 2 * PAIRS and count % 2:
                pairs.append(torch.stack([self._errors(1, h) for h in (short, 4.0 * short)]))
            if self._whole:
                reading = configurational(self.chains)
                squares.append(reading.square)
                laplacians.append(reading.laplacian)
        taus, least = self.chains.temperatures, self._thermal_error(steps)
        if self.chains.has_momentum and self._flow is verlet:  # else it is τ by construction
            found = torch.stack(kinetic)
            self.tuning.kinetic = ratio(found / taus, torch.ones_like(found), least=least)
        scaled = torch.stack(laplacians) * taus if self._whole else taus
        if self._whole and not self._is_flat(torch.stack(squares)):
            self.tuning.configurational = ratio(torch.stack(squares), scaled, least=least)
        if pairs:
            self.tuning.order = order_of(torch.cat(pairs, dim=1), self._rounding())

    def _is_flat(self, squares: Tensor) -> bool:
        """Whether the force is rounding: then the positions have no temperature."""
        thermal = self.chains.temperatures * self.chains.freedom / self._verlet_step**2
        return bool((squares <= FAINT**2 * thermal).all())

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
        times = max(1.0, steps * chains.step_size * chains.friction / 2.0)
        return math.sqrt(2.0 / (max(1, chains.freedom) * len(chains) * times))

    def _explain(self) -> None:
        tuning = self.tuning
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
        steep = self.chains.metric_is_known and self._verlet_step < STEEP
        if self._learner.learns and steep and not self._at_one_speed:
            words.append(
                "the law is far steeper in places than its width says: try "
                "dynamics='microcanonical', whose steps are longer there"
            )
        if not tuning.settled:
            words.append("the chains have not settled: raise warmup")
        tuning.reason = "; ".join(words)
