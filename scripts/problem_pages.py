"""Put what the records of experiments on problems say into the guides.

    python scripts/problem_pages.py [results]

Each guide gets the picture, the table and the verdicts of its experiment, with the command that
makes them; a guide whose experiment has no records says so.
"""

from __future__ import annotations

import sys
from pathlib import Path

from colangevin.lab.bench.page_words import put
from colangevin.lab.claims.wording import capital, markdown_table
from colangevin.lab.report.results import Results, results_of
from colangevin.lab.runner.records import read_records

ROOT = Path(__file__).parents[1]
GUIDES = ROOT / "docs" / "guides"
PAGES = {
    "lipschitz": "robust-networks.md",
    "no-normalisation": "deep-networks.md",
    "long-memory": "long-memory.md",
    "grokking": "generalise-early.md",
}
"""The guide of each experiment; it has comments "NAME: begin" and "NAME: end"."""


def section(name: str, folder: Path) -> str:
    """What a guide says of its experiment."""
    if not (folder / name).is_dir():
        return f"Nothing yet: `cola reproduce {name} --scale laptop` measures it.\n"
    found = results_of(read_records(folder / name))
    pictures = "".join(
        f"![{found.experiment.title}](../../results/{name}/{picture}.png)\n\n"
        for picture in found.experiment.figures
    )
    table = markdown_table(found.table.columns, found.table.rows)
    return f"{caption(found)}\n\n{pictures}{table}\n{verdicts(found)}"


def caption(found: Results) -> str:
    """Scale, runs and command, and where the settings are."""
    name = found.experiment.name
    note = f"settings and trials are on [its page](../reproduction/{name}.md)"
    return f"{capital(found.scale)}; mean ± standard deviation (`{found.command}`); {note}."


def verdicts(found: Results) -> str:
    """One line per claim."""
    lines = [
        f"- {capital(claim.text)}: {claim.source}? **{answer.verdict}** ({answer.by})."
        for claim in found.claims
        for answer in claim.answers
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write all guides."""
    folder = Path(arguments[0]) if arguments else ROOT / "results"
    for name, page in PAGES.items():
        put(GUIDES / page, name, section(name, folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
