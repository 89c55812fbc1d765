"""The script of the long run, with a few steps."""

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "long_run.py"


@pytest.mark.parametrize("case", ["circle_radii", "general_inequality"])
def test_a_short_run_keeps_the_limits_and_is_not_repeated(case, tmp_path, monkeypatch, capsys):
    out = tmp_path / "long_run.jsonl"
    arguments = [
        "long_run.py",
        "--steps",
        "20",
        "--only",
        case,
        "--out",
        str(out),
        "--workers",
        "1",
    ]
    monkeypatch.setattr(sys, "argv", arguments)
    for _ in range(2):
        try:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        except SystemExit as done:
            assert not done.code
    results = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(results) == 8
    assert {result["error"] for result in results} == {None}
    assert case in capsys.readouterr().out
