"""``cola reproduce``: progress, table and files around an experiment that runs."""

from __future__ import annotations

import re
import shlex
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from colangevin import checks
from colangevin.errors import DataError, RecordError
from colangevin.lab.claims.wording import sentence
from colangevin.lab.cli.calling import program
from colangevin.lab.cli.complaint import BAD_ARGUMENT, INTERRUPTED, complain, say_ended
from colangevin.lab.cli.interrupt import stopping_flag, uninterrupted
from colangevin.lab.cli.job_bars import run_with_progress
from colangevin.lab.cli.report_command import print_results, say_written, write_report
from colangevin.lab.experiments.registry import EXPERIMENTS, find
from colangevin.lab.report.results import results_of
from colangevin.lab.runner.experiment import Experiment
from colangevin.lab.runner.records import read_records
from colangevin.lab.runner.running import Plan, prepare
from colangevin.lab.runner.tasks import Engine, Local

RAY = "ray"
USUAL = "laptop"
"""The scale whose time the list shows."""


def run_reproduce(
    name: str,
    scale: str,
    runs: int | None,
    seed: int,
    data: Path | None,
    out: Path,
    resume: bool,
    jobs: int | None,
    about: str | None = None,
    engine: str = Local.name,
    address: str | None = None,
    gpus: float | None = None,
) -> int:
    """Run the experiment, print the table, write figures and report; return the exit code."""
    console = Console()
    again = ["reproduce", name, "--scale", scale, "--seed", str(seed), "--out", str(out)]
    for option, value in (
        *(("--runs", runs), ("--data", data), ("--jobs", jobs), ("--address", address)),
        *(("--gpus", gpus), ("--engine", None if engine == Local.name else engine)),
    ):
        again += [] if value is None else [option, str(value)]
    with ExitStack() as stack:
        try:
            if name == "list":
                _list(console) if about is None else _describe(find(about), console)
                return 0
            if about is not None:
                raise ValueError(f"one experiment at a time, got {name} and {about}")
            found = find(name)
            place = stack.enter_context(_engine(engine, address, gpus))
            plan = prepare(found, scale, runs, seed, data, out, resume, jobs, engine=place)
        except (OSError, ValueError) as error:
            complain("reproduce", error)
            return BAD_ARGUMENT
        return _carry_out(plan, f"{program()} {shlex.join([*again, '--resume'])}", console)


def _engine(
    name: str, address: str | None, gpus: float | None
) -> AbstractContextManager[Engine | None]:
    """Where the jobs run, by the names of the command line."""
    checks.choice("engine", name, (Local.name, RAY))
    if name == RAY:
        from colangevin.lab.runner.ray_engine import opened

        return opened(address, gpus or 0.0)
    for option, value in (("--address", address), ("--gpus", gpus)):
        if value is not None:
            raise ValueError(f"{option} is for --engine {RAY}; the engine {name} has none")
    return nullcontext()


def _carry_out(plan: Plan, again: str, console: Console) -> int:
    try:
        with stopping_flag(console) as interrupted:
            _announce(plan, console)
            complete = run_with_progress(plan, console, interrupted)
        if not complete:
            return _stopped("Stopped; what is done is saved. Go on with", again, console)
        results = results_of(read_records(plan.directory))
        written = write_report([results], plan.directory)
    except (OSError, DataError, RecordError) as error:  # another error is a mistake of the program
        complain("reproduce", error)
        return BAD_ARGUMENT
    except KeyboardInterrupt:
        say_ended("reproduce")
        return _stopped("What was saved before is kept. Go on with", again, console)
    print_results(results, console)
    say_written(written, console)
    return 0


def _stopped(words: str, again: str, console: Console) -> int:
    with uninterrupted():
        console.print(words, highlight=False)
        console.print(f"  {again}", soft_wrap=True, markup=False, highlight=False)
    return INTERRUPTED


def _announce(plan: Plan, console: Console) -> None:
    settings, count = plan.settings, len(plan.jobs)
    place = "" if plan.engine.name == Local.name else f", on the engine {plan.engine.name}"
    lines = [
        f"{plan.experiment.name}: {sentence(plan.experiment.title)}",
        f"Scale {settings['scale']}, {settings['runs']} runs, seed {settings['seed']}; "
        f"{len(plan.todo)} of {count} jobs to do, {plan.processes} at once{place}.",
    ]
    console.print("\n".join(lines), markup=False, highlight=False)


def _list(console: Console) -> None:
    """One line per experiment."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    rows = [
        (one.name, one.times.get(USUAL, ""), _phrase(one), _figures(one.source))
        for one in EXPERIMENTS.values()
    ]
    columns = list(zip(("name", "laptop", "what (data)", "figures"), *rows, strict=True))
    # A narrow screen has no place for the figures, which `list NAME` says, too.
    if sum(2 + max(map(len, column)) for column in columns) > console.width:
        columns.pop()
    for header, *_ in columns:
        table.add_column(header, no_wrap=True)
    for row in rows:
        table.add_row(*row[: len(columns)])
    console.print(table)
    console.print(f"More on one of them: {program()} reproduce list NAME", highlight=False)


def _phrase(experiment: Experiment) -> str:
    """What an experiment is, in few words, and the data that it needs."""
    data = f" ({', '.join(experiment.data)})" if experiment.data else ""
    return (experiment.phrase or experiment.title) + data


def _figures(source: str) -> str:
    """What an experiment shows, in few letters.

    Example:
        >>> _figures("thesis figures 3.1 and 3.17 (section 3.2)"), _figures("figure 4, table 1")
        ('3.1, 3.17', 'figure 4, table 1')
    """
    short = re.sub("thesis |figures ", "", source.partition(" (")[0])
    return short.replace(" and ", ", ")


def _describe(experiment: Experiment, console: Console) -> None:
    """Everything that is to be known before a run."""
    lines = [
        f"{experiment.name}: {sentence(experiment.title)}",
        f"{sentence(experiment.source)} Data: {', '.join(experiment.data) or 'none'}.",
        sentence(experiment.note),
        "Scales, with rough times on two cores:",
    ]
    for scale, settings in experiment.scales.items():
        runs = f"{settings['runs']} run{'' if settings['runs'] == 1 else 's'}"
        time = f", {experiment.times[scale]}" if scale in experiment.times else ""
        lines.append(f"  {scale}: {runs}{time}")
    console.print("\n".join(filter(None, lines)), markup=False, highlight=False)
