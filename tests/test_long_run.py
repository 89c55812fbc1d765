"""The script of the long run, with a few steps."""

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = str(Path(__file__).parents[1] / "scripts" / "long_run.py")


@pytest.mark.parametrize("case", ["orthogonal_wide", "general_inequality"])
def test_a_short_run_keeps_the_limits(case):
    script = runpy.run_path(SCRIPT)
    result = script["run"](script["Job"](case, "OBA", "float64", 20))
    assert script["passed"](result), result


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch, capsys):
    out = tmp_path / "long_run.jsonl"
    arguments = ["--steps", "20", "--only", "circle_radii", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["long_run.py", *arguments])
    for todo in (8, 0):
        with pytest.raises(SystemExit) as done:
            runpy.run_path(SCRIPT, run_name="__main__")
        assert done.value.code == 0
        assert f"8 runs of 20 steps, {todo} to do" in capsys.readouterr().out
    assert len([json.loads(line) for line in out.read_text().splitlines()]) == 8
