"""``cola reproduce --engine ray``: the records of local processes, whatever is killed."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="needs the extra ray")

import walks  # noqa: E402
from colangevin.lab.experiments.spirals import classifiers as spiral_classifiers  # noqa: E402
from colangevin.lab.runner import ray_cluster, ray_engine  # noqa: E402
from colangevin.lab.runner.experiment import Experiment, Job  # noqa: E402
from colangevin.lab.runner.job_log import Log  # noqa: E402
from colangevin.lab.runner.running import prepare, reproduce, run  # noqa: E402
from colangevin.lab.runner.tasks import Task  # noqa: E402
from colangevin.lab.runner.workers import ERROR  # noqa: E402

TESTS = Path(__file__).parents[2]
JOBS = ("wide", "narrow", "middle")
PAUSE = "0.02"
MARK = "COLA_TEST_CLUSTER"
"""An environment variable that tells the processes of the cluster from others."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@pytest.fixture(scope="module")
def address():
    """A cluster of this machine, whose walks take their time."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ((MARK, "1"), (walks.PAUSE, PAUSE), ("PYTHONPATH", path)):
            patch.setenv(name, value)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
        found = ray.get_runtime_context().gcs_address
        yield found
        ray.shutdown()


def command(out: Path, *arguments: str) -> list[str]:
    program = [sys.executable, str(TESTS / "walks.py"), "reproduce"]
    return [*program, *arguments, "--scale", "smoke", "--out", str(out)]


def start(out: Path, *arguments: str, pause: str = "0") -> subprocess.Popen:
    """Start the program in a session of its own, as a terminal would."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        command(out, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path, walks.PAUSE: pause, "COLUMNS": "200"},
    )


def finish(process: subprocess.Popen, code: int = 0) -> tuple[str, str]:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == code, (output, errors)
    return output, errors


def record(path: Path) -> dict:
    """A record, without what differs between two runs."""
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["seconds"], content["started"], content["versions"]["threads"]
    return content


def assert_equal_records(one: Path, other: Path) -> None:
    names = sorted(path.name for path in one.glob("*.json"))
    assert names == sorted(path.name for path in other.glob("*.json"))
    assert names
    for name in names:
        assert record(one / name)["complete"]
        assert record(one / name) == record(other / name), name


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The walks without Ray."""
    out = tmp_path_factory.mktemp("whole")
    assert run(prepare(walks.WALKS, "smoke", out=out, jobs=1))
    return out / walks.NAME


def ray_processes(title: str) -> list[int]:
    """Processes of the cluster by the name that Ray gives them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            named = (folder / "cmdline").read_bytes().startswith(title.encode())
            if named and f"{MARK}=1".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def wait_for(condition, process: subprocess.Popen):
    for _ in range(1200):
        found = condition()
        if found:
            return found
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("waited for a minute")


def test_spiral_classifiers_has_the_records_of_local_processes(address, tmp_path):
    here, there = tmp_path / "local", tmp_path / "ray"
    reproduce(spiral_classifiers.EXPERIMENT, "smoke", out=here, jobs=1)
    output, _ = finish(start(there, "spiral-classifiers", "--engine", "ray", "--address", address))
    assert "2 at once, on the engine ray" in output
    assert "sgd: done" in output
    assert_equal_records(here / "spiral-classifiers", there / "spiral-classifiers")
    weights = [sorted(p.name for p in out.rglob("*.pt")) for out in (here, there)]
    assert weights[0] == weights[1] != [], "what a job writes beside its record comes back too"


def test_killed_workers_cost_nothing_but_time(address, tmp_path, whole):
    process = start(tmp_path, "walks", "--engine", "ray", "--address", address)
    checkpoint = tmp_path / "walks" / "wide.checkpoint.pt"
    wait_for(checkpoint.exists, process)
    killed = wait_for(lambda: ray_processes("ray::serve"), process)
    for pid in [*killed, *ray_processes("ray::Desk")]:  # every one, that of the messages too
        os.kill(pid, signal.SIGKILL)
    output, errors = finish(process)
    assert "Traceback" not in errors
    assert "3 of 3 jobs to do" in output
    assert_equal_records(tmp_path / "walks", whole)
    assert not checkpoint.exists()


