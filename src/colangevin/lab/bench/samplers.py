"""Samplers as contestants: how much they draw, where they start, and this library's own.

A contestant is given a law and an amount, and returns draws [chains, draws, n] after a warm-up of
its own. Whoever can move many chains as one computation does so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from colangevin.lab.bench.contestant import Unavailable
from colangevin.lab.bench.known_laws import Law
from colangevin.sampling import sample


@dataclass(frozen=True)
class Amount:
    """How much is drawn.

    Attributes:
        chains: of a sampler that moves many at once.
        warmup: steps before the first draw.
        draws: of each chain.
        few: chains of a sampler that moves them one by one.
        few_draws: of each of those; half as many are the warm-up.
        seed: of everything.
    """

    chains: int
    warmup: int
    draws: int
    few: int
    few_draws: int
    seed: int = 0

    @property
    def many(self) -> int:
        """Chains of a sampler that moves them at once, but each for as long as the slowest."""
        return max(2, self.chains // 10)

    @property
    def half(self) -> int:
        """Draws of a sampler that has no search for a step to make up for."""
        return max(4, self.draws // 2)

    def of(self, law: Law) -> int:
        """Chains for a law."""
        return max(4, round(self.chains * law.share))


Draw = Callable[[Law, Amount], Tensor]
"""Draws [chains, draws, n]."""


def starts(law: Law, chains: int, seed: int) -> Tensor:
    """Points to start from, [chains, n]."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return torch.stack([law.start() for _ in range(chains)])


# --- this library --------------------------------------------------------------------------------


class Point(nn.Module):
    """Weights q of one chain."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.q = nn.Parameter(start)


def ours(adjust: bool = False, **more: Any) -> Draw:
    """``sample`` with what its warm-up finds, or the law's own step where there are walls.

    Args:
        adjust: whether each step is tested.
        more: other arguments of ``sample``.
    """

    def draw(law: Law, amount: Amount) -> Tensor:
        shape = (3, 2) if "Stiefel" in law.name else (-1,)
        if law.walls and not adjust:
            raise Unavailable("not run: a wall needs the test")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trace = sample(
                lambda: Point(law.start().reshape(shape)),
                lambda own: law.walled(own["q"].reshape(-1)),
                rules={} if law.rule is None else {"q": law.rule},
                chains=amount.of(law),
                warmup=amount.warmup,
                draws=amount.draws,
                step_size=law.step_size,
                adjust=adjust,
                seed=amount.seed,
                progress=False,
                **more,
            )
        return trace["q"].flatten(2)

    return draw
