"""Temperature schedules, to be used beside learning-rate schedulers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch.optim.optimizer import Optimizer

from colangevin import checks


class TemperatureScheduler:
    """Sets every group's temperature to its initial one times ``factor(steps taken)``.

    Args:
        optimizer: one whose groups have a temperature.
        factor: maps the number of steps taken to a factor of at least 0.

    Example:
        >>> import torch, colangevin as cl
        >>> optimizer = cl.CoLA([torch.nn.Parameter(torch.zeros(1))], lr=0.1, temperature=1.0)
        >>> scheduler = TemperatureScheduler(optimizer, cl.annealing(4, shape="linear"))
        >>> scheduler.step()
        >>> optimizer.param_groups[0]["temperature"]
        0.75
    """

    def __init__(self, optimizer: Optimizer, factor: Callable[[int], float]) -> None:
        if not callable(factor):
            raise TypeError(f"factor must be a function of the step, got {factor!r}")
        if any("temperature" not in group for group in optimizer.param_groups):
            raise ValueError(f"{type(optimizer).__name__} has a group without a temperature")
        self.optimizer = optimizer
        self.factor = factor
        self.initial = [float(group["temperature"]) for group in optimizer.param_groups]
        self._apply(0)

    def step(self) -> None:
        """Move on by one step; call it after ``optimizer.step()``."""
        self._apply(self.last_step + 1)

    def _apply(self, step: int) -> None:
        factor = checks.non_negative(f"factor({step})", self.factor(step))
        self.last_step = step
        # Groups that were added later keep the temperature they came with.
        for group, initial in zip(self.optimizer.param_groups, self.initial, strict=False):
            group["temperature"] = initial * factor

    def state_dict(self) -> dict[str, Any]:
        """The step and the initial temperatures; the factor is the caller's to keep."""
        return {"last_step": self.last_step, "initial": list(self.initial)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue at the step of ``state_dict``.

        Raises:
            ValueError: if it belongs to an optimizer with more groups.
        """
        initial = [checks.non_negative("initial", value) for value in state_dict["initial"]]
        if len(initial) > len(self.optimizer.param_groups):
            raise ValueError(
                f"the state dict has {len(initial)} temperatures, "
                f"the optimizer {len(self.optimizer.param_groups)} groups"
            )
        self.initial = initial
        self._apply(int(state_dict["last_step"]))


def annealing(steps: int, final: float = 0.0, shape: str = "cosine") -> Callable[[int], float]:
    """A factor that falls from 1 to ``final`` within ``steps`` steps and stays there.

    Args:
        steps: length of the descent.
        final: last value; above 0 for the shape "exponential".
        shape: "linear", "cosine" or "exponential".

    Example:
        >>> [annealing(2, shape="linear")(step) for step in range(4)]
        [1.0, 0.5, 0.0, 0.0]
    """
    checks.count("steps", steps)
    checks.non_negative("final", final)
    checks.choice("shape", shape, ("linear", "cosine", "exponential"))
    if shape == "exponential":
        checks.positive("final", final)

    def factor(step: int) -> float:
        progress = min(step / steps, 1.0)
        if shape == "exponential":
            return float(final**progress)
        cosine = (1.0 + math.cos(math.pi * progress)) / 2
        remaining = 1.0 - progress if shape == "linear" else cosine
        return final + (1.0 - final) * remaining

    return factor


def cyclical(period: int, low: float = 0.0, hot: float = 0.5) -> Callable[[int], float]:
    """A factor that is 1 for the share ``hot`` of each period and ``low`` for the rest.

    The cold part lets the weights settle, so that each period ends in a sample.

    Example:
        >>> [cyclical(4)(step) for step in range(6)]
        [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    """
    checks.count("period", period)
    checks.non_negative("low", low)
    checks.fraction("hot", hot)
    warm = math.ceil(round(hot * period, 9))
    return lambda step: 1.0 if step % period < warm else low
