"""What was learnt from the whole: totals of all verdicts, in words and as one picture."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from colangevin.lab.experiments.registry import THEMES as EXPERIMENT_THEMES
from colangevin.lab.report.results import Results
from colangevin.lab.runner.experiment import NO, NOT_COMPARABLE, UNDECIDED, VERDICTS, YES

THEMES = {
    "spirals": "constraints: spirals",
    "depth": "constraints: deep networks",
    "images": "constraints: images",
    "text": "constraints: text",
    "partitioned": "partitioned methods",
    "paths": "loss paths",
    "multirate": "multirate training",
    "boundaries": "images between digits",
    "background": "time stepping",
    "posteriors": "posteriors",
}
"""What the picture calls the folders of experiments that are about a source."""
KINDS = {"order": "orders", "number": "numbers"}
COLORS = {YES: "#2a8f55", NO: "#c8402f", UNDECIDED: "#e0b040", NOT_COMPARABLE: "#c9cdd3"}
ROW, BAR, NAMES, WIDTH, ROOM = 28, 22, 240, 620, 24
"""Of the picture: heights of a line and a bar, widths of names, longest bar and a number."""


def totals(found: Iterable[Results], kind: str) -> Counter[str]:
    """How often each verdict was given to numbers, or to orders."""
    answers = [getattr(claim, kind) for results in found for claim in results.claims]
    return Counter(answer.verdict for answer in answers if answer is not None)


def learnt(found: Sequence[Results]) -> str:
    """The totals of what the sources state, and what they say."""
    found = [own for own in found if _theme(own) in THEMES]
    paper, reduced = split(found)
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
        "their numbers, and hardly at all on large networks, for or against. "
        f"The orders that are the other way: {_reversed(found)}."
    )
    return f"## What was learnt\n\n{textwrap.fill(text, 100)}\n"


def _reversed(found: Sequence[Results]) -> str:
    """Where orders are the other way, and how many."""
    counts = {own.experiment.name: totals([own], "order")[NO] for own in found}
    return ", ".join(f"{name} ({count})" for name, count in counts.items() if count) or "none"


def split(found: Iterable[Results]) -> tuple[list[Results], list[Results]]:
    """Those at the sources' own settings, and the reduced ones."""
    both: tuple[list[Results], list[Results]] = ([], [])
    for results in found:
        both[bool(results.reduction)].append(results)
    return both


def totals_picture(found: Sequence[Results]) -> str:
    """Bars of the verdicts by theme, scale and kind, as SVG: a text, the same at any time."""
    counts = {
        f"orders, {title}": totals([own for own in found if _theme(own) == theme], "order")
        for theme, title in THEMES.items()
    }
    counts |= {
        f"{word}, {where}": totals(some, kind)
        for kind, word in KINDS.items()
        for where, some in zip(("paper's scale", "reduced"), split(found), strict=True)
    }
    longest = max([1, *(sum(own.values()) for own in counts.values())])
    parts = [_legend()]
    for place, (name, own) in enumerate(counts.items()):
        top = (place + 2) * ROW
        text = f'<text x="{NAMES - 8}" y="{top + 15}" text-anchor="end">{escape(name)}</text>'
        parts.append(text)
        left = float(NAMES)
        for verdict in VERDICTS:
            width = WIDTH * own[verdict] / longest
            if width:
                parts.append(_bar(left, top, width, verdict, f"{own[verdict]} {verdict}"))
            if width > ROOM:
                middle = f'x="{left + width / 2:.1f}" y="{top + 15}" text-anchor="middle"'
                parts.append(f"<text {middle}>{own[verdict]}</text>")
            left += width
    size = f'width="{NAMES + WIDTH + 10}" height="{(len(counts) + 2) * ROW + 8}"'
    style = 'font-family="sans-serif" font-size="13" fill="#222222"'
    body = "\n".join(parts)
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{ground}\n{body}\n</svg>\n'


def _theme(results: Results) -> str:
    return EXPERIMENT_THEMES.get(results.experiment.name, "")


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
