"""No peer may end the program: what might crash is tried out in a child process."""

import signal
import sys

import pytest
import torch

from colangevin.lab.bench import arithmetic, peers, works
from colangevin.lab.bench.contestant import Setting, Unavailable, Weight, draw_initial, draw_pool
from colangevin.lab.bench.measuring import Environment, measure
from colangevin.lab.bench.muon import MuonIn, newton_schulz
from colangevin.lab.bench.timing import Effort
from colangevin.lab.bench.works import Entry, Work

CPU = torch.device("cpu")
SHAPES = [(6, 4), (4, 6), (5, 5)]
HASTE = Effort(rounds=1, round_seconds=1e-4, seconds=0.02, steps=3, peers_seconds=0.05)


@pytest.fixture
def fresh():
    """An answer that is asked for anew, and forgotten afterwards."""
    arithmetic.products_work.cache_clear()
    yield
    arithmetic.products_work.cache_clear()


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
@pytest.mark.parametrize("number", [signal.SIGILL, signal.SIGSEGV, signal.SIGKILL])
def test_a_child_that_dies_by_a_signal_does_not_survive(number):
    assert not arithmetic.survives(f"import os; os.kill(os.getpid(), {int(number)})")


def test_a_child_that_takes_too_long_does_not_survive():
    assert not arithmetic.survives("import time; time.sleep(60)", seconds=0.2)


def test_a_child_says_nothing_here(capfd):
    assert arithmetic.survives("import sys; print('x'); print('y', file=sys.stderr)")
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("fresh")
def test_the_child_is_asked_once(monkeypatch):
    asked = []
    monkeypatch.setattr(arithmetic, "survives", lambda program: asked.append(program) or True)
    assert [arithmetic.products_work("float32") for _ in range(3)] == [True] * 3
    assert len(asked) == 1 and "torch.float32" in asked[0]


def setting() -> Setting:
    weights = [Weight(shape, "orthogonal") for shape in SHAPES]
    return Setting(weights, draw_initial(weights, torch.Generator().manual_seed(0), CPU))


def rows_of_muon():
    entries = [
        Entry(works.SGD_MOMENTUM, peers.sgd(momentum=True)),
        Entry(works.MUON, peers.muon),
        Entry(works.MUON_FLOAT32, peers.muon_float32),
    ]
    work = Work("x", "test", setting().weights, entries)
    return measure(work, Environment(HASTE, CPU), lambda what: None)[1:]


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
@pytest.mark.usefixtures("fresh")
def test_on_a_processor_without_the_instructions_muon_is_a_row_that_says_so(monkeypatch):
    """The child really dies, as it would by an illegal instruction."""
    dies = f"import os; os.kill(os.getpid(), {int(signal.SIGILL)})  # {{name}}"
    monkeypatch.setattr(arithmetic, "PROBE", dies)
    theirs, float32 = rows_of_muon()
    if hasattr(torch.optim, "Muon"):
        assert theirs.note == "not run: products in bfloat16 do not work on this processor"
    assert theirs.seconds is None
    assert float32.seconds > 0.0 and float32.note == ""


def test_where_the_arithmetic_works_muon_is_measured():
    if not hasattr(torch.optim, "Muon") or not arithmetic.products_work("bfloat16"):
        pytest.skip("there is no Muon, or this processor cannot do its arithmetic")
    theirs, float32 = rows_of_muon()
    assert theirs.seconds > 0.0 and float32.seconds > 0.0


def trained(make, steps: int = 5) -> list[torch.Tensor]:
    initial = setting().initial
    pool = draw_pool(setting().weights, steps, torch.Generator().manual_seed(1), CPU)
    matrices = [torch.nn.Parameter(tensor.clone()) for tensor in initial]
    optimizer = make(matrices)
    for gradients in pool:
        for matrix, gradient in zip(matrices, gradients, strict=True):
            matrix.grad = gradient.clone()
        optimizer.step()
    return [matrix.detach() for matrix in matrices]


def test_our_update_is_that_of_torch():
    if not hasattr(torch.optim, "Muon") or not arithmetic.products_work("bfloat16"):
        pytest.skip("there is no Muon, or this processor cannot do its arithmetic")
    options = {"lr": 0.1, "momentum": 0.9}
    theirs = trained(lambda ps: torch.optim.Muon(ps, weight_decay=0.0, **options))
    same = trained(lambda ps: MuonIn(torch.bfloat16, ps, **options))
    finer = trained(lambda ps: MuonIn(torch.float32, ps, **options))
    for start, a, b, c in zip(setting().initial, theirs, same, finer, strict=True):
        torch.testing.assert_close(a, b, rtol=0.0, atol=1e-3)
        torch.testing.assert_close(a, c, rtol=0.0, atol=0.05)
        assert (a - start).abs().max() > 0.1


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_come_near_one(shape):
    made = newton_schulz(
        torch.randn(shape, generator=torch.Generator().manual_seed(0)), torch.float32
    )
    assert made.shape == shape
    values = torch.linalg.svdvals(made)
    assert values.min() > 0.5 and values.max() < 1.3


def test_a_torch_without_muon_is_said_so(monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon", raising=False)
    with pytest.raises(Unavailable, match="has no Muon"):
        peers.muon(setting())
