"""Data flows one way: no part of the library imports from a later one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "colangevin"

LAYERS = [
    {"errors", "checks", "machine"},
    {"constraints"},
    {"integrators"},
    {"optimizers"},
    {"ensemble"},
    {"diagnostics"},
    {"data", "models"},
    {"experiments", "bench"},
    {"cli", "web"},
    {"__main__"},
]
LEAVES = {"data", "models"}
"""Parts that stand on the first layer alone."""

RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}


def part_of(path: Path) -> str:
    """The package under the root, or the module at its top, that a file belongs to."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


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
                yield node.lineno, rest[0] if rest and rest[0] in RANK else "public"


PUBLIC = max(RANK[part] for _, part in imported(ROOT / "__init__.py") if part != "public")
"""``import colangevin`` brings in whatever the package itself imports."""

FILES = [path for path in sorted(ROOT.rglob("*.py")) if part_of(path) != "__init__"]


def test_every_part_has_its_place() -> None:
    assert {part_of(path) for path in FILES} <= set(RANK)
    assert len(FILES) > 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_imports_upward(path: Path) -> None:
    part = part_of(path)
    for line, target in imported(path):
        if target == part:
            continue
        rank = PUBLIC if target == "public" else RANK[target]
        allowed = 1 if part in LEAVES else RANK[part]
        assert rank < allowed, f"{path.name}:{line}: {part} must not import {target}"


def test_the_library_proper_does_not_need_its_applications() -> None:
    assert RANK["experiments"] > PUBLIC
