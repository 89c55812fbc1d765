"""The program ``cola``: one subcommand a task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

try:
    import typer
except ModuleNotFoundError as error:  # a bare install has the library only
    raise SystemExit(
        f"cola needs the package {error.name}: pip install 'colangevin[cli]'"
    ) from None

app = typer.Typer(
    name="cola",
    help="Constrained, partitioned and multirate Langevin dynamics for PyTorch networks.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def main() -> None:
    """Keep ``demo`` a subcommand while it is the only one."""


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Seed of data, weights, batches and noise.")] = 0,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs to train; the paper uses 10,000 (default: 400).")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="A directory, or the picture's file name (.png, .pdf or .svg).")
    ] = Path("out"),
    jobs: Annotated[
        int | None, typer.Option(help="Processes to use (default: one a processor, at most 5).")
    ] = None,
) -> None:
    """Train five methods on the two-turn spiral; print a table and draw a picture."""
    # Imported here: torch and matplotlib take seconds, and --help needs neither.
    from colangevin.cli.demo import run_demo

    raise typer.Exit(run_demo(seed=seed, epochs=epochs, out=out, jobs=jobs))


def run() -> None:
    """Run the program with the arguments of the process."""
    app(prog_name="cola")
