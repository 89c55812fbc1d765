import csv
import math
import os
import re
import signal
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from colangevin.lab.cli import calling, demo_command
from colangevin.lab.cli.interrupt import interrupt_flag
from colangevin.lab.cli.main import app
from colangevin.lab.experiments.demo import demo
from colangevin.lab.experiments.demo import plot as demo_plot
from colangevin.lab.report.results import read_results
from colangevin.lab.runner.records import Record, Records

JOBS = [name for effect in demo.EFFECTS for name, _ in demo.methods(effect)]
PARTS = demo.SCALES["demo"]["parts"]
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def small_networks(monkeypatch):
    """Everything as in the demo, but few and small networks."""
    small = [
        {**PARTS[0], "runs": 3, "hidden": 8, "test_points": 50},
        {**PARTS[1], "runs": 2, "hidden": 6, "depth": 3, "train_points": 50, "test_points": 40},
    ]
    monkeypatch.setitem(demo.SCALES, "demo", {"runs": 3, "parts": small})


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["demo", "--jobs", "1", *arguments], env={"COLUMNS": "100"})


def read_table(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def short_run(tmp_path):
    directory = tmp_path / "new" / "place"
    return invoke("--epochs", "3", "--seed", "7", "--out", str(directory)), directory


def test_a_short_run_writes_everything_and_says_what_it_is(short_run):
    result, directory = short_run
    assert result.exit_code == 0, result.output
    assert (directory / "demo.png").read_bytes().startswith(PNG_SIGNATURE)
    names = sorted(path.name for path in directory.iterdir())
    assert names == ["demo-records", "demo.csv", "demo.png"]
    text = " ".join(result.stdout.split())
    for name in ("demo.png", "demo.csv"):
        assert f"Wrote {directory / name}" in text
    assert "3 networks of 8 nodes on the two-turn spiral, 3 epochs" in text
    assert "2 networks of 3 hidden layers on the four-turn spiral, 3 epochs" in text
    assert "Seed 7." in text
    assert "Reduced against the paper: 16 seeds of 100" in text
    # Two seeds can show nothing: the verdict is computed.
    assert "1. 8 hidden layers with orthogonal weights learn what SGD does not: NOT seen" in text
    assert "Try next" in text
    check_numbers(directory)
    check_records(directory)


def check_numbers(directory):
    rows = read_table(directory / "demo.csv")
    runs = dict(zip(JOBS, (2, 2, 3, 3, 3), strict=True))
    assert [row["job"] for row in rows] == [job for job in JOBS for _ in range(runs[job])]
    assert {row["epochs"] for row in rows} == {"3"}
    for row in rows:
        low, high = (0.1, 3.0) if row["quantity"] == "test_loss" else (20.0, 100.0)
        assert low < float(row["value"]) <= high
    # Runs of the same seed share their data and first weights, but not what they have become.
    values = {(row["job"], row["seed"]): row["value"] for row in rows}
    assert values["spiral-sgd", "7000"] != values["spiral-c-sgld", "7000"]


def check_records(directory):
    (results,) = read_results(directory / "demo-records")
    assert results.experiment is demo.EXPERIMENT
    assert results.claims == []
    for name in ("spiral-c-sgld", "deep-orthogonal"):
        assert results.records[name].final["violation"] < 1e-5
    assert results.records["deep-sgd"].final["violation"] == 0.0


def record(name: str, key: str, values: list[float], **settings) -> Record:
    own = {"seed": 0, "runs": len(values), "label": name, **settings}
    history = {"epoch": [0, 5], key: [[1.0] * len(values), values]}
    return Record("demo", name, 0, own, history=history, complete=True)


def found(sgd: list[float], orthogonal: list[float]) -> Records:
    pair = {"deep-sgd": sgd, "deep-orthogonal": orthogonal}
    return Records([record(name, "test_accuracy", own) for name, own in pair.items()])


def test_the_table_and_the_verdict_follow_the_records():
    sgd, better = [0.5, 0.52, 0.54, 0.5, 0.51, 0.5], [0.9, 0.92, 0.94, 0.9, 0.9, 0.91]
    (row,) = demo.table(found(sgd, better)).rows
    assert row == [
        "1. test accuracy, %",
        "51.2 ± 1.6",
        "91.2 ± 1.6",
        "+40.0 ± 0.3",
        "6 of 6",
        "0.031",
    ]
    assert demo.significance(demo.DEEP, found(sgd, better)) == pytest.approx(2 / 64)
    assert demo.significance(demo.DEEP, found(better, sgd)) == 1.0
    assert demo.significance(demo.OVERFITTING, found(sgd, better)) == 1.0
    lost = [*better[:5], math.nan]
    assert demo.significance(demo.DEEP, found(sgd, lost)) == 1.0


def test_the_chance_is_that_of_a_randomisation_test():
    stats = pytest.importorskip("scipy.stats")
    gains = torch.randn(9, generator=torch.Generator().manual_seed(3)).add(0.4).tolist()
    exact = stats.permutation_test(
        (gains,), lambda x, axis: x.mean(axis=axis), permutation_type="samples", vectorized=True
    )
    assert demo.chance(gains) == pytest.approx(exact.pvalue)


def test_out_may_name_the_picture_and_a_second_run_replaces_the_first(tmp_path):
    picture = tmp_path / "deep" / "spiral.svg"
    for epochs in ("2", "1"):
        result = invoke("--epochs", epochs, "--out", str(picture))
        assert result.exit_code == 0, result.output
    assert b"<svg" in picture.read_bytes()
    assert {row["epochs"] for row in read_table(picture.with_suffix(".csv"))} == {"1"}


def test_records_of_another_run_are_not_replaced(tmp_path):
    folder = tmp_path / "demo-records"
    folder.mkdir()
    record = Record("spiral-classifiers", "sgd", 0, {"scale": "full"})
    (folder / "sgd.json").write_text(record.to_json())
    assert_one_line_error(invoke("--epochs", "1", "--out", str(tmp_path)), "belongs to another run")
    assert (folder / "sgd.json").read_text() == record.to_json()


def assert_one_line_error(result, word: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("cola demo: ")
    assert result.stderr.count("\n") == 1
    assert word in result.stderr


@pytest.mark.parametrize("option", ["epochs", "jobs"])
@pytest.mark.parametrize("value", ["0", "-5"])
def test_counts_below_one_are_refused(tmp_path, option, value):
    result = invoke(f"--{option}", value, "--out", str(tmp_path))
    assert_one_line_error(result, f"{option} must be at least 1, got {value}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", ["-1", str(2**30)])
def test_seeds_out_of_range_are_refused(tmp_path, seed):
    assert_one_line_error(invoke("--seed", seed, "--out", str(tmp_path)), "seed must lie between")


def test_out_below_a_file_is_refused_before_training(tmp_path):
    (tmp_path / "file").write_text("in the way")
    result = invoke("--epochs", "1", "--out", str(tmp_path / "file" / "results"))
    assert_one_line_error(result, f"cannot write to {tmp_path / 'file' / 'results'}")


def test_picture_that_is_a_directory_is_refused(tmp_path):
    (tmp_path / "demo.png").mkdir()
    assert_one_line_error(invoke("--epochs", "1", "--out", str(tmp_path)), "cannot be replaced")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write all")
def test_read_only_directory_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    assert_one_line_error(invoke("--epochs", "1", "--out", str(tmp_path)), "cannot write to")


def test_wrong_type_is_refused():
    assert invoke("--epochs", "many").exit_code == 2


def test_help_names_the_default_number_of_epochs():
    result = CliRunner().invoke(app, ["demo", "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    first, second = (part["epochs"] for part in PARTS)
    assert f"default: {first:,} and {second:,}" in result.stdout


def test_the_picture_in_the_documentation_is_the_demos():
    """Its size is that of the demo's picture; `make demo` makes it again."""
    head = (Path(__file__).parents[3] / "docs" / "images" / "demo.png").read_bytes()[:24]
    width, height = struct.unpack(">II", head[16:24])
    assert (width, height) == tuple(round(120 * side) for side in demo_plot.SIZE)


def test_first_ctrl_c_raises_a_flag_and_the_second_interrupts():
    inherited = signal.getsignal(signal.SIGINT)
    # A process that was started in the background ignores Ctrl-C from the start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        said = []
        with interrupt_flag(lambda: said.append("stopping")) as interrupted:
            assert not interrupted() and not said
            signal.raise_signal(signal.SIGINT)
            assert interrupted() and said == ["stopping"]
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, inherited)


def module(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "colangevin", *arguments]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of a terminal are POSIX's")
def test_ctrl_c_ends_with_what_is_done(tmp_path):
    arguments = ("demo", "--jobs", "2", "--epochs", "100000", "--out", str(tmp_path))
    complete = [tmp_path / "demo.png", tmp_path / "demo.csv"]
    for path in complete:
        path.write_text("of an earlier complete run")
    process = begin(*arguments)
    try:
        # From the first line on, Ctrl-C is handled, also while the other processes still start.
        assert process.stdout.readline().startswith(b"1. Depth")
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130, errors.decode()
    text = " ".join(output.decode().split())
    assert "Stopping after this epoch" in text
    assert b"Traceback" not in errors
    rows = read_table(tmp_path / "demo-stopped.csv")
    assert rows and {row["job"] for row in rows} <= set(JOBS)
    assert all(1 <= int(row["epochs"]) < 100_000 for row in rows)
    assert (tmp_path / "demo-stopped.png").read_bytes().startswith(PNG_SIGNATURE)
    assert {path.read_text() for path in complete} == {"of an earlier complete run"}
    check_stopped_text(text)


def begin(*arguments: str) -> subprocess.Popen:
    """Start the program in a session of its own, as a terminal would."""
    pipe = subprocess.PIPE
    return subprocess.Popen(module(*arguments), stdout=pipe, stderr=pipe, start_new_session=True)


def check_stopped_text(text: str) -> None:
    """Nothing explains a table that is not there, and nothing is claimed."""
    assert re.search(r"stopped.* at epoch \d+ of 100,000", text)
    for word in ("standard error", "significant", "Try next", "NOT seen"):
        assert word not in text


@pytest.mark.skipif(sys.platform == "win32", reason="signals of a terminal are POSIX's")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_second_ctrl_c_ends_at_once(tmp_path, jobs):
    process = begin("demo", "--jobs", jobs, "--epochs", "100000", "--out", str(tmp_path))
    try:
        assert process.stdout.readline().startswith(b"1. Depth")
        os.killpg(process.pid, signal.SIGINT)
        # The rest of an epoch and a picture are still to come.
        while b"Stopping after this epoch" not in (line := process.stdout.readline()):
            assert line
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130, errors.decode()
    assert b"cola demo: ended at once" in errors
    assert b"Traceback" not in errors and b"Abort" not in errors
    assert not (tmp_path / "demo.png").exists()


def part(epochs: int, complete: bool) -> list[Record]:
    own = {"label": "SGD", "depth": 8, "epochs": 800}
    made = [record(name, "test_accuracy", [0.5, 0.6], **own) for name in JOBS[:2]]
    history = {"epoch": [0, epochs], "test_accuracy": [[0.5, 0.5], [0.5, 0.6]]}
    return [replace(one, history=history, complete=complete) for one in made]


def titles(records: list[Record]) -> str:
    figure = demo_plot.draw(Records(records))
    return " ".join(axis.get_title(loc) for axis in figure.axes for loc in ("left", "center"))


def test_a_picture_of_a_stopped_run_says_so():
    text = " ".join(titles(part(64, complete=False)).split())
    assert "Depth: stopped at epoch 64 of 800" in text
    assert "Overfitting: not begun" in text
    assert "learn" not in text and "keep" not in text
    one = part(800, complete=True)[:1]
    assert "stopped; SGD at epoch 800 of 800, orthogonal not begun" in " ".join(titles(one).split())
    whole = titles(part(800, complete=True))
    assert "8 hidden layers learn" in whole and "stopped" not in whole


def test_the_picture_shows_means_and_bands_of_the_records():
    axis = demo_plot.draw(Records(part(800, complete=True))).axes[0]
    for line, band in zip(axis.get_lines(), axis.collections, strict=True):
        assert line.get_xydata().tolist() == [[0.0, 50.0], [800.0, pytest.approx(55.0)]]
        edges = {round(float(y), 6) for x, y in band.get_paths()[0].vertices if x == 800}
        assert edges == {45.0, 65.0}  # two standard errors of 50 and 60
    assert len(axis.get_lines()) == 2


def test_the_picture_shows_rivals_and_the_best_epoch():
    history = {"epoch": [0, 50, 100], "test_loss": [[0.7, 0.7], [0.4, 0.5], [0.6, 0.8]]}
    names = [name for name, _ in demo.methods(demo.OVERFITTING)]
    made = [replace(record(n, "test_loss", [0.6, 0.8]), history=history) for n in names]
    axis = demo_plot.draw(Records(made)).axes[3]
    plain, bounded, rival, best = axis.get_lines()
    for line in (plain, bounded, rival):
        assert line.get_ydata().tolist() == [0.7, 0.45, 0.7]
    assert best.get_ydata() == pytest.approx([0.45, 0.45])
    assert [line.get_label() for line in (rival, best)] == [
        "spiral-sgd-wd",
        "SGD at its best epoch, chosen by the test loss",
    ]


def test_the_program_is_called_as_it_was(monkeypatch, tmp_path):
    """After `make demo` cola is not on the PATH."""
    tool = tmp_path / "bin" / "cola"
    tool.parent.mkdir()
    tool.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bin/cola", "demo"])
    monkeypatch.setenv("PATH", "")
    assert calling.program() == "bin/cola"
    monkeypatch.setattr(sys, "argv", [str(tool)])
    assert calling.program() == os.path.join("bin", "cola")
    monkeypatch.setenv("PATH", str(tool.parent))
    assert calling.program() == "cola"
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "colangevin" / "__main__.py")])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "my bin" / "python"))
    assert calling.program() == "'my bin/python' -m colangevin"
    monkeypatch.setattr(sys, "argv", ["pytest"])
    assert calling.program() == "cola"


def test_try_next_names_the_program_as_it_was_called(monkeypatch, tmp_path):
    monkeypatch.setattr(demo_command, "program", lambda: ".venv/bin/cola")
    result = invoke("--epochs", "1", "--out", str(tmp_path))
    assert "  .venv/bin/cola explore\n" in result.stdout
