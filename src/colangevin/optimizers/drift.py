"""An optimizer's update, walked in equal moves while other parameters make their steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from colangevin.optimizers.cola import CoLA

HALF = (torch.bfloat16, torch.float16)


class Spread(Protocol):
    """What can make its update in several moves."""

    def begin(self, parts: int) -> None:
        """Take the gradients and make the first of ``parts`` equal moves."""

    def move(self) -> None:
        """Make the next move; after the last one there is nothing to do."""

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state and what is left of the way."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where ``state_dict`` was taken."""


class Drift(ABC):
    """An optimizer and the way that it still has to go.

    Args:
        optimizer: makes the update with its ``step()``.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self._parts = 1
        self._done = 1
        self._rates: list[float] = []
        self._kept: dict[Tensor, Tensor] = {}

    def begin(self, parts: int) -> None:
        """Take the gradients and make the first of ``parts`` equal moves."""
        while self._done < self._parts:  # an error or a new period cut the last way short
            self.move()
        if parts == 1:
            self.optimizer.step()
            return
        with torch.no_grad():
            self._kept = self._plan()
        self._rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        self._parts, self._done = parts, 0
        self.move()

    @torch.no_grad()
    def move(self) -> None:
        """Make the next move; after the last one there is nothing to do."""
        if self._done == self._parts:
            return
        try:
            self._go()
        except Exception:
            self._done, self._kept = self._parts, {}  # the next way starts with its own gradients
            raise
        self._done += 1
        if self._done == self._parts:
            self._kept = {}

    @abstractmethod
    def _plan(self) -> dict[Tensor, Tensor]:
        """What has to be kept of each parameter for the moves to come."""

    @abstractmethod
    def _go(self) -> None:
        """Make one move."""

    # --- saving ---------------------------------------------------------------------------

    def parameters(self) -> Iterator[Tensor]:
        """The optimizer's parameters, in order."""
        for group in self.optimizer.param_groups:
            yield from group["params"]

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state and what is left of the way, as plain values."""
        kept = [self._kept.get(parameter) for parameter in self.parameters()]
        way = {"parts": self._parts, "done": self._done, "rates": self._rates, "kept": kept}
        return {"optimizer": self.optimizer.state_dict(), "way": way}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue where ``state_dict`` was taken."""
        parameters, way = list(self.parameters()), state_dict["way"]
        if len(way["kept"]) != len(parameters):
            raise ValueError(
                f"the state dict has {len(way['kept'])} parameters, the optimizer {len(parameters)}"
            )
        self.optimizer.load_state_dict(state_dict["optimizer"])
        self._parts, self._done, self._rates = way["parts"], way["done"], list(way["rates"])
        self._kept = {
            parameter: kept.to(parameter.device, copy=True)
            for parameter, kept in zip(parameters, way["kept"], strict=True)
            if kept is not None
        }


class LinearDrift(Drift):
    """Straight moves: the update is measured, taken back and then made bit by bit.

    It needs nothing of the optimizer but its ``step()``, and keeps one number a parameter:
    the way to go. Half-precision parameters may not notice a small move; for them the way is
    kept in float32 and what rounding has lost is made up for by the next move.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(1))
        >>> weight.grad = torch.ones(1)
        >>> drift = LinearDrift(torch.optim.SGD([weight], lr=1.0))
        >>> drift.begin(4)
        >>> weight.item()
        -0.25
    """

    def _plan(self) -> dict[Tensor, Tensor]:
        moving = [p for p in self.parameters() if p.grad is not None]
        starts = [p.detach().clone() for p in moving]
        self.optimizer.step()
        ways: dict[Tensor, Tensor] = {}
        for parameter, start in zip(moving, starts, strict=True):
            dtype = torch.float32 if parameter.dtype in HALF else parameter.dtype
            ways[parameter] = parameter.detach().to(dtype) - start.to(dtype)
            parameter.copy_(start)
        return ways

    def _go(self) -> None:
        for parameter, way in self._kept.items():
            if parameter.dtype in HALF:
                before = parameter.detach().clone()
                parameter.copy_(before + way / (self._parts - self._done))
                way.sub_(parameter.detach().to(way.dtype) - before)
            else:
                parameter.add_(way, alpha=1.0 / self._parts)


class GeodesicDrift(Drift):
    """Moves on the manifold: the geodesic of a CoLA step, walked in equal stretches.

    The gradient, with the weight decay at the start, is kept for the words that use it late.

    Example:
        >>> weight = torch.nn.Parameter(torch.eye(2))
        >>> weight.grad = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
        >>> from colangevin import Orthogonal
        >>> slow = CoLA([weight], lr=0.5, momentum=0.9, constraint=Orthogonal())
        >>> GeodesicDrift(slow).begin(4)
        >>> slow.violation()[0].residual < 1e-6
        True
    """

    def __init__(self, optimizer: CoLA) -> None:
        super().__init__(optimizer)
        self._cola = optimizer

    def _plan(self) -> dict[Tensor, Tensor]:
        return {
            parameter: torch.add(parameter.grad, parameter, alpha=group["weight_decay"])
            for group in self.optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        }

    def _go(self) -> None:
        with self._stretch(), self._gradients():
            if self._done == 0:
                self._cola.step()
            else:  # what a subclass or a hook adds to a step has had its turn
                CoLA._move(self._cola, None)

    @contextmanager
    def _stretch(self) -> Iterator[None]:
        """Tell the groups which part of their way to walk; the kept gradients have the decay."""
        groups = self._cola.param_groups
        decays = [group["weight_decay"] for group in groups]
        for group in groups:
            group.update(stretch=(self._done, self._parts), weight_decay=0.0)
        try:
            with self._rates_of_the_start():
                yield
        finally:
            for group, decay in zip(groups, decays, strict=True):
                group.pop("stretch")
                group["weight_decay"] = decay

    @contextmanager
    def _rates_of_the_start(self) -> Iterator[None]:
        """The learning rates of the first stretch, whatever a schedule has made of them."""
        groups = self._cola.param_groups if self._done else []
        now = [group["lr"] for group in groups]
        for group, lr in zip(groups, self._rates, strict=False):
            group["lr"] = lr
        try:
            yield
        finally:
            for group, lr in zip(groups, now, strict=True):
                group["lr"] = lr

    @contextmanager
    def _gradients(self) -> Iterator[None]:
        """The kept gradients in the place of those that are there."""
        own = [(parameter, parameter.grad) for parameter in self.parameters()]
        for parameter, _ in own:
            parameter.grad = self._kept.get(parameter)
        try:
            yield
        finally:
            for parameter, gradient in own:
                parameter.grad = gradient


def drift_of(optimizer: Optimizer) -> Drift:
    """The kind of drift that keeps an optimizer's parameters where they belong.

    Example:
        >>> type(drift_of(torch.optim.SGD([torch.zeros(1)]))).__name__
        'LinearDrift'
    """
    return GeodesicDrift(optimizer) if isinstance(optimizer, CoLA) else LinearDrift(optimizer)
