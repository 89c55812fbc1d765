"""Names within the program: a module is found by its name, and by no other thing's."""

import ast
from collections import Counter
from pathlib import Path

import pytest

LAB = Path(__file__).parents[2] / "src" / "colangevin" / "lab"
MODULES = [path for path in sorted(LAB.rglob("*.py")) if path.stem != "__init__"]


def name_of(path: Path) -> str:
    """A file of an experiment has that of its theme before its own: "depth temperature"."""
    above = [path.parent.name, path.parent.parent.name]
    return f"{above[0]} {path.stem}" if "experiments" in above else path.stem


def test_no_two_modules_have_one_name() -> None:
    packages = [name_of(path.parent) for path in LAB.rglob("__init__.py")]
    names = Counter([name_of(path) for path in MODULES] + packages)
    assert len(MODULES) > 50
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(LAB)))
def test_no_module_has_the_name_of_what_it_defines(path: Path) -> None:
    """A package that exports the function would hide the module."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    defined = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert path.stem not in defined
