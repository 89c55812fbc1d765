"""What was learnt from the whole: totals of all verdicts, in words and as one picture."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from colangevin.lab.claims.wording import markdown_table
from colangevin.lab.report.results import Results
from colangevin.lab.runner.experiment import NO, NOT_COMPARABLE, UNDECIDED, VERDICTS, YES

KINDS = {"number": "numbers", "order": "orders"}
COLORS = {YES: "#2a8f55", NO: "#c8402f", UNDECIDED: "#e0b040", NOT_COMPARABLE: "#c9cdd3"}
ROW, BAR, NAMES, WIDTH = 20, 14, 190, 620
"""Of the picture: heights of a line and of its bar, widths of the names and of the longest bar."""


def totals(found: Iterable[Results], kind: str) -> Counter[str]:
    """How often each verdict was given to numbers, or to orders."""
    answers = [getattr(claim, kind) for results in found for claim in results.claims]
    return Counter(answer.verdict for answer in answers if answer is not None)


def learnt(found: Sequence[Results]) -> str:
    """The totals, and what they say."""
    paper, reduced = split(found)
    rows = []
    for where, some in (("paper", paper), ("reduced", reduced), ("all", found)):
        for kind, word in KINDS.items():
            counts = totals(some, kind)
            rows.append([where, word, *(str(counts[verdict]) for verdict in VERDICTS)])
    table = markdown_table(["scale", "claims", *VERDICTS], rows)
    orders, numbers, more = (
        totals(paper, "order"),
        totals(paper, "number"),
        totals(reduced, "order"),
    )
    text = (
        f"At the sources' own settings, {orders[YES] + orders[NO]} stated orders are decided: "
        f"{orders[YES]} are there, and {orders[NO]} are the other way. {orders[UNDECIDED]} are "
        f"undecided, within the error or with too few runs. Of {numbers[YES] + numbers[NO]} "
        f"stated numbers that at least five runs can judge, {numbers[YES]} are within the error "
        f"of ours. At reduced scales {more[YES] + more[NO]} of {sum(more.values())} orders could "
        "be decided, and no number can be compared. So these records speak for the orders that the "
        "sources state on spirals, trigonometric data, small networks and Fashion-MNIST, less for "
        "their numbers, and hardly at all on large networks, for or against."
    )
    text = f"## What was learnt\n\n{textwrap.fill(text, 100)}\n"
    return f"{text}\n{table}"


def split(found: Iterable[Results]) -> tuple[list[Results], list[Results]]:
    """Those at the sources' own settings, and the reduced ones."""
    both: tuple[list[Results], list[Results]] = ([], [])
    for results in found:
        both[bool(results.reduction)].append(results)
    return both


def totals_picture(found: Sequence[Results]) -> str:
    """Bars of the verdicts by experiment, as SVG: a text, the same at any time."""
    counts = {own.experiment.name: _both(own) for own in found}
    counts = {name: own for name, own in counts.items() if own}
    longest = max((sum(own.values()) for own in counts.values()), default=1)
    parts = [_legend()]
    for place, (name, own) in enumerate(counts.items()):
        top = (place + 2) * ROW
        text = f'<text x="{NAMES - 8}" y="{top + 11}" text-anchor="end">{escape(name)}</text>'
        parts.append(text)
        left = float(NAMES)
        for verdict in VERDICTS:
            width = WIDTH * own[verdict] / longest
            if width:
                parts.append(_bar(left, top, width, verdict, f"{own[verdict]} {verdict}"))
            left += width
        parts.append(f'<text x="{left + 6:.1f}" y="{top + 11}">{sum(own.values())}</text>')
    size = f'width="{NAMES + WIDTH + 50}" height="{(len(counts) + 3) * ROW}"'
    style = 'font-family="sans-serif" font-size="12" fill="#333333"'
    body = "\n".join(parts)
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{ground}\n{body}\n</svg>\n'


def _both(results: Results) -> Counter[str]:
    return totals([results], "number") + totals([results], "order")


def _bar(left: float, top: float, width: float, verdict: str, title: str) -> str:
    place = f'x="{left:.1f}" y="{top}" width="{width:.1f}" height="{BAR}"'
    return f'<rect {place} fill="{COLORS[verdict]}"><title>{escape(title)}</title></rect>'


def _legend() -> str:
    parts = []
    for place, verdict in enumerate(VERDICTS):
        left = NAMES + 130 * place
        parts.append(_bar(left, 8, 14, verdict, verdict))
        parts.append(f'<text x="{left + 20}" y="19">{verdict}</text>')
    return "\n".join(parts)
