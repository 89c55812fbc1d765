"""The counter's normals by torch against the normal law, and their streams against each other.

The C kernels' are in tests/native/test_normals.py.

Every statistic is a number of standard deviations. The seeds are fixed, so a test that holds
once holds always; that the statistics see a wrong generator is tested as well.
"""

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from scipy import stats
from torch import Tensor

from colangevin.random import key_of, normals
from colangevin.random.counter import LANES, box_muller, hashes, words_of

pytestmark = pytest.mark.statistical

LIMIT = 4.5
"""About one in 10^5 for one statistic."""
FAR = 6.0
"""What a wrong generator has to reach."""


def words(seed: int) -> Tensor:
    """What the hashes take of a key."""
    return torch.tensor(words_of(key_of(seed)), dtype=torch.int32)


def pairs_of(count: int, words: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the second normals of pairs, straight from the hashes."""
    return box_muller(*hashes(torch.arange(count, dtype=torch.int32), *words))


def sample(seed: int, pairs: int = 500_000) -> Tensor:
    return normals([key_of(seed)], 2 * pairs)[0]


def parts(seed: int, pairs: int) -> tuple[Tensor, Tensor]:
    """The first and the second normals of pairs, as ``normals`` lays them out."""
    lanes = sample(seed, pairs).view(-1, 2, LANES)
    return lanes[:, 0].flatten(), lanes[:, 1].flatten()


def test_normals_are_the_pairs_of_the_hashes() -> None:
    segment = torch.tensor(words_of(key_of(0, start=key_of(3))), dtype=torch.int32)
    for one, other in zip(parts(3, 4096), pairs_of(4096, segment), strict=True):
        assert torch.equal(one, other)


def deviations(x: Tensor) -> Iterator[tuple[str, float]]:
    """Moments to order 6, both tails, and the distance of Kolmogorov and Smirnov."""
    x, n = x.double(), x.numel()
    for order in range(1, 7):
        exact = 0.0 if order % 2 else math.prod(range(1, order, 2))
        variance = math.prod(range(1, 2 * order, 2)) - exact**2
        yield f"moment {order}", float((x**order).mean() - exact) / math.sqrt(variance / n)
    for bound in (1.0, 2.0, 3.0, 3.5, 4.0, 4.25):
        p = float(stats.norm.sf(bound))
        for name, side in (("upper", x), ("lower", -x)):
            count = int((side > bound).sum())
            yield f"{name} tail {bound}", (count - n * p) / math.sqrt(n * p * (1 - p))
    p = stats.kstest(x.numpy(), "norm").pvalue
    yield "Kolmogorov-Smirnov", float(stats.norm.isf(max(p, 1e-300) / 2))


def worst(x: Tensor) -> tuple[float, str]:
    return max((abs(value), name) for name, value in deviations(x))


def correlation(x: Tensor, y: Tensor) -> float:
    """Of two samples with known mean 0, in standard deviations."""
    x, y = x.double(), y.double()
    return float((x * y).sum() / (x.square().sum() * y.square().sum()).sqrt()) * x.numel() ** 0.5


def unlike(x: Tensor, y: Tensor) -> float:
    """The largest correlation of two samples, of their squares, and of one with the other's."""
    u, v = x.square() - 1, y.square() - 1
    tail = (x.abs() > 2).double() - 2 * float(stats.norm.sf(2.0))
    return max(
        abs(correlation(a, b)) for a, b in ((x, y), (u, v), (x, v), (u, y), (tail, v), (x**3, y))
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_law_is_normal(seed: int) -> None:
    found = worst(sample(seed))
    assert found[0] < LIMIT, found


def test_the_law_is_normal_to_eight_million_numbers() -> None:
    found = worst(torch.cat([sample(seed, 1_000_000) for seed in range(10, 14)]))
    assert found[0] < LIMIT, found


def coarse(pairs: int) -> Tensor:
    """A radius of 12 bits."""
    a, b = hashes(torch.arange(pairs, dtype=torch.int32), *words(1))
    return torch.cat(box_muller(a & -(1 << 19) | 1 << 18, b))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: 1.003 * x,
        lambda x: x + 0.003,
        lambda x: x.clamp(-4.2, 4.2),
        lambda x: x + 1e-3 * x**3 - 3e-3 * x,  # heavier tails
        lambda x: torch.rand(12, x.numel(), generator=torch.Generator()).sum(0) - 6,
        lambda x: torch.cat([x[: x.numel() // 2].abs(), x[x.numel() // 2 :]]),  # a lost sign
        lambda x: coarse(x.numel() // 2),
    ],
)
def test_a_wrong_law_is_found(wrong: Callable[[Tensor], Tensor]) -> None:
    # A shift of 0.003 is 7.3 standard deviations of the mean of so many.
    assert worst(wrong(sample(1, 3_000_000)))[0] > FAR


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 7, 8, 16, 61, 256, 1000, 4096, 1 << 15, 1 << 16])
def test_no_autocorrelation(lag: int) -> None:
    for part in (*parts(2, 1_000_000), sample(2, 1_000_000)):
        assert unlike(part[:-lag], part[lag:]) < LIMIT


@pytest.mark.parametrize("seed", range(4))
def test_the_two_normals_of_a_pair_are_independent(seed: int) -> None:
    first, second = parts(seed, 1_000_000)
    assert unlike(first, second) < LIMIT
    # All of the plane in cells of equal probability.
    cells = [(torch.special.ndtr(x.double()) * 16).long().clamp(max=15) for x in (first, second)]
    counts = torch.bincount(cells[0] * 16 + cells[1], minlength=256)
    assert stats.chisquare(counts.numpy()).pvalue > 1e-4


@pytest.mark.parametrize("change", [1, 2, 1 << 8, 1 << 16, 1 << 30, -(1 << 31)])
def test_keys_that_differ_in_one_bit_make_independent_streams(change: int) -> None:
    """Of the same indices; one key serves the radius and one the angle."""
    keys = words(3)
    other = keys ^ torch.tensor([0, 0, change, change], dtype=torch.int32)
    for x, y in zip(pairs_of(300_000, keys), pairs_of(300_000, other), strict=True):
        assert unlike(x, y) < LIMIT


def test_overlapping_indices_make_independent_streams() -> None:
    keys = words(3)
    other = keys + torch.tensor([0, 0, 1, 1], dtype=torch.int32)
    other[0] += 10 * (keys[1] | 1)  # begins ten indices later
    for x, y in zip(pairs_of(300_000, keys), pairs_of(300_000, other), strict=True):
        assert unlike(x[10:], y[:-10]) < LIMIT
        assert unlike(x, y) < LIMIT


def test_keys_made_of_zeros_are_as_good_as_others() -> None:
    x = torch.cat(pairs_of(500_000, torch.zeros(4, dtype=torch.int32)))
    found = worst(x)
    assert found[0] < LIMIT, found
    assert unlike(x[:-1], x[1:]) < LIMIT


def test_draws_of_successive_steps_are_independent() -> None:
    """As a matrix of steps and parameters, whose rows and columns must not know each other."""
    steps, size = 200, 1 << 15
    x = normals([key_of(4, 0, step, 0) for step in range(steps)], size)
    between = torch.corrcoef(x.double())[tuple(torch.triu_indices(steps, steps, 1))] * size**0.5
    assert between.abs().max() < 5.2  # of 19,900
    assert stats.kstest(between.numpy(), "norm").pvalue > 1e-3
    for lag in (1, 2, 10):
        assert unlike(x[:-lag].flatten(), x[lag:].flatten()) < LIMIT
    energies = x.double().square().sum(0)  # each parameter's over the steps
    assert stats.kstest(energies.numpy(), stats.chi2(steps).cdf).pvalue > 1e-3
    assert stats.kstest((x.double().sum(0) / steps**0.5).numpy(), "norm").pvalue > 1e-3


@pytest.mark.parametrize("part", [0, 1])
def test_every_high_bit_of_a_hash_flips_with_every_bit_of_the_index_or_a_key(part: int) -> None:
    index = torch.arange(40_000, dtype=torch.int32)
    keys = words(5)
    base = hashes(index, *keys)[part]
    bits = torch.arange(12, 32, dtype=torch.int32)
    for bit in range(32):
        flip = -(1 << 31) if bit == 31 else 1 << bit
        masks = keys ^ torch.tensor([0, 0, flip, flip], dtype=torch.int32)
        for other in (hashes(index ^ flip, *keys), hashes(index, *masks)):
            flipped = ((base ^ other[part])[:, None] >> bits & 1).double().mean(0)
            assert (flipped - 0.5).abs().max() < 0.02  # its standard deviation is 0.0025
