"""A record as a table on the terminal and as a page of Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich import box
from rich.table import Table

from colangevin.lab.bench import page_words
from colangevin.lab.bench.record import Bar, Record, Row
from colangevin.lab.bench.sampling_rates import LETTER, is_fair, rate

Cells = Callable[[Row, "str | None"], tuple[str, ...]]

DOCS_PICTURE = "../benchmarks/results/bench.png"
DOCS_JSON = "../benchmarks/results/bench.json"
"""Where the page in the documentation finds the files of its run."""

TABLES = "benchmark-tables.md"
"""The page with all tables."""

HEADERS = ("", "time", "ratio", "state", "scratch", "violation (steps)")
SAMPLING = ("", "ESS per second", "ratio", "ESS", "seconds", "bias", "violation", "chains × draws")


def seconds(value: float | None) -> str:
    """A time with its unit.

    Example:
        >>> seconds(0.00014), seconds(0.0175), seconds(2.5)
        ('0.140 ms', '17.5 ms', '2.50 s')
    """
    if value is None:
        return ""
    if value >= 1.0:
        return f"{value:.3g} s" if value >= 10.0 else f"{value:.2f} s"
    milli = value * 1e3
    return f"{milli:.3f} ms" if milli < 1.0 else f"{milli:.3g} ms"


def number(value: float | None, digits: int = 2) -> str:
    """A number with few digits, or nothing."""
    if value is None:
        return ""
    if 0.0 < abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:.3g}" if abs(value) >= 10.0 else f"{value:.{digits}f}"


def common_baseline(rows: Sequence[Row]) -> str | None:
    """What most ratios of a table refer to."""
    named = [row.baseline for row in rows if row.baseline is not None]
    return max(named, key=named.count) if named else None


def cells(row: Row, usual: str | None) -> tuple[str, ...]:
    """A row as text; a baseline other than the usual one is named beside the ratio."""
    about = "~ " if row.estimated else ""
    violation = ""
    if row.violation is not None:
        violation = f"{row.violation:.1e} ({row.steps:,}{'*' if row.sampled else ''})"
    label = row.label + (f" ({row.note})" if row.note else "")
    ratio = about + number(row.ratio) if row.ratio is not None else ""
    if ratio and row.baseline != usual:
        ratio += f" (to {row.baseline})"
    return (
        label,
        about + seconds(row.seconds) if row.seconds is not None else "",
        ratio,
        number(row.state),
        number(row.scratch),
        violation,
    )


def sampling_cells(row: Row, usual: str | None) -> tuple[str, ...]:
    """A row of a sampler as text."""
    label = row.label + (f" ({row.note})" if row.note else "")
    own = rate(row)
    if own is None or row.bias is None or row.bias_error is None:
        return (label, *[""] * (len(SAMPLING) - 1))
    return (
        label,
        f"{own:,.0f}" if own >= 10 else f"{own:.1f}",
        number(row.ratio),
        f"{row.ess:,.0f}",
        number(row.seconds),
        f"{row.bias:.3f} ± {row.bias_error:.3f}{'' if is_fair(row) else ' (biased)'}",
        "" if row.violation is None else f"{row.violation:.0e}",
        f"{row.chains:,} × {row.draws:,}",
    )


def columns(rows: Sequence[Row]) -> tuple[tuple[str, ...], Cells]:
    """The headers of a table, and what makes the cells of a row."""
    return (SAMPLING, sampling_cells) if rows[0].work == LETTER else (HEADERS, cells)


def sections(record: Record) -> list[tuple[str, str, list[Row]]]:
    """Letter, heading and rows of every table, in order."""
    found: list[tuple[str, str, list[Row]]] = []
    for letter, title in record.works.items():
        parts: dict[str, list[Row]] = {}
        for row in record.of_work(letter):
            parts.setdefault(row.series, []).append(row)
        for series, rows in parts.items():
            found.append((letter, f"{title}: {series}" if series else title, rows))
    return found


def tables(record: Record) -> list[Table]:
    """One table a work, for the terminal, and the bars."""
    made = []
    for letter, title, rows in sections(record):
        usual = common_baseline(rows)
        title = f"({letter}) {title}" + (f"; ratio to {usual}" if usual else "")
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        scaling = rows[0].x is not None
        headers, texts = columns(rows)
        for header in ("size", *headers) if scaling else headers:
            table.add_column(header, justify="right" if header else "left")
        for row in rows:
            front = (size(row),) if scaling else ()
            table.add_row(*front, *texts(row, usual), style="bold" if row.ours else None)
        made.append(table)
    if record.bars:
        made.append(_bar_table(record.bars))
    return made


def size(row: Row) -> str:
    """The size of a scaling row."""
    return "" if row.x is None else f"{row.x:,.0f}"


def verdict(bar: Bar) -> str:
    """Met, missed or not measured."""
    return {True: "met", False: "missed", None: "not measured"}[bar.met]


def limit(bar: Bar) -> str:
    """The bar and, if there is one, the aim."""
    value = f"{bar.limit:.0e}" if bar.limit < 0.01 else f"{bar.limit:.3g}"
    return f"{'≥' if bar.least else '≤'} {value}" + (f", aim {bar.aim}" if bar.aim else "")


def measured(bar: Bar) -> str:
    """The figure."""
    if bar.measured is not None and bar.limit < 0.01:
        return f"{bar.measured:.1e}"
    return number(bar.measured)


def _bar_table(bars: Sequence[Bar]) -> Table:
    table = Table(title="Bars", title_justify="left", box=box.SIMPLE_HEAD)
    for header in ("work", "what", "bar", "measured", ""):
        table.add_column(header, justify="right" if header == "measured" else "left")
    for bar in bars:
        style = {True: None, False: "bold red", None: "dim"}[bar.met]
        table.add_row(bar.work, bar.text, limit(bar), measured(bar), verdict(bar), style=style)
    return table


# --- Markdown --------------------------------------------------------------------------------


def markdown(record: Record, picture: str, json: str) -> str:
    """All about a run on one page; ``picture`` and ``json`` are links to its files."""
    return overview(record, picture, json) + "\n" + details(record)


def overview(record: Record, picture: str, json: str) -> str:
    """One picture and one table: what was to be reached, and what was."""
    parts = [
        page_words.INTRODUCTION.format(json=json),
        f"![Ratios by work, and scaling]({picture})\n",
        _machine(record),
        page_words.BARS,
        _bars(record.bars),
    ]
    return "\n".join(parts)


def details(record: Record) -> str:
    """How to read the figures, and a table of each work."""
    parts = [page_words.READING]
    if LETTER in record.works:
        parts.append(page_words.SAMPLING.format(versions=_samplers(record)))
    for letter, title, rows in sections(record):
        parts.append(f"## ({letter}) {title}\n\n" + _rows(rows))
        powers = record.slopes.get(rows[0].series, {})
        if powers:
            listed = ", ".join(f"{label} {power:.2f}" for label, power in powers.items())
            parts.append(f"Fitted powers of the size, over the larger sizes: {listed}.\n")
    return "\n".join(parts)


def docs_pages(record: Record) -> dict[str, str]:
    """The pages of the documentation: an overview, and all tables behind a link."""
    more = f"\nAll contestants, and how to read their figures: [tables]({TABLES}).\n"
    head = "# Benchmarks: all tables\n\nThe overview is in [benchmarks](benchmarks.md).\n\n"
    return {
        "benchmarks.md": overview(record, DOCS_PICTURE, DOCS_JSON) + more,
        TABLES: head + details(record),
    }


def _machine(record: Record) -> str:
    facts = record.machine
    names = ("geoopt", "geotorch", "pogo-torch")
    packages = ", ".join(f"{name} {facts[name]}" for name in names)
    load = "" if facts["load"] is None else f"; load average at the start {facts['load']}"
    device = "" if facts["device"] == "cpu" else f", on {facts['device']}"
    return (
        f"Measured on {facts['date']}{device}: {facts['cpu']} ({facts['instructions']}), "
        f"{facts['cores']} cores, {facts['threads']} threads{load}. Python {facts['python']}, "
        f"torch {facts['torch']}, colangevin {facts['colangevin']}, {packages}. The run took "
        f"{record.seconds / 60:.0f} minutes.{_renewed(record)}\n"
    )


def _samplers(record: Record) -> str:
    """Versions of the samplers, and what the machine was like when they ran."""
    facts = record.settings.get("samplers", {})
    names = ("mici", "geoopt", "posteriors", "blackjax", "numpyro", "jax")
    versions = ", ".join(f"{name} {facts.get(name, 'unknown')}" for name in names)
    return f"{versions}; load average at the end {facts.get('load', 'unknown')}"


def _renewed(record: Record) -> str:
    """Which works come from a later run, in which all of their contestants took turns anew."""
    later = record.settings.get("renewed", {})
    listed = ", ".join(f"({letter}) on {date}" for letter, date in later.items())
    return f" From a later run on the same machine: {listed}." if listed else ""


def _bars(bars: Sequence[Bar]) -> str:
    lines = [
        "| work | what | bar | measured | |",
        "| --- | --- | --- | ---: | --- |",
    ]
    for bar in bars:
        work = f"({bar.work})" if bar.work else "all"
        content = (work, bar.text, limit(bar), measured(bar), verdict(bar))
        lines.append("| " + " | ".join(content) + " |")
    return "\n".join(lines) + "\n"


def _rows(rows: Sequence[Row]) -> str:
    scaling = rows[0].x is not None
    usual = common_baseline(rows)
    own, texts = columns(rows)
    headers = (("size",) if scaling else ()) + own
    aligned = ["---:" if header else "---" for header in headers]
    lines = ["| " + " | ".join(headers) + " |", "| " + " | ".join(aligned) + " |"]
    for row in rows:
        front = (size(row),) if scaling else ()
        first, *rest = texts(row, usual)
        name = f"**{first}**" if row.ours else first
        lines.append("| " + " | ".join((*front, name, *rest)) + " |")
    named = f"Ratios are to {usual}.\n\n" if usual else ""
    return named + "\n".join(lines) + "\n"
