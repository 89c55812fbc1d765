"""Times in interleaved rounds, memory and violation of contestants.

A processor changes its speed from minute to minute. So all contestants of a work take turns,
round after round, each is credited with its best round, and only ratios of one run count.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from colangevin.lab.bench.contestant import HOLD, Contestant

Tick = Callable[[str], None]
"""Called whenever a little work is done, with what it was."""


@dataclass(frozen=True)
class Effort:
    """How much time goes into what.

    Attributes:
        rounds: how often the contestants take turns.
        round_seconds: how long a fast contestant's turn is.
        seconds: all of a slow contestant's turns, at most (it has one at least).
        patience: a contestant whose step is expected to take longer is not run.
        steps: steps after which the violation is read.
        settling: steps before the first round of a contestant that gets faster in long trainings.
        ours_seconds: time for these steps, at most, for one of this library's contestants.
        peers_seconds: the same for another.
    """

    rounds: int = 8
    round_seconds: float = 0.08
    seconds: float = 2.5
    patience: float = 4.0
    steps: int = 1000
    settling: int = 600
    ours_seconds: float = 3.0
    peers_seconds: float = 1.0


def best_times(
    steps: Mapping[str, Callable[[], object]], rounds: int, repeat: int, first: int = 1
) -> dict[str, float]:
    """Seconds per call: the best of several rounds, in which all take turns.

    Args:
        steps: what is called, by its name.
        rounds: how often they take turns.
        repeat: calls in a turn.
        first: calls of each before all rounds, which are not timed.

    Example:
        >>> found = best_times({"little": lambda: None, "much": lambda: sum(range(9999))}, 3, 2)
        >>> 0 <= found["little"] < found["much"]
        True
    """
    best = dict.fromkeys(steps, float("inf"))
    for step in steps.values():
        for _ in range(first):
            step()
    for _ in range(rounds):
        for name, step in steps.items():
            begin = time.perf_counter()
            for _ in range(repeat):
                step()
            best[name] = min(best[name], (time.perf_counter() - begin) / repeat)
    return best


def synchronize(device: torch.device) -> None:
    """Wait for a device that works on its own."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def time_steps(contestant: Contestant, count: int, device: torch.device) -> float:
    """Seconds of a step, over ``count`` of them; new gradients come in between, untimed."""
    seconds = 0.0
    for done in range(0, count, HOLD):
        contestant.refresh()
        chunk = min(HOLD, count - done)
        synchronize(device)
        start = time.perf_counter()
        for _ in range(chunk):
            contestant.step()
        synchronize(device)
        seconds += time.perf_counter() - start
    contestant.taken += count
    return seconds / count


def warm_up(contestant: Contestant, effort: Effort, device: torch.device) -> None:
    """Make the first steps, which compile and allocate, and note the time of a later one."""
    contestant.pace = contestant.first = time_steps(contestant, 1, device)
    if contestant.settles and effort.settling:
        time_steps(contestant, effort.settling, device)
    for _ in range(2):  # the first of these two may still meet memory for the first time
        if contestant.compiles or contestant.pace < effort.seconds / 3:
            contestant.pace = time_steps(contestant, 1, device)


def interleave(
    contestants: Sequence[Contestant], effort: Effort, device: torch.device, tick: Tick
) -> list[list[float]]:
    """Seconds of a step in every round, for every contestant, after ``warm_up``.

    A contestant that is too slow for all rounds takes part in the first ones.
    """
    counts = [max(1, min(500, round(effort.round_seconds / c.pace))) for c in contestants]
    times: list[list[float]] = [[] for _ in contestants]
    spent = [0.0] * len(contestants)
    for turn in range(effort.rounds):
        # Each round begins with another contestant, so that none has a place of its own.
        for place in range(len(contestants)):
            index = (place + turn) % len(contestants)
            contestant, count = contestants[index], counts[index]
            if times[index] and spent[index] + count * contestant.pace > effort.seconds:
                continue
            times[index].append(time_steps(contestant, count, device))
            spent[index] += times[index][-1] * count
        tick(f"round {turn + 1}")
    return times


def run_on(contestant: Contestant, steps: int, seconds: float) -> int:
    """Go on until ``steps`` have been made in all, or the time is up; return the steps made."""
    end = time.perf_counter() + seconds
    while contestant.taken < steps and time.perf_counter() < end:
        if contestant.taken % HOLD == 0:
            contestant.refresh()
        contestant.step()
        contestant.taken += 1
    return contestant.taken


def scratch_bytes(contestant: Contestant, device: torch.device) -> int | None:
    """Bytes that torch allocates within a step at most, beyond those there before it.

    Workspaces inside BLAS and LAPACK are not torch's and not in it.
    """
    contestant.taken += 1
    if device.type == "cuda":
        synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        contestant.step()
        synchronize(device)
        return int(torch.cuda.max_memory_allocated(device) - before)
    try:
        return _profiled_peak(contestant.step)
    except (AttributeError, RuntimeError):  # the profiler's results are no stable interface
        return None


def _profiled_peak(step: Callable[[], object]) -> int:
    activities = [torch.profiler.ProfilerActivity.CPU]
    with _quiet_stderr(), torch.profiler.profile(activities=activities, profile_memory=True) as run:
        step()
    results = run.profiler.kineto_results
    events = [event for event in results.events() if event.name() == "[memory]"]
    current = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        current += event.nbytes()
        peak = max(peak, current)
    return peak


@contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Hide what the profiler's C++ part writes to the process's standard error."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
