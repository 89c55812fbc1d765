"""Change one line of the core at a time, and see whether the quick tests notice.

    python scripts/mutants.py            # print the table; about a quarter of a minute per mutant
    python scripts/mutants.py --write    # and put it into docs/architecture.md
    python scripts/mutants.py circle     # only those whose name has this word

Each mutant is a copy of the sources in a temporary folder with one text replaced by another. The
tests are those of ``make quick``; they stop at the first failure. HOME is the temporary folder, so
that every mutant compiles kernels of its own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
START, END = "<!-- mutants: begin -->\n", "<!-- mutants: end -->\n"
PATIENCE = 600.0


class Mutant(NamedTuple):
    """A mistake that the tests must notice: a text of a file, and what it becomes."""

    name: str
    file: str
    old: str
    new: str


MUTANTS = [
    Mutant(
        "circle: a weight that is written to forgets the side of its slack",
        "constraints/circle.py",
        "return torch.where(old.abs() > QUARTER, across, angle)",
        "return angle",
    ),
    Mutant(
        "circle: angles are not wrapped",
        "constraints/circle.py",
        "hold_(wrap_(angle))",
        "hold_(angle)",
    ),
    Mutant(
        "circle: the kick is not divided by r",
        "constraints/circle.py",
        "factor = like(self._inverse, gradient) * weight",
        "factor = like(1.0, gradient) * weight",
    ),
    Mutant(
        "circle: too few powers of an angle",
        "constraints/angles.py",
        "series[FEW if largest <= FEW else MORE]",
        "series[FEW]",
    ),
    Mutant(
        "circle: noise of the wrong size",
        "constraints/circle.py",
        "(like(self._inverse, state.position) * scale)",
        "(like(self._inverse, state.position) ** 2 * scale)",
    ),
    Mutant(
        "circle kernel: another length of a turn",
        "native/step.h",
        "FMA(turns, PI * -2, turn)",
        "FMA(turns, (REAL)-6.283, turn)",
    ),
    Mutant(
        "circle kernel: weight decay left out",
        "native/force.h",
        "if (row[0] != 0) NAME(decay)(b, room, (REAL)row[0]);",
        "",
    ),
    Mutant(
        "circle kernel: an overdamped turn in the quadrant of small ones",
        "native/step.h",
        "steep |= !(ABS(across) <= TAN * along);",
        "",
    ),
    Mutant(
        "direction kernel: Adam's mean without its correction",
        "native/force.h",
        "room[i] = mean * up / FMA(",
        "room[i] = mean / FMA(",
    ),
    Mutant(
        "direction kernel: Adam's squares of another decay",
        "native/force.h",
        "FMA(g * g, second, b->square[i] * kept)",
        "FMA(g * g, second, b->square[i])",
    ),
    Mutant(
        "direction kernel: the sign of the new mean",
        "native/force.h",
        "const REAL along = NAME(between)(mean, g, first);",
        "const REAL along = NAME(between)(mean, g, second);",
    ),
    Mutant(
        "direction kernel: it does not see the weight decay",
        "native/force.h",
        "if (row[2] != 0) NAME(decay)(b, room, (REAL)row[2]);",
        "",
    ),
    Mutant(
        "sphere kernel: kicks keep half of their normal part",
        "native/rows.h",
        "const REAL along = (REAL)dot / (radius * radius);\n    const REAL *w",
        "const REAL along = (REAL)0.5 * (REAL)dot / (radius * radius);\n    const REAL *w",
    ),
    Mutant(
        "sphere kernel: great circles at the wrong speed",
        "native/rows.h",
        "NAME(sinc)(speed * step / radius, &cosine) * step",
        "NAME(sinc)(speed * step, &cosine) * step",
    ),
    Mutant(
        "sphere kernel: a long row has the length of its last piece",
        "native/rows.h",
        "sums[0] += NAME(dot)(b.position, b.position, b.count);",
        "sums[0] = NAME(dot)(b.position, b.position, b.count);",
    ),
    Mutant(
        "sphere kernel: slacks draw the noise of the weights",
        "native/rows.h",
        "t->draws + 1);",
        "t->draws);",
    ),
    Mutant(
        "sphere kernel: a slack may vanish",
        "native/rows.h",
        "ABS(new) < least ? COPYSIGN(least, new) : new",
        "new",
    ),
    Mutant(
        "polar: the last iterate of a long matrix is left out",
        "optimizers/directions/polar.py",
        "made = factor if made is None else factor @ made",
        "made = factor if made is None else made",
    ),
    Mutant(
        "circle kernel: a bound that may be passed",
        "native/step.h",
        "COPYSIGN(c.bound < x ? c.bound : x, angle)",
        "COPYSIGN(x, angle)",
    ),
    Mutant(
        "orthogonal: a tangent with half of the symmetric part",
        "constraints/orthogonal.py",
        "multiplier, -inverse(step))",
        "multiplier, -0.5 * inverse(step))",
    ),
    Mutant(
        "orthogonal kernel: the momentum keeps half of its normal part",
        "native/stiefel.h",
        "m->momentum, (REAL)1 / step);",
        "m->momentum, (REAL)0.5 / step);",
    ),
    Mutant(
        "orthogonal kernel: noise of a wide weight from another place",
        "native/stiefel.h",
        "s->first + at, m->rows *m->columns",
        "s->first + at + 1, m->rows *m->columns",
    ),
    Mutant(
        "scheme: O without its variance",
        "integrators/scheme.py",
        "variance * share**2 + (1.0 - share**2)",
        "variance * share**2 + (1.0 - share)",
    ),
    Mutant(
        "recipe: the overdamped noise of half the size",
        "integrators/recipe.py",
        "_root(2.0 * temperature * lr)",
        "_root(temperature * lr)",
    ),
    Mutant(
        "recipe: a drift of the wrong sign",
        "integrators/recipe.py",
        "Drift(-lr * move[0], ",
        "Drift(lr * move[0], ",
    ),
    Mutant(
        "plan: a changed lr is not taken over",
        "optimizers/step/question.py",
        "if same and numbers == plan._numbers:",
        "if same:",
    ),
    Mutant(
        "plan: other entries of a group are not looked at",
        "optimizers/step/question.py",
        "same = same and plan._read(group) == plan._others",
        "pass",
    ),
    Mutant(
        "plan: a write to a weight is not noticed",
        "optimizers/step/question.py",
        "or list(map(version_of, parameters)) == plan._versions",
        "or True",
    ),
    Mutant(
        "plan: other memory of a weight is not noticed",
        "optimizers/step/question.py",
        "if (own.data_ptr(), own.stride(), own.shape) != where:",
        "if False:",
    ),
    Mutant(
        "plan: an exchanged momentum is not noticed",
        "optimizers/step/question.py",
        "if held.get(key) is not stored or local.data_ptr() != pointer:",
        "if False:",
    ),
    Mutant(
        "failed step: nothing is put back",
        "optimizers/step/execute.py",
        "            put_back()\n        raise",
        "            pass\n        raise",
    ),
    Mutant(
        "noise: the step is not counted",
        "optimizers/cola.py",
        "        if counted:\n            add_one(",
        "        if False:\n            add_one(",
    ),
    Mutant(
        "ensemble: all members draw the noise of the first",
        "ensemble/groups.py",
        "plan.seeds, plan.made = seeds, step",
        "plan.seeds, plan.made = [seeds[0]] * len(seeds), step",
    ),
]


def quick() -> list[str]:
    """The tests of ``make quick``."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"^QUICK := ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert found is not None
    return found[1].replace("\\\n", " ").split()


