"""What the draws of a warm-up teach: the metric of free weights, and the friction.

The friction is that at which a velocity is forgotten over the length of an independent draw: for
chains that move by √τ per unit of time and coordinate, 1/γ = 0.5 · h · steps per independent draw,
of weights and their squares, and no longer than twice the width of the law. (Robnik and others have
0.4, of weights alone, which forget sooner.) For a Gaussian that gives γ = 1 over its width, where
the smaller of both effective sample sizes is largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from colangevin.sampling import convergence
from colangevin.sampling.chains import Chains
from colangevin.sampling.metrics import DENSE, DIAGONAL, FULL, covariance_of, matrix_pays

RECORDED = 1 << 23
"""Numbers of draws that are kept to learn from."""
COLUMNS = 64
"""Numbers of a chain whose autocorrelation is looked at."""
DECOHERENCE = 0.5
"""Length over which a velocity is forgotten, over that of an independent draw."""
WIDEST = 2.0
"""The same over the width of the law, at most."""
RESOLVED = 5.0
"""Independent draws of a chain of which the autocorrelation tells their distance."""
FEWEST = 8
"""Draws of a chain of which there is an autocorrelation."""


class Learner:
    """Keeps positions of the chains, and learns from them.

    Args:
        chains: which.
        weights: where they are.
        metric: "auto", "dense" or "diagonal".
        damping: whether the friction is to be found.
    """

    def __init__(
        self,
        chains: Chains,
        weights: Callable[[], Mapping[str, Tensor]],
        metric: str | None,
        damping: bool,
    ) -> None:
        self.chains, self._weights = chains, weights
        self.damping = damping and chains.has_momentum
        self.learns = chains.metric is not None
        self._free = [] if chains.metric is None else _names(chains)
        self._rest = [name for name in chains.weights if name not in self._free]
        size = sum(chains.weights[name][0].numel() for name in self._free)
        dense = metric == FULL or (metric != DIAGONAL and size <= DENSE)
        self.kind = (FULL if dense else DIAGONAL) if self.learns else ""
        self._asks = dense and metric != FULL
        self._rows: list[Tensor] = []
        self._step_sizes: list[float] = []
        self._every = 1

    @property
    def active(self) -> bool:
        """Whether there is anything to learn."""
        return self.learns or self.damping

    def begin(self, windows: int, window: int) -> int:
        """Forget what was recorded; how many steps there are to be between records."""
        numbers = sum(weight.numel() for weight in self.chains.weights.values())
        wanted = max(1, math.ceil(windows * window * numbers / RECORDED))
        self._every = min(wanted, max(1, window))
        self._rows.clear()
        self._step_sizes.clear()
        return self._every

    def record(self) -> None:
        """Keep where the chains are."""
        now = self._weights()
        names = [*self._free, *self._rest]
        self._step_sizes.append(self.chains.step_size)
        self._rows.append(
            torch.cat([now[name].detach().reshape(len(now[name]), -1) for name in names], dim=1)
        )

    @property
    def recorded(self) -> int:
        """How many positions of each chain there are."""
        return len(self._rows)

    def cut(self, count: int) -> None:
        """Keep the first positions only: the steps after them were not made."""
        del self._rows[count:], self._step_sizes[count:]

    @torch.no_grad()
    def learn_metric(self) -> bool:
        """Give the free weights the metric of the draws; whether it is another one now."""
        metric = self.chains.metric
        if metric is None or len(self._rows) < FEWEST:
            return False
        size = sum(self.chains.weights[name][0].numel() for name in self._free)
        draws = torch.stack([row[:, :size] for row in self._rows], dim=1).double()
        scaled = draws - draws.mean(dim=(0, 1))
        scaled = scaled / self.chains.temperatures.sqrt().view(-1, 1, 1)
        if self._asks:
            self.kind = FULL if matrix_pays(scaled) else DIAGONAL
        covariance = covariance_of(scaled, self.kind == FULL)
        if covariance is None:
            return False
        metric.adopt(covariance.to(draws.device))
        return True

    @torch.no_grad()
    def friction(self) -> float | None:
        """γ that the draws ask for; None if they are too few, or it is given."""
        if not self.damping or len(self._rows) < FEWEST:
            return None
        total = self._rows[0].shape[1]
        stride = max(1, total // COLUMNS)
        draws = torch.stack([row[:, ::stride] for row in self._rows], dim=1).double()
        draws = draws / self.chains.temperatures.sqrt().view(-1, 1, 1)
        centred = draws - draws.mean(dim=(0, 1))
        widths = centred.square().mean(dim=(0, 1)).sqrt()
        pair = (centred, centred.square())
        times = [convergence.autocorrelation_time(x) for x in pair]
        moving = (times[0] + times[1]).isfinite() & (widths > 0.0)
        if not bool(moving.any()):
            return None
        between = self._every * sum(self._step_sizes) / len(self._step_sizes)
        draw = float(((times[0] + times[1]) / 2.0)[moving].mean())
        widest = WIDEST * self._width(widths)
        if draw > len(self._rows) / RESOLVED:  # it is longer than these draws can tell
            return 1.0 / widest
        return 1.0 / min(DECOHERENCE * between * draw, widest)

    def _width(self, widths: Tensor) -> float:
        """The largest standard deviation of a coordinate, over √τ; those of a metric have 1."""
        free = sum(self.chains.weights[name][0].numel() for name in self._free)
        known = self.chains.metric_is_known
        stride = max(1, self._rows[0].shape[1] // COLUMNS)
        rest = widths[-(-free // stride) :] if known else widths
        found = [float(rest.max())] if len(rest) else []
        return max([*found, *([1.0] if known else [])])


def _names(chains: Chains) -> list[str]:
    """The weights that have the metric, in its order."""
    buckets = [bucket for group in chains.groups for bucket in group.buckets]
    return [n for bucket in buckets if bucket.constraint is chains.metric for n in bucket.names]
