"""The kernel's normals: their definition, their pieces, and their law."""

import math
from collections.abc import Iterator

import pytest
import torch
from scipy import stats
from torch import Tensor

from colangevin.native import fill
from noise_definition import normal

pytestmark = pytest.mark.usefixtures("kernels")

LIMIT = 4.5
"""Standard deviations: about one in 10^5 for one statistic."""


def draw(size: int, *, first: int = 0, dtype: torch.dtype = torch.float32, **key: int) -> Tensor:
    out = torch.empty(1, size, dtype=dtype)
    named = {"seed": 1, "ordinal": 2, "step": 3, "draw": 0} | key
    assert fill(out, [named["seed"]], named["ordinal"], named["step"], named["draw"], first)
    return out[0]


@pytest.mark.parametrize(
    "key",
    [(0, 0, 0, 0), (1, 2, 3, 4), (2**64 - 1, 10**6, 2**40, 7), (2**63, 0, 1, 0), (-1, 5, 2, 1)],
)
@pytest.mark.parametrize("first", [0, 5, 16, 2**24 - 50, 2**24 * 3 - 7, 2**40 + 3])
def test_they_are_as_defined(key: tuple[int, ...], first: int) -> None:
    """Number 2**24 is the first with other keys."""
    seed, ordinal, step, number = key
    found = draw(150, seed=seed, ordinal=ordinal, step=step, draw=number, first=first)
    exact = [normal(seed % 2**64, *key[1:], first + i) for i in range(150)]
    expected = torch.tensor(exact, dtype=torch.float64)
    assert (found - expected).abs().max() < 2e-6


def test_double_precision_has_the_same_numbers() -> None:
    assert torch.equal(draw(1000, dtype=torch.float64), draw(1000).double())


@pytest.mark.parametrize("first", [1, 15, 16, 31, 32, 33, 1000, 4097])
@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 1023, 5000])
def test_a_part_is_cut_out_of_the_whole(first: int, size: int) -> None:
    assert torch.equal(draw(10_000)[first : first + size], draw(size, first=first))


def test_threads_change_nothing() -> None:
    one = draw(1_000_003)
    torch.set_num_threads(2)
    try:
        two = draw(1_000_003)
    finally:
        torch.set_num_threads(1)
    assert torch.equal(one, two)


@pytest.mark.parametrize("size", [0, 1, 3, 100, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_are_filled_as_if_alone(size: int, dtype: torch.dtype) -> None:
    out, seeds = torch.empty(4, size, dtype=dtype), [7, 2**63 + 1, -1, 10]
    assert fill(out, seeds, 3, 5, 2, 6)
    for row, seed in zip(out, seeds, strict=True):
        alone = draw(size, seed=seed, ordinal=3, step=5, draw=2, first=6, dtype=dtype)
        assert torch.equal(row, alone)


@pytest.mark.parametrize(
    "bad",
    [
        torch.zeros(4, 2).T,
        torch.zeros(2, 4).half(),
        torch.zeros(2, 4).int(),
        torch.zeros(3, 4),
        torch.zeros(2),
    ],
)
def test_other_tensors_are_refused(bad: Tensor) -> None:
    before = bad.clone()
    with pytest.raises(ValueError, match="out must be"):
        fill(bad, [1, 2], 0, 0)
    assert torch.equal(bad, before)


# --- the law --------------------------------------------------------------------------------


def deviations(x: Tensor) -> Iterator[tuple[float, str]]:
    """Moments to order 6, both tails, and the distance of Kolmogorov and Smirnov."""
    x, n = x.double(), x.numel()
    for order in range(1, 7):
        exact = 0.0 if order % 2 else math.prod(range(1, order, 2))
        variance = math.prod(range(1, 2 * order, 2)) - exact**2
        yield float((x**order).mean() - exact) / math.sqrt(variance / n), f"moment {order}"
    for bound in (1.0, 2.0, 3.0, 3.5, 4.0, 4.25):
        p = float(stats.norm.sf(bound))
        for name, side in (("upper", x), ("lower", -x)):
            count = int((side > bound).sum())
            yield (count - n * p) / math.sqrt(n * p * (1 - p)), f"{name} tail {bound}"
    p = stats.kstest(x.numpy(), "norm").pvalue
    yield float(stats.norm.isf(max(p, 1e-300) / 2)), "Kolmogorov-Smirnov"


def worst(x: Tensor) -> tuple[float, str]:
    return max((abs(value), name) for value, name in deviations(x))


def unlike(x: Tensor, y: Tensor) -> float:
    """The largest correlation of two samples, of their squares, and of one with the other's."""
    x, y = x.double(), y.double()
    u, v = x.square() - 1, y.square() - 1
    pairs = ((x, y), (u, v), (x, v), (u, y), (x**3, y))
    return max(
        abs(float((a * b).sum() / (a.square().sum() * b.square().sum()).sqrt())) * a.numel() ** 0.5
        for a, b in pairs
    )


@pytest.mark.statistical
@pytest.mark.parametrize("seed", range(4))
def test_the_law_is_normal(seed: int) -> None:
    found = worst(draw(1_000_000, seed=seed))
    assert found[0] < LIMIT, found


@pytest.mark.statistical
def test_a_wrong_law_is_found() -> None:
    x = draw(4_000_000)
    for wrong in (1.003 * x, x + 0.003, x.clamp(-4.2, 4.2), x + 1e-3 * x**3 - 3e-3 * x):
        assert worst(wrong)[0] > 6.0


@pytest.mark.statistical
@pytest.mark.parametrize("lag", [1, 2, 4, 8, 15, 16, 17, 31, 32, 33, 256, 1024, 1 << 15])
def test_no_autocorrelation(lag: int) -> None:
    """At 16 are the two normals of a pair."""
    x = draw(1_000_000)
    assert unlike(x[:-lag], x[lag:]) < LIMIT


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["seed", "ordinal", "step", "draw"])
@pytest.mark.parametrize("by", [1, 2, 256, 2**31])
def test_streams_are_independent(name: str, by: int) -> None:
    key = {"seed": 5, "ordinal": 3, "step": 100, "draw": 1}
    x, y = draw(300_000, **key), draw(300_000, **(key | {name: key[name] + by}))
    assert unlike(x, y) < LIMIT
    assert unlike(x[1:], y[:-1]) < LIMIT


@pytest.mark.statistical
def test_roles_of_the_counts_are_not_exchanged() -> None:
    """Step 3 of parameter 2 is not step 2 of parameter 3."""
    x = draw(300_000, ordinal=2, step=3)
    assert unlike(x, draw(300_000, ordinal=3, step=2)) < LIMIT
    assert unlike(x, draw(300_000, first=2**24, ordinal=2, step=3)) < LIMIT


@pytest.mark.statistical
def test_steps_and_parameters_do_not_know_each_other() -> None:
    steps, size = 200, 1 << 14
    x = torch.stack([draw(size, step=step) for step in range(steps)])
    between = torch.corrcoef(x.double())[tuple(torch.triu_indices(steps, steps, 1))] * size**0.5
    assert between.abs().max() < 5.2  # of 19,900
    assert stats.kstest(between.numpy(), "norm").pvalue > 1e-3
    energies = x.double().square().sum(0)
    assert stats.kstest(energies.numpy(), stats.chi2(steps).cdf).pvalue > 1e-3
