"""How well every number of a tensor is sampled, in bounded memory and time.

In a small trace each number has R-hat and the effective sample size of its ranks. In a large one
each number has a plain R-hat and an effective sample size from batch means, which cost a hundredth,
and those that look worst have the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from colangevin.sampling import convergence

EXACT = 1 << 20
"""Draws of all numbers of a trace together up to which each number is looked at exactly: 0.5 s."""
WORST_OF_BLOCK = 1
"""Numbers of a block of a large trace that are looked at exactly, by R-hat and by size."""
RHAT = 1.05
"""R-hat above which chains should run longer."""
SIZE = 400
"""Effective draws below which an average says little, of four chains or more.

The 100 per chain of Vehtari and others (2021) and of Stan; of many short chains no more than for
four, since what counts is the sum.
"""


class Numbers(NamedTuple):
    """What was found for some numbers of a tensor.

    Attributes:
        places: of the numbers in the flattened tensor.
        table: [numbers, 5]: mean, standard deviation, error of the mean, effective size, R-hat.
        total: all numbers of the tensor.
        apart: how many have an R-hat above ``RHAT``.
        few: how many have less than the effective sample size that is needed.
        constant: how many never change.
        finite: whether all draws are finite.
    """

    places: Tensor
    table: Tensor
    total: int
    apart: int
    few: int
    constant: int
    finite: bool


def needed(chains: int) -> int:
    """The effective sample size that is needed.

    Example:
        >>> needed(2), needed(4), needed(50)
        (200, 400, 400)
    """
    return min(SIZE, 100 * chains)


def diagnose(blocks: Iterable[Tensor], exact: bool) -> Numbers:
    """Look at every number.

    Args:
        blocks: pieces [chains, draws, numbers] of a tensor; at least 4 draws.
        exact: whether each number is looked at exactly, or those only that look worst.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> found = diagnose([torch.randn(4, 500, 2), torch.randn(4, 500, 3)], exact=True)
        >>> found.total, found.apart, found.few, found.places.tolist()
        (5, 0, 0, [0, 1, 2, 3, 4])
    """
    tables, places = [torch.zeros(0, 5, dtype=torch.float64)], [torch.zeros(0, dtype=torch.int64)]
    count = apart = few = constant = 0
    finite = True
    for block in blocks:
        samples = block.detach().double()
        finite = finite and bool(samples.isfinite().all())
        moving = (samples != samples[:1, :1]).flatten(0, 1).any(dim=0).nonzero().flatten()
        constant += samples.shape[2] - len(moving)
        if finite and len(moving):
            columns = samples[..., moving]
            hats, sizes = _readings(columns, exact)
            apart += int((hats > RHAT).sum())
            few += int((sizes < needed(len(samples))).sum())
            chosen = torch.arange(len(moving)) if exact else _worst(hats, sizes)
            places.append(count + moving[chosen])
            tables.append(_table(columns[..., chosen], hats[chosen], sizes[chosen], exact))
        count += samples.shape[2]
    return Numbers(torch.cat(places), torch.cat(tables), count, apart, few, constant, finite)


def _readings(columns: Tensor, exact: bool) -> tuple[Tensor, Tensor]:
    if exact:
        return convergence.rhat_and_ess(columns)
    return convergence.quick_rhat(columns), convergence.quick_ess(columns)


def _worst(hats: Tensor, sizes: Tensor) -> Tensor:
    """The places of the numbers that look worst by either."""
    count = min(WORST_OF_BLOCK, len(hats))
    both = [hats.nan_to_num(0.0).topk(count).indices, (-sizes).topk(count).indices]
    return torch.cat(both).unique()


def _table(columns: Tensor, hats: Tensor, sizes: Tensor, exact: bool) -> Tensor:
    if not exact:
        hats, sizes = _readings(columns, exact=True)
    means, deviations = columns.mean(dim=(0, 1)), columns.flatten(0, 1).std(dim=0)
    return torch.stack([means, deviations, convergence.mcse(columns), sizes, hats], dim=1)
