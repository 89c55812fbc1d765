"""Progress of the jobs of an experiment on the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from colangevin.lab.claims.wording import duration
from colangevin.lab.runner.running import Plan
from colangevin.lab.runner.running import run as run_plan


def run_with_progress(plan: Plan, console: Console, interrupted: Callable[[], bool]) -> bool:
    """Do the jobs of a plan under a bar for each; return whether all of them are complete."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bars = _Bars(progress, plan)

        def report(job: str, done: float) -> bool:
            if job:
                bars.update(job, done)
            return not interrupted()

        return run_plan(plan, report)


class _Bars:
    """A bar for each job that is at work, one for all of them, and a line for what is done."""

    def __init__(self, progress: Progress, plan: Plan) -> None:
        self._progress = progress
        self._bars: dict[str, TaskID] = {}
        self._shares = dict.fromkeys(plan.todo, 0.0)
        self._started: dict[str, float] = {}
        self._all = progress.add_task("all jobs", total=max(1, len(plan.todo)))

    def update(self, job: str, done: float) -> None:
        if job not in self._bars:
            self._bars[job] = self._progress.add_task(job, total=1.0)
            self._started[job] = time.perf_counter()
        if done >= 1.0 > self._shares[job]:
            seconds = duration(time.perf_counter() - self._started[job])
            self._progress.console.print(f"{job}: done, {seconds}", highlight=False)
            self._progress.update(self._bars[job], visible=False)
        self._shares[job] = done
        self._progress.update(self._bars[job], completed=done)
        self._progress.update(self._all, completed=sum(self._shares.values()))
