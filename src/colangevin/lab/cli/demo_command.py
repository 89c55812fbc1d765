"""``cola demo``: the scale ``demo`` of an experiment, with one picture and one table."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from colangevin import checks
from colangevin.errors import DataError, RecordError
from colangevin.lab.cli.complaint import BAD_ARGUMENT, INTERRUPTED, complain
from colangevin.lab.cli.interrupt import interrupt_flag
from colangevin.lab.cli.job_bars import run_with_progress
from colangevin.lab.cli.narrow_tables import terminal_table
from colangevin.lab.cli.report_command import say_written
from colangevin.lab.experiments import spiral, spiral_classifiers
from colangevin.lab.experiments.experiment import Table
from colangevin.lab.experiments.job_log import Log
from colangevin.lab.experiments.records import Records, read_records
from colangevin.lab.experiments.running import Plan, prepare
from colangevin.lab.experiments.writing import replacing, write_text

SCALE = "demo"
EXPERIMENT = spiral_classifiers.EXPERIMENT
EPOCHS: int = EXPERIMENT.scales[SCALE]["epochs"]
PICTURES = {".png", ".pdf", ".svg"}
OTHER_PICTURES = {".jpg", ".jpeg", ".gif", ".webp", ".tif", ".tiff", ".bmp", ".eps"}


def run_demo(seed: int, epochs: int | None, out: Path, jobs: int | None) -> int:
    """Train, print the table, write the picture and the table; return the exit code."""
    console = Console()
    try:
        picture = _picture_path(out)
        plan = _plan(picture, seed, EPOCHS if epochs is None else epochs, jobs)
    except (OSError, ValueError) as error:
        complain("demo", error)
        return BAD_ARGUMENT
    try:
        with interrupt_flag() as interrupted:
            _announce(plan, console)
            complete = run_with_progress(plan, console, interrupted)
        records = read_records(plan.directory) if complete else _so_far(plan)
        if not complete:
            console.print("Stopped; this is what is done.")
        if records:
            _show(records, picture, console)
    except (OSError, DataError, RecordError) as error:
        complain("demo", error)
        return BAD_ARGUMENT
    return 0 if complete else INTERRUPTED


def _picture_path(out: Path) -> Path:
    """Turn ``--out`` into the picture's path; fail before the training, not after it."""
    if out.suffix.lower() in OTHER_PICTURES and not out.is_dir():
        known = ", ".join(sorted(PICTURES))
        raise ValueError(f"out must be a directory or end in {known}, got {out}")
    is_picture = out.suffix.lower() in PICTURES and not out.is_dir()
    picture = out if is_picture else out / "demo.png"
    for path in (picture, picture.with_suffix(".csv")):
        if path.exists() and (path.is_dir() or not os.access(path, os.W_OK)):
            raise PermissionError(f"cannot write to {out}: {path} is there and cannot be replaced")
    return picture


def _plan(picture: Path, seed: int, epochs: int, jobs: int | None) -> Plan:
    """The experiment with so many epochs; its records lie beside the picture."""
    settings = {**EXPERIMENT.scales[SCALE], "epochs": checks.count("epochs", epochs)}
    experiment = replace(EXPERIMENT, name=f"{picture.stem}-records", scales={SCALE: settings})
    plan = prepare(experiment, SCALE, seed=seed, out=picture.parent, jobs=jobs, anew=True)
    return replace(plan, threads=1)  # on small tensors a second one costs more than it saves


def _announce(plan: Plan, console: Console) -> None:
    settings = plan.settings
    console.print(
        f"Two-turn spiral, {settings['train_points']} training and {settings['test_points']} test "
        f"points, {settings['hidden']}-node network, {settings['runs']} runs of each method.\n"
        f"{settings['epochs']:,} epochs; the paper uses {spiral.PAPER['epochs']:,}. "
        f"Seed {settings['seed']}.",
        highlight=False,
    )


def _so_far(plan: Plan) -> Records:
    """What a run that was stopped has found, for the methods that it had begun."""
    complete = read_records(plan.directory).completed()
    others = [
        spiral_classifiers.so_far(job, Log(job, plan.directory, order=order))
        for order, job in enumerate(plan.jobs)
        if job.name not in complete
    ]
    return Records([*complete.values(), *filter(None, others)], plan.directory)


def _show(records: Records, picture: Path, console: Console) -> None:
    table = EXPERIMENT.table(records)
    console.print(terminal_table(table.columns, table.rows, console.width), markup=False)
    numbers = picture.with_suffix(".csv")
    write_text(numbers, _csv(table, records))
    # Imported here: a second or two, which no one should wait for before the training.
    from colangevin.lab.experiments.spiral_plot import draw_demo

    with replacing(picture) as file:
        draw_demo(records).savefig(file, format=picture.suffix[1:].lower(), dpi=120)
    say_written([picture, numbers], console)


def _csv(table: Table, records: Records) -> str:
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow([*table.columns, "epochs", "seed"])
    rows: Sequence[Sequence[str]] = table.rows
    for row, record in zip(rows, records.values(), strict=True):
        writer.writerow([*row, record.history["epoch"][-1], record.settings["seed"]])
    return file.getvalue()
