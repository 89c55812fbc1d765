"""A trace goes on only with what it was made with, in one process, and whole."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import colangevin as cl
from colangevin.sampling import storage
from colangevin.sampling.locks import Lock
from posteriors import line, line_loss, linear

pytest.importorskip("safetensors")
pytestmark = pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")

SETTINGS = {"chains": 3, "warmup": 5, "thin": 2, "step_size": 0.05}
NORM = {"norm": lambda own: own["weight"].norm()}


def go(path: Path, draws: int = 40, loss=line_loss, data=None, **more) -> cl.Trace:
    data = line() if data is None else data
    return cl.sample(linear, loss, data, path=path, draws=draws, **{**SETTINGS, **more})


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != "sampling.lock"}


def other_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return line_loss(outputs, 1.01 * targets)


def loader() -> DataLoader:
    return DataLoader(TensorDataset(*line()), batch_size=8, shuffle=True)


@pytest.mark.parametrize(
    "more",
    [{}, {"adjust": True}, {"guard": 3.0}, {"batch_size": 8}, {"data": loader()}],
    ids=["plain", "adjust", "guard", "batches", "loader"],
)
def test_another_loss_is_refused(tmp_path: Path, more: dict) -> None:
    go(tmp_path, draws=10, **more)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"another sampling: the loss of its last draw was .* now"):
        go(tmp_path, loss=other_loss, **more)
    assert contents(tmp_path) == before
    assert go(tmp_path, draws=12, **more).draws == 12


def test_other_data_in_batches_are_refused(tmp_path: Path) -> None:
    go(tmp_path, draws=10, batch_size=8)
    with pytest.raises(ValueError, match="another sampling: the loss"):
        go(tmp_path, data=line(seed=1), batch_size=8)


def test_another_loss_right_after_the_warm_up_is_refused(tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    def stop(steps: int) -> None:
        if steps > 5:
            raise Stopped

    with pytest.raises(Stopped):
        go(tmp_path, progress=stop, draws=400)
    with pytest.raises(ValueError, match="another sampling: the loss"):
        go(tmp_path, loss=other_loss)


OBSERVABLES = [
    (NORM, {"norm": lambda own: 1000 + own["bias"].norm()}, "the observable 'norm' of its last"),
    (NORM, {"norm": lambda own: own["weight"].flatten()}, "the observable 'norm' of its last"),
    (NORM, {}, r"observables was \['norm'\] there and is \[\] now"),
    ({}, NORM, r"observables was \[\] there and is \['norm'\] now"),
]


@pytest.mark.parametrize(("first", "second", "words"), OBSERVABLES)
def test_other_observables_are_refused(tmp_path: Path, first, second, words: str) -> None:
    go(tmp_path, draws=10, observables=first)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="another sampling: " + words):
        go(tmp_path, observables=second)
    assert contents(tmp_path) == before


def test_a_random_observable_cannot_be_compared_and_is_accepted(tmp_path: Path) -> None:
    noisy = {"noise": lambda own: torch.randn(2)}
    go(tmp_path, draws=10, observables=noisy)
    assert go(tmp_path, observables=noisy)["noise"].shape == (3, 40, 2)


@pytest.mark.parametrize("which", [0, 9, -1], ids=["first", "middle", "last"])
def test_a_file_that_is_missing_is_noticed(tmp_path: Path, which: int) -> None:
    go(tmp_path)
    sorted(tmp_path.glob("draws-*"))[which].unlink()
    for call in (cl.load_trace, go):
        with pytest.raises(ValueError, match="lacks draws"):
            call(tmp_path)


def test_a_kill_between_the_draws_and_the_state_leaves_a_trace(tmp_path: Path, monkeypatch) -> None:
    whole = go(tmp_path / "whole")

    def killed(*arguments, **more) -> None:
        raise KeyboardInterrupt

    go(tmp_path / "trace", draws=20)
    monkeypatch.setattr(storage.torch, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "trace")
    monkeypatch.undo()
    loaded = cl.load_trace(tmp_path / "trace")
    assert loaded.draws == 22
    for name in ("weight", "loss"):
        torch.testing.assert_close(loaded[name], whole[name][:, :22], rtol=0, atol=0)
        torch.testing.assert_close(go(tmp_path / "trace")[name], whole[name], rtol=0, atol=0)


def change(path: Path, **values: object) -> None:
    file = path / "trace.json"
    described = {**json.loads(file.read_text()), **values}
    file.write_text(json.dumps({k: v for k, v in described.items() if v != "drop"}))


def lose_a_part_of_the_state(path: Path) -> None:
    torch.save({"draws": 40}, path / "state.pt")


def spoil_the_chains(path: Path) -> None:
    torch.save({**torch.load(path / "state.pt"), "chains": {}}, path / "state.pt")


DAMAGES = [
    (lambda path: change(path, settings="drop"), "trace.json is damaged: 'settings'"),
    (lambda path: change(path, settings={}), "trace.json is damaged: its settings lack"),
    (lambda path: change(path, draws="many"), "trace.json is damaged: 'draws'"),
    (lambda path: (path / "trace.json").write_text("[]"), "trace.json is damaged: .* list"),
    (lambda path: (path / "trace.json").write_text("{"), "trace.json is damaged"),
    (lambda path: change(path, tuning={"x": 1}), "trace.json is damaged"),
    (
        lambda path: (path / "draws-x.safetensors").write_text("x"),
        "draws-x.safetensors is no file of a trace",
    ),
    (
        lambda path: (path / "draws-00000040.safetensors").write_text("x"),
        "draws-00000040.safetensors is damaged, or no file",
    ),
    (lambda path: (path / "trace.json").unlink(), "no trace.json"),
]
STATES = [
    (lose_a_part_of_the_state, "state.pt is damaged: it lacks chains"),
    (spoil_the_chains, "state.pt is damaged"),
    (lambda path: (path / "state.pt").write_text("x"), "state.pt is damaged"),
    (lambda path: (path / "state.pt").unlink(), "has draws but no state.pt"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGES, ids=[d[1] for d in DAMAGES])
def test_damage_is_named(tmp_path: Path, damage, words: str) -> None:
    go(tmp_path)
    damage(tmp_path)
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        cl.load_trace(tmp_path)


@pytest.mark.parametrize(("damage", "words"), DAMAGES[:1] + DAMAGES[6:] + STATES)
def test_a_damaged_trace_is_not_continued_nor_changed(tmp_path: Path, damage, words: str) -> None:
    go(tmp_path)
    damage(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=words):
        go(tmp_path, draws=60)
    assert contents(tmp_path) == before


def test_fewer_draws_are_the_first_ones_and_change_nothing(tmp_path: Path) -> None:
    whole = go(tmp_path, observables=NORM)
    before = contents(tmp_path)
    part = go(tmp_path, draws=15, observables=NORM)
    assert part.draws == 15 and part["weight"].shape[:2] == (3, 15)
    torch.testing.assert_close(part["norm"], whole["norm"][:, :15])
    assert part.predict(line()[0]).samples.shape[:2] == (3, 15)
    means = {row.name: row.mean for row in part.summary().rows}
    assert means["bias[0]"] == pytest.approx(float(whole["bias"][:, :15].mean()))
    assert contents(tmp_path) == before
    assert cl.load_trace(tmp_path).draws == 40


SCRIPT = """
import sys, time, warnings
sys.path.insert(0, {tests!r})
warnings.simplefilter("ignore")
import colangevin as cl
from posteriors import line, line_loss, linear
cl.sample(linear, line_loss, line(), path=sys.argv[1], draws=40, progress=lambda n: time.sleep(9),
          **{settings})