def survives(mutant: Mutant) -> bool:
    """Whether all quick tests pass in spite of it.

    Raises:
        ValueError: if its text is not in the file.
    """
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder)
        for name in ("src", "tests", "pyproject.toml", "docs", "scripts", "Makefile"):
            here = ROOT / name
            (shutil.copytree if here.is_dir() else shutil.copy2)(here, copy / name)
        file = copy / "src" / "colangevin" / mutant.file
        text = file.read_text(encoding="utf-8")
        if mutant.old not in text:
            raise ValueError(f"{mutant.name}: its text is not in {mutant.file}")
        file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "-p", "no:cacheprovider"]
        environment = {"PYTHONPATH": str(copy / "src"), "PATH": "/usr/local/bin:/usr/bin:/bin"}
        environment["HOME"] = folder
        done = subprocess.run(
            [*command, *quick()], cwd=copy, env=environment, capture_output=True, timeout=PATIENCE
        )
    return done.returncode == 0


def table(chosen: list[Mutant]) -> str:
    """What became of the mutants, as a Markdown table."""
    rows = ["| Mistake | File | Quick tests |\n| --- | --- | --- |\n"]
    for mutant in chosen:
        result = "**pass**" if survives(mutant) else "fail, as they should"
        rows.append(f"| {mutant.name} | `{mutant.file}` | {result} |\n")
        print(rows[-1], end="", flush=True)
    return "".join(rows)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    found = table([m for m in MUTANTS if all(word in m.name for word in words)])
    if "--write" in sys.argv[1:]:
        before, rest = PAGE.read_text(encoding="utf-8").split(START)
        PAGE.write_text(before + START + found + END + rest.split(END)[1], encoding="utf-8")
