"""Rounding at random: only neighbours come out, and their mean is the number."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from colangevin.random import rounded_at_random, uniforms

HALF = (torch.bfloat16, torch.float16)
DRAWS = 20_000


def values(dtype: torch.dtype) -> Tensor:
    """Numbers of all sizes and both signs, with those that the dtype has itself."""
    draw = torch.Generator().manual_seed(0)
    sizes = 10.0 ** torch.linspace(-7.0, 4.0, 60)
    found = sizes * (1.0 + torch.rand(60, generator=draw))
    exact = torch.tensor([0.0, 1.0, 0.5, 1.5]).to(dtype).float()
    near = torch.tensor([1.0 - 1e-5, 2.0 - 1e-6, 2.0**-14 - 1e-9, 1.0 + 1e-6])
    found = torch.cat([found, exact, near])
    return torch.cat([found, -found])


def neighbours(value: float, dtype: torch.dtype) -> tuple[float, float]:
    """The largest number of a dtype that is not above a value, and the smallest not below it."""
    near = torch.tensor(value).to(dtype)
    if float(near) == value:
        return value, value
    grid = sorted({float(near), *(float(near) + k * spacing(value, dtype) for k in (-1, 1))})
    return max(x for x in grid if x < value), min(x for x in grid if x > value)


def spacing(value: float, dtype: torch.dtype) -> float:
    """The distance of a dtype's numbers around a value that is none of them."""
    least, digits = {torch.bfloat16: (-126, 7), torch.float16: (-14, 10)}[dtype]
    exponent = max(math.frexp(value)[1] - 1, least)
    return 2.0 ** (exponent - digits)


@pytest.mark.parametrize("dtype", HALF)
def test_only_neighbours_come_out_and_their_mean_is_the_number(dtype: torch.dtype) -> None:
    own = values(dtype)
    chances = uniforms([5], DRAWS * len(own))[0].view(DRAWS, len(own))
    found = rounded_at_random(own.expand_as(chances).contiguous(), dtype, chances)
    assert torch.equal(found.to(dtype).float(), found)
    for column, value in zip(found.double().unbind(1), own.tolist(), strict=True):
        low, high = neighbours(value, dtype)
        assert set(column.tolist()) <= {low, high}
        # By the variance of a coin, and the bits of a chance that decide it.
        error = math.sqrt((value - low) * (high - value) / DRAWS) + (high - low) * 2.0**-13
        assert abs(float(column.mean()) - value) <= 4.0 * error


@pytest.mark.parametrize("dtype", HALF)
def test_the_chance_decides(dtype: torch.dtype) -> None:
    """x goes away from 0 if its place between its neighbours plus the chance reaches 1."""
    step = spacing(1.1, dtype)
    for place in (0.25, 0.5, 0.75):
        number = torch.tensor([1.0 + place * step, -1.0 - place * step])
        for chance in (0.0, 0.24, 0.26, 0.49, 0.51, 0.74, 0.76, 0.999):
            found = rounded_at_random(number, dtype, torch.full((2,), chance))
            expected = 1.0 + step * (chance >= 1.0 - place)
            assert found.tolist() == [expected, -expected]


@pytest.mark.parametrize("dtype", HALF)
def test_what_is_no_number_stays(dtype: torch.dtype) -> None:
    odd = torch.tensor([math.nan, math.inf, -math.inf, -0.0])
    found = rounded_at_random(odd, dtype, torch.full((4,), 0.999)).to(dtype)
    assert bool(found[0].isnan()) and found[1:].tolist() == [math.inf, -math.inf, 0.0]
    payload = torch.tensor([-1], dtype=torch.int32).view(torch.float32)  # all bits are set
    assert bool(rounded_at_random(payload, dtype, torch.tensor([0.5])).isnan().all())
