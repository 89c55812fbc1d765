"""What the demo finds out about a method: a trained network, its loss curve and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import nn


@dataclass(frozen=True)
class Method:
    """A method of the comparison: overdamped, and plain SGD where every option is off."""

    name: str
    constrained: bool = False
    temperature: float = 0.0
    weight_decay: float = 0.0


@dataclass
class Curve:
    """Losses during training; epoch 0 is before the first step."""

    epochs: list[int] = field(default_factory=list)
    train_loss: list[float] = field(default_factory=list)
    test_loss: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Result:
    """A trained network and its figures; ``violation`` is None where nothing is constrained."""

    method: Method
    network: nn.Sequential
    curve: Curve
    train_accuracy: float
    test_accuracy: float
    largest_weight: float
    violation: float | None

    @property
    def epochs(self) -> int:
        """Epochs of training behind the result."""
        return self.curve.epochs[-1]

    @property
    def train_loss(self) -> float:
        """Mean loss over the training points after the last epoch."""
        return self.curve.train_loss[-1]

    @property
    def test_loss(self) -> float:
        """Mean loss over the test points after the last epoch."""
        return self.curve.test_loss[-1]


def epoch_range(results: Sequence[Result]) -> str:
    """Name the epochs trained; methods differ in them only where training was ended early.

    Example:
        >>> curve = Curve(epochs=[0, 1200])
        >>> epoch_range([Result(Method("SGD"), nn.Sequential(), curve, 1.0, 1.0, 1.0, None)])
        '1,200'
    """
    done = [result.epochs for result in results]
    lowest, highest = min(done), max(done)
    return f"{lowest:,}" if lowest == highest else f"{lowest:,} to {highest:,}"
