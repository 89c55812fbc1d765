"""``cola demo``: two effects in two minutes, with one picture and one table."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from colangevin import checks
from colangevin.errors import DataError, RecordError
from colangevin.lab.claims.comparing import late
from colangevin.lab.claims.wording import capital
from colangevin.lab.cli.calling import program
from colangevin.lab.cli.complaint import BAD_ARGUMENT, INTERRUPTED, complain, say_ended
from colangevin.lab.cli.interrupt import stopping_flag
from colangevin.lab.cli.job_bars import run_with_progress
from colangevin.lab.cli.narrow_tables import terminal_table
from colangevin.lab.cli.report_command import say_written
from colangevin.lab.experiments.demo import demo
from colangevin.lab.runner.experiment import seeds_of
from colangevin.lab.runner.job_log import Log
from colangevin.lab.runner.records import Records, read_records
from colangevin.lab.runner.running import Plan, prepare
from colangevin.lab.runner.writing import replacing, write_text

EPOCHS = tuple(part["epochs"] for part in demo.SCALES[demo.NAME]["parts"])
PICTURES = {".png", ".pdf", ".svg"}
NEXT = ("explore", "reproduce list", "reproduce depth-orthogonal --scale laptop")
"""Commands to try after the demo."""
OTHER_PICTURES = {".jpg", ".jpeg", ".gif", ".webp", ".tif", ".tiff", ".bmp", ".eps"}


def run_demo(seed: int, epochs: int | None, out: Path, jobs: int | None) -> int:
    """Train, print the table, write the picture and the table; return the exit code."""
    console = Console()
    try:
        picture = _picture_path(out)
        plan = _plan(picture, seed, epochs, jobs)
    except (OSError, ValueError) as error:
        complain("demo", error)
        return BAD_ARGUMENT
    try:
        with stopping_flag(console) as interrupted:
            _announce(plan, console)
            complete = run_with_progress(plan, console, interrupted)
        if complete:
            _show(read_records(plan.directory), picture, console)
            _say_next(console)
        else:
            _show_stopped(_so_far(plan), picture, console)
    except (OSError, DataError, RecordError) as error:
        complain("demo", error)
        return BAD_ARGUMENT
    except KeyboardInterrupt:
        say_ended("demo")
        return INTERRUPTED
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


def _plan(picture: Path, seed: int, epochs: int | None, jobs: int | None) -> Plan:
    """The experiment with so many epochs; its records lie beside the picture."""
    settings = demo.SCALES[demo.NAME]
    if epochs is not None:
        checks.count("epochs", epochs)
        parts = [{**part, "epochs": epochs} for part in settings["parts"]]
        settings = {**settings, "parts": parts}
    name = f"{picture.stem}-records"
    experiment = replace(demo.EXPERIMENT, name=name, scales={demo.NAME: settings})
    plan = prepare(experiment, demo.NAME, seed=seed, out=picture.parent, jobs=jobs, anew=True)
    return replace(plan, threads=1)  # on small tensors a second one costs more than it saves


def _announce(plan: Plan, console: Console) -> None:
    spirals, deep = plan.settings["parts"]
    lines = [
        f"1. Depth: {deep['runs']} networks of {deep['depth']} hidden layers on the four-turn "
        f"spiral, {deep['epochs']:,} epochs, SGD against orthogonal weights.",
        f"2. Overfitting: {spirals['runs']} networks of {spirals['hidden']} nodes on the two-turn "
        f"spiral, {spirals['epochs']:,} epochs, SGD, also with weight decay, against bounded "
        "weights with noise (C-SGLD).",
        f"Seed {plan.settings['seed']}. All networks of a method are trained at once, as one "
        "Ensemble.",
    ]
    console.print("\n".join(lines), highlight=False)


def _so_far(plan: Plan) -> Records:
    """What a run that was stopped has found, for the methods that it had begun."""
    complete = read_records(plan.directory).completed()
    others = [
        demo.so_far(job, Log(job, plan.directory, order=order))
        for order, job in enumerate(plan.jobs)
        if job.name not in complete
    ]
    return Records([*complete.values(), *filter(None, others)], plan.directory)


def _show_stopped(records: Records, picture: Path, console: Console) -> None:
    """What is done, in files of their own: a complete picture stays as it is."""
    console.print("Stopped; this is what is done.")
    for effect in demo.EFFECTS:
        if words := demo.stopped(effect, records):
            console.print(f"{effect.task[:2]} {words}.", markup=False, highlight=False)
    if records:
        _show(records, picture.with_stem(f"{picture.stem}-stopped"), console)


def _show(records: Records, picture: Path, console: Console) -> None:
    ended = records.completed()
    table = demo.table(ended)
    if table.rows:
        console.print(terminal_table(table.columns, table.rows, console.width), markup=False)
        for line in (*_findings(ended), f"{demo.EXPERIMENT.note}."):
            console.print(line, markup=False, highlight=False)
    _write(records, picture, console)


def _say_next(console: Console) -> None:
    console.print("Try next: the ten lines of README.md on a model of your own, or")
    for command in NEXT:
        line = f"  {program()} {command}"
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def _write(records: Records, picture: Path, console: Console) -> None:
    numbers = picture.with_suffix(".csv")
    write_text(numbers, _csv(records))
    # Imported here: a second or two, which no one should wait for before the training.
    from colangevin.lab.experiments.demo.plot import draw

    with replacing(picture) as file:
        about = {"Software": None} if picture.suffix.lower() == ".png" else None
        form = picture.suffix[1:].lower()
        draw(records).savefig(file, format=form, dpi=120, facecolor="white", metadata=about)
    say_written([picture, numbers], console)


def _findings(records: Records) -> Iterator[str]:
    """What the table shows, in words, and how well the constraints hold."""
    yield (
        "Mean ± standard deviation over the seeds, in the last tenth of the epochs. Difference: "
        "± standard error. p: how likely it would be if its sign were random in each seed."
    )
    for number, effect in enumerate(demo.EFFECTS, 1):
        if demo.measured(effect, records) is not None:
            p = demo.significance(effect, records)
            verdict = (
                f"significant, p = {p:.2g}" if p < demo.SIGNIFICANT else "NOT seen in this run"
            )
            yield f"{number}. {capital(effect.finding)}: {verdict}."
    held = [
        f"{record.settings['label']} {record.final['violation']:.0e}"
        for record in records.values()
        if "radii" in record.settings or record.settings.get("orthogonal")
    ]
    if held:
        yield f"Largest violation of a constraint: {', '.join(held)}."


def _csv(records: Records) -> str:
    """Every number of the table, one line per job and seed."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["job", "method", "quantity", "seed", "value", "epochs"])
    for effect in demo.EFFECTS:
        for name, _ in demo.methods(effect):
            if (record := records.get(name)) is None:
                continue
            values = late(record, effect.key, effect.factor)
            for seed, value in zip(seeds_of(record.settings), values, strict=True):
                label, epochs = record.label, record.history["epoch"][-1]
                writer.writerow([name, label, effect.key, seed, f"{value:.6g}", epochs])
    return file.getvalue()
