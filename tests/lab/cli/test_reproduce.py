"""``cola reproduce``: records, interruption and resumption, bad input."""

import gzip
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import walks
from colangevin.errors import DataError
from colangevin.lab.cli.main import app
from colangevin.lab.experiments import registry
from colangevin.lab.runner.running import prepare
from colangevin.lab.runner.tasks import Local

TESTS = Path(__file__).parents[2]
JOBS = ("wide", "narrow", "middle")
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")


@pytest.fixture(autouse=True)
def registered():
    with walks.alone():
        yield


def use(experiment) -> None:
    registry.EXPERIMENTS[experiment.name] = experiment


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["reproduce", *arguments], env={"COLUMNS": "200"})


def smoke(out: Path, *arguments: str):
    return invoke("walks", "--scale", "smoke", "--jobs", "1", "--out", str(out), *arguments)


def start(out: Path, *arguments: str, pause: float = 0.0, jobs: int = 2) -> subprocess.Popen:
    """Start the program in a session of its own, as a terminal would."""
    command = [sys.executable, str(TESTS / "walks.py"), "reproduce", "walks", "--scale", "smoke"]
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [*command, "--jobs", str(jobs), "--out", str(out), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path, walks.PAUSE: str(pause)},
    )


def record(out: Path, job: str) -> dict:
    """A record, without what differs between two runs."""
    content = json.loads((out / "walks" / f"{job}.json").read_text(encoding="utf-8"))
    del content["seconds"], content["started"], content["versions"]["threads"]
    return content


def snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def wait_for(condition, process: subprocess.Popen) -> None:
    for _ in range(1200):
        if condition():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("waited for a minute")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run, in one process."""
    out = tmp_path_factory.mktemp("whole")
    with walks.alone():
        return smoke(out), out


def test_writes_records_figures_table_and_report(whole):
    result, out = whole
    assert result.exit_code == 0, result.output
    names = sorted(path.name for path in (out / "walks").iterdir())
    made = ["report.html", "table.md", "where-they-went.png"]
    assert names == sorted([*(f"{job}.json" for job in JOBS), *made])
    for name in made:
        assert f"Wrote {out / 'walks' / name}" in result.stdout
    assert "Scale smoke, 2 runs, seed 0" in result.stdout
    assert "narrow" in result.stdout


def test_record_has_settings_versions_and_history(whole):
    content = json.loads((whole[1] / "walks" / "wide.json").read_text(encoding="utf-8"))
    settings = {"scale": "smoke", "runs": 2, "steps": 200, "seed": 0, "width": 1.0}
    assert content["settings"] == settings
    assert {"colangevin", "torch", "python", "cpu", "threads"} <= set(content["versions"])
    assert (content["format"], content["complete"]) == (1, True)
    assert content["history"]["step"] == list(range(5, 201, 5))
    assert all(len(entry) == 2 for entry in content["history"]["x"])
    assert len(content["final"]["distance"]) == 2


def test_runs_and_seed_are_taken(tmp_path):
    assert smoke(tmp_path, "--runs", "3", "--seed", "9").exit_code == 0
    content = record(tmp_path, "wide")
    assert (content["settings"]["runs"], content["settings"]["seed"]) == (3, 9)
    assert len(content["final"]["distance"]) == 3


def test_several_processes_give_the_records_of_one(tmp_path, whole):
    process = start(tmp_path)
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    assert "3 of 3 jobs to do, 2 at once" in output
    for job in JOBS:
        assert record(tmp_path, job) == record(whole[1], job)


@POSIX
@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_and_resumed_gives_the_record_of_an_uninterrupted_run(tmp_path, whole, jobs):
    process = start(tmp_path, pause=0.02, jobs=jobs)
    try:
        checkpoint = tmp_path / "walks" / "wide.checkpoint.pt"
        wait_for(checkpoint.exists, process)
        time.sleep(0.3)  # anywhere between two checkpoints
    finally:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=600)
    assert not record(tmp_path, "wide")["complete"]
    assert record(tmp_path, "wide")["history"]["step"]
    assert checkpoint.exists()

    result = smoke(tmp_path, "--resume")
    assert result.exit_code == 0, result.output
    for job in JOBS:
        assert record(tmp_path, job) == record(whole[1], job)
    left = {path.suffix for path in (tmp_path / "walks").iterdir()}
    assert left == {".json", ".html", ".md", ".png"}


@POSIX
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_saves_and_says_how_to_resume(tmp_path, whole, jobs):
    process = start(tmp_path, pause=0.02, jobs=jobs)
    try:
        wait_for((tmp_path / "walks" / "wide.checkpoint.pt").exists, process)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "Stopping after this epoch" in output
    assert "reproduce walks --scale smoke" in output
    assert output.rstrip().endswith("--resume")
    assert smoke(tmp_path, "--resume").exit_code == 0
    for job in JOBS:
        assert record(tmp_path, job) == record(whole[1], job)


@POSIX
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_twice_ends_at_once_and_the_run_goes_on_later(tmp_path, whole, jobs):
    process = start(tmp_path, pause=0.02, jobs=jobs)
    try:
        wait_for((tmp_path / "walks" / "wide.checkpoint.pt").exists, process)
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors and "Abort" not in errors
    assert output.rstrip().endswith("--resume")
    assert smoke(tmp_path, "--resume").exit_code == 0
    for job in JOBS:
        assert record(tmp_path, job) == record(whole[1], job)


def test_resume_of_a_complete_run_trains_nothing(tmp_path):
    assert smoke(tmp_path).exit_code == 0
    before = {job: (tmp_path / "walks" / f"{job}.json").read_bytes() for job in JOBS}
    use(replace(walks.WALKS, run=None))
    result = smoke(tmp_path, "--resume")
    assert result.exit_code == 0, result.output
    assert "0 of 3 jobs to do" in result.stdout
    assert before == {job: (tmp_path / "walks" / f"{job}.json").read_bytes() for job in JOBS}


def test_list_names_experiments_and_data_and_describes_one():
    use(replace(walks.WALKS, name="clothes", data=("fashion-mnist",)))
    result = invoke("list")
    assert result.exit_code == 0
    for word in ("walks", "clothes", "figure 0", "fashion-mnist"):
        assert word in result.stdout
    result = invoke("list", "clothes")
    for word in ("Random walks", "Figure 0", "smoke: 2 runs, 1 s", "laptop: 4 runs"):
        assert word in result.stdout


def assert_one_line_error(result, *words: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("cola reproduce: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--engine", "cloud"], ["engine must be one of 'local', 'ray'", "'cloud'"]),
        (["--address", "10.0.0.5:6379"], ["--address is for --engine ray"]),
        (["--gpus", "1"], ["--gpus is for --engine ray"]),
    ],
)
def test_engines_that_are_not_there_and_their_options(tmp_path, arguments, words):
    assert_one_line_error(smoke(tmp_path / "out", *arguments), *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--address", "port 7"], ["address must be host:port", "'port 7'"]),
        (["--gpus", "-1"], ["gpus must be", "-1"]),
    ],
)
def test_bad_options_of_ray(tmp_path, monkeypatch, arguments, words):
    monkeypatch.setitem(sys.modules, "ray", object())
    assert_one_line_error(smoke(tmp_path / "out", "--engine", "ray", *arguments), *words)
    assert not list(tmp_path.iterdir())


def test_an_experiment_that_knows_no_gpu_refuses_one(tmp_path):
    class Gpus(Local):
        device = "cuda"

    with pytest.raises(ValueError, match="walks trains on processors only; leave --gpus out"):
        prepare(walks.WALKS, "smoke", out=tmp_path / "out", engine=Gpus())
    assert not list(tmp_path.iterdir())


def test_the_engine_ray_without_ray_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    result = smoke(tmp_path / "out", "--engine", "ray")
    assert_one_line_error(result, "needs the package ray", 'pip install ".[ray]"')
    assert not list(tmp_path.iterdir())


def test_unknown_experiment_is_refused(tmp_path):
    result = invoke("spirals", "--out", str(tmp_path))
    assert_one_line_error(result, "unknown experiment 'spirals'", "cola reproduce list")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scale", "huge"), "unknown scale 'huge'; walks has smoke, laptop"),
        (("--runs", "0"), "runs must be at least 1, got 0"),
        (("--runs", "-3"), "runs must be at least 1, got -3"),
        (("--runs", "501"), "runs must be at most 500, got 501"),
        (("--jobs", "0"), "jobs must be at least 1, got 0"),
        (("--seed", "-1"), "seed must lie between 0 and 1073741823, got -1"),
        (("--seed", str(2**30)), "seed must lie between"),
    ],
)
def test_arguments_out_of_range_are_refused(tmp_path, arguments, message):
    assert_one_line_error(smoke(tmp_path, *arguments), message)
    assert list(tmp_path.iterdir()) == []


def test_output_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert_one_line_error(smoke(tmp_path / "file"), f"cannot write to {tmp_path / 'file'}")
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.fixture
def finished(tmp_path, whole):
    """A copy of a complete run."""
    target = tmp_path / "walks"
    target.mkdir()
    for path in (whole[1] / "walks").iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return tmp_path


def refused(out: Path, *arguments: str):
    before = snapshot(out)
    result = smoke(out, *arguments)
    assert snapshot(out) == before
    return result


def test_records_are_not_overwritten_without_resume(finished):
    assert_one_line_error(
        refused(finished), "holds records of this run already", "--resume", "--out"
    )


def test_resume_with_other_settings_names_each_of_them(finished):
    result = refused(finished, "--resume", "--seed", "5", "--runs", "7")
    assert_one_line_error(result, "runs was 2, now 7", "seed was 0, now 5")
    assert "steps" not in result.stderr


def test_resume_with_another_scale_is_refused(finished):
    result = refused(finished, "--resume", "--scale", "laptop")
    assert_one_line_error(result, "scale was smoke, now laptop", "runs was 2, now 4")


def test_another_scale_after_smoke_is_told_the_way_out(finished):
    """Going on is no way out, so that it is not advised."""
    result = refused(finished, "--scale", "laptop")
    assert_one_line_error(result, "scale was smoke, now laptop", "another directory with --out")
    assert "--resume" not in result.stderr


def test_record_of_an_unknown_job_is_refused(finished):
    folder = finished / "walks"
    text = (folder / "wide.json").read_text().replace('"job":"wide"', '"job":"broad"')
    (folder / "broad.json").write_text(text)
    assert_one_line_error(refused(finished, "--resume"), "broad.json", "a job that")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 2}', '{"format": 1}', "\udcff"])
def test_damaged_record_is_named(finished, content):
    path = finished / "walks" / "narrow.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert_one_line_error(refused(finished, "--resume"), str(path))


def test_damaged_checkpoint_is_named(finished):
    path = finished / "walks" / "narrow.checkpoint.pt"
    path.write_bytes(b"PK\x03\x04 cut short")
    assert_one_line_error(refused(finished, "--resume"), str(path), "damaged")


@pytest.fixture
def no_download(monkeypatch):
    present = importlib.util.find_spec
    monkeypatch.delenv("COLA_DATA", raising=False)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pooch" else present(name)
    )


@pytest.mark.usefixtures("no_download")
def test_missing_data_says_what_where_and_how(tmp_path):
    use(replace(walks.WALKS, data=("fashion-mnist",)))
    data = tmp_path / "data"
    data.mkdir()
    result = smoke(tmp_path / "out", "--data", str(data))
    assert_one_line_error(result, "fashion-mnist", str(data), "--data", "COLA_DATA")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("no_download")
def test_data_directory_that_is_not_there_is_refused(tmp_path):
    use(replace(walks.WALKS, data=("ptb",)))
    result = smoke(tmp_path / "out", "--data", str(tmp_path / "nowhere"))
    assert_one_line_error(result, f"{tmp_path / 'nowhere'} does not exist")


@pytest.mark.usefixtures("no_download")
def test_damaged_data_are_refused_before_training(tmp_path):
    use(replace(walks.WALKS, data=("fashion-mnist",)))
    folder = tmp_path / "data" / "fashion-mnist"
    folder.mkdir(parents=True)
    damaged = folder / "train-images-idx3-ubyte.gz"
    damaged.write_bytes(gzip.compress(b"cut short"))
    result = smoke(tmp_path / "out", "--data", str(folder.parent))
    assert_one_line_error(result, str(damaged), "damaged")
    assert not (tmp_path / "out").exists()


def test_data_that_go_bad_during_a_job_end_in_one_line(tmp_path):
    def run(job, log):
        raise DataError("train.txt is damaged")

    use(replace(walks.WALKS, run=run))
    result = smoke(tmp_path)
    assert result.exit_code == 2
    assert result.stderr == "cola reproduce: train.txt is damaged\n"


def test_a_job_that_ends_without_a_result_is_a_mistake_of_the_program(tmp_path):
    use(replace(walks.WALKS, run=lambda job, log: None))
    result = smoke(tmp_path)
    assert isinstance(result.exception, RuntimeError)
    assert "wide of walks ended without a result" in str(result.exception)


@POSIX
def test_a_second_process_is_kept_out(tmp_path):
    seen = []

    def run(job, log):
        seen.append(smoke(tmp_path, "--resume"))
        log.finish(distance=[1.0, 2.0])

    experiment = replace(walks.WALKS, run=run, figures=lambda records: {})
    use(experiment)
    assert smoke(tmp_path).exit_code == 0
    for result in seen:
        assert result.exit_code == 2
        assert f"another process is writing to {tmp_path / 'walks'}" in result.stderr
