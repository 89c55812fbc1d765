"""Temperature schedules, for use together with learning-rate schedulers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch.optim.optimizer import Optimizer

from colangevin import checks


class TemperatureScheduler:
    """Sets the temperature of every group to its initial one times ``factor(steps taken)``.

    The factor of step 0 is applied when the scheduler is made. Call ``step`` after each
    ``optimizer.step()``, in any order with learning-rate schedulers. Groups that are added to
    the optimizer later keep the temperature that they came with.

    To resume a run, load the optimizer's state dict, make the scheduler, and load the
    scheduler's state dict. It knows the initial temperatures, which the optimizer does not.

    Args:
        optimizer: an optimizer whose groups have a temperature.
        factor: a function from the number of steps taken to a factor of at least 0, such as
            ``annealing`` and ``cyclical`` return.

    Raises:
        ValueError: if a group has no temperature or a wrong one, or for a factor that is
            negative or not finite.
        TypeError: if ``optimizer`` has no groups, or ``factor`` is no function.

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
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(f"optimizer must be an optimizer, got {optimizer!r}")
        if any("temperature" not in group for group in optimizer.param_groups):
            raise ValueError(f"{type(optimizer).__name__} has a group without a temperature")
        initial = [
            checks.non_negative("temperature", group["temperature"])
            for group in optimizer.param_groups
        ]
        self.optimizer = optimizer
        self.factor = factor
        self._apply(0, initial)

    def step(self) -> None:
        """Go to the next step; call it after ``optimizer.step()``.

        Raises:
            ValueError, TypeError: for a factor that is no number of at least 0. Nothing has
                been changed then.
        """
        self._apply(self.last_step + 1, self.initial)

    def _apply(self, step: int, initial: list[float]) -> None:
        """Go to a step of the schedule; nothing changes if the factor is wrong."""
        factor = checks.non_negative(f"factor({step})", self.factor(step))
        self.last_step, self.initial = step, initial
        # Groups that were added later have no initial temperature here.
        for group, value in zip(self.optimizer.param_groups, initial, strict=False):
            group["temperature"] = value * factor

    def state_dict(self) -> dict[str, Any]:
        """The number of steps and the initial temperatures; the factor is not saved."""
        return {"last_step": self.last_step, "initial": list(self.initial)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue at the step of ``state_dict``; the temperatures are set at once.

        Raises:
            ValueError, TypeError: if it is no state dict of a scheduler, or belongs to an
                optimizer with more groups. Nothing has been changed then.
        """
        missing = [key for key in ("last_step", "initial") if key not in state_dict]
        if missing:
            raise ValueError(
                f"no state dict of a TemperatureScheduler: it has no {' and no '.join(missing)}"
            )
        step = checks.count("last_step", state_dict["last_step"], least=0)
        initial = [checks.non_negative("initial", value) for value in state_dict["initial"]]
        if len(initial) > len(self.optimizer.param_groups):
            raise ValueError(
                f"the state dict has {len(initial)} temperatures, "
                f"the optimizer {len(self.optimizer.param_groups)} groups"
            )
        self._apply(step, initial)


def annealing(steps: int, final: float = 0.0, shape: str = "cosine") -> Callable[[int], float]:
    """A factor that goes from 1 to ``final`` in ``steps`` steps and stays there.

    Args:
        steps: number of steps until the last value.
        final: last value; above 0 for the shape "exponential".
        shape: "linear", "cosine" or "exponential".

    Raises:
        ValueError, TypeError: naming the argument, its value and what is allowed.

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

    In the cold part the weights come to rest, so that each period ends with a sample.

    Args:
        period: number of steps in a period.
        low: the factor in the cold part.
        hot: which share of the period is hot, between 0 and 1.

    Raises:
        ValueError, TypeError: naming the argument, its value and what is allowed.

    Example:
        >>> [cyclical(4)(step) for step in range(6)]
        [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    """
    checks.count("period", period)
    checks.non_negative("low", low)
    checks.fraction("hot", hot)
    warm = math.ceil(round(hot * period, 9))
    return lambda step: 1.0 if step % period < warm else low
