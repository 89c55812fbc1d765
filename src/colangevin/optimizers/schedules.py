"""Temperature schedules, for use together with learning-rate schedulers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import Optimizer

from colangevin import checks

INITIAL = "initial_temperature"


class TemperatureScheduler(LRScheduler):
    """Sets the temperature of every group to its initial one times ``factor(steps taken)``.

    The factor of step 0 is applied when the scheduler is made. Call ``step`` after each
    ``optimizer.step()``, in any order with learning-rate schedulers. Groups that are added to
    the optimizer later keep the temperature that they came with.

    To torch and to frameworks it is a learning-rate scheduler, but it never sets a learning rate.

    To resume a run, load the optimizer's state dict, make the scheduler, and load the
    scheduler's state dict. It knows the initial temperatures, as the groups do, under the key
    "initial_temperature".

    Args:
        optimizer: an optimizer whose groups have a temperature.
        factor: a function from the number of steps taken to a factor of at least 0, such as
            ``annealing`` and ``cyclical`` return.
        last_epoch: the number of steps that an earlier scheduler of the same optimizer has made;
            the new one continues with the next, from the same initial temperatures. −1 begins.

    Raises:
        ValueError: if a group has no temperature or a wrong one, for a factor that is negative or
            not finite, or if a group has no initial temperature to continue from.
        TypeError: if ``optimizer`` is none, or ``factor`` is no function.

    Example:
        >>> import torch, colangevin as cl
        >>> optimizer = cl.CoLA([torch.nn.Parameter(torch.zeros(1))], lr=0.1, temperature=1.0)
        >>> scheduler = TemperatureScheduler(optimizer, cl.annealing(4, shape="linear"))
        >>> scheduler.step()
        >>> optimizer.param_groups[0]["temperature"]
        0.75
    """

    def __init__(
        self, optimizer: Optimizer, factor: Callable[[int], float], last_epoch: int = -1
    ) -> None:
        if not callable(factor):
            raise TypeError(f"factor must be a function of the step, got {factor!r}")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"optimizer must be an optimizer, got {optimizer!r}")
        self.factor = factor
        self.initial = _initial(optimizer, checks.count("last_epoch", last_epoch, least=-1))
        self._begin = last_epoch + 1
        self._at(self._begin)  # before anything changes
        super().__init__(optimizer)

    def _initial_step(self) -> None:
        """The step that torch makes in the constructor, and when a sequence begins."""
        self._step_count = 0
        self.step(self._begin)

    @property
    def last_step(self) -> int:
        """The number of steps taken."""
        return self.last_epoch

    def step(self, epoch: int | None = None) -> None:
        """Go to the next step; call it after ``optimizer.step()``.

        Args:
            epoch: go to this step instead.

        Raises:
            ValueError, TypeError: for a factor that is no number of at least 0. Nothing has
                been changed then.
        """
        following = self.last_epoch + 1 if epoch is None else epoch
        self._apply(checks.count("epoch", following, least=0), self.initial)
        self._step_count += 1

    # Torch's SequentialLR begins with it where one scheduler follows another.
    _update_lr = step

    def get_lr(self) -> list[float | Tensor]:
        """The learning rates as they are."""
        rates = [group["lr"] for group in self.optimizer.param_groups]
        return [lr.clone() if isinstance(lr, Tensor) else lr for lr in rates]

    get_last_lr = get_lr

    def _at(self, step: int) -> float:
        return checks.non_negative(f"factor({step})", self.factor(step))

    def _apply(self, step: int, initial: list[float]) -> None:
        """Go to a step of the schedule; nothing changes if the factor is wrong."""
        factor = self._at(step)
        self.last_epoch, self.initial = step, initial
        # Groups that were added later have no initial temperature here.
        for group, value in zip(self.optimizer.param_groups, initial, strict=False):
            group["temperature"] = value * factor
            group[INITIAL] = value

    def state_dict(self) -> dict[str, Any]:
        """The number of steps and the initial temperatures; the factor is not saved."""
        return {"last_step": self.last_epoch, "initial": list(self.initial)}

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


def _initial(optimizer: Optimizer, last_epoch: int) -> list[float]:
    """The temperatures that a schedule begins, or has begun, with."""
    if any("temperature" not in group for group in optimizer.param_groups):
        raise ValueError(f"{type(optimizer).__name__} has a group without a temperature")
    key = "temperature" if last_epoch == -1 else INITIAL
    for index, group in enumerate(optimizer.param_groups):
        if key not in group:
            raise ValueError(
                f"last_epoch={last_epoch} continues a schedule, but group {index} has no {key}; "
                "load the optimizer's state dict first"
            )
    return [checks.non_negative("temperature", group[key]) for group in optimizer.param_groups]


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
