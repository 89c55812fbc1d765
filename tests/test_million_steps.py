"""The script of the million steps, with a few of them; its verdicts can fail."""

import json
import math
import runpy
from pathlib import Path

import pytest

SCRIPT = str(Path(__file__).parents[1] / "scripts" / "million_steps.py")
STEPS = 2_000


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(SCRIPT)


def run(script, folder, *more, cases="circle", steps=STEPS):
    out = folder / "record.json"
    given = ["--steps", str(steps), "--cases", cases, "--out", str(out), "--work", str(folder)]
    code = script["main"]([*given, *more])
    return code, json.loads(out.read_text(encoding="utf-8"))


def blocks(script, **changed):
    """Blocks of a run without fault, the last one changed."""
    good = script["Block"](0.05, 1e-7, 0.0, 300.0, 0.0, 1.0)
    scatter = [good._replace(temperature=0.05 + 1e-4 * (-1) ** i) for i in range(20)]
    return [*scatter[:-1], scatter[-1]._replace(**changed)]


@pytest.mark.parametrize("case", ["circle", "sphere", "orthogonal"])
def test_a_short_run_keeps_the_limits(script, tmp_path, case):
    code, record = run(script, tmp_path, cases=case, steps=600)
    found = record["cases"][case]
    assert code == 0 and found["passed"] and found["complete"], found
    assert 0.0 < found["residual"] <= 1e-6
    assert found["steps"] == 600
    assert found["circumstances"]["cpu"] and record["settings"]["seed"] == 0


def test_the_torus_runs(script, tmp_path):
    _, record = run(script, tmp_path, cases="torus", steps=60)
    assert record["cases"]["torus"]["on_manifold"], record


def test_a_run_that_was_stopped_goes_on_as_if_it_was_not(script, tmp_path):
    for folder in ("whole", "parts"):
        (tmp_path / folder).mkdir()
    _, whole = run(script, tmp_path / "whole", steps=600)
    code, record = run(script, tmp_path / "parts", "--minutes", "0", steps=600)
    assert code != 0 and not record["cases"]["circle"]["complete"]
    assert record["cases"]["circle"]["steps"] < 600
    code, record = run(script, tmp_path / "parts", steps=600)
    assert code == 0
    for key in ("temperature", "temperature_standard_error", "residual", "steps"):
        assert record["cases"]["circle"][key] == whole["cases"]["circle"][key]


@pytest.mark.parametrize(
    ("verdict", "changed"),
    [
        ("on_manifold", {"residual": 1.1e-6}),
        ("on_manifold", {"weights": 1.1e-6}),
        ("on_manifold", {"residual": math.nan}),
        ("temperature_right", {"temperature": math.nan}),
        ("memory_flat", {"grown_mb": 4.1}),
    ],
)
def test_one_bad_block_fails_its_verdict(script, verdict, changed):
    good = script["summary"](blocks(script), 20_000, 0.05)
    bad = script["summary"](blocks(script, **changed), 20_000, 0.05)
    assert good[verdict] and good["passed"]
    assert not bad[verdict] and not bad["passed"]


def test_a_wrong_temperature_fails(script, tmp_path):
    """The chain is right: what it is compared with is off by 5 %."""
    rows = script["walk"](script["CASES"]["circle"], STEPS, tmp_path / "circle.pt", None)
    assert script["summary"](rows, STEPS, script["TEMPERATURE"])["temperature_right"]
    for wrong in (0.95, 1.05):
        found = script["summary"](rows, STEPS, wrong * script["TEMPERATURE"])
        assert not found["temperature_right"] and not found["passed"], found


def test_a_failed_run_has_the_exit_status_1(script, tmp_path, monkeypatch):
    monkeypatch.setitem(script["LIMITS"], "residual", 1e-12)
    code, record = run(script, tmp_path, steps=40)
    assert code == 1 and not record["cases"]["circle"]["on_manifold"]


@pytest.mark.parametrize("given", [["--cases", "ring"], ["--steps", "10"], ["--steps", "100500"]])
def test_bad_arguments_are_refused(script, tmp_path, given, capsys):
    with pytest.raises(SystemExit):
        script["main"]([*given, "--out", str(tmp_path / "record.json")])
    assert given[0] in capsys.readouterr().err


def test_the_committed_record_passes():
    path = Path(SCRIPT).parents[1] / "benchmarks" / "results" / "million_steps.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    assert set(record["cases"]) == {"circle", "sphere", "orthogonal", "torus"}
    assert all(found["passed"] for found in record["cases"].values())
