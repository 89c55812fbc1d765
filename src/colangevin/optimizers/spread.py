"""An optimizer's update, made in equal moves while other parameters make their steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from colangevin import checks
from colangevin.integrators.recipe import direction
from colangevin.optimizers.batches import HALF
from colangevin.optimizers.calls import WHOLE, Call
from colangevin.optimizers.cola import CoLA


class Walk(Protocol):
    """What can make its update in several moves."""

    def begin(self, parts: int) -> None:
        """Take the gradients and make the first of ``parts`` equal moves."""

    def move(self) -> None:
        """Make the next move; after the last one there is nothing to do."""

    def check(self) -> None:
        """Refuse options or gradients that a move would refuse."""

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state and what is left of the way."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where ``state_dict`` was taken."""


class Spread(ABC):
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

    def check(self) -> None:  # noqa: B027
        """Refuse options or gradients that a move would refuse."""

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
        """Continue where ``state_dict`` was taken.

        Raises:
            ValueError, TypeError: if it does not fit; nothing has been changed then.
        """
        parameters = list(self.parameters())
        way = _checked_way(state_dict, parameters)
        self.optimizer.load_state_dict(state_dict["optimizer"])
        self._parts, self._done, self._rates = way["parts"], way["done"], list(way["rates"])
        self._kept = {
            parameter: kept.to(parameter.device, copy=True)
            for parameter, kept in zip(parameters, way["kept"], strict=True)
            if kept is not None
        }


def _checked_way(state_dict: Mapping[str, Any], parameters: Sequence[Tensor]) -> dict[str, Any]:
    """What is left of the way in a state dict, if it fits."""
    if not isinstance(state_dict, Mapping) or not {"optimizer", "way"} <= state_dict.keys():
        raise ValueError("the state dict lacks the optimizer or its way")
    way = state_dict["way"]
    if not isinstance(way, Mapping) or not {"parts", "done", "rates", "kept"} <= way.keys():
        raise ValueError(f"the way of the state dict is damaged: {way!r:.200}")
    checks.count("parts of the state dict", way["parts"])
    checks.count("done of the state dict", way["done"], least=0)
    for rate in way["rates"]:
        checks.non_negative("a rate of the state dict", rate)
    if len(way["kept"]) != len(parameters):
        raise ValueError(
            f"the state dict has {len(way['kept'])} parameters, the optimizer {len(parameters)}"
        )
    for kept, parameter in zip(way["kept"], parameters, strict=True):
        if kept is not None and (not isinstance(kept, Tensor) or kept.shape != parameter.shape):
            raise ValueError(f"the way of a parameter of shape {tuple(parameter.shape)} is damaged")
    return dict(way)


class LinearSpread(Spread):
    """Straight moves: the update is measured, undone and then made in equal parts.

    It needs nothing of the optimizer but its ``step()``, and keeps one number per weight:
    the way to go. Half-precision parameters may not notice a small move; for them the way is
    kept in float32 and what rounding has lost is made up for by the next move.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(1))
        >>> weight.grad = torch.ones(1)
        >>> spread = LinearSpread(torch.optim.SGD([weight], lr=1.0))
        >>> spread.begin(4)
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


class GeodesicSpread(Spread):
    """Moves on the manifold: the geodesic of a CoLA step in equal stretches.

    The gradient, with the weight decay at the start, is kept for the words that use it late.

    Example:
        >>> weight = torch.nn.Parameter(torch.eye(2))
        >>> weight.grad = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
        >>> from colangevin import Orthogonal
        >>> slow = CoLA([weight], lr=0.5, momentum=0.9, constraint=Orthogonal())
        >>> GeodesicSpread(slow).begin(4)
        >>> slow.violation()[0].residual < 1e-6
        True
    """

    def __init__(self, optimizer: CoLA) -> None:
        super().__init__(optimizer)
        self._cola = optimizer

    def check(self) -> None:
        self._cola._check()

    def _plan(self) -> dict[Tensor, Tensor]:
        return {
            parameter: direction(parameter.grad, parameter.detach(), group["weight_decay"]).clone()
            for group in self.optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        }

    def _go(self) -> None:
        last = self._done + 1 == self._parts
        rates = self._rates if self._done else None  # whatever a schedule has made of them
        call = Call((self._done, self._parts), self._kept, rates, counted=last)
        if self._done:  # what a subclass or a hook adds to a step has had its turn
            self._cola._run(call)
            return
        self._cola._call = call
        try:
            self._cola.step()
        finally:
            self._cola._call = WHOLE


def spread_of(optimizer: Optimizer) -> Spread:
    """The way to spread an update that keeps an optimizer's parameters where they belong.

    Example:
        >>> type(spread_of(torch.optim.SGD([torch.zeros(1)]))).__name__
        'LinearSpread'
    """
    return GeodesicSpread(optimizer) if isinstance(optimizer, CoLA) else LinearSpread(optimizer)
