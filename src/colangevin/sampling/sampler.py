"""Sampling as people do it: from a loss to a trace in one call."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from colangevin import checks
from colangevin.constraints import Constraint
from colangevin.ensemble import Ensemble
from colangevin.optimizers.noise import checksum
from colangevin.sampling import storage
from colangevin.sampling.chains import Chains, Dynamics
from colangevin.sampling.descent import Descent
from colangevin.sampling.moves import Guard, Metropolis
from colangevin.sampling.plans import Factor, Observable, Plan, check_observables
from colangevin.sampling.recording import Recorder
from colangevin.sampling.targets import AllData, Factory, Target, target_of
from colangevin.sampling.traces import Trace, check_model
from colangevin.sampling.tuning import Tuning, WarmUp

LONG = 20_000
"""Steps from which on the gradients are compiled, which takes some seconds."""
FIRST = 0.1
"""Where the search for a step size begins."""


def sample(
    model: nn.Module | Factory | Ensemble,
    loss: Callable[..., Tensor],
    data: Any = None,
    rules: Mapping[Any, Constraint | None] | None = None,
    chains: int = 4,
    warmup: int = 500,
    draws: int = 1000,
    thin: int = 1,
    temperature: Factor | None = None,
    step_size: float | None = None,
    friction: float | None = None,
    scheme: str = "BAOAB",
    batch_size: int | None = None,
    adjust: bool = False,
    observables: Mapping[str, Observable] | None = None,
    seed: int = 0,
    *,
    prior: float | None = None,
    temperature_factor: Factor = 1.0,
    schedule: Callable[[int], float] | None = None,
    tolerance: float = 0.02,
    jitter: float = 0.1,
    guard: float | None = None,
    descent: int | None = None,
    keep: Sequence[str] | None = None,
    path: str | os.PathLike[str] | None = None,
    memory: float = 2e9,
    compile: bool | None = None,
    progress: bool | Callable[[int], None] = False,
) -> Trace:
    """Sample the density exp(−U/τ) on the constraints, by several chains as one computation.

    U is the loss on the data, or a potential. The module is run in evaluation mode, so that U is
    a function of the weights alone.

    Args:
        model: a module, whose copies with ``jitter`` are the chains' starts; or a function that
            makes one, from which each chain starts with its own seed; or a trained ``Ensemble``,
            from whose members the chains start.
        loss: ``loss(outputs, targets)``, a mean (or a sum) of negative log-likelihoods over the
            data; without data ``potential(parameters by name)``. It returns one number.
        data: ``(inputs, targets)``, a ``DataLoader`` of such pairs, or None for a potential.
        rules: constraints by pattern, as in ``parameter_groups``.
        chains: how many.
        warmup: steps before the first draw; the tuner may add some.
        draws: how many of each chain.
        thin: steps per draw.
        temperature: τ itself; a number, or one per chain (a ladder). The default is the Bayes
            posterior: 1/N for a mean over N points, 1 for a sum and for a potential.
        step_size: h; None lets the warm-up find it, see ``trace.tuning``.
        friction: γ; infinity for the overdamped limit. None is 1, or with a Gaussian prior twice
            the frequency of weights that only the prior holds, √τ/prior at the Bayes τ: they are
            the slowest, and more friction slows them down.
        scheme: the word of the splitting.
        batch_size: points in a mini-batch; None takes all data in each step.
        adjust: test each step (Metropolis), so that the step has no bias. Needs all data.
        observables: functions of a chain's parameters by name; each draw records their values.
        seed: of everything that is random.
        prior: standard deviation of a Gaussian prior of the weights without a constraint.
        temperature_factor: T of a cold or warm posterior: τ is T times the default, or times
            ``temperature``. A number, or one per chain.
        schedule: a function from the step after the warm-up to a factor of τ, such as
            ``cyclical`` returns.
        tolerance: of the tuner: how far temperatures may be off, relatively.
        jitter: noise on the copies of a module, relative to each tensor's size.
        guard: largest energy error of a step in τ, such as 3; steps beyond are refused and the
            momentum turns round. Potentials with kinks, as those of ReLU networks, have rare
            steps that would heat a chain. Needs all data.
        descent: steps at most of an optimisation (Adam) before the warm-up; it ends once it gains
            less than the thermal energy. None makes up to four times ``warmup`` for a loss on
            data whose step is to be found, unless an ``Ensemble`` is the start; 0 makes none.
        keep: patterns of the parameters to record; None for all. Predictions need all.
        path: a folder to which draws are written as they come; if it has a trace of the same
            sampling, that is continued, also after the process was killed. Needs safetensors.
        memory: bytes that a trace in memory may take.
        compile: compile the gradients; None does so in long samplings.
        progress: show a bar (needs rich), or call this with the steps done.

    Raises:
        ValueError, TypeError: naming the argument; nothing has been computed.
        DivergenceError: a chain diverged; ``error.trace`` has what was drawn.

    Warns:
        SamplingWarning: if the trace should not be trusted yet, with what to do.

    Example:
        >>> class Point(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.q = nn.Parameter(torch.zeros(2))
        >>> trace = sample(Point(), lambda p: p["q"].square().sum() / 2, chains=50, draws=200)
        >>> trace["q"].shape, bool((trace["q"].var() - 1).abs() < 0.2)
        (torch.Size([50, 200, 2]), True)
    """
    plan = Plan(
        chains, warmup, draws, thin, temperature, temperature_factor, step_size, friction, scheme,
        adjust, seed, prior, tolerance, jitter, memory, descent, guard,
    )  # fmt: skip
    if schedule is not None and not callable(schedule):
        raise TypeError(f"schedule must be a function of the step, got {schedule!r}")
    target = target_of(model, loss, data, batch_size, plan.seeds, seed, jitter)
    if plan.tests and not target.source.whole:
        raise ValueError(f"{plan.tests} needs all data in each step: give tensors, no batch_size")
    if plan.tests and schedule is not None:
        raise ValueError(f"{plan.tests} and schedule exclude each other: τ must stay the same")
    long = warmup + draws * thin >= LONG and target.reduction != "potential"
    dynamics = Dynamics(
        FIRST if step_size is None else float(step_size),
        plan.damping(target.unit),
        scheme,
        plan.temperatures(target.unit),
        plan.precision(target.unit),
        long if compile is None else compile,
    )
    moving = Chains(target, rules or {}, plan.seeds, dynamics)
    names = list(moving.weights)
    recorder = Recorder(names, keep, check_observables(observables, names))
    down = plan.steps_down(data is not None and not isinstance(model, Ensemble))
    run = Sampling(plan, target, moving, recorder, schedule, batch_size, path, down)
    trace = run.complete(progress)
    trace.warn(stacklevel=2)
    return trace


class Sampling:
    """A sampling that is under way.

    Args:
        plan: its numbers.
        target: what is sampled.
        chains: which move.
        recorder: makes the rows.
        schedule: of the temperature.
        batch_size: as given.
        path: the folder of the trace, if there is one.
        down: steps of the descent at most.
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
    ) -> None:
        self._down = down
        self.plan, self.target, self.chains, self.recorder = plan, target, chains, recorder
        self._schedule = schedule
        self._factor: float | None = 1.0
        self._tested = Metropolis(chains) if plan.adjust else None
        if plan.guard is not None:
            self._tested = Guard(chains, plan.guard)
        self._path = None if path is None else Path(path)
        self.tuning = Tuning(chains.step_size)
        self._start = 0
        self.settings = {
            **plan.plain(),
            "temperatures": [float(t) for t in chains.temperatures],
            "batch_size": batch_size,
            "points": target.source.points,
            "reduction": target.reduction,
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
        if not (self._path / "trace.json").exists():
            if self._fixed:
                fixed = {name: tensor.contiguous() for name, tensor in self._fixed.items()}
                storage.library("torch").save_file(fixed, self._path / "fixed.safetensors")
            self._describe()
            return storage.Folder(self._path, capacity, 0)
        self._compare(storage.read_json(self._path))
        return self._resume(capacity)

    def _probe(self) -> dict[str, Tensor]:
        """The row of the start: observables that fail do so before anything is computed."""
        empty = torch.zeros(len(self.chains), dtype=torch.float64)
        return self.recorder.row(self.chains.weights, {"loss": empty, "kinetic_temperature": empty})

    def _describe(self) -> None:
        assert self._path is not None
        weights = self.chains.weights
        rates = None if self._tested is None else self._tested.rates.tolist()
        values = {
            "format": storage.FORMAT,
            "version": storage.VERSION,
            "parameters": {name: list(tensor.shape[1:]) for name, tensor in weights.items()},
            "kept": self.recorder.kept,
            "fixed": sorted(self._fixed),
            "settings": self.settings,
            "tuning": self.tuning.plain() if self._start else None,
            "acceptance": rates,
        }
        storage.write_json(self._path / "trace.json", values)

    def _compare(self, described: Mapping[str, Any]) -> None:
        """Refuse to continue another sampling.

        Raises:
            ValueError: naming what differs.
        """
        assert self._path is not None
        template = self.chains.ensemble._template
        check_model(described["parameters"], described["fixed"], template, str(self._path))
        if described["kept"] != self.recorder.kept:
            raise ValueError(f"{self._path} keeps other parameters: {described['kept']}")
        for name, value in self.settings.items():
            if described["settings"].get(name) != value:
                raise ValueError(
                    f"{self._path} has a trace of another sampling: {name} was "
                    f"{described['settings'].get(name)!r} there and is {value!r} now. Take another "
                    "path, or the same arguments to continue"
                )

    def _resume(self, capacity: int) -> storage.Folder:
        assert self._path is not None
        file = self._path / "state.pt"
        if not file.exists():
            return storage.Folder(self._path, capacity, 0)
        try:
            state = torch.load(file, weights_only=True)
        except Exception as error:  # the readers of torch raise whatever they stumble over
            raise ValueError(f"{file} is damaged: {str(error)[:100]}") from None
        folder = storage.Folder(self._path, capacity, state["draws"])
        if folder.draws < state["draws"]:
            raise ValueError(
                f"{self._path} lacks draws: {state['draws']} were written, {folder.draws} are there"
            )
        self.chains.load_state_dict(state["chains"])
        self._factor = None
        self.tuning, self._start = Tuning.read(state["tuning"]), state["start"]
        if self._tested is not None:
            self._tested.accepted = state["accepted"].clone()
            self._tested.tried = state["tried"]
        return folder

    def _state(self) -> dict[str, Any]:
        if self._tested is not None:
            self._tested.write()
        found = {
            "chains": self.chains.state_dict(),
            "tuning": self.tuning.plain(),
            "start": self._start,
            "draws": self._store.draws,
        }
        if self._tested is not None:
            found |= {"accepted": self._tested.accepted.clone(), "tried": self._tested.tried}
        return found

    # --- the run ------------------------------------------------------------------------------

    def complete(self, progress: bool | Callable[[int], None]) -> Trace:
        """Warm up, draw, and return the trace.

        An error has an attribute ``trace`` with what was drawn before it.
        """
        plan = self.plan
        try:
            steps = self._down + plan.warmup + plan.draws * plan.thin
            with _bar(progress, steps) as report:
                if not self._start:
                    self._warm_up(report)
                while self._store.draws < plan.draws:
                    self._draw()
                    report(plan.thin)
            self._save()
        except BaseException as error:
            if self._store.draws:
                error.trace = self.trace()  # type: ignore[attr-defined]
            raise
        return self.trace()

    def _step(self) -> Tensor:
        return self.chains.step() if self._tested is None else self._tested.step()

    def _warm_up(self, report: Callable[[int], None]) -> None:
        plan, tested = self.plan, self._tested
        made = Descent(self.chains, report).run(self._down) if self._down else 0
        warm = WarmUp(self.chains, self._step, tested, plan.tolerance, report)
        if plan.step_size is None:
            self.tuning = warm.tuned(plan.warmup)
        else:
            self.tuning = warm.plain(plan.warmup)
        self.tuning.descent = made
        if tested is not None:
            tested.write()
            tested.forget()
        self._start = max(self.chains.steps, 1)
        if self._path is not None:
            self._describe()
            assert isinstance(self._store, storage.Folder)
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
        found = {"loss": self.chains.peek().losses.detach().double()}
        if self.chains.has_momentum:
            found["kinetic_temperature"] = self.chains.kinetic_temperatures()
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
        if isinstance(self._store, storage.Folder):
            self._store.flush(self._state())
            self._describe()

    def trace(self) -> Trace:
        """What has been drawn so far."""
        rates = None if self._tested is None else self._tested.rates.tolist()
        template = copy.deepcopy(self.chains.ensemble._template)
        template.__dict__.pop("forward", None)  # a potential stood in its place
        return Trace(self._store, self.settings, self.tuning, rates, template, self._fixed)


def _data_checksum(target: Target) -> int | None:
    if not isinstance(target.source, AllData) or target.reduction == "potential":
        return None
    points = target.source.at(0)
    tensors = [t for t in (points.inputs, points.targets) if t.dtype is not torch.bool]
    return checksum(tensors)


@contextmanager
def _bar(progress: bool | Callable[[int], None], steps: int) -> Iterator[Callable[[int], None]]:
    """A function that is told of steps made."""
    done = 0
    if not callable(progress) and not progress:
        yield lambda count: None
        return

    def told(count: int) -> None:
        nonlocal done
        done += count
        tell(done)

    if callable(progress):
        tell: Callable[[int], Any] = progress
        yield told
        return
    from rich.progress import Progress

    with Progress() as bar:
        task = bar.add_task("steps", total=steps)
        tell = lambda count: bar.update(task, completed=count)  # noqa: E731
        yield told
