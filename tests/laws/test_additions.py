"""A geometry, a scheme or an optimizer from outside is one file and one line: every law runs on it.

The geometries of ``docs/own-constraint.md`` are put in a copy of the tests, with a subclass of one
of the library's, another word and another optimizer. pytest then runs there in a process of its
own. For an option see ``TestANewOption`` of ``optimizers/test_option_checks.py``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "own-constraint.md"

SUBCLASSES = '''
class Slow(cl.Orthogonal):
    """It goes half as far, so the formulas of its parent are not its own."""

    def drift(self, state, step):
        return super().drift(state, 0.5 * step)


class Same(cl.Orthogonal):
    """It moves as its parent."""


@dataclass(frozen=True)
class Damped(cl.Direction):
    """The mean of the gradients, below 1. Members of an ensemble have equal ones."""

    keeps = ("mean",)

    def update(self, gradient, weight, memory, step):
        mean = memory["mean"].mul_(0.9).add_(gradient, alpha=0.1)
        return mean / (1.0 + mean.abs())


class Warm(cl.CoLA):
    """A method of its own."""

    def __init__(self, params, lr, **options):
        super().__init__(params, lr, momentum=0.5, temperature=1e-3, scheme="BAO", **options)


def its_parents(case):
    from twins import orthogonal_twin

    return orthogonal_twin(case)
'''
LINES = """
    Case("own_centered", own.Centered, ((3, 4),), lambda w: w.sum(1).abs().max(), share=LAYOUT),
    Case("own_angles", own.Angles, ((3, 4),), beyond(math.pi), share=LAYOUT),
    Case("own_slow", own.Slow, ((4, 3),), not_orthonormal(), share=LAYOUT),
    Case("own_same", own.Same, ((4, 3),), not_orthonormal(), share=LAYOUT, twin=own.its_parents),
"""
RUN = """
    Run("own_word", "BAO"),
"""
DIRECTION = """
    "own_direction": lambda: own.Damped(),
"""
METHOD = """
    OptimizerCase("own_method", lambda m, step, seed: own.Warm(m.parameters(), step, seed=seed)),
"""
OWN = ("own_centered", "own_angles", "own_slow", "own_same")


def class_of(name: str) -> str:
    """The lines of a class on the page."""
    found = re.search(
        rf"^(@dataclass.*\n)?class {name}\b.*\n(( .*)?\n)+", PAGE.read_text("utf-8"), re.MULTILINE
    )
    assert found is not None, f"{PAGE} has no class {name}"
    return found[0]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of each test of the new geometries: "PASSED", or what else happened, with its reason."""
    folder = tmp_path_factory.mktemp("tests")
    for file in TESTS.glob("*.py"):
        if not file.name.startswith("test_"):
            shutil.copy(file, folder)
    (folder / "laws").mkdir()
    others = ("constraints/test_base.py", "optimizers/test_optimizer_contract.py")
    others += ("optimizers/test_directions.py",)
    for file in (*TESTS.glob("laws/*.py"), *(TESTS / name for name in others)):
        if file.name != Path(__file__).name:
            shutil.copy(file, folder / "laws")
    imports = "from dataclasses import dataclass\nimport torch\nimport colangevin as cl\n"
    imports += "from colangevin.constraints import Vector\n"
    classes = [class_of(name) for name in ("Centered", "Angles")]
    (folder / "own.py").write_text("\n".join([imports, *classes, SUBCLASSES]), "utf-8")
    add(folder / "registry.py", "\nCASES = [\n", LINES)
    add(folder / "registry.py", "\nRUNS = [\n", RUN)
    add(folder / "optimizers_registry.py", "\nOPTIMIZERS = [\n", METHOD)
    add(folder / "registry.py", "\nDIRECTIONS: dict[str, Callable[[], Direction]] = {\n", DIRECTION)
    return outcomes(folder)


def add(registry: Path, where: str, line: str) -> None:
    """Put a line into a registry."""
    before = registry.read_text("utf-8")
    changed = before.replace(where, f"\nimport own\n{where.rstrip()}{line}")
    assert changed != before
    registry.write_text(changed, "utf-8")


def outcomes(folder: Path) -> dict[str, str]:
    options = "-p no:cacheprovider --import-mode=importlib -o pythonpath=. -rA --tb=line -k own_"
    command = [sys.executable, "-m", "pytest", *options.split(), "laws"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = re.findall(r"^(PASSED|FAILED|ERROR) (\S+::\S+)", done.stdout, re.MULTILINE)
    skipped = re.findall(r"^SKIPPED \[(\d+)\] .*?: (.*)", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return {name: word for word, name in found} | {f"skipped: {w}": n for n, w in skipped}


@pytest.mark.parametrize("name", OWN)
def test_every_law_runs_on_it_and_holds(report: dict[str, str], name: str) -> None:
    own = {test: word for test, word in report.items() if f"[{name}" in test or f"-{name}" in test}
    assert {test for test, word in own.items() if word != "PASSED"} == set()
    laws = {test.split("::")[0].rpartition("/")[2] for test in own}
    assert laws == {
        "test_base.py",
        "test_batching.py",
        "test_contract.py",
        "test_copies.py",
        "test_every_direction.py",
        "test_manifold.py",
        "test_property.py",
        "test_reference.py",
        "test_reversible.py",
    }


def test_every_law_of_schemes_runs_on_a_new_word(report: dict[str, str]) -> None:
    own = {test: word for test, word in report.items() if "own_word" in test}
    assert {test for test, word in own.items() if word != "PASSED"} == set()
    assert any("circle" in test for test in own) and any("own_centered" in test for test in own)
    laws = {test.split("::")[0].rpartition("/")[2] for test in own}
    assert {"test_batching.py", "test_manifold.py", "test_native.py", "test_reference.py"} <= laws


def test_every_law_of_directions_runs_on_a_new_one(report: dict[str, str]) -> None:
    own = {test: word for test, word in report.items() if "own_direction" in test}
    assert {test for test, word in own.items() if word != "PASSED"} == set()
    kinds = {re.split(r"::|\[", test)[-2] for test in own}
    assert kinds == {
        "test_kernels_and_formulas_go_one_way_on_the_manifold",
        "test_a_saved_run_goes_on_bit_for_bit",
        "test_members_of_an_ensemble_are_cola",
        "test_slow_weights_of_multirate_stay_on_the_manifold",
        "test_bfloat16_rounded_at_random",
        "test_slow_groups_of_multirate_use_a_gradient_once",
        "test_half_precision_has_float32_memory",
    }


def test_the_contract_of_optimizers_runs_on_a_new_one(report: dict[str, str]) -> None:
    own = {test: word for test, word in report.items() if "own_method" in test}
    assert {test for test, word in own.items() if word != "PASSED"} == set()
    assert len(own) > 30


def test_only_literal_formulas_that_nobody_has_written_are_skipped(report: dict[str, str]) -> None:
    skipped = {test: count for test, count in report.items() if test.startswith("skipped")}
    assert len(skipped) == 3
    for name in ("Centered", "Angles", "Slow"):
        (count,) = [n for words, n in skipped.items() if words.startswith(f"skipped: {name} has")]
        assert count == "14"  # two tests, seven schemes
    assert all("name them in its line of CASES, as twin=" in words for words in skipped)
    followed = [test for test in report if "follows_the_reference[own_same" in test]
    assert len(followed) == 7  # it names a twin
