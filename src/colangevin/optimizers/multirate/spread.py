"""An optimizer's update, made in equal moves while other parameters make their steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from colangevin import checks
from colangevin.integrators.recipe import direction
from colangevin.optimizers.cola import CoLA
from colangevin.optimizers.step.bucket import HALF
from colangevin.optimizers.step.plan import WHOLE, Call
from colangevin.optimizers.torch_compat import is_sharded, local_of

PREFIX = "multirate"
WAY, PARTS, DONE, RATE = (f"{PREFIX}_{name}" for name in ("way", "parts", "done", "rate"))
"""What is saved of the way of a parameter: what is kept, how many parts, how many are made, lr."""


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

    def entries(self) -> dict[Tensor, dict[str, Any]]:
        """For each parameter what is left of its way; a way of zeros where nothing is left."""
        found: dict[Tensor, dict[str, Any]] = {}
        groups = self.optimizer.param_groups
        rates = [*self._rates, *[0.0] * len(groups)]
        for group, rate in zip(groups, rates, strict=False):
            for parameter in group["params"]:
                kept = self._kept.get(parameter)
                parts, done = (1, 1) if kept is None else (self._parts, self._done)
                way = _no_way(parameter) if kept is None else kept
                found[parameter] = {WAY: way, PARTS: parts, DONE: done, RATE: rate}
        return found

    def continued(self, entries: Mapping[Tensor, Mapping[str, Any]] | None) -> Callable[[], None]:
        """What makes the way go on where ``entries`` were taken; None for no way.

        Raises:
            ValueError, TypeError: if they do not fit; nothing has been changed then.
        """
        parts, done = 1, 1
        kept: dict[Tensor, Tensor] = {}
        rates: list[float] = []
        for group in self.optimizer.param_groups if entries is not None else ():
            rates.append(float(group["lr"]) if "lr" in group else 0.0)
            for parameter in group["params"]:
                entry = (entries or {}).get(parameter, {})
                if not entry and not parameter.requires_grad:
                    continue  # checkpoints leave out what is frozen
                _check_way(entry, parameter)
                if entry[DONE] < entry[PARTS]:
                    if kept and (parts, done) != (entry[PARTS], entry[DONE]):
                        raise ValueError(f"{DONE} differs between parameters of the state dict")
                    parts, done, rates[-1] = entry[PARTS], entry[DONE], entry[RATE]
                    kept[parameter] = entry[WAY]

        def go_on() -> None:
            self._parts, self._done, self._rates = parts, done, rates
            self._kept = {p: way.to(local_of(p).device, copy=True) for p, way in kept.items()}

        return go_on


def _no_way(parameter: Tensor) -> Tensor:
    """Zeros; they take memory only if the parameter is sharded."""
    if is_sharded(parameter):
        return torch.zeros_like(parameter)
    dtype = torch.float32 if parameter.dtype in HALF else parameter.dtype
    return torch.zeros((), dtype=dtype, device=parameter.device).expand(parameter.shape)


def _check_way(entry: Mapping[str, Any], parameter: Tensor) -> None:
    """Refuse the way of a parameter that is missing or damaged."""
    shape = tuple(parameter.shape)
    missing = [name for name in (WAY, PARTS, DONE, RATE) if name not in entry]
    if missing:
        raise ValueError(
            f"the state dict lacks {', '.join(missing)} for a parameter of shape {shape}. "
            "torch.distributed.checkpoint leaves out parameters that are frozen while it loads: "
            "call optimizer.release() before"
        )
    checks.count(f"{PARTS} of the state dict", entry[PARTS])
    checks.count(f"{DONE} of the state dict", entry[DONE], least=0)
    checks.non_negative(f"{RATE} of the state dict", entry[RATE])
    if not isinstance(entry[WAY], Tensor) or entry[WAY].shape != parameter.shape:
        raise ValueError(f"{WAY} of the state dict does not fit a parameter of shape {shape}")


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
            CoLA._move(self._cola, None, call)
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
