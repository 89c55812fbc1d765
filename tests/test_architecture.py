"""Data flows one way: no part of the library imports from a later one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "colangevin"

LAYERS = [
    {"errors", "checks", "threads", "torch_compat"},
    {"lab.data", "lab.models", "lab.machine"},
    {"constraints", "random"},
    {"integrators"},
    {"native"},
    {"optimizers"},
    {"ensemble"},
    {"diagnostics"},
    {"sampling"},
    {"integrations"},
    {"lab.runner"},
    {"lab.claims"},
    {"lab.kit"},
    {"lab.experiments", "lab.bench", "lab.explorer"},
    {"lab.report"},
    {"lab.cli"},
    {"__main__"},
]
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}


def part_of(names: list[str]) -> str:
    """The package, or the module at the top, that a dotted name below the root belongs to."""
    return ".".join(names[:2] if names[0] == "lab" else names[:1])


def part_of_file(path: Path) -> str:
    return part_of(list(path.relative_to(ROOT).with_suffix("").parts))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and part of every import of the library, wherever it stands in the file."""
    package = ["colangevin", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            root, *rest = name.split(".")
            if root == "colangevin":
                part = part_of(rest) if rest else "public"
                yield node.lineno, part if part in RANK else "public"


NAMES = ROOT / "names.py"
PUBLIC = max(RANK[part] for _, part in imported(NAMES) if part != "public")
"""The first use of ``colangevin.Name`` brings in whatever the list of public names imports."""

FILES = [
    path
    for path in sorted(ROOT.rglob("*.py"))
    if path.parent / path.name not in {ROOT / "__init__.py", NAMES, ROOT / "lab" / "__init__.py"}
]


def test_every_part_has_its_place() -> None:
    assert {part_of_file(path) for path in FILES} <= set(RANK)
    assert len(FILES) > 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_imports_upward(path: Path) -> None:
    part = part_of_file(path)
    for line, target in imported(path):
        if target == part:
            continue
        rank = PUBLIC if target == "public" else RANK[target]
        assert rank < RANK[part], f"{path.name}:{line}: {part} must not import {target}"


def test_only_the_program_knows_the_program() -> None:
    for path in FILES:
        part = part_of_file(path)
        if part != "__main__" and not part.startswith("lab."):
            assert not any(target.startswith("lab.") for _, target in imported(path)), path
