"""Random numbers from a counter: their definition, and that nothing depends on their company."""

import pytest
import torch
from torch import Tensor

from colangevin.constraints import Unconstrained
from colangevin.native import fill, load
from colangevin.optimizers.step import noise
from colangevin.optimizers.step.bucket import Bucket
from colangevin.optimizers.step.noise import Noise
from colangevin.random import counter, key_of, normals, uniforms
from noise_definition import normal

SIZE = 70_001


@pytest.mark.parametrize("key", [(0, 0, 0, 0), (1, 2, 3, 4), (2**63 - 1, 10**6, 2**40, 7)])
@pytest.mark.parametrize("first", [0, 5, 16, 2**24 - 50, 2**24 * 3 - 7, 2**40 + 3])
def test_they_are_as_defined(key: tuple[int, int, int, int], first: int) -> None:
    """Number 2**24 is the first with other keys."""
    (found,) = normals([key_of(*key)], 150, first)
    expected = torch.tensor([normal(*key, first + i) for i in range(150)], dtype=torch.float64)
    assert (found - expected).abs().max() < 2e-6


def test_the_kernel_is_the_function() -> None:
    out = torch.empty(1, SIZE)
    if not fill(out, [1], 2, 3, 4):
        pytest.skip("there are no kernels")
    torch.testing.assert_close(out[0], normals([key_of(1, 2, 3, 4)], SIZE)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [normals, uniforms])
def test_they_do_not_depend_on_the_number_of_threads(make) -> None:  # type: ignore[no-untyped-def]
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(make([2], SIZE))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


@pytest.mark.parametrize("make", [normals, uniforms])
@pytest.mark.parametrize("first", [1, 15, 16, 31, 32, 33, 1000, 4097])
@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 1023, 5000])
def test_a_part_is_cut_out_of_the_whole(make, first: int, size: int) -> None:  # type: ignore[no-untyped-def]
    assert torch.equal(make([3], 10_000)[:, first : first + size], make([3], size, first))


@pytest.mark.parametrize("make", [normals, uniforms])
def test_many_keys_are_as_if_alone(make) -> None:  # type: ignore[no-untyped-def]
    together = make([5, 6, 7], 1000)
    for row, key in zip(together, (5, 6, 7), strict=True):
        assert torch.equal(row, make([key], 1000)[0])


def test_long_draws_change_their_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter, "SEGMENT", 1 << 15)
    rows = normals([3], 3 << 16).view(3, 1 << 16)
    assert len({float(row[5]) for row in rows}) == 3
    assert torch.equal(rows[:2].flatten(), normals([3], 2 << 16)[0])


def test_keys_differ_in_every_part() -> None:
    draws = [
        normals([key_of(*parts)], SIZE)[0]
        for parts in ((5, 1, 2, 0), (6, 1, 2, 0), (5, 2, 1, 0), (5, 1, 3, 0), (5, 1, 2, 1))
    ]
    for i, x in enumerate(draws):
        for y in draws[:i]:
            assert abs(float((x * y).mean())) < 4.5 / SIZE**0.5


def drawn(dtype: torch.dtype) -> Tensor:
    weight = torch.zeros(SIZE, dtype=dtype)
    bucket = Bucket(Unconstrained(), [weight], ["weight"], [2])
    return Noise(bucket, [1], [3], 4).draw(weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_kernels_torch_draws(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    (expected,) = normals([key_of(1, 2, 3, 4)], SIZE)
    torch.testing.assert_close(drawn(dtype), expected.to(dtype), rtol=1e-5, atol=1e-6)
    if load() is not None:  # C rounds otherwise
        assert not torch.equal(drawn(dtype), expected.to(dtype))
    monkeypatch.setattr(noise, "fill", lambda *arguments: False)
    assert torch.equal(drawn(dtype), expected.to(dtype))
