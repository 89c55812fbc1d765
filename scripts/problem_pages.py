"""Put what the records of experiments on problems say into guides, "Choose", gallery and README.

    python scripts/problem_pages.py [results]

Each guide gets the picture, the table and the verdicts of its experiment, with the command that
makes them; "Choose" gets one number for each problem, the README one row: with the constraint,
without it by the strongest of the rivals, and what it costs. An experiment without records is
named.
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
    "quantisation": "few-bits.md",
    "plasticity": "keep-learning.md",
}
"""The guide of each experiment; it has comments "NAME: begin" and "NAME: end"."""
CHOOSE, GALLERY = ROOT / "docs" / "choose.md", ROOT / "docs" / "gallery.md"
README = ROOT / "README.md"
LATE = kit.Quantity("test_accuracy", "test accuracy, %", 1, 100.0, 1, late=True)


def percent(key: str, label: str) -> kit.Quantity:
    """A share, as it is shown."""
    return kit.Quantity(key, label, 1, 100.0, 1)


@dataclass(frozen=True)
class Problem:
    """A row of "Choose", and of the README's table.

    Attributes:
        problem: what somebody has.
        constraint: on which weights.
        direction: what goes with it.
        radius: or scale, where to start.
        guide: a page, from docs.
        experiment: that measures it.
        bounded: its job with the constraint.
        rivals: jobs without it, with as many trials as the job with it.
        quantity: by which they are compared.
        cost: what the constraint may cost: a number, beside that of the rival with the best one.
        exact: whether a sign test compares them, for numbers without a mean.
    """

    problem: str
    constraint: str
    direction: str
    radius: str
    guide: str
    experiment: str
    bounded: str
    rivals: tuple[str, ...]
    quantity: kit.Quantity
    cost: kit.Quantity
    exact: bool = False

    def records(self, folder: Path) -> kit.Records | None:
        """Those of the experiment; None if the two jobs to compare have none that are complete."""
        path = folder / self.experiment
        found = read_records(path) if path.is_dir() else kit.Records([])
        done = {name for name, own in found.items() if own.complete}
        return found if {self.bounded, *self.rivals} <= done else None

    def strongest(self, records: kit.Records, quantity: kit.Quantity) -> kit.Record:
        """The rival with the best mean."""
        return max(
            (records[name] for name in self.rivals),
            key=lambda own: quantity.sign * kit.mean_std(quantity.of(own).values)[0],
        )

    def evidence(self, folder: Path) -> str:
        """One number with the constraint and one without."""
        records = self.records(folder)
        if records is None:
            return "not measured yet"
        rival = self.strongest(records, self.quantity)
        numbers = [self.quantity.text(own) for own in (records[self.bounded], rival)]
        page = f"[{self.experiment}](reproduction/{self.experiment}.md)"
        return f"{self.quantity.label}: {numbers[0]}; {rival.label}: {numbers[1]} ({page})"

    def row(self, folder: Path) -> list[str]:
        """Its cells in "Choose"."""
        problem = f"[{self.problem}]({self.guide})"
        return [problem, self.constraint, self.direction, self.radius, self.evidence(folder)]

    def short(self, folder: Path) -> list[str]:
        """Its cells in the README; none if it was not measured."""
        records = self.records(folder)
        if records is None:
            return []
        own, rival = records[self.bounded], self.strongest(records, self.quantity)
        best = self.strongest(records, self.cost)
        (claim,) = kit.Ahead(self.quantity, self.bounded, over=(rival.job,), exact=self.exact)(
            records
        )
        (answer,) = claim.answers
        return [
            f"[{self.problem}](docs/{self.guide})",
            f"{self.quantity.label}: {_plain(self.quantity, rival)} ({rival.label})",
            f"{_plain(self.quantity, own)} ({self.constraint})",
            f"{self.cost.label}: {_plain(self.cost, best)} → {_plain(self.cost, own)}",
            f"{answer.verdict} (n = {len(self.quantity.of(own).values)})",
        ]


def _plain(quantity: kit.Quantity, record: kit.Record) -> str:
    """Mean ± standard deviation, without the number of runs."""
    return quantity.text(record).partition(" (")[0]


TIME = kit.Quantity("seconds", "s of training", -1, digits=1)
PROBLEMS = [
    Problem(
        "the test loss rises while the training loss falls",
        "`Circle` on all weights",
        "`gradient`",
        '`"initial"`, factor 2',
        "guides/bound-weights.md",
        *(
            "fashion-circle",
            "c-cola-ud",
            (*(f"sgd-m-wd-{decay}" for decay in ("1e-4", "5e-5", "1e-5")), "sgd-m"),
        ),
        kit.Quantity("test_loss", "test loss", digits=3),
        kit.Quantity("test_accuracy", "accuracy, %", 1, 100.0, 1, late=True),
    ),
    Problem(
        "a deep plain network does not start to learn",
        "`Orthogonal` between hidden layers",
        "`adam`, or `gradient`",
        '1; behind ReLUs `scale="relu"`',
        "guides/deep-networks.md",
        *("depth-orthogonal", "o-cola-od-8", ("sgd-8", "sgd-orthogonal-8", "sgd-penalty-8")),
        LATE,
        kit.Quantity("test_loss", "test loss", -1, digits=2, late=True),
    ),
    Problem(
        "a plain network of 50 layers learns slowly from images",
        "`Orthogonal` between hidden layers",
        "`adam`",
        '`scale="relu"`',
        "guides/deep-networks.md",
        *("no-normalisation", "orthogonal-adam-50"),
        tuple(
            f"{weights}-{direction}-50"
            for weights in ("start", "norm", "he")
            for direction in ("gradient", "adam")
        ),
        percent("test_accuracy", "test accuracy, %"),
        TIME,
    ),
    Problem(
        "small changes of the input change the answer",
        "`Orthogonal` on all matrices, GroupSort",
        "`gradient`",
        "1, outputs times 10 in the loss",
        "guides/robust-networks.md",
        *("lipschitz", "orthogonal-sort", ("sgd", "decay", "attacked")),
        percent("certified_0.5", "certain within 0.5, %"),
        percent("test_accuracy", "accuracy, %"),
    ),
    Problem(
        "weights are to have two bits",
        "`Circle` on all weights",
        "`gradient`",
        '`"fan_in"`, factor 1',
        "guides/few-bits.md",
        *("quantisation", "mlp-circle"),
        tuple(f"mlp-{name}" for name in ("sgd", "adam", "decay", "adam-decay", "penalty", "clip")),
        percent("best_2", "right with 2 bits, %"),
        percent("test_accuracy", "in float, %"),
    ),
    Problem(
        "a network that learned many tasks learns no more",
        "`Box` on all weights",
        "`adam`, or `gradient`",
        "1 to 4 times 1/√fan_in",
        "guides/keep-learning.md",
        *("plasticity", "box-adam"),
        ("free-adam", "decay-adam", "initial-adam", "shrink-adam"),
        percent("late_accuracy", "last tasks, %"),
        percent("early_accuracy", "first tasks, %"),
    ),
    Problem(
        "a recurrent network forgets",
        "`Orthogonal` on the recurrent weight",
        "`adam`",
        "1",
        "guides/long-memory.md",
        *("long-memory", "orthogonal-adam-100", ("free-100", "lstm-100")),
        percent("recalled", "symbols recalled, %"),
        TIME,
    ),
    Problem(
        "it memorises, and generalises much later",
        "`Sphere` on the rows of hidden matrices",
        "`sign`, or `adam`",
        "0.5 or 1",
        "guides/generalise-early.md",
        *("grokking", "sign-bounded", ("usual", "adamw", "lion")),
        kit.Quantity("steps", "steps to 95 %, or the limit", digits=0),
        TIME,
        exact=True,
    ),
]


def choices(folder: Path) -> str:
    """The table of problems."""
    columns = ["Problem", "Constraint", "Direction", "Radius to start with", "Measured"]
    return markdown_table(columns, [problem.row(folder) for problem in PROBLEMS])


def readme(folder: Path) -> str:
    """The README's table: the problems that were measured."""
    columns = [
        "Problem",
        "Without: the strongest rival",
        "With",
        "Cost: best without → with",
        "Ahead?",
    ]
    rows = [cells for problem in PROBLEMS if (cells := problem.short(folder))]
    more = "Which direction and radius, and all rivals: [choose](docs/choose.md)."
    return f"{markdown_table(columns, rows)}\nMean ± standard deviation over the seeds. {more}\n"


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
    put(README, "problems", readme(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
