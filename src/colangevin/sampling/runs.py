"""A sampling that is under way: warm-up, draws, and where they are written."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from colangevin import checks
from colangevin.ensemble.gradients import OF_WEIGHTS
from colangevin.optimizers.step.noise import checksum
from colangevin.sampling import storage
from colangevin.sampling.chains import Chains
from colangevin.sampling.descent import Descent
from colangevin.sampling.locks import Lock
from colangevin.sampling.microcanonical import LEAST, Microcanonical, isokinetic
from colangevin.sampling.moves import Guard, Metropolis, Untested, refresh, verlet
from colangevin.sampling.plans import MICROCANONICAL, Plan
from colangevin.sampling.progress import Progress, Report, told
from colangevin.sampling.recording import Recorder
from colangevin.sampling.resuming import Reading, compare
from colangevin.sampling.stopping import is_look, read_until
from colangevin.sampling.targets import AllData, Loader, Points, Target
from colangevin.sampling.traces import Trace, check_model
from colangevin.sampling.tuning import Tuning
from colangevin.sampling.warmup import WarmUp

READINGS = 8
"""How often losses and observables are read before a run goes on: random ones differ."""


class Sampling:
    """A sampling that is under way.

    Args:
        plan: its numbers.
        target: what is sampled.
        chains: which move.
        recorder: makes the rows.
        schedule: of the temperature.
        batch_size: as given.
        path: the folder of the trace, if there is one. It is locked until ``complete`` ends.
        down: steps of the descent at most.
        watched: what a stopping rule looks at.

    Attributes:
        short: what to say if the draws ended before the stopping rule was reached.
    """

    def __init__(
        self,
        plan: Plan,
        target: Target,
        chains: Chains,
        recorder: Recorder,
        schedule: Callable[[int], float] | None,
        batch_size: int | None,
        path: str | os.PathLike[str] | None,
        down: int = 0,
        watched: Sequence[str] = (),
    ) -> None:
        self._down, self._watched = down, list(watched)
        self._until, self.short = read_until(plan.until), ""
        self.plan, self.target, self.chains, self.recorder = plan, target, chains, recorder
        self._schedule = schedule
        self._factor: float | None = 1.0
        self._tested = mover_of(plan, chains)
        self._path = None if path is None else Path(path)
        self._lock: Lock | None = None
        self.tuning = Tuning(chains.step_size)
        self._start = 0
        self.settings = {
            **plan.plain(),
            "temperatures": [float(t) for t in chains.temperatures],
            "batch_size": batch_size,
            "points": target.source.points,
            "reduction": target.reduction,
            "one_start": target.one_start,
            "scheduled": schedule is not None,
            "weights": checksum(chains.weights.values()),
            "data": _data_checksum(target),
        }
        self._fixed = {**chains.ensemble._frozen, **chains.ensemble._buffers}
        self._store: storage.Memory | storage.Folder = self._open()

    # --- stores -------------------------------------------------------------------------------

    def _open(self) -> storage.Memory | storage.Folder:
        """Make the store, or find the one to continue."""
        size = storage.size_of(self._probe())
        draws = self.plan.draws
        if self._path is None:
            if size * draws > self.plan.memory:
                raise ValueError(
                    f"the trace would take {size * draws / 1e9:.1f} GB, more than memory="
                    f"{self.plan.memory / 1e9:.1f} GB. Give path= to write it to disk, fewer draws "
                    "(thin= spreads them), or keep= for a part of the parameters"
                )
            return storage.Memory(draws)
        capacity = min(max(1, storage.LARGEST // size), -(-draws // storage.STRETCHES))
        storage.library()
        self._path.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(self._path)
        try:
            return self._folder(self._path, capacity)
        except BaseException:
            self._lock.release()  # an error may live longer than the sampling
            raise

    def _folder(self, path: Path, capacity: int) -> storage.Folder:
        """A new folder, or that of the same sampling."""
        if (path / "trace.json").exists():
            self._compare(path, storage.read_json(path))
            state = storage.read_state(path)
            if state is None:  # killed in the warm-up
                return storage.Folder(path, capacity)
            return self._resume(path, capacity, state)
        if any(path.glob("draws-*.safetensors")):
            raise ValueError(f"{path} has draws but no trace.json; take another path")
        if self._fixed:
            fixed = {name: tensor.contiguous() for name, tensor in self._fixed.items()}
            storage.library("torch").save_file(fixed, path / "fixed.safetensors")
        self._describe(0)
        return storage.Folder(path, capacity)

    def _probe(self) -> dict[str, Tensor]:
        """The row of the start: observables that fail do so before anything is computed."""
        empty = torch.zeros(len(self.chains), dtype=torch.float64)
        return self.recorder.row(self.chains.weights, {"loss": empty, "kinetic_temperature": empty})

    def _describe(self, draws: int) -> None:
        assert self._path is not None
        weights = self.chains.weights
        rates = self._rates
        values = {
            "format": storage.FORMAT,
            "version": storage.VERSION,
            "parameters": {name: list(tensor.shape[1:]) for name, tensor in weights.items()},
            "kept": self.recorder.kept,
            "observables": self.recorder.observables,
            "fixed": sorted(self._fixed),
            "settings": self.settings,
            "draws": draws,
            "tuning": self.tuning.plain() if self._start else None,
            "acceptance": rates,
        }
        storage.write_json(self._path / "trace.json", values)

    def _compare(self, path: Path, described: Mapping[str, Any]) -> None:
        """Refuse to continue another sampling.

        Raises:
            ValueError: naming what differs.
        """
        template = self.chains.ensemble._template
        check_model(described["parameters"], described["fixed"], template, str(path))
        if described["kept"] != self.recorder.kept:
            raise ValueError(f"{path} keeps other parameters: {described['kept']}")
        there = {**described["settings"], "observables": sorted(described["observables"])}
        here = {**self.settings, "observables": sorted(self.recorder.observables)}
        for name, value in here.items():
            if there.get(name) != value:
                raise ValueError(
                    f"{path} has a trace of another sampling: {name} was "
                    f"{there.get(name)!r} there and is {value!r} now. Take another "
                    "path, or the same arguments to continue"
                )

    @property
    def _rates(self) -> list[float] | None:
        """The share of accepted steps of each chain, if they are tested."""
        tests = self._tested is not None and not isinstance(self._tested, Untested)
        return self._tested.rates.tolist() if tests and self._tested is not None else None

    # --- states -------------------------------------------------------------------------------

    def _resume(self, path: Path, capacity: int, state: dict[str, Any]) -> storage.Folder:
        with storage.reading(path / "state.pt"):
            self.chains.load_state_dict(state["chains"])
            self.tuning, self._start = Tuning.read(state["tuning"]), int(state["start"])
            if self._tested is not None:
                self._tested.accepted = state["accepted"].clone()
                self._tested.tried = int(state["tried"])
            draws, last = int(state["draws"]), dict(state["last"])
        self._factor = None
        readings = [self._reading() for _ in range(READINGS)]
        compare(last, readings, self.chains, path)
        return storage.Folder(path, capacity, draws, cut=self.plan.draws > draws)

    def _state(self) -> dict[str, Any]:
        if self._tested is not None:
            self._tested.write()
        found = {
            "chains": self.chains.state_dict(),
            "tuning": self.tuning.plain(),
            "start": self._start,
            "draws": self._store.draws,
            "last": self._reading(),
        }
        if self._tested is not None:
            found |= {"accepted": self._tested.accepted.clone(), "tried": self._tested.tried}
        return found

    def _reading(self) -> Reading:
        """What the loss and the observables are where the engine is."""
        if self._tested is not None:
            self.chains.forget()  # its steps are not the engine's
        found: Reading = {"loss": self.chains.peek().losses.detach().double()}
        if isinstance(self.target.source, Loader):
            found["batch"] = checksum(_tensors(self.target.source.at(self.chains.steps)))
        return {**found, **self.recorder.observed(self.chains.weights)}

    # --- the run ------------------------------------------------------------------------------

    def complete(self, progress: Progress) -> Trace:
        """Warm up, draw, and return the trace.

        An error has an attribute ``trace`` with what was drawn before it.
        """
        plan = self.plan
        try:
            steps = self._down + plan.warmup + plan.draws * plan.thin
            with told(progress, steps) as report:
                if not self._start:
                    self._warm_up(report)
                while not self._enough(report):
                    self._draw()
                    report(plan.thin)
            self._save()
        except BaseException as error:
            if self._store.draws:
                error.trace = self.trace()  # type: ignore[attr-defined]
            raise
        finally:
            if self._lock is not None:
                self._lock.release()
        return self.trace()

    def _enough(self, report: Report) -> bool:
        """Whether there are as many draws as were asked for, or as the stopping rule needs."""
        draws, until = self._store.draws, self._until
        ended = draws >= self.plan.draws
        if until is None or not (is_look(draws) or ended):
            return ended
        found = until.reading(self.trace().summary(0, self._watched), self._watched)
        report(0, f"{until.kind} {found:.4g} of {until.bound:g}")
        reached = until.reached(found)
        if ended and not reached:
            words = f"until={str(until)!r} was not reached in {draws} draws: it is {found:.4g}"
            self.short = f"{words}. Raise draws"
        return reached or ended

    def _step(self) -> Tensor:
        return self.chains.step() if self._tested is None else self._tested.step()

    def _warm_up(self, report: Report) -> None:
        plan, tested = self.plan, self._tested
        made = Descent(self.chains, report).run(self._down) if self._down else 0
        if plan.dynamics == MICROCANONICAL:
            refresh(self.chains)  # at rest there is no direction to keep
        warm = WarmUp(
            self.chains, self._step, tested, plan.tolerance, report, plan.metric,
            plan.friction is None,
        )  # fmt: skip
        if plan.step_size is None:
            self.tuning = warm.tuned(plan.warmup)
        else:
            self.tuning = warm.plain(plan.warmup)
        self.tuning.descent = made
        if tested is not None:
            tested.write()
            tested.forget()
        self._start = max(self.chains.steps, 1)
        if isinstance(self._store, storage.Folder):
            self._describe(0)
            self._store.flush(self._state())

    def _draw(self) -> None:
        for _ in range(self.plan.thin):
            self._cool()
            self._step()
        weights = self.chains.weights if self._tested is None else self._tested.weights()
        self._store.append(self.recorder.row(weights, self._statistics()))
        if isinstance(self._store, storage.Folder) and self._store.full:
            self._save()

    def _statistics(self) -> dict[str, Tensor]:
        if self._tested is not None:
            return self._tested.statistics()
        chains = self.chains
        found = {"loss": chains.plain_losses(chains.peek().losses, chains.weights)}
        if chains.has_momentum:
            found["kinetic_temperature"] = chains.kinetic_temperatures()
        return found

    def _cool(self) -> None:
        if self._schedule is None:
            return
        step = self.chains.steps - self._start
        factor = checks.non_negative(f"schedule({step})", self._schedule(step))
        if factor != self._factor:
            self.chains.set_temperature(factor)
            self._factor = factor

    def _save(self) -> None:
        """Write what is not written yet."""
        store = self._store
        if isinstance(store, storage.Folder) and store.draws > store.saved:
            store.flush(self._state())
            self._describe(store.saved)

    def trace(self) -> Trace:
        """What has been drawn so far, and was asked for."""
        rates = self._rates
        template = copy.deepcopy(self.chains.ensemble._template)
        for name in ("forward", OF_WEIGHTS):  # a potential stood in its place
            template.__dict__.pop(name, None)
        store: storage.Store = self._store
        if self._store.draws > self.plan.draws:
            store = storage.First(self._store, self.plan.draws)
        return Trace(store, self.settings, self.tuning, rates, template, self._fixed)


def mover_of(plan: Plan, chains: Chains) -> Metropolis | None:
    """What makes the steps; None for the engine.

    Raises:
        ValueError: if the chains cannot move so.
    """
    flow = verlet
    if plan.dynamics == MICROCANONICAL:
        flow = isokinetic
        if chains.freedom < LEAST:
            raise ValueError(
                f"dynamics='microcanonical' needs at least {LEAST} degrees of freedom, got "
                f"{chains.freedom}"
            )
        if plan.adjust and any(part.bucket.constraint.fallible for part in chains.parts()):
            raise ValueError(
                "adjust=True with dynamics='microcanonical' needs geodesics in closed form: the "
                "projections of Orthogonal and General keep the speed only about"
            )
    if plan.adjust:
        return Metropolis(chains, flow)
    if plan.guard is not None:
        return Guard(chains, plan.guard, flow)
    return Microcanonical(chains) if flow is isokinetic else None


def _tensors(points: Points) -> list[Tensor]:
    return [t for t in (points.inputs, points.targets) if t.dtype is not torch.bool]


def _data_checksum(target: Target) -> int | None:
    if not isinstance(target.source, AllData) or target.reduction == "potential":
        return None
    return checksum(_tensors(target.source.at(0)))
