"""The readings of an optimizer at every k-th step, sent to a log."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from torch.optim.optimizer import Optimizer
from torch.utils.hooks import RemovableHandle

from colangevin import checks
from colangevin.integrations.reading import parts_of, readings, unwrap

Sink: TypeAlias = Callable[[Mapping[str, float], int], object]
"""Takes the readings, and the number of the step."""


def watch(optimizer: Any, sink: Sink, every: int = 50) -> RemovableHandle:
    """Send the readings of an optimizer to a sink after every k-th step.

    Steps are counted as the optimizer counts them, so a resumed run goes on where it was.

    Args:
        optimizer: as ``readings`` takes it.
        sink: takes the readings and the number of the step: ``to_logging()``,
            ``to_tensorboard("runs")``, or a function of your own.
        every: k. A reading costs about as much as a step.

    Returns:
        A handle; ``remove()`` ends it.

    Raises:
        ValueError, TypeError: naming the argument, its value and what is allowed.

    Example:
        >>> import torch, colangevin as cl
        >>> weight = torch.nn.Parameter(torch.zeros(2))
        >>> optimizer = cl.CoLA([weight], lr=0.1, constraint=cl.Circle(0.5))
        >>> handle = watch(optimizer, lambda numbers, step: print(step, sorted(numbers)), every=2)
        >>> for _ in range(3):
        ...     weight.grad = torch.ones(2)
        ...     optimizer.step()
        2 ['at_bound/group0', 'temperature/group0', 'violation/group0']
        >>> handle.remove()
    """
    checks.count("every", every)
    if not callable(sink):
        raise TypeError(f"sink must be a function of readings and step, got {sink!r}")
    optimizer = unwrap(optimizer)
    readings(optimizer)  # refuses what cannot be read
    made = 0

    def hook(optimizer: Optimizer, args: object, kwargs: object) -> None:
        nonlocal made
        made = made + 1 if made else steps_of(optimizer)
        if made % every == 0:
            sink(readings(optimizer), made)

    handle: RemovableHandle = optimizer.register_step_post_hook(hook)
    return handle


def steps_of(optimizer: Any) -> int:
    """How many steps an optimizer has made: those of the parameter that has made most.

    Example:
        >>> import torch, colangevin as cl
        >>> steps_of(cl.CoLA([torch.nn.Parameter(torch.zeros(2))], lr=0.1))
        0
    """
    states = [entry for _, part in parts_of(optimizer) for entry in part.state.values()]
    return max((int(entry["step"]) for entry in states if "step" in entry), default=0)


def to_logging(logger: logging.Logger | str = "colangevin", level: int = logging.INFO) -> Sink:
    """A sink that writes one line per reading to Python's ``logging``.

    Args:
        logger: the logger, or its name.
        level: of the lines.

    Example:
        >>> to_logging()({"violation/weight": 1.5e-7}, 50)  # INFO is not shown by default
    """
    found = logging.getLogger(logger) if isinstance(logger, str) else logger

    def sink(numbers: Mapping[str, float], step: int) -> None:
        if found.isEnabledFor(level):
            listed = ", ".join(f"{name} {value:.3g}" for name, value in numbers.items())
            found.log(level, "step %d: %s", step, listed)

    return sink


def to_tensorboard(writer: Any) -> Sink:
    """A sink that writes one scalar per number to TensorBoard.

    Args:
        writer: a ``SummaryWriter``, or the folder for a new one.

    Raises:
        ImportError: if a folder is given and TensorBoard is not installed.

    Example:
        >>> class Writer:
        ...     def add_scalar(self, name, value, step):
        ...         print(name, value, step)
        >>> to_tensorboard(Writer())({"violation/weight": 1.5e-7}, 50)
        violation/weight 1.5e-07 50
    """
    if isinstance(writer, (str, os.PathLike)):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "TensorBoard is not installed: pip install tensorboard, or colangevin[integrations]"
            ) from error
        writer = SummaryWriter(str(writer))

    def sink(numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, step)

    return sink
