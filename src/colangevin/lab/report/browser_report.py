"""One HTML file with everything in it: results of experiments, to be read in a browser."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from colangevin.lab.claims.wording import duration, sentence
from colangevin.lab.report.reproduction_page import machines
from colangevin.lab.report.results import Results, headline, verdict_counts
from colangevin.lab.report.results import found as results_found
from colangevin.lab.runner.experiment import VERDICTS, Answer

STYLE = """
:root { color-scheme: light dark; --text: #1c1e21; --soft: #5c6370; --back: #fbfbfa;
  --card: #ffffff; --line: #dcdde0; --good: #17703a; --part: #8a5a00; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e6e3; --soft: #a0a5ae;
  --back: #16181b; --card: #1e2125; --line: #363a40; --good: #6fce93; --part: #e3b341;
  --bad: #ff8f86; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.4rem; margin: 3rem 0 .4rem; padding-top: 1.5rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .5rem; }
p { margin: .4rem 0; max-width: 50rem; }
.soft { color: var(--soft); font-size: .92rem; }
.warning { border-left: 4px solid var(--part); padding: .4rem .8rem; background: var(--card); }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px;
  padding: .6rem .8rem; overflow-x: auto; font-size: .88rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .8rem .35rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; }
figure { margin: 1rem 0; width: fit-content; max-width: 100%;
  background: #ffffff; border: 1px solid var(--line); border-radius: 8px; padding: .6rem; }
figure img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
figcaption { color: #5c6370; font-size: .85rem; text-align: center; padding-top: .3rem; }
details { margin: .6rem 0; } summary { cursor: pointer; color: var(--soft); }
.yes { color: var(--good); font-weight: 600; } .no { color: var(--bad); font-weight: 600; }
.part { color: var(--part); font-weight: 600; } .none { color: var(--soft); }
"""

KINDS = ("number", "order")
CLASSES = dict(zip(VERDICTS, ("yes", "no", "part", "none"), strict=True))


def html_report(found: Sequence[tuple[Results, Sequence[Path]]]) -> str:
    """Make the report: one page without a reference to anything outside.

    Args:
        found: results, each with the paths of its pictures (PNG).

    Returns:
        The HTML.
    """
    single = len(found) == 1
    title = _title(found[0][0]) if single else "Reproduction"
    body = "".join(
        ("" if single else _heading(results)) + _section(results, pictures)
        for results, pictures in found
    )
    start = "" if single else _overview([results for results, _ in found])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} · colangevin</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{escape(title)}</h1>\n{start}{body}</main>\n</body>\n</html>\n"
    )


def _title(results: Results) -> str:
    return f"{results.experiment.name}: {results.experiment.title}"


def _heading(results: Results) -> str:
    return f'<h2 id="{escape(results.experiment.name)}">{escape(_title(results))}</h2>\n'


def _overview(found: Sequence[Results]) -> str:
    rows = []
    for results in found:
        name = escape(results.experiment.name)
        cells = [
            results.experiment.source,
            results.scale,
            duration(results.records.seconds),
            *(verdict_counts(getattr(claim, kind) for claim in results.claims) for kind in KINDS),
        ]
        rows.append([f'<a href="#{name}">{name}</a>', *map(escape, cells)])
    return _table(["experiment", "source", "scale", "wall-clock", *KINDS], rows)


def _section(results: Results, pictures: Sequence[Path]) -> str:
    parts = [
        f"<p>{escape(headline(results))}</p>\n",
        _said("Claimed", results.experiment.claimed),
        _said("Found", "" if results.trial else results_found(results)),
        _said("Ours", results.experiment.ours),
        f"<pre>{escape(results.command)}</pre>\n",
        _incomplete(results),
        *map(_picture, pictures),
        "<h3>Results</h3>\n" if results.table.rows else "",
        _escaped_table(results.table.columns, results.table.rows) if results.table.rows else "",
        _claims(results),
        _said("More on the settings", results.experiment.note),
        _jobs(results),
    ]
    return "".join(parts)


def _incomplete(results: Results) -> str:
    if not results.missing:
        return ""
    names = escape(", ".join(results.missing))
    return f'<p class="warning"><b>Not complete</b>: {names}. What follows leaves them out.</p>\n'


def _picture(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    name = escape(path.stem.replace("-", " "))
    return (
        f'<figure><img alt="{name}" src="data:image/png;base64,{data}">'
        f"<figcaption>{name}</figcaption></figure>\n"
    )


def _claims(results: Results) -> str:
    if not results.claims:
        return ""
    rows = [
        [
            *map(escape, (claim.text, claim.source, claim.ours)),
            *(_verdict(getattr(claim, kind)) for kind in KINDS),
            escape(claim.why),
        ]
        for claim in results.claims
    ]
    table = _table(["what", "source", "ours", *KINDS, "why"], rows)
    return f"<h3>What the source states</h3>\n{table}"


def _verdict(answer: Answer | None) -> str:
    if answer is None:
        return "–"
    kind = CLASSES[answer.verdict]
    return f'<span class="{kind}">{escape(str(answer))}</span>'


def _said(word: str, text: str) -> str:
    return f"<p><b>{word}.</b> {escape(sentence(text))}</p>\n" if text else ""


def _jobs(results: Results) -> str:
    common = results.records.settings
    rows = []
    for name, record in results.records.items():
        own = {key: value for key, value in record.settings.items() if key not in common}
        state = "complete" if record.complete else "NOT COMPLETE"
        rows.append([name, state, duration(record.seconds), record.started, _pairs(own)])
    clock = duration(results.records.seconds)
    versions = "".join(f'<p class="soft">{escape(line)}.</p>\n' for line in machines(results))
    return (
        f"<h3>Runs</h3>\n<p>Wall-clock of all jobs together: {clock}.</p>\n{versions}"
        f"<details><summary>Settings and jobs</summary>\n<p>{escape(_pairs(common))}</p>\n"
        + _escaped_table(["job", "state", "wall-clock", "started", "settings of its own"], rows)
        + "</details>\n"
    )


def _pairs(settings: dict[str, object]) -> str:
    return ", ".join(
        f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()
    )


def _escaped_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    return _table(columns, [[escape(cell) for cell in row] for row in rows])


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Make a table of cells that are HTML already."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    lines = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    return (
        f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody>\n</table></div>\n"
    )
