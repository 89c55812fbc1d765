"""``cola`` itself: help, version, and what it lists."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import colangevin
from colangevin.lab.cli.main import app
from colangevin.lab.experiments.registry import EXPERIMENTS

HELP = """
import sys
from colangevin.lab.cli.main import app
for arguments in {arguments!r}:
    try:
        app(arguments, prog_name="cola")
    except SystemExit as end:
        print("code", end.code)
print("heavy", sorted({{"torch", "numpy", "matplotlib"}} & set(sys.modules)))
"""
COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands]


def invoke(*arguments: str, columns: int = 80):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)})


def test_help_imports_nothing_heavy():
    arguments = [["--help"], ["--version"], *([command, "--help"] for command in COMMANDS)]
    program = HELP.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.count("Usage: cola") == len(arguments) - 1, done.stderr
    assert done.stdout.count("code 0\n") == len(arguments)
    assert done.stdout.endswith("heavy []\n")


def cpu_seconds(*arguments: str) -> float:
    """Of a process of its own, which other processes on the machine cannot slow down."""
    code = "import resource, runpy, sys\nsys.argv = ['cola', *sys.argv[1:]]\ntry:\n    "
    code += "runpy.run_module('colangevin', run_name='__main__')\nfinally:\n    "
    code += "used = resource.getrusage(resource.RUSAGE_SELF)\n    "
    code += "print(used.ru_utime + used.ru_stime, file=sys.stderr)"
    program = [sys.executable, "-c", code, *arguments]
    return float(subprocess.run(program, capture_output=True, text=True).stderr)


@pytest.mark.skipif(sys.platform == "win32", reason="measures with POSIX's getrusage")
@pytest.mark.parametrize("arguments", [("--help",), ("reproduce", "--help")])
def test_help_comes_at_once(arguments):
    assert min(cpu_seconds(*arguments) for _ in range(2)) < 0.5


def complete(words: str) -> list[str]:
    """What a shell is offered for the last of the words."""
    last = len(words.split(" ")) - 1
    environment = {
        "_COLA_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(last),
    }
    result = CliRunner().invoke(app, [], prog_name="cola", env=environment)
    return result.stdout.split()


def test_the_shell_completes_commands_experiments_and_scales():
    assert complete("cola re") == ["reproduce", "report"]
    assert complete("cola reproduce ") == ["list", *sorted(EXPERIMENTS)]
    assert complete("cola reproduce spiral-c") == ["spiral-classifiers", "spiral-curvature"]
    assert complete("cola reproduce spiral-curvature --scale la") == ["laptop"]


def test_completion_can_be_installed():
    assert "--install-completion" in invoke("--help").stdout


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
        assert experiment.phrase and experiment.phrase in line
        assert all(data in line for data in experiment.data)
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
        (("list", "speech"), "unknown experiment 'speech'; `cola reproduce list` has all names"),
        (("depth-ortogonal",), "did you mean 'depth-orthogonal'?"),
        (("spiral_classifiers",), "did you mean 'spiral-classifiers'?"),
        (("spiral-classifiers", "depth-orthogonal"), "one experiment at a time"),
    ],
)
def test_what_cannot_be_described_is_refused(arguments, words):
    result = invoke("reproduce", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("cola reproduce: ") and words in result.stderr
    assert len(result.stderr) < 160


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_demo_installs_what_the_demo_says_to_try_next(tmp_path):
    """`cola explore` needs the extra of that name."""
    command = ["make", "--dry-run", "demo", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True)
    assert '-e ".[explore]"' in done.stdout, done.stderr


@pytest.mark.parametrize("command", ["--help", *COMMANDS])
def test_flags_do_not_look_as_if_they_wanted_a_value(command):
    """What typer adds by itself is its own affair."""
    text = invoke(command, *["--help"] * (command != "--help"), columns=120).stdout
    own = [line for line in text.splitlines() if "--help" not in line and "completion" not in line]
    assert not [line for line in own if "<bool>" in line or "BOOLEAN" in line]
