"""``cola report``: files and tables around :mod:`colangevin.lab.report.results`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from colangevin.lab.cli.complaint import BAD_ARGUMENT, complain
from colangevin.lab.cli.narrow_tables import terminal_table
from colangevin.lab.report.browser_report import html_report
from colangevin.lab.report.reproduction_page import details
from colangevin.lab.report.reproduction_page import page as markdown_page
from colangevin.lab.report.results import Results, headline, read_results, write_files
from colangevin.lab.report.results import found as results_found
from colangevin.lab.runner.writing import write_text


def run_report(directory: Path, page: Path | None) -> int:
    """Read records, write figures, tables, report and page; return the exit code."""
    console = Console()
    try:
        found = read_results(directory)
        written = write_report(found, directory)
        if page is not None:
            page.parent.mkdir(parents=True, exist_ok=True)
            write_text(page, markdown_page(found, directory.resolve(), page.resolve()))
            written.append(page)
            for path, text in details(found, page.resolve()).items():
                path.parent.mkdir(exist_ok=True)
                write_text(path, text)
                written.append(path)
    except (OSError, ValueError) as error:
        complain("report", error)
        return BAD_ARGUMENT
    for results in found:
        print_results(results, console)
    say_written(written, console)
    return 0


def write_report(found: list[Results], directory: Path) -> list[Path]:
    """Write figures and tables beside the records, and one report; return all paths."""
    written = []
    parts = []
    for results in found:
        folder = results.records.directory or directory
        pictures, table = write_files(results, folder)
        parts.append((results, pictures))
        written += [*pictures, table]
    report = directory / "report.html"
    write_text(report, html_report(parts))
    return [*written, report]


def print_results(results: Results, console: Console) -> None:
    """Print the table and the verdicts."""
    console.print(headline(results), markup=False, highlight=False)
    if results.missing:
        names = ", ".join(results.missing)
        console.print(f"Not complete: {names}.", markup=False, highlight=False)
    if results.table.rows:
        table = terminal_table(results.table.columns, results.table.rows, console.width)
        console.print(table, markup=False)
    if results.trial:
        console.print(f"Scale {results.scale}: too little to judge the source's claims.")
    elif results.claims:
        console.print(results_found(results), markup=False, highlight=False)


def say_written(paths: list[Path], console: Console) -> None:
    """Name the files."""
    for path in paths:
        console.print(f"Wrote {path}", soft_wrap=True, markup=False, highlight=False)
