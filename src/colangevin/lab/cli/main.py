"""The program ``cola``: one subcommand per task.

Commands import what they need when they run: torch and matplotlib take seconds, and ``--help``
needs neither.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

try:
    import typer
except ModuleNotFoundError as error:  # a bare install has the library only
    raise SystemExit(
        f'cola needs the package {error.name}: run pip install ".[cli]" in a clone of colangevin'
    ) from None

app = typer.Typer(
    name="cola",
    help="Constrained, partitioned and multirate Langevin dynamics for PyTorch networks.",
    no_args_is_help=True,
)


SCALES = ("smoke", "laptop", "full", "paper")


def _experiments(incomplete: str) -> list[str]:
    """Names for the shell to complete, from the files: importing them would take seconds."""
    files = Path(__file__).parents[1].joinpath("experiments").glob("*/*.py")
    sources = [path.read_text(encoding="utf-8") for path in files]
    found = [re.search('^(NAME = |    name=)"(.+)",?$', one, re.MULTILINE) for one in sources]
    names = sorted(match[2] for match in found if match and match[2] != "demo")
    return [name for name in ("list", *names) if name.startswith(incomplete)]


def _scales(incomplete: str) -> list[str]:
    return [scale for scale in SCALES if scale.startswith(incomplete)]


def _print_version(wanted: bool) -> None:
    if wanted:
        import colangevin

        typer.echo(f"cola {colangevin.__version__}")
        raise typer.Exit()


@app.callback()
def program(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            metavar="",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Constrained Langevin dynamics: a demo, benchmarks, and the paper's experiments."""


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Seed of data, weights, batches and noise.")] = 0,
    epochs: Annotated[
        int | None,
        typer.Option(help="Epochs of both parts; more show more (default: 1,500 and 800)."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="A directory, or the picture's file name (.png, .pdf or .svg).")
    ] = Path("out"),
    jobs: Annotated[
        int | None, typer.Option(help="Processes to use (default: one per processor).")
    ] = None,
) -> None:
    """Show two effects of constraints in 2 minutes: a table with spreads, and one picture."""
    from colangevin.lab.cli.demo_command import run_demo

    raise typer.Exit(run_demo(seed=seed, epochs=epochs, out=out, jobs=jobs))


@app.command()
def bench(
    works: Annotated[
        str | None, typer.Option(help="Letters, such as a,c (default: a to g; s is sampling).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory of the JSON, picture and page.")] = Path(
        "out"
    ),
    rounds: Annotated[
        int | None, typer.Option(help="How often the contestants take turns (default: 8).")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small works, rough figures.", metavar="")
    ] = False,
    full: Annotated[
        bool,
        typer.Option("--full", help="1,000 steps in every row, slow peers as well.", metavar=""),
    ] = False,
    threads: Annotated[int | None, typer.Option(help="Threads of torch.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights, gradients and noise.")] = 0,
    reference: Annotated[
        Path | None, typer.Option(help="tests/reference.py of a checkout: the printed formulas.")
    ] = None,
) -> None:
    """Time the optimizer against others, with memory and violation; < 5 minutes on 2 cores."""
    asked = dict(locals())
    from colangevin.lab.cli.bench_command import run_bench

    raise typer.Exit(run_bench(**asked))


@app.command()
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="An experiment, or list to see what there is.",
            metavar="NAME",
            autocompletion=_experiments,
        ),
    ],
    about: Annotated[
        str | None,
        typer.Argument(
            help="After list: an experiment to describe.",
            metavar="[EXPERIMENT]",
            autocompletion=_experiments,
        ),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="smoke, laptop, full, or another one that the list has.", autocompletion=_scales
        ),
    ] = "laptop",
    runs: Annotated[
        int | None, typer.Option(help="Runs of each method (default: the scale's number).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of data, weights, batches and noise.")] = 0,
    data: Annotated[
        Path | None, typer.Option(help="Data directory (default: COLA_DATA, then the cache).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Records go to OUT/NAME.")] = Path("out"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the records that are there.", metavar="")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(help="Processes to use (default: one per processor).")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="local: processes of this machine; ray: tasks of a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Of the Ray cluster: host:port (default: RAY_ADDRESS, this machine)."),
    ] = None,
    gpus: Annotated[
        float | None, typer.Option(help="GPUs of each job on the Ray cluster (default: 0).")
    ] = None,
) -> None:
    """Run an experiment of the paper; it can be stopped at any time and resumed."""
    asked = dict(locals())
    from colangevin.lab.cli.reproduce_command import run_reproduce

    raise typer.Exit(run_reproduce(**asked))


@app.command()
def report(
    directory: Annotated[
        Path, typer.Argument(help="An experiment's records, or a directory of several.")
    ],
    page: Annotated[
        Path | None, typer.Option(help="Also write a page in Markdown with all experiments.")
    ] = None,
) -> None:
    """Draw figures, tables and one HTML report from the records of experiments."""
    from colangevin.lab.cli.report_command import run_report

    raise typer.Exit(run_report(directory=directory, page=page))


@app.command()
def doctor() -> None:
    """Print versions, machine, compiled steps, caches and data, and what is missing."""
    from colangevin.lab.cli.doctor_command import run_doctor

    raise typer.Exit(run_doctor())


@app.command()
def explore(
    port: Annotated[int, typer.Option(help="Port of the page; 0 takes any that is free.")] = 8765,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address, open no browser.", metavar="")
    ] = False,
) -> None:
    """Watch a network learn: choose data, method and constraints on a local web page."""
    from colangevin.lab.cli.explore_command import run_explore

    raise typer.Exit(run_explore(port=port, browser=not no_browser))


def run() -> None:
    """Run the program with the arguments of the process."""
    app(prog_name="cola")
