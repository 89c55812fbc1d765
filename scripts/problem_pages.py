"""Put what the records of experiments on problems say into the guides, "Choose" and the gallery.

    python scripts/problem_pages.py [results]

Each guide gets the picture, the table and the verdicts of its experiment, with the command that
makes them; "Choose" gets one number for each problem. An experiment without records is named.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from colangevin.lab import kit
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
CHOOSE, GALLERY = ROOT / "docs" / "choose.md", ROOT / "docs" / "gallery.md"
LATE = kit.Quantity("test_accuracy", "test accuracy, %", 1, 100.0, 1, late=True)


@dataclass(frozen=True)
class Problem:
    """A row of "Choose".

    Attributes:
        problem: what somebody has.
        constraint: on which weights.
        direction: what goes with it.
        radius: or scale, where to start.
        guide: a page, from docs.
        experiment: that measures it.
        bounded: its job with the constraint.
        free: that of the strongest rival named here.
        quantity: by which they are compared.
    """

    problem: str
    constraint: str
    direction: str
    radius: str
    guide: str
    experiment: str
    bounded: str
    free: str
    quantity: kit.Quantity

    def evidence(self, folder: Path) -> str:
        """One number with the constraint and one without."""
        if not (folder / self.experiment).is_dir():
            return "not measured yet"
        records = read_records(folder / self.experiment)
        numbers = [self.quantity.text(records[job]) for job in (self.bounded, self.free)]
        rival = records[self.free].settings["label"]
        page = f"[{self.experiment}](reproduction/{self.experiment}.md)"
        return f"{self.quantity.label}: {numbers[0]}; {rival}: {numbers[1]} ({page})"

    def row(self, folder: Path) -> list[str]:
        """Its cells."""
        problem = f"[{self.problem}]({self.guide})"
        return [problem, self.constraint, self.direction, self.radius, self.evidence(folder)]


PROBLEMS = [
    Problem(
        "the test loss rises while the training loss falls",
        "`Circle` on all weights",
        "`gradient`",
        '`"initial"`, factor 2',
        "guides/bound-weights.md",
        *("fashion-circle", "c-cola-ud", "sgd-m-wd-1e-4"),
        kit.Quantity("test_loss", "test loss", digits=3),
    ),
    Problem(
        "a deep plain network does not start to learn",
        "`Orthogonal` between hidden layers",
        "`adam`, or `gradient`",
        '1; behind ReLUs `scale="relu"`',
        "guides/deep-networks.md",
        *("depth-orthogonal", "o-cola-od-8", "sgd-orthogonal-8"),
        LATE,
    ),
    Problem(
        "small changes of the input change the answer",
        "`Orthogonal` on all matrices, GroupSort",
        "`gradient`",
        "1, outputs times 10 in the loss",
        "guides/robust-networks.md",
        *("lipschitz", "orthogonal-sort", "attacked"),
        kit.Quantity("certified_0.5", "certain within 0.5, %", 1, 100.0, 1),
    ),
    Problem(
        "a recurrent network forgets",
        "`Orthogonal` on the recurrent weight",
        "`adam`",
        "1",
        "guides/long-memory.md",
        *("long-memory", "orthogonal-adam-100", "free-100"),
        kit.Quantity("recalled", "symbols recalled, %", 1, 100.0, 1),
    ),
    Problem(
        "it memorises, and generalises much later",
        "`Sphere` on the rows of hidden matrices",
        "`sign`, or `adam`",
        "1 or 2",
        "guides/generalise-early.md",
        *("grokking", "sign-bounded", "adamw"),
        kit.Quantity("steps", "steps to 95 %, or the limit", digits=0),
    ),
]


def choices(folder: Path) -> str:
    """The table of problems."""
    columns = ["Problem", "Constraint", "Direction", "Radius to start with", "Measured"]
    return markdown_table(columns, [problem.row(folder) for problem in PROBLEMS])


def gallery(folder: Path) -> str:
    """Pictures of the experiments that have records, with what makes them."""
    parts = []
    for name, page in PAGES.items():
        if not (folder / name).is_dir():
            continue
        found = results_of(read_records(folder / name))
        drawn = [f"![{found.experiment.title}](../results/{name}/{p}.png)" for p in found.figures()]
        title = capital(found.experiment.phrase)
        guide = (
            f"Guide: [{title.lower()}](guides/{page}), numbers: [{name}](reproduction/{name}.md)."
        )
        command = f"```sh\n{found.command}\n```"
        parts.append("\n\n".join([f"## {title}", *drawn, command, guide]) + "\n\n")
    return "".join(parts)


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
    put(CHOOSE, "problems", choices(folder))
    put(GALLERY, "problems", gallery(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
