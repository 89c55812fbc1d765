"""Fused noise: the kernel is the function that is tested, and its streams can be resumed."""

import copy
import io
import pickle
import warnings

import pytest
import torch
from torch import Tensor

import colangevin as cl
from colangevin.optimizers import counter
from colangevin.optimizers.counter import CounterNormals, counter_normals, draw_keys
from colangevin.optimizers.noise import Noise

SIZE = 70_001


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not CounterNormals().fill(torch.empty(SIZE), seeded(0)):
            pytest.skip("no compiler")


def test_the_kernel_is_the_function() -> None:
    out = torch.empty(SIZE)
    assert CounterNormals().fill(out, seeded(1))
    expected = torch.cat(counter_normals(SIZE // 2, draw_keys(seeded(1))))
    torch.testing.assert_close(out[:-1], expected, rtol=1e-5, atol=1e-6)
    assert out[-1] != 0


def test_it_does_not_depend_on_the_number_of_threads() -> None:
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(Noise(seeded(2), 0, fused=True).draw(torch.empty(SIZE)))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_long_draws_change_their_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter, "SEGMENT", 1 << 16)
    out = Noise(seeded(3), 0, fused=True).draw(torch.empty(3, 1 << 16))
    assert len({float(row[5]) for row in out}) == 3
    shorter = Noise(seeded(3), 0, fused=True).draw(torch.empty(2, 1 << 16))
    assert torch.equal(out[:2], shorter)


@pytest.mark.parametrize(
    "like", [torch.empty(1000), torch.empty(SIZE, dtype=torch.float64), torch.empty(0)]
)
def test_other_draws_are_torch_s(like: Tensor) -> None:
    fused, plain = Noise(seeded(4), 0, fused=True), Noise(seeded(4), 0)
    assert torch.equal(fused.draw(like), plain.draw(like))


def test_seeds_and_draws_differ() -> None:
    noise = Noise(seeded(5), 0, fused=True)
    like = torch.empty(SIZE)
    draws = [noise.draw(like), noise.draw(like), Noise(seeded(6), 0, fused=True).draw(like)]
    for i, x in enumerate(draws):
        for y in draws[:i]:
            assert abs(float((x * y).mean())) < 4.5 / SIZE**0.5


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))])
def test_a_copy_continues_the_stream(copied) -> None:  # type: ignore[no-untyped-def]
    noise = Noise(seeded(7), 0, fused=True)
    like = torch.empty(SIZE)
    noise.draw(like)
    other = copied(noise)
    assert torch.equal(noise.draw(like), other.draw(like))


def test_without_a_compiler_torch_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(counter, "_kernel", fail)
    noise = Noise(seeded(8), 0, fused=True)
    like = torch.empty(SIZE)
    with pytest.warns(RuntimeWarning, match="no compiler here.*drawn by torch"):
        first = noise.draw(like)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = noise.draw(like)
    plain = Noise(seeded(8), 0)
    assert torch.equal(first, plain.draw(like)) and torch.equal(second, plain.draw(like))


def make(
    generator: torch.Generator | None, momentum: float
) -> tuple[list[torch.nn.Parameter], cl.CoLA]:
    weights = [torch.nn.Parameter(torch.full((269, 261), 0.1)), torch.nn.Parameter(torch.ones(7))]
    groups = [{"params": weights[:1], "constraint": cl.Circle(0.5)}, {"params": weights[1:]}]
    optimizer = cl.CoLA(
        groups, lr=0.01, momentum=momentum, temperature=0.1, generator=generator, fused=True
    )
    return weights, optimizer


def advance(weights: list[torch.nn.Parameter], optimizer: cl.CoLA, steps: int) -> list[Tensor]:
    for _ in range(steps):
        for weight in weights:
            weight.grad = weight.detach().clone()
        optimizer.step()
    return [weight.detach().clone() for weight in weights]


@pytest.mark.parametrize("momentum", [0.9, 0.0])
@pytest.mark.parametrize("own", [True, False])
def test_a_fused_run_resumes_bit_for_bit(own: bool, momentum: float) -> None:
    weights, optimizer = make(seeded(9) if own else None, momentum)
    advance(weights, optimizer, 3)
    file = io.BytesIO()
    torch.save({"weights": weights, "optimizer": optimizer.state_dict()}, file)
    expected = advance(weights, optimizer, 3)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    weights, optimizer = make(seeded(10) if own else None, momentum)
    advance(weights, optimizer, 1)
    with torch.no_grad():
        for weight, value in zip(weights, saved["weights"], strict=True):
            weight.copy_(value)
    optimizer.load_state_dict(saved["optimizer"])
    for found, value in zip(advance(weights, optimizer, 3), expected, strict=True):
        assert torch.equal(found, value)


def test_a_fused_run_does_move_by_its_noise() -> None:
    """Overdamped and flat, one step moves by √(2τh) times a standard normal."""
    weight = torch.nn.Parameter(torch.zeros(SIZE))
    optimizer = cl.CoLA(
        [weight], lr=0.01, momentum=0.0, temperature=0.5, generator=seeded(11), fused=True
    )
    weight.grad = torch.zeros_like(weight)
    optimizer.step()
    expected = Noise(seeded(11), 0, fused=True).draw(weight)
    torch.testing.assert_close(weight.detach(), 0.1 * expected)
