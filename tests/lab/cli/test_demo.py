import csv
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from colangevin.lab.cli import demo_command
from colangevin.lab.cli.interrupt import interrupt_flag
from colangevin.lab.cli.main import app
from colangevin.lab.experiments import spiral
from colangevin.lab.experiments.records import Record
from colangevin.lab.experiments.results import read_results

NAMES = [method["label"] for method in spiral.METHODS.values()]
RUNS = demo_command.EXPERIMENT.scales["demo"]["runs"]
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["demo", "--jobs", "1", *arguments], env={"COLUMNS": "100"})


def read_table(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def short_run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("demo") / "new" / "place"
    return invoke("--epochs", "3", "--seed", "7", "--out", str(directory)), directory


def test_writes_a_picture_a_table_and_records_and_says_where(short_run):
    result, directory = short_run
    assert result.exit_code == 0, result.output
    assert (directory / "demo.png").read_bytes().startswith(PNG_SIGNATURE)
    names = sorted(path.name for path in directory.iterdir())
    assert names == ["demo-records", "demo.csv", "demo.png"]
    for name in ("demo.png", "demo.csv"):
        assert f"Wrote {directory / name}" in result.stdout


def test_states_epochs_and_seed(short_run):
    assert "3 epochs; the paper uses 10,000. Seed 7." in short_run[0].stdout


def test_table_has_every_method_with_plausible_figures(short_run):
    result, directory = short_run
    rows = read_table(directory / "demo.csv")
    assert [row["method"] for row in rows] == NAMES
    assert f"over {RUNS} runs" in result.stdout
    for row, method in zip(rows, spiral.METHODS.values(), strict=True):
        accuracy, loss = row["test accuracy, %"], row["test loss"]
        assert f"({RUNS} runs)" in accuracy
        assert row["method"] in result.stdout
        assert loss.partition(" ")[0] in result.stdout
        assert 0.0 < float(loss.partition(" ")[0]) < 2.0
        assert 40.0 < float(row["train accuracy, %"].partition(" ")[0]) <= 100.0
        assert (row["epochs"], row["seed"]) == ("3", "7")
        if "radii" in method:
            assert float(row["violation"]) < 1e-6
        else:
            assert row["violation"] == "–"


def test_records_are_those_of_a_scale_and_give_no_verdict(short_run):
    (results,) = read_results(short_run[1] / "demo-records")
    assert results.experiment is demo_command.EXPERIMENT
    assert results.records.settings["scale"] == "demo"
    assert {claim.verdict for claim in results.claims} == {"not measured"}
    losses = {tuple(record.final["train_loss"]) for record in results.records.values()}
    assert len(losses) == len(NAMES)  # every option of a method changes something


def test_out_may_name_the_picture_and_a_second_run_replaces_the_first(tmp_path, monkeypatch):
    small = {**demo_command.EXPERIMENT.scales["demo"], "runs": 1, "hidden": 8, "test_points": 50}
    experiment = replace(demo_command.EXPERIMENT, scales={"demo": small})
    monkeypatch.setattr(demo_command, "EXPERIMENT", experiment)
    picture = tmp_path / "deep" / "spiral.svg"
    for epochs in ("2", "1"):
        result = invoke("--epochs", epochs, "--out", str(picture))
        assert result.exit_code == 0, result.output
    assert b"<svg" in picture.read_bytes()
    rows = read_table(picture.with_suffix(".csv"))
    assert [row["epochs"] for row in rows] == ["1"] * len(NAMES)


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
    assert f"default: {demo_command.EPOCHS}" in result.stdout


def test_first_ctrl_c_raises_a_flag_and_the_second_interrupts():
    inherited = signal.getsignal(signal.SIGINT)
    # A process that was started in the background ignores Ctrl-C from the start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with interrupt_flag() as interrupted:
            assert not interrupted()
            signal.raise_signal(signal.SIGINT)
            assert interrupted()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, inherited)


def module(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "colangevin", *arguments]


def test_module_with_two_processes_gives_the_table_of_one(tmp_path, short_run):
    arguments = ("demo", "--jobs", "2", "--epochs", "3", "--seed", "7", "--out", str(tmp_path))
    done = subprocess.run(module(*arguments), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert f"Wrote {tmp_path / 'demo.png'}" in done.stdout
    assert read_table(tmp_path / "demo.csv") == read_table(short_run[1] / "demo.csv")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of a terminal are POSIX's")
def test_ctrl_c_ends_with_what_is_done(tmp_path):
    arguments = ("demo", "--jobs", "2", "--epochs", "100000", "--out", str(tmp_path))
    process = subprocess.Popen(
        module(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        # From the first line on, Ctrl-C is handled, also while the other processes still start.
        assert process.stdout.readline().startswith(b"Two-turn spiral")
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130, errors.decode()
    assert b"Stopped; this is what is done." in output
    assert b"Traceback" not in errors
    rows = read_table(tmp_path / "demo.csv")
    begun = [row["method"] for row in rows]
    assert begun and begun == [name for name in NAMES if name in begun]
    assert all(1 <= int(row["epochs"]) < 100_000 for row in rows)
    assert (tmp_path / "demo.png").exists()
