"""``cola bench``: progress, tables and files around :mod:`colangevin.lab.bench`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from colangevin.lab.bench import benchmark, presenting, printed_formulas
from colangevin.lab.bench.benchmark import STEPS, Settings, run, ticks
from colangevin.lab.bench.record import Record
from colangevin.lab.bench.timing import Effort
from colangevin.lab.bench.works import QUICK, Sizes
from colangevin.lab.claims.wording import duration
from colangevin.lab.cli.complaint import BAD_ARGUMENT, INTERRUPTED, complain
from colangevin.lab.runner.writing import require_writable, write_text

NAME = "bench"


def run_bench(
    *,
    works: str | None = None,
    out: Path = Path("out"),
    rounds: int | None = None,
    quick: bool = False,
    full: bool = False,
    threads: int | None = None,
    seed: int = 0,
    reference: Path | None = None,
    sizes: Sizes | None = None,
    effort: Effort | None = None,
) -> int:
    """Run the works, print the tables, write JSON, picture and page; return the exit code.

    Args:
        works: letters, separated by commas; None for all.
        out: directory of the files.
        rounds: how often the contestants take turns.
        quick: small works and little time.
        full: all steps of every row, and slow peers as well.
        threads: of torch.
        seed: of weights, gradients and noise.
        reference: file of the printed formulas.
        sizes: of the works, in the place of the usual ones.
        effort: times, in the place of the usual ones.
    """
    console = Console()
    try:
        chosen = _effort(effort or Effort(), rounds, quick, full)
        settings = Settings(
            works=_letters(works),
            effort=chosen,
            sizes=sizes or (QUICK if quick else Sizes()),
            threads=threads,
            seed=seed,
        )
        module = None if reference is None else printed_formulas.load(reference)
        require_writable(out)
    except (OSError, TypeError, ValueError) as error:
        complain("bench", error)
        return BAD_ARGUMENT
    try:
        record = _run_with_progress(settings, module, out / f"{NAME}.json", console)
        for table in presenting.tables(record):
            console.print(table)
        if not record.complete:
            console.print("Stopped; this is what is done.")
        _write(record, out, console)
    except OSError as error:  # the disk is full, or the directory is gone
        complain("bench", error)
        return BAD_ARGUMENT
    return 0 if record.complete else INTERRUPTED


def _letters(works: str | None) -> list[str]:
    if works is None:
        return list(STEPS)
    return list(dict.fromkeys(name.strip() for name in works.split(",") if name.strip()))


def _effort(effort: Effort, rounds: int | None, quick: bool, full: bool) -> Effort:
    if quick and full:
        raise ValueError("quick and full exclude each other")
    if quick:
        effort = benchmark.quick(effort)
    if full:
        effort = benchmark.full(effort)
    return effort if rounds is None else replace(effort, rounds=rounds)


def _run_with_progress(
    settings: Settings, reference: ModuleType | None, path: Path, console: Console
) -> Record:
    """Run; what is done is in the file ``path`` after every work."""
    columns = (BarColumn(bar_width=20), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=ticks(settings))

        def tick(what: str) -> None:
            progress.update(task, advance=1, description=what)

        def save(record: Record) -> None:
            write_text(path, record.to_json())
            if not console.is_terminal:  # where no bar is drawn, a line says what is done
                letter, title = list(record.works.items())[-1]
                seconds = record.work_seconds[letter]
                line = f"({letter}) {title}: done, {duration(seconds)}"
                console.print(line, soft_wrap=True, markup=False, highlight=False)

        return run(settings, reference, tick, save)


def _write(record: Record, out: Path, console: Console) -> None:
    # Imported here: a second or two, which no one should wait for before the run.
    from colangevin.lab.bench import plot

    paths = [out / f"{NAME}{suffix}" for suffix in (".json", ".png", ".md")]
    write_text(paths[0], record.to_json())
    plot.save(record, paths[1])
    page = presenting.markdown(record, picture=paths[1].name, json=paths[0].name)
    write_text(paths[2], page)
    for path in paths:
        console.print(f"Wrote {path}", soft_wrap=True, markup=False, highlight=False)
