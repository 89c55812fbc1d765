"""An optimizer's update, made in equal moves while other parameters make their steps."""

from __future__ import annotations

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
REMAINING, PARTS, DONE, RATE = (f"{PREFIX}_{name}" for name in ("way", "parts", "done", "rate"))
"""What is saved of the update of a parameter: what is kept of it, how many parts, how many are
made, lr."""


class Spread:
    """An optimizer and what remains of its update.

    A CoLA makes its moves on the manifold: the geodesic of a step in equal stretches. The
    gradient, with the weight decay at the start, is kept for the words that use it late.

    Any other optimizer makes straight moves: the update is measured, undone and then made in
    equal parts. That needs nothing of the optimizer but its ``step()``, and keeps one number per
    weight: the update. Half-precision parameters may not notice a small move; for them what
    remains is kept in float32, and what rounding has lost is made up for by the next move.

    Args:
        optimizer: makes the update with its ``step()``.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(1))
        >>> weight.grad = torch.ones(1)
        >>> Spread(torch.optim.SGD([weight], lr=1.0)).begin(4)
        >>> weight.item()
        -0.25
        >>> from colangevin import Orthogonal
        >>> weight = torch.nn.Parameter(torch.eye(2))
        >>> weight.grad = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
        >>> slow = CoLA([weight], lr=0.5, momentum=0.9, constraint=Orthogonal())
        >>> Spread(slow).begin(4)
        >>> slow.violation()[0].residual < 1e-6
        True
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self._cola = optimizer if isinstance(optimizer, CoLA) else None
        self._parts = 1
        self._done = 1
        self._rates: list[float] = []
        self._kept: dict[Tensor, Tensor] = {}

    def begin(self, parts: int) -> None:
        """Take the gradients and make the first of ``parts`` equal moves."""
        while self._done < self._parts:  # an error or a new period cut the last update short
            self.move()
        if parts == 1:
            self.optimizer.step()
            return
        with torch.no_grad():
            self._kept = self._directions() if self._cola else self._update()
        self._rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        self._parts, self._done = parts, 0
        self.move()

    @torch.no_grad()
    def move(self) -> None:
        """Make the next move; after the last one there is nothing to do."""
        if self._done == self._parts:
            return
        try:
            if self._cola is not None:
                self._along_geodesic(self._cola)
            else:
                self._straight()
        except Exception:
            self._done, self._kept = self._parts, {}  # the next one starts with its own gradients
            raise
        self._done += 1
        if self._done == self._parts:
            self._kept = {}

    def check(self) -> None:
        """Refuse options or gradients that a move would refuse."""
        if self._cola is not None:
            self._cola._check()

    # --- on the manifold ------------------------------------------------------------------

    def _directions(self) -> dict[Tensor, Tensor]:
        return {
            parameter: direction(parameter.grad, parameter.detach(), group["weight_decay"]).clone()
            for group in self.optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        }

    def _along_geodesic(self, cola: CoLA) -> None:
        last = self._done + 1 == self._parts
        rates = self._rates if self._done else None  # whatever a schedule has made of them
        call = Call((self._done, self._parts), self._kept, rates, counted=last)
        if self._done:  # what a subclass or a hook adds to a step has had its turn
            CoLA._move(cola, None, call)
            return
        cola._call = call
        try:
            cola.step()
        finally:
            cola._call = WHOLE

    # --- on a straight line ---------------------------------------------------------------

    def _update(self) -> dict[Tensor, Tensor]:
        moving = [p for p in self.parameters() if p.grad is not None]
        starts = [p.detach().clone() for p in moving]
        self.optimizer.step()
        updates: dict[Tensor, Tensor] = {}
        for parameter, start in zip(moving, starts, strict=True):
            dtype = _kept_dtype(parameter)
            updates[parameter] = parameter.detach().to(dtype) - start.to(dtype)
            parameter.copy_(start)
        return updates

    def _straight(self) -> None:
        for parameter, kept in self._kept.items():
            if parameter.dtype in HALF:
                before = parameter.detach().clone()
                parameter.copy_(before + kept / (self._parts - self._done))
                kept.sub_(parameter.detach().to(kept.dtype) - before)
            else:
                parameter.add_(kept, alpha=1.0 / self._parts)

    # --- saving ---------------------------------------------------------------------------

    def parameters(self) -> Iterator[Tensor]:
        """The optimizer's parameters, in order."""
        for group in self.optimizer.param_groups:
            yield from group["params"]

    def entries(self) -> dict[Tensor, dict[str, Any]]:
        """What remains of each parameter's update; zeros where nothing does."""
        found: dict[Tensor, dict[str, Any]] = {}
        groups = self.optimizer.param_groups
        rates = [*self._rates, *[0.0] * len(groups)]
        for group, rate in zip(groups, rates, strict=False):
            for parameter in group["params"]:
                kept = self._kept.get(parameter)
                parts, done = (1, 1) if kept is None else (self._parts, self._done)
                kept = _nothing(parameter) if kept is None else kept
                found[parameter] = {REMAINING: kept, PARTS: parts, DONE: done, RATE: rate}
        return found

    def resume(self, entries: Mapping[Tensor, Mapping[str, Any]] | None) -> Callable[[], None]:
        """What resumes the update where ``entries`` were taken; None for no update.

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
                _check_entry(entry, parameter)
                if entry[DONE] < entry[PARTS]:
                    if kept and (parts, done) != (entry[PARTS], entry[DONE]):
                        raise ValueError(f"{DONE} differs between parameters of the state dict")
                    parts, done, rates[-1] = entry[PARTS], entry[DONE], entry[RATE]
                    kept[parameter] = entry[REMAINING]

        def take_over() -> None:
            self._parts, self._done, self._rates = parts, done, rates
            self._kept = {p: left.to(local_of(p).device, copy=True) for p, left in kept.items()}

        return take_over


def _kept_dtype(parameter: Tensor) -> torch.dtype:
    return torch.float32 if parameter.dtype in HALF else parameter.dtype


def _nothing(parameter: Tensor) -> Tensor:
    """Zeros; they take memory only if the parameter is sharded."""
    if is_sharded(parameter):
        return torch.zeros_like(parameter)
    zero = torch.zeros((), dtype=_kept_dtype(parameter), device=parameter.device)
    return zero.expand(parameter.shape)


def _check_entry(entry: Mapping[str, Any], parameter: Tensor) -> None:
    """Refuse what remains of a parameter's update if it is missing or damaged."""
    shape = tuple(parameter.shape)
    missing = [name for name in (REMAINING, PARTS, DONE, RATE) if name not in entry]
    if missing:
        raise ValueError(
            f"the state dict lacks {', '.join(missing)} for a parameter of shape {shape}. "
            "torch.distributed.checkpoint leaves out parameters that are frozen while it loads: "
            "call optimizer.release() before"
        )
    checks.count(f"{PARTS} of the state dict", entry[PARTS])
    checks.count(f"{DONE} of the state dict", entry[DONE], least=0)
    checks.non_negative(f"{RATE} of the state dict", entry[RATE])
    if not isinstance(entry[REMAINING], Tensor) or entry[REMAINING].shape != parameter.shape:
        raise ValueError(f"{REMAINING} of the state dict does not fit a parameter of shape {shape}")
