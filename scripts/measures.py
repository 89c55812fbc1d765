"""Count how simple the inside of the library is: the table "Measures" of docs/architecture.md.

    python scripts/measures.py            # print the table
    python scripts/measures.py --write    # and put it into docs/architecture.md

Calls are counted in warm steps of one weight, by ``sys.setprofile``: named functions and
properties of the package, without comprehensions and lambdas. A formula is a method of a geometry
that computes, or the call of a C kernel. "Before" is the library before its core was rebuilt; for
steps with another lr, before options were taken out of the key of a repeated step.
``tests/test_measures.py`` holds what is counted here to its limits.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "colangevin"
PAGE = ROOT / "docs" / "architecture.md"
TIMES = ROOT / "benchmarks" / "results" / "scheduled.json"
"""Written by ``benchmarks/scheduled.py --write``."""
START, END = "<!-- measures: begin -->\n", "<!-- measures: end -->\n"
sys.path[:0] = [str(ROOT / "src")]

import colangevin as cl  # noqa: E402

FORMULAS = {
    "constraints": {"impulse", "drift", "project", "tangent"},
    "integrators": {"_accumulate"},  # B and O where momenta are kept modulo the normal space
    "native": {"step_elements", "step_matrices"},
}
CORE = ("constraints", "integrators", "random", "native", "optimizers", "ensemble")
SUMS = ("add_scaled", ".add", ".add_", ".sub", ".sub_")
TYPES = "TYPE_CHECKING"
OTHER_USES = {"temperature._reading", "tempering._energy"}
"""A second derivative, and an energy."""
ROUTES = {"step_elements": "kernel", "step_matrices": "kernel", "run_formulas": "formulas"}
BEFORE = {
    "circle, eager, τ = 0": 25,
    "circle, eager, τ = 0, lr changed": 69,
    "circle, kernel, τ > 0": 30,
    "circle, kernel, τ > 0, lr changed": 82,
    "orthogonal, eager": 31,
    "orthogonal, eager, lr changed": 76,
    "`Ensemble.step`": 21,
    "`Ensemble.fit` of one step": 52,
}

# --- calls ----------------------------------------------------------------------------------


def trace(function: Callable[[], Any]) -> list[tuple[str, str]]:
    """The named calls of the package while a function runs: file and name."""
    found: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)) and code.co_name[0] != "<":
            found.append((str(Path(code.co_filename).relative_to(SOURCE)), code.co_name))

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return found


def calls_before_formula(calls: Iterable[tuple[str, str]]) -> int:
    """How many calls there are before the first formula."""
    for index, (file, name) in enumerate(calls):
        if name.removesuffix(" in place") in FORMULAS.get(file.split("/")[0], ()):
            return index
    raise ValueError("there is no formula in the step")


def warm(
    constraint: cl.Constraint | None = None, scheduled: bool = False, **options: Any
) -> Callable[[], Any]:
    """A step of one weight that has made four, with the same lr or another one."""
    weight = nn.Parameter(0.1 * torch.randn(8, 4))
    optimizer = cl.CoLA([weight], lr=0.01, constraint=constraint, **options)
    for _ in range(4):
        weight.grad = 0.1 * torch.randn(8, 4)
        optimizer.step()
    if scheduled:
        optimizer.param_groups[0]["lr"] = 0.009
    return optimizer.step


def warm_ensemble(whole: bool) -> Callable[[], Any]:
    """A step of an ensemble of one member, or an epoch of one step."""
    rules, loss = {"weight": cl.Circle(0.5)}, nn.functional.mse_loss
    ensemble = cl.Ensemble(
        lambda: nn.Linear(2, 1, bias=False), [1], rules, lr=0.01, momentum=0.9, compile=False
    )
    inputs, targets = torch.randn(4, 2), torch.randn(4, 1)
    ensemble.fit(loss, inputs, targets, epochs=3, batch_size=4)
    if whole:
        return lambda: ensemble.fit(loss, inputs, targets, epochs=4, batch_size=4)
    return lambda: ensemble.step(loss, inputs[None], targets[None])


def calls() -> dict[str, int]:
    """Named calls before the first formula."""
    circle, plain = cl.Circle(0.5), {"momentum": 0.9, "fused": False}
    noisy = {"momentum": 0.9, "temperature": 0.01}
    steps = [
        *(warm(circle, scheduled, **plain) for scheduled in (False, True)),
        *(warm(circle, scheduled, **noisy) for scheduled in (False, True)),
        *(warm(cl.Orthogonal(), scheduled, **plain) for scheduled in (False, True)),
        warm_ensemble(whole=False),
        warm_ensemble(whole=True),
    ]
    return {n: calls_before_formula(trace(step)) for n, step in zip(BEFORE, steps, strict=True)}


def routes() -> set[str]:
    """The ways that batches of all kinds take through a step."""
    sphere = cl.General(lambda w: w.square().sum().reshape(1) - 1.0)
    geometries = [None, cl.Circle(0.5), cl.Sphere(1.0), cl.Orthogonal(), sphere]
    steps = [warm(one, momentum=0.9, fused=fused) for one in geometries for fused in (None, False)]
    found = [call for step in steps for call in trace(step)]
    ways = {ROUTES[name] for _, name in found if name in ROUTES}
    adaptive = trace(warm(None, thermostat="adaptive"))
    used = any(file == "integrators/adaptive.py" for file, _ in adaptive)
    return ways | ({"adaptive group"} if used else set())


# --- text -----------------------------------------------------------------------------------


def files(*parts: str) -> list[Path]:
    """The modules of the library, or of some of its parts; those of the program are no part."""
    found = sorted(path for part in parts or (".",) for path in (SOURCE / part).rglob("*.py"))
    return [path for path in found if parts or "lab" not in path.relative_to(SOURCE).parts]


def lines(paths: Iterable[Path]) -> int:
    """Lines of some files."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def classes(paths: Iterable[Path]) -> list[str]:
    """The names of the classes in some files."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    return [n.name for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]


def docstring_share(paths: Sequence[Path]) -> int:
    """Lines of docstrings among all lines, in per cent."""
    found = 0
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
            if isinstance(node, kinds) and ast.get_docstring(node) is not None:
                first = node.body[0]
                found += (first.end_lineno or first.lineno) - first.lineno + 1
    return round(100 * found / lines(paths))


def decay_places() -> list[str]:
    """Functions in which something is multiplied by the weight decay, but for ``OTHER_USES``."""
    found = []
    for path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and any(_decays(node)):
                found.append(f"{path.stem}.{node.name}")
    return [name for name in found if name not in OTHER_USES]


def _decays(function: ast.FunctionDef) -> Iterator[bool]:
    """For each product, and each sum with a factor, whether the weight decay is in it."""
    known = {"weight_decay"}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and "weight_decay" in ast.unparse(node.value):
            known |= {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            factors = [node.left, node.right]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(SUMS):
            factors = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
        else:
            continue
        words = re.findall(r"\w+", " ".join(ast.unparse(factor) for factor in factors))
        yield not known.isdisjoint(words)


def imports(package: str) -> dict[str, set[str]]:
    """The modules of a package that each of them imports when it runs."""
    root = SOURCE / package
    names = {
        path: ".".join(path.relative_to(root).with_suffix("").parts) for path in files(package)
    }
    found: dict[str, set[str]] = {name: set() for name in names.values()}
    for path, name in names.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        typing = [
            n for n in ast.walk(tree) if isinstance(n, ast.If) and TYPES in ast.unparse(n.test)
        ]
        skipped = {node for block in typing for node in ast.walk(block)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node not in skipped and node.module:
                inside = f"{node.module}.".removeprefix(f"colangevin.{package}.")
                if not f"{node.module}.".startswith(f"colangevin.{package}."):
                    continue
                modules = {inside + alias.name for alias in node.names} | {inside.rstrip(".")}
                found[name] |= modules & found.keys()
    return {name: own for name, own in found.items() if not name.endswith("__init__")}


def levels(graph: dict[str, set[str]]) -> tuple[list[str], int]:
    """The longest chain of imports, and how many chains come back to where they began."""
    longest, cycles, chains = [""], 0, [[name] for name in sorted(graph)]
    while chains:
        chain = chains.pop()
        longest = max(longest, chain, key=len)
        cycles += chain[0] in graph[chain[-1]]
        chains += [[*chain, name] for name in sorted(graph[chain[-1]]) if name not in chain]
    return longest, cycles


# --- the table ------------------------------------------------------------------------------


def times() -> list[tuple[str, object, object]]:
    """Times of a step with another lr than the last one, and the aims, from their record."""
    return [
        (
            f"time of {one['step']}, {one['work']}, lr changed, to {one['of']}",
            "–",
            f"{one['ratio']:.2f} (aim {one['limit']:g})",
        )
        for one in json.loads(TIMES.read_text(encoding="utf-8"))["ratios"]
    ]


def table() -> str:
    """The measures as a Markdown table."""
    (chain, cycles), ways, core = levels(imports("optimizers")), sorted(routes()), files(*CORE)
    share = round(100 * lines(files()) / lines(SOURCE.rglob("*.py")))
    rows: list[tuple[str, object, object]] = [
        *((f"calls before the first formula: {n}", BEFORE[n], now) for n, now in calls().items()),
        *times(),
        ("routes of a batch through `step()`", 12, f"{len(ways)}: {', '.join(ways)}"),
        ("places that write gradient + weight decay", 9, ", ".join(decay_places())),
        ("import levels inside `optimizers/`", 10, f"{len(chain)}: {', '.join(chain)}"),
        ("import cycles inside `optimizers/`", 0, cycles),
        ("core and ensemble, lines / files", "8,826 / 63", f"{lines(core):,} / {len(core)}"),
        ("core and ensemble, classes", "–", len(classes(core))),
        ("core and ensemble, docstrings", "–", f"{docstring_share(core)} % of all lines"),
        ("share of the package that is the library", "47 %", f"{share} %"),
    ]
    head = "| Measure | Before | Now |\n| --- | ---: | --- |\n"
    return head + "".join(f"| {name} | {before} | {now} |\n" for name, before, now in rows)


if __name__ == "__main__":
    torch.manual_seed(0)
    found = table()
    print(found, end="")
    if "--write" in sys.argv[1:]:
        before, rest = PAGE.read_text(encoding="utf-8").split(START)
        PAGE.write_text(before + START + found + END + rest.split(END)[1], encoding="utf-8")