"""


def test_two_samplings_at_once_are_refused_and_a_killed_one_is_not_in_the_way(
    tmp_path: Path,
) -> None:
    script = SCRIPT.format(tests=str(Path(__file__).parents[1]), settings=SETTINGS)
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)])
    try:
        deadline = time.time() + 120
        while not (tmp_path / "trace.json").exists():
            assert time.time() < deadline and process.poll() is None
            time.sleep(0.01)
        before = contents(tmp_path)
        with pytest.raises(ValueError, match=f"another sampling .process {process.pid}"):
            go(tmp_path)
        assert contents(tmp_path) == before
    finally:
        process.kill()
        process.wait()
    assert go(tmp_path).draws == 40


def test_a_lock_is_given_back_also_after_an_error(tmp_path: Path) -> None:
    go(tmp_path)
    with pytest.raises(ValueError, match="another sampling") as kept:
        go(tmp_path, loss=other_loss)

    def fail(steps: int) -> None:
        with pytest.raises(ValueError, match=f"process {os.getpid()}"):
            go(tmp_path)
        raise KeyError

    with pytest.raises(KeyError):
        go(tmp_path, draws=50, progress=fail)
    Lock(tmp_path).release()
    assert kept.value is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_lock_is_given_back_while_a_forked_process_lives(tmp_path: Path) -> None:
    """A worker of a loader inherits the file, and closing it here is not enough."""
    lock = Lock(tmp_path)
    ended, end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        os.read(ended, 1)
        os._exit(0)
    try:
        lock.release()
        Lock(tmp_path).release()
    finally:
        os.close(end)
        os.waitpid(child, 0)
        os.close(ended)
