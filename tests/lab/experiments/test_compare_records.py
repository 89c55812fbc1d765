"""The script that compares records run by run."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RECORDS = ROOT / "results" / "spiral-classifiers"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "scripts" / "compare_records.py"))


def shorter(folder, change=0.0):
    """The record of SGD up to epoch 2,000 with ten runs, the test losses changed."""
    record = json.loads((RECORDS / "sgd.json").read_text(encoding="utf-8"))
    end = record["history"]["epoch"].index(2_000) + 1
    for key, column in record["history"].items():
        kept = column[:end]
        record["history"][key] = kept if key == "epoch" else [row[:10] for row in kept]
    losses = record["history"]["test_loss"]
    losses[-1] = [x + change * (1 + 0.1 * (-1) ** i) for i, x in enumerate(losses[-1])]
    folder.mkdir(exist_ok=True)
    (folder / "sgd.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


def test_the_same_runs_do_not_differ(script, tmp_path, capsys):
    assert script["main"]([str(RECORDS), str(shorter(tmp_path / "new"))]) == 0
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 2 + 2
    assert all("+0.0 |" in line for line in table[2:])


def test_a_change_of_every_run_fails(script, tmp_path, capsys):
    assert script["main"]([str(RECORDS), str(shorter(tmp_path / "new", 0.01))]) == 1
    assert "+0.0100 ± 0.0003" in capsys.readouterr().out


def test_an_epoch_that_was_not_measured_is_named(script, tmp_path):
    folder = shorter(tmp_path / "new")
    record = json.loads((folder / "sgd.json").read_text(encoding="utf-8"))
    record["history"]["epoch"][-1] = 1_999
    (folder / "sgd.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(ValueError, match="not measured at epoch 1999"):
        script["main"]([str(RECORDS), str(folder)])
