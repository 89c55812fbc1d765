"""``cola`` itself: help, version, and what it lists."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import colangevin
from colangevin.lab.cli.main import app
from colangevin.lab.experiments.registry import EXPERIMENTS

HELP = """
import sys, types
package = types.ModuleType("colangevin")  # its own __init__ is not the program's business
package.__path__ = [{path!r}]
sys.modules["colangevin"] = package
from colangevin.lab.cli.main import app
try:
    app({arguments!r}, prog_name="cola")
except SystemExit as end:
    print("code", end.code)
print("heavy", sorted({{"torch", "numpy", "matplotlib"}} & set(sys.modules)))
"""


def invoke(*arguments: str, columns: int = 80):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)})


@pytest.mark.parametrize("arguments", [["--help"], ["bench", "--help"], ["reproduce", "--help"]])
def test_help_imports_nothing_heavy(arguments):
    program = HELP.format(path=str(Path(colangevin.__file__).parent), arguments=arguments)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "Usage: cola" in done.stdout, done.stderr
    assert "code 0\nheavy []" in done.stdout


def test_version_is_said():
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, f"cola {colangevin.__version__}\n")


def test_the_list_has_one_line_per_experiment_in_80_columns():
    result = invoke("reproduce", "list")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in result.stdout
    for name, experiment in EXPERIMENTS.items():
        (line,) = [line for line in lines if line.startswith(f"{name} ")]
        assert experiment.times["laptop"] in line
        assert all(data in line for data in experiment.data or ("none",))
    assert len(lines) <= len(EXPERIMENTS) + 3


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_described(name):
    result = invoke("reproduce", "list", name, columns=200)
    assert result.exit_code == 0, result.output
    for scale, settings in EXPERIMENTS[name].scales.items():
        assert f"  {scale}: {settings['runs']} run" in result.stdout
    assert EXPERIMENTS[name].title[1:] in result.stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("list", "speech"), "unknown experiment 'speech'"),
        (("spiral-classifiers", "depth-orthogonal"), "one experiment at a time"),
    ],
)
def test_what_cannot_be_described_is_refused(arguments, words):
    result = invoke("reproduce", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("cola reproduce: ") and words in result.stderr
