"""``cola demo``: progress, table and files around :mod:`colangevin.lab.experiments.demo`."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from colangevin import checks
from colangevin.lab.cli.interrupt import interrupt_flag
from colangevin.lab.experiments.demo import (
    PAPER_EPOCHS,
    Settings,
    make_data,
    shares,
    train_share,
)
from colangevin.lab.experiments.demo_result import Result, epoch_range
from colangevin.lab.experiments.workers import processors, run_all

PICTURES = {".png", ".pdf", ".svg"}
OTHER_PICTURES = {".jpg", ".jpeg", ".gif", ".webp", ".tif", ".tiff", ".bmp", ".eps"}
BAD_ARGUMENT = 2
INTERRUPTED = 130

HEADERS = (
    "method",
    "train accuracy",
    "test accuracy",
    "train loss",
    "test loss",
    "largest |weight|",
    "constraint violation",
)


def run_demo(seed: int, epochs: int | None, out: Path, jobs: int | None) -> int:
    """Train, print the table, write the picture and the table; return the exit code."""
    console = Console()
    try:
        settings = Settings(seed=seed) if epochs is None else Settings(seed=seed, epochs=epochs)
        jobs = processors() if jobs is None else checks.count("jobs", jobs)
        picture = _prepare(out)
    except (OSError, ValueError) as error:
        Console(stderr=True).print(f"cola demo: {error}", soft_wrap=True, markup=False)
        return BAD_ARGUMENT
    with interrupt_flag() as interrupted:
        console.print(
            f"Two-turn spiral, {settings.train_points} training and {settings.test_points} test "
            f"points, {settings.hidden}-node network.\n"
            f"{settings.epochs:,} epochs; the paper uses {PAPER_EPOCHS:,}. Seed {settings.seed}."
        )
        results = _train_with_progress(settings, jobs, console, interrupted)
    complete = all(result.epochs == settings.epochs for result in results)
    if not complete:
        console.print(f"Stopped after {epoch_range(results)} epochs; this is what is done.")
    console.print(_table(results))
    _write(results, settings, picture)
    for path in (picture, _table_path(picture)):
        console.print(f"Wrote {path}", soft_wrap=True, markup=False, highlight=False)
    return 0 if complete else INTERRUPTED


def _prepare(out: Path) -> Path:
    """Turn ``--out`` into the picture's path; fail before the training, not after it."""
    if out.suffix.lower() in OTHER_PICTURES and not out.is_dir():
        known = ", ".join(sorted(PICTURES))
        raise ValueError(f"out must be a directory or end in {known}, got {out}")
    is_picture = out.suffix.lower() in PICTURES and not out.is_dir()
    picture = out if is_picture else out / "demo.png"
    try:
        picture.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=picture.parent):
            pass
        for path in (picture, _table_path(picture)):
            if path.exists() and (path.is_dir() or not os.access(path, os.W_OK)):
                raise PermissionError(f"{path} is there and cannot be replaced")
    except OSError as error:
        raise OSError(f"cannot write to {out}: {error.strerror or error}") from None
    return picture


def _table_path(picture: Path) -> Path:
    return picture.with_suffix(".csv")


def _train_with_progress(
    settings: Settings, jobs: int, console: Console, interrupted: Callable[[], bool]
) -> list[Result]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("epochs, left"),
        TimeRemainingColumn(),
    )
    tasks = [(settings, share) for share in shares(jobs)]
    with Progress(*columns, console=console) as progress:
        names = [", ".join(method.name for method in share) for _, share in tasks]
        bars = [progress.add_task(name, total=settings.epochs) for name in names]

        def report(index: int, epoch: float) -> bool:
            if index >= 0:
                progress.update(bars[index], completed=epoch)
            return not interrupted()

        parts = run_all(train_share, tasks, report)
    return [result for part in parts for result in part]


def _row(result: Result) -> tuple[str, ...]:
    violation = "none" if result.violation is None else f"{result.violation:.1e}"
    return (
        result.method.name,
        f"{result.train_accuracy:.1%}",
        f"{result.test_accuracy:.1%}",
        f"{result.train_loss:.3f}",
        f"{result.test_loss:.3f}",
        f"{result.largest_weight:.2f}",
        violation,
    )


def _table(results: Sequence[Result]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for header in HEADERS:
        longest = max(map(len, header.split()))  # on a narrow terminal, break between words only
        table.add_column(header, justify="right", min_width=longest)
    table.columns[0].justify = "left"
    for result in results:
        table.add_row(*_row(result))
    return table


def _write(results: Sequence[Result], settings: Settings, picture: Path) -> None:
    with _table_path(picture).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow((*HEADERS, "epochs", "seed"))
        for result in results:
            writer.writerow((*_row(result), result.epochs, settings.seed))
    # Imported here: a second or two, which no one should wait for before the training.
    from colangevin.lab.experiments import demo_plot

    demo_plot.save(demo_plot.draw(results, make_data(settings), settings), picture)
