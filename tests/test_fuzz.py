"""Settings that are drawn at random keep the promises; the script sees it when one is broken."""

import runpy
from pathlib import Path

import pytest

from colangevin.optimizers.step import execute
from colangevin.optimizers.step.plan import Plan

SCRIPT = str(Path(__file__).parents[1] / "scripts" / "fuzz.py")
FIRST = 100_000
"""Draws that the page does not have."""


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(SCRIPT)


@pytest.mark.parametrize("part", range(4))
def test_drawn_settings_keep_the_promises(script, part):
    first = FIRST + 15 * part
    outcome = script["hold"](range(first, first + 15))
    assert outcome.broken == []
    rare = "an interrupted step changes nothing"  # only what can fail is interrupted
    assert all(outcome.tried[name] >= 15 for name in script["PROMISES"] if name != rare)


def test_the_same_number_is_the_same_draw(script):
    assert str(script["draw"](7)) == str(script["draw"](7)) != str(script["draw"](8))


def test_a_step_that_is_not_put_back_is_noticed(script, monkeypatch):
    monkeypatch.setattr(Plan, "snapshot", lambda plan: lambda: None)
    broken = {name for name, _ in script["hold"](range(40)).broken}
    assert broken == {"an interrupted step changes nothing"}


def test_formulas_with_another_number_are_noticed(script, monkeypatch):
    whole = execute.advance

    def wrong(constraint, state, force, *others):
        return whole(constraint, state, 1.01 * force, *others)

    monkeypatch.setattr(execute, "advance", wrong)
    broken = {name for name, _ in script["hold"](range(20)).broken}
    assert "kernels and formulas agree" in broken


def test_the_tables_are_written(script, tmp_path, capsys):
    assert script["main"](["--draws", "2"]) == 0
    printed = capsys.readouterr().out
    assert all(f"| {name} |" in printed for name in script["PROMISES"])
    assert "| circle | 1,000,000 |" in script["long_runs"]()
