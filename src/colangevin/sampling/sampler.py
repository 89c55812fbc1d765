"""Sampling as people do it: from a loss to a trace in one call."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from colangevin.constraints import Constraint
from colangevin.ensemble import Ensemble
from colangevin.errors import SamplingWarning
from colangevin.sampling.chains import Chains, Dynamics
from colangevin.sampling.plans import Factor, Observable, Plan, check_observables
from colangevin.sampling.priors import Prior
from colangevin.sampling.progress import Progress
from colangevin.sampling.recording import Recorder
from colangevin.sampling.runs import Sampling
from colangevin.sampling.targets import Factory, target_of
from colangevin.sampling.traces import Trace
from colangevin.threads import threads_for

LONG = 20_000
"""Steps from which on the gradients are compiled, which takes some seconds."""


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
    metric: str | None = "auto",
    dynamics: str = "langevin",
    guess: float = 0.1,
    until: str | None = None,
    prior: Prior = None,
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
    progress: Progress = None,
    starts: Sequence[nn.Module | Mapping[str, Tensor]] | None = None,
    watch: str | Sequence[str] | None = None,
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
        friction: γ; infinity for the overdamped limit. None lets the warm-up find it from the
            autocorrelation, if it looks for the step, too, with all data. Else it is 1, or with a
            Gaussian prior twice the frequency of weights that only the prior holds, √τ/prior at
            the Bayes τ: they are the slowest, and more friction slows them down.
        scheme: the word of the splitting.
        batch_size: points in a mini-batch; None takes all data in each step.
        adjust: test each step (Metropolis), so that the step has no bias. Needs all data.
        observables: functions of a chain's parameters by name; each draw records their values.
        seed: of everything that is random.
        metric: of the weights without a constraint, learned from all chains in the warm-up: a
            matrix ("dense"), its diagonal ("diagonal"), none (None), or a matrix for up to 1,000
            numbers and the diagonal for more ("auto"; none for mini-batches, for a ``step_size``
            of yours, and beyond 100,000 numbers). It changes how fast chains move, not the law.
        dynamics: "langevin", or "microcanonical": all weights of a chain together have one speed,
            so that no chain is thrown out where the potential is steep. Needs all data.
        guess: where the search for the step begins.
        until: "ess=1000" or "rhat=1.01", for example: end as soon as the worst number that is
            watched has this effective sample size or R-hat; ``draws`` is then the most.
        prior: standard deviation of a Gaussian prior of the weights without a constraint; or
            distributions of ``torch.distributions`` by pattern of names, the first that matches
            counts: ``{"*.weight": Laplace(0.0, 1.0), "*": Normal(0.0, 3.0)}``.
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
            sampling, that is continued, also after the process was killed; if it has more draws
            than ``draws``, the first ones are returned. Needs safetensors.
        memory: bytes that a trace in memory may take.
        compile: compile the gradients; None does so in long samplings.
        progress: show a bar (needs rich), or call this with the steps done. None shows a bar on
            a terminal, False nothing.
        starts: modules or state dicts, one per chain, where the chains start, without jitter.
            Chains that start apart let R-hat see other modes.
        watch: patterns of what convergence is judged by, such as ``"loss"``; None for the loss,
            observables and every number of every parameter.

    Raises:
        ValueError, TypeError: naming the argument; nothing has been computed.
        DivergenceError: a chain diverged; ``error.trace`` has what was drawn.

    Warns:
        SamplingWarning: if the trace should not be trusted yet, with what to do.

    Example:
        >>> import torch
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
        adjust, seed, prior, tolerance, jitter, memory, descent, guard, metric, dynamics, guess,
        until,
    )  # fmt: skip
    if schedule is not None and not callable(schedule):
        raise TypeError(f"schedule must be a function of the step, got {schedule!r}")
    target = target_of(model, loss, data, batch_size, plan.seeds, seed, jitter, starts)
    if plan.tests and not target.source.whole:
        raise ValueError(f"{plan.tests} needs all data in each step: give tensors, no batch_size")
    if plan.tests and schedule is not None:
        raise ValueError(f"{plan.tests} and schedule exclude each other: τ must stay the same")
    long = warmup + draws * thin >= LONG and target.reduction != "potential"
    settings = Dynamics(
        float(guess if step_size is None else step_size),
        plan.damping(target.unit),
        scheme,
        plan.temperatures(target.unit),
        plan.precision(target.unit),
        long if compile is None else compile,
        step_size is None,
        plan.metric_up_to(target.source.whole),
        prior if isinstance(prior, Mapping) else None,
    )
    with threads_for(target.work):
        moving = Chains(target, rules or {}, plan.seeds, settings)
        names = list(moving.weights)
        recorder = Recorder(names, keep, check_observables(observables, names))
        watched = recorder.watched(watch)
        down = plan.steps_down(data is not None and not isinstance(model, Ensemble))
        run = Sampling(plan, target, moving, recorder, schedule, batch_size, path, down, watched)
        trace = run.complete(progress)
        trace.warn(stacklevel=2, names=watched)
        if run.short:
            warnings.warn(run.short, SamplingWarning, stacklevel=2)
    return trace
