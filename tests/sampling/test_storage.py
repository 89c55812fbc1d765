"""Traces on disk: killed and resumed, extended, refused, and a disk that is full."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.sampling import storage
from posteriors import line, line_loss, linear, point

pytest.importorskip("safetensors")
pytestmark = pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")

SETTINGS = {"chains": 3, "warmup": 10, "draws": 40, "thin": 2, "step_size": 0.05}

SCRIPT = """
import sys, warnings
sys.path.insert(0, {tests!r})
warnings.simplefilter("ignore")
import torch, colangevin as cl
from posteriors import line, line_loss, linear
torch.set_num_threads(1)
rules = {{"weight": cl.Sphere(1.5, equality=True)}}
for _ in range(2):
    cl.sample(linear, line_loss, line(), rules, path=sys.argv[1], **{settings})
"""


AT_ONE_SPEED = {"dynamics": "microcanonical", "metric": "dense", "warmup": 20}
LEARNED = {"metric": "dense", "step_size": None, "warmup": 60}


@pytest.mark.parametrize(
    "options", [{}, {"adjust": True}, {"guard": 0.02}, AT_ONE_SPEED, LEARNED], ids=str
)
def test_a_killed_sampling_is_resumed_to_the_same_trace(tmp_path: Path, options: dict) -> None:
    settings = {**SETTINGS, "draws": 2000, **options}
    script = SCRIPT.format(tests=str(Path(__file__).parents[1]), settings=settings)
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "trace")])
    try:
        deadline = time.time() + 120
        while len(list((tmp_path / "trace").glob("draws-*.safetensors"))) < 2:
            assert time.time() < deadline and process.poll() is None
            time.sleep(0.01)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    partial = cl.load_trace(tmp_path / "trace", linear)
    assert 0 < partial.draws < 2000
    short = {**settings, "draws": partial.draws + 120}
    rules = {"weight": cl.Sphere(1.5, equality=True)}
    resumed = cl.sample(linear, line_loss, line(), rules, path=tmp_path / "trace", **short)
    whole = cl.sample(linear, line_loss, line(), rules, **short)
    for name in ("weight", "bias", "loss"):
        torch.testing.assert_close(resumed[name], whole[name], rtol=0, atol=0)
    assert resumed.tuning.metric == whole.tuning.metric == options.get("metric", "")
    if whole.acceptance is not None:
        torch.testing.assert_close(resumed.acceptance, whole.acceptance)
        assert 0.0 < float(whole.acceptance.min()) < 1.0


def test_a_trace_on_disk_is_that_in_memory_and_can_be_extended(tmp_path: Path) -> None:
    whole = cl.sample(linear, line_loss, line(), batch_size=8, **SETTINGS)
    for draws in (7, 40):
        settings = {**SETTINGS, "draws": draws}
        kept = cl.sample(
            linear, line_loss, line(), batch_size=8, path=tmp_path / "trace", **settings
        )
    loaded = cl.load_trace(tmp_path / "trace", linear())
    for trace in (kept, loaded):
        for name in ("weight", "bias", "loss"):
            torch.testing.assert_close(trace[name], whole[name], rtol=0, atol=0)
    inputs = line()[0]
    torch.testing.assert_close(loaded.predict(inputs).mean, whole.predict(inputs).mean)
    assert loaded.tuning.step_size == 0.05


def test_another_model_or_another_sampling_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    cl.sample(linear, line_loss, line(), path=path, **SETTINGS)
    with pytest.raises(ValueError, match=r"another model: 'weight'"):
        cl.load_trace(path, nn.Linear(3, 1))
    with pytest.raises(ValueError, match=r"another model: 'bias'"):
        cl.load_trace(path, lambda: nn.Linear(2, 1, bias=False))
    with pytest.raises(ValueError, match="another sampling: thin was 2 there and is 3"):
        cl.sample(linear, line_loss, line(), path=path, **{**SETTINGS, "thin": 3})
    with pytest.raises(ValueError, match="another sampling: data"):
        cl.sample(linear, line_loss, line(seed=1), path=path, **SETTINGS)
    with pytest.raises(FileNotFoundError, match="no trace"):
        cl.load_trace(tmp_path / "elsewhere")


@pytest.mark.parametrize("options", [{}, AT_ONE_SPEED], ids=str)
def test_a_full_disk_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict
) -> None:
    settings = {**SETTINGS, **options}
    whole = cl.sample(linear, line_loss, line(), **settings)
    real = storage.library("torch").save_file
    written = []

    def full(tensors, file) -> None:
        if len(written) == 3:
            Path(file).write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(file)
        real(tensors, file)

    path = tmp_path / "trace"
    monkeypatch.setattr(storage.library("torch"), "save_file", full)
    with pytest.raises(OSError, match=r"No space left.*6 draws are safe.*2 more") as caught:
        cl.sample(linear, line_loss, line(), path=path, **settings)
    drawn = caught.value.trace
    assert drawn.draws == 8
    torch.testing.assert_close(drawn["weight"], whole["weight"][:, :8], rtol=0, atol=0)
    monkeypatch.setattr(storage.library("torch"), "save_file", real)
    assert not list(path.glob("*.part"))
    again = cl.sample(linear, line_loss, line(), path=path, **settings)
    torch.testing.assert_close(again["weight"], whole["weight"], rtol=0, atol=0)


def test_frozen_parameters_and_buffers_are_kept_for_predictions(tmp_path: Path) -> None:
    def network() -> nn.Module:
        model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).double()
        model[0].weight.requires_grad_(False)
        return model

    trace = cl.sample(network, line_loss, line(), path=tmp_path / "trace", **SETTINGS)
    assert "0.weight" not in trace.parameters
    loaded = cl.load_trace(tmp_path / "trace", network)
    inputs = line()[0]
    torch.testing.assert_close(loaded.predict(inputs).samples, trace.predict(inputs).samples)


def test_a_potential_on_disk(tmp_path: Path) -> None:
    def bowl(own):
        return own["q"].square().sum()

    trace = cl.sample(point(0.0), bowl, path=tmp_path / "trace", **SETTINGS)
    assert cl.load_trace(tmp_path / "trace")["q"].shape == trace["q"].shape == (3, 40, 1)