def test_a_killed_driver_is_resumed(address, tmp_path, whole):
    process = start(tmp_path, "walks", "--engine", "ray", "--address", address)
    checkpoint = tmp_path / "walks" / "wide.checkpoint.pt"
    wait_for(checkpoint.exists, process)
    time.sleep(0.3)  # anywhere between two checkpoints
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert not record(tmp_path / "walks" / "wide.json")["complete"]
    output, _ = finish(
        start(tmp_path, "walks", "--resume", "--engine", "ray", "--address", address)
    )
    assert "3 of 3 jobs to do" in output
    assert_equal_records(tmp_path / "walks", whole)
    assert not checkpoint.exists()


def test_ctrl_c_saves_and_local_processes_can_go_on(tmp_path, whole):
    """On Ray of this machine: Ctrl-C reaches its processes as well."""
    process = start(tmp_path, "walks", "--engine", "ray", pause=PAUSE)
    wait_for((tmp_path / "walks" / "wide.checkpoint.pt").exists, process)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = finish(process, code=130)
    assert output.rstrip().endswith("--engine ray --resume")
    assert "Traceback" not in errors
    assert run(prepare(walks.WALKS, "smoke", out=tmp_path, resume=True, jobs=1))
    assert_equal_records(tmp_path / "walks", whole)


def refused(out: Path, *arguments: str) -> tuple[str, float]:
    """The one line of an error, and how long it took; nothing may have been written."""
    begun = time.perf_counter()
    output, errors = finish(start(out, "walks", "--engine", "ray", *arguments), code=2)
    lines = errors.strip().splitlines()
    assert len(lines) == 1, errors
    assert lines[0].startswith("cola reproduce: ")
    assert not output
    assert not list(out.iterdir())
    return lines[0], time.perf_counter() - begun


def test_nobody_at_the_address(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line, seconds = refused(tmp_path, "--address", f"127.0.0.1:{port}")
    assert f"no Ray cluster at 127.0.0.1:{port}" in line
    assert seconds < 30


def test_somebody_else_at_the_address(monkeypatch):
    monkeypatch.setattr(ray_cluster, "CONNECT_SECONDS", 4.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        begun = time.perf_counter()
        with pytest.raises(OSError, match=f"no Ray cluster at {place}: no answer within 4 seconds"):
            ray_cluster.check_address(place)
        assert time.perf_counter() - begun < 30


def test_more_gpus_than_there_are(address, tmp_path):
    line, _ = refused(tmp_path, "--address", address, "--gpus", "1")
    assert "gpus must be at most 0, the most that a machine of the cluster has, got 1" in line


def bad_data(job: Job, log: Log) -> None:
    raise OSError("the disk is full")


def test_what_a_job_raises_is_raised_here(address, tmp_path):
    failing = Experiment(
        **{**vars(walks.WALKS), "name": "failing", "run": bad_data, "jobs": walks.jobs}
    )
    resources = ray_cluster.Resources(2, 2, 0, 0)
    plan = prepare(failing, "smoke", out=tmp_path, engine=ray_engine.RayEngine(resources))
    with pytest.raises(OSError, match="the disk is full"):
        run(plan)


def test_another_version_on_a_machine_is_refused(tmp_path):
    task = Task(walks.run, walks.jobs({})[0], 0, tmp_path, None, 1)
    wanted = {**ray_engine.versions(), "torch": "1.0"}
    kind, error, _ = ray_engine.serve(task, {}, (0, 0, "x"), wanted, None)
    assert kind == ERROR
    assert "'torch': '1.0'" in str(error)


def test_a_gpu_that_torch_does_not_find_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    task = Task(walks.run, walks.jobs({})[0], 0, tmp_path, None, 1, device="cuda")
    kind, error, _ = ray_engine.serve(task, {}, (0, 0, "x"), ray_engine.versions(), None)
    assert kind == ERROR
    assert "no GPU" in str(error)
