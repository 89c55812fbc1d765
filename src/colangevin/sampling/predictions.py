"""Predictions of a trace: the outputs of all draws for some inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from colangevin import checks
from colangevin.sampling import convergence

Transform: TypeAlias = "Callable[[Tensor], Tensor]"
NUMBERS = 1 << 24
"""Outputs that are computed at once, roughly."""


class Interval(NamedTuple):
    """The central interval that holds a share of the draws."""

    low: Tensor
    high: Tensor

    def covers(self, targets: Tensor) -> Tensor:
        """Which targets lie inside."""
        return (self.low <= targets) & (targets <= self.high)


@dataclass(frozen=True, repr=False)
class Prediction:
    """What every draw predicts.

    Attributes:
        samples: [chains, draws, points, ...].

    Example:
        >>> prediction = Prediction(torch.arange(101.0).view(1, 101, 1))
        >>> prediction.mean, prediction.interval(0.9)
        (tensor([50.]), Interval(low=tensor([5.]), high=tensor([95.])))
        >>> prediction
        Prediction(1 chain × 101 draws of 1 point, means from 50 to 50, standard deviations to 29.3)
    """

    samples: Tensor

    def __repr__(self) -> str:
        chains, draws, *shape = self.samples.shape
        numbers = " × ".join(map(str, shape)) or "1"
        words = f"{_many(chains, 'chain')} × {_many(draws, 'draw')} of {numbers} point"
        words += "" if numbers == "1" else "s"
        if self.samples.numel() and self.samples.is_floating_point() and chains * draws > 1:
            mean = self.mean
            words += (
                f", means from {float(mean.min()):.3g} to {float(mean.max()):.3g}, standard "
                f"deviations to {float(self.std.max()):.3g}"
            )
        return f"Prediction({words})"

    @property
    def all(self) -> Tensor:
        """The draws of all chains in one dimension: [draws, points, ...]."""
        return self.samples.flatten(0, 1)

    @property
    def mean(self) -> Tensor:
        """The mean over all draws."""
        return self.all.mean(dim=0)

    @property
    def std(self) -> Tensor:
        """The standard deviation over all draws."""
        return self.all.std(dim=0)

    def quantile(self, level: float) -> Tensor:
        """A quantile of the draws, with linear interpolation."""
        checks.fraction("level", level)
        ordered = self.all.sort(dim=0).values
        place = level * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return torch.lerp(ordered[low], ordered[high], place - low)

    def interval(self, level: float = 0.9) -> Interval:
        """The central interval that holds this share of the draws."""
        checks.fraction("level", level)
        return Interval(self.quantile((1.0 - level) / 2.0), self.quantile((1.0 + level) / 2.0))

    def rhat(self) -> Tensor:
        """R-hat of each prediction: for networks this, not that of the weights, is to be near 1."""
        return convergence.rhat(self.samples)

    def ess(self) -> Tensor:
        """The effective sample size of each prediction."""
        return convergence.ess(self.samples)


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


@torch.no_grad()
def predict(
    model: nn.Module,
    weights: Mapping[str, Tensor],
    fixed: Mapping[str, Tensor],
    inputs: Tensor,
    transform: Transform | None,
    seed: int,
) -> Prediction:
    """Run a model with all weights.

    Args:
        model: whose forward pass is run.
        weights: [chains, draws, ...] by name.
        fixed: [chains, ...] by name: what is not sampled, and buffers.
        inputs: [points, ...].
        transform: of one draw's outputs. It may draw random numbers.
        seed: of these.
    """
    draws = next(iter(weights.values())).shape[1]

    def one(own: Mapping[str, Tensor], rest: Mapping[str, Tensor]) -> Tensor:
        outputs = functional_call(model, {**own, **rest}, (inputs,))
        if not isinstance(outputs, Tensor):
            raise TypeError(f"the model must return a tensor, got {type(outputs).__name__}")
        return outputs if transform is None else transform(outputs)

    run = vmap(vmap(one, in_dims=(0, None), randomness="different"), randomness="different")
    was_training = model.training
    model.eval()
    found, start, share = [], 0, 1
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            while start < draws:
                cut = slice(start, start + share)
                part = {name: own[:, cut].to(inputs.device) for name, own in weights.items()}
                found.append(run(part, dict(fixed)))
                start += share
                share = max(1, min(draws, NUMBERS // max(1, _work(found[0], inputs))))
    finally:
        model.train(was_training)
    return Prediction(torch.cat(found, dim=1))


def _work(outputs: Tensor, inputs: Tensor) -> int:
    """Numbers that one draw of all chains takes, with the layers in between."""
    return max(outputs[:, :1].numel(), len(outputs) * inputs.numel()) * 4
