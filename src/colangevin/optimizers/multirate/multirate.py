"""Multirate training: fast parameters move at every step, slow ones get a gradient every k-th."""

from __future__ import annotations

import inspect
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from colangevin import checks
from colangevin.optimizers.multirate import spread
from colangevin.optimizers.multirate.spread import Spread
from colangevin.optimizers.saving.state_dict import looked_at, packed_by


class Multirate(Optimizer):
    """Two optimizers at two rates, in a plain loop of ``zero_grad``, ``backward``, ``step``.

    Every step updates the fast parameters. Every k-th (k = ``period``, beginning with the
    first) has gradients of the slow ones too. With ``drift`` their update is spread evenly
    over that step and the k − 1 that follow (algorithm 5.1): a torch optimizer's along a
    straight line, a CoLA group's along its geodesic, so that it never leaves its manifold.
    Without, it is made at once (algorithm 5.2; in a plain loop the slow step's one gradient
    serves both parts). Each optimizer keeps its own settings, weight decay among them (5.3);
    the thesis sets the slow step to k times the fast one.

    In between, ``requires_grad`` of the slow parameters is False, so autograd does not walk
    through what comes before the fast ones. It is given back before every k-th step, when a
    step raises, at the end of a ``with optimizer:`` block, by ``release()``, and when the
    optimizer is deleted. Parameters that the user has frozen stay frozen.

    A ``Multirate`` may stand for either optimizer: that makes three time scales or more.

    Args:
        fast: any ``torch.optim.Optimizer`` whose step needs no closure.
        slow: likewise, of other parameters.
        period: k, at least 1; at 1 both optimizers just make their steps.
        drift: whether to spread the slow update.

    Raises:
        ValueError, TypeError: naming the argument and its value.

    Example:
        >>> body, head = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)
        >>> fast = torch.optim.SGD(head.parameters(), lr=0.1)
        >>> slow = torch.optim.SGD(body.parameters(), lr=0.5)
        >>> optimizer = Multirate(fast, slow, period=5)
        >>> head(body(torch.ones(1, 2))).sum().backward()
        >>> optimizer.step()
        >>> body.weight.requires_grad  # for the next four steps
        False
    """

    def __init__(
        self, fast: Optimizer, slow: Optimizer, period: int = 5, drift: bool = True
    ) -> None:
        for name, part in (("fast", fast), ("slow", slow)):
            _check_part(name, part)
        shared = {id(p) for p in _parameters(fast)} & {id(p) for p in _parameters(slow)}
        if shared:
            raise ValueError(
                f"fast and slow must own different parameters, but {len(shared)} are in both"
            )
        self.period = checks.count("period", period)
        self.drift = checks.flag("drift", drift)
        self.fast, self.slow = fast, slow
        self._fast, self._slow = (
            part if isinstance(part, Multirate) else Spread(part) for part in (fast, slow)
        )
        self._steps = 0
        self._prepared = not spread.unprepared(self)
        self._frozen: list[Tensor] = []
        self._guard()
        both = {**fast.defaults, **slow.defaults}
        common = {k: v for k, v in both.items() if all(k in group for group in self.param_groups)}
        super().__init__(self.param_groups, common)

    @classmethod
    def sgd(
        cls,
        fast_parameters: Iterable[Any],
        slow_parameters: Iterable[Any],
        *,
        lr: float,
        momentum: float = 0.0,
        weight_decay: float | tuple[float, float] = 0.0,
        period: int = 5,
        drift: bool = True,
    ) -> Multirate:
        """The thesis's form, algorithms 5.1 to 5.3: SGD with momentum on both scales.

        Args:
            fast_parameters: parameters or groups that move with the step h/k.
            slow_parameters: those that move with the step h.
            lr: h, the slow step. SGD with lr = h/k is the method to compare with.
            momentum: μ of both.
            weight_decay: ω of both, or the pair ω_F, ω_S.
            period: k.
            drift: True for algorithms 5.1 and 5.3, False for 5.2.

        Example:
            >>> model = torch.nn.Linear(2, 1)
            >>> optimizer = Multirate.sgd([model.weight], [model.bias], lr=1.0, period=5)
            >>> [group["lr"] for group in optimizer.param_groups]
            [0.2, 1.0]
        """
        step = checks.positive("lr", lr)
        k = checks.count("period", period)
        decays = weight_decay if isinstance(weight_decay, tuple) else (weight_decay, weight_decay)
        if len(decays) != 2:
            raise ValueError(f"weight_decay must be a number or a pair, got {weight_decay!r}")
        checks.fraction("momentum", momentum)
        given = {"fast_parameters": fast_parameters, "slow_parameters": slow_parameters}
        parts = []
        for (name, own), size, decay in zip(given.items(), (step / k, step), decays, strict=True):
            members = list(own)
            if not members:
                raise ValueError(f"{name} is empty")
            checks.non_negative("weight_decay", decay)
            parts.append(torch.optim.SGD(members, size, momentum, weight_decay=decay))
        return cls(parts[0], parts[1], period=k, drift=drift)

    # --- groups -----------------------------------------------------------------------------

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of both optimizers, the fast ones first: what schedulers write to."""
        return [*self.fast.param_groups, *self.slow.param_groups]

    @param_groups.setter
    def param_groups(self, groups: object) -> None:
        """The base class sets them; they belong to the two optimizers."""

    @property
    def state(self) -> defaultdict[Tensor, Any]:
        """The state of both optimizers, with the place within the period.

        It is empty until both have theirs. So ``torch.distributed.checkpoint`` makes a step with
        zeros before it loads, in which optimizers of torch make their state.
        """
        if not self._prepared:
            return defaultdict(dict)
        return defaultdict(dict, spread.states(self))

    @state.setter
    def state(self, state: object) -> None:
        """The base class sets it; it belongs to the two optimizers."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refuses: a group belongs to ``fast`` or to ``slow``, so add it there."""
        if not any(param_group is group for group in self.param_groups):
            raise ValueError("add the group to optimizer.fast or to optimizer.slow")

    # --- the step -----------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make one step of the fast parameters and what is due of the slow ones.

        Args:
            closure: reevaluates the model and returns the loss. Without drift a slow step
                calls it again after the slow move, which is algorithm 5.2 to the letter.
        """
        evaluate = None if closure is None else torch.enable_grad()(closure)
        loss = None if evaluate is None else evaluate()
        if not self._prepared and spread.is_rehearsal(self.param_groups):
            for part in spread.unprepared(self):
                part.step()
            self._prepared = True
        else:
            self.begin(1, evaluate)
        return loss

    def begin(self, parts: int, evaluate: Callable[[], Any] | None = None) -> None:
        """Make a step, or the first of the ``parts`` moves that make it up."""
        try:
            self.check()
            if self._steps % self.period == 0:
                self._check_gradients()
                self._slow.begin(parts * self.period if self.drift else parts)
                if evaluate is not None and not self.drift and self.period > 1:
                    evaluate()
            elif self.drift:
                self._slow.move()
            self._fast.begin(parts)
        except BaseException:
            self.release()
            raise
        self._steps += 1
        self._prepared = True
        self._switch()

    def check(self) -> None:
        """Refuse options or gradients that either optimizer would refuse, before both move."""
        self._slow.check()
        self._fast.check()

    def move(self) -> None:
        """Make the next of a step's moves, as the slow part of another ``Multirate``."""
        self._slow.move()
        self._fast.move()

    def _check_gradients(self) -> None:
        trained = [p for p in _parameters(self.slow) if p.requires_grad]
        if trained and all(p.grad is None for p in trained):
            warnings.warn(
                f"step {self._steps} is a slow one (period={self.period}), but no slow parameter "
                "has a gradient; run the forward pass after the step before",
                stacklevel=4,
            )

    # --- requires_grad ------------------------------------------------------------------------

    def _guard(self) -> None:
        """Wake what is frozen when the optimizer is deleted, but not at the end of the program."""
        weakref.finalize(self, _wake, self._frozen).atexit = False

    def _switch(self) -> None:
        """Freeze or wake the slow parameters as the next step needs them."""
        if self._steps % self.period == 0:
            _wake(self._frozen)
            return
        for parameter in _parameters(self.slow):
            if parameter.requires_grad:  # what the user has frozen is not woken later
                parameter.requires_grad_(False)
                self._frozen.append(parameter)

    def release(self) -> None:
        """Give every slow parameter its ``requires_grad`` back, until the next step.

        Example:
            >>> model = torch.nn.Linear(1, 1)
            >>> optimizer = Multirate.sgd([model.weight], [model.bias], lr=0.1)
            >>> model(torch.ones(1, 1)).sum().backward()
            >>> optimizer.step()
            >>> optimizer.release()
            >>> model.bias.requires_grad
            True
        """
        _wake(self._frozen)
        for part in (self.fast, self.slow):
            if isinstance(part, Multirate):
                part.release()

    def __enter__(self) -> Multirate:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    # --- saving -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """As in torch; the place within the period is part of the state of every parameter."""
        with packed_by(self, lambda *_: spread.packed(self)):
            return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue exactly where ``state_dict`` was taken, ``requires_grad`` included.

        Raises:
            ValueError: if it is not the state of such an optimizer; nothing has been changed then.
        """
        with looked_at(self, self._see):
            super().load_state_dict(state_dict)

    def _see(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """Keep what is loaded, and let torch continue with groups that have parameters only."""
        self._loaded = state_dict
        groups, first = [], 0
        for group in self.param_groups:
            groups.append({"params": list(range(first, first + len(group["params"])))})
            first += len(group["params"])
        return {"state": {}, "param_groups": groups}

    @property
    def _place(self) -> dict[str, Any]:
        """The place within the period, and what it means."""
        return {"period": self.period, "drift": self.drift, "steps": self._steps}

    def _resume(self, place: Mapping[str, Any]) -> None:
        """Go on at another place."""
        self.period, self.drift, self._steps = (place[n] for n in ("period", "drift", "steps"))
        self._prepared = True
        self._switch()

    def __getstate__(self) -> dict[str, Any]:
        names = ("defaults", "period", "drift", "fast", "slow", "_fast", "_slow", "_steps")
        return {name: self.__dict__[name] for name in (*names, "_frozen", "_prepared")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        loaded = self.__dict__.pop("_loaded", None)
        if loaded is None:
            super().__setstate__(state)
            self._guard()
            return
        self.release()  # torch's load_state_dict comes by here, before its hooks
        try:
            spread.load(self, loaded)
        except Exception:
            self._switch()
            raise


def _wake(frozen: list[Tensor]) -> None:
    """Give parameters their ``requires_grad`` back."""
    for parameter in frozen:
        parameter.requires_grad_(True)
    frozen.clear()


def _parameters(optimizer: Optimizer) -> Iterator[Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _check_part(name: str, part: object) -> None:
    if not isinstance(part, Optimizer):
        raise TypeError(f"{name} must be a torch.optim.Optimizer, got {type(part).__name__}")
    if not any(True for _ in _parameters(part)):
        raise ValueError(f"{name} has no parameters")
    needed = [
        argument.name
        for argument in inspect.signature(part.step).parameters.values()
        if argument.default is argument.empty
        and argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD)
    ]
    if needed or getattr(part, "needs_closure", False):
        raise ValueError(
            f"{name} must be an optimizer whose step needs no arguments, but "
            f"{type(part).__name__}.step needs {', '.join(needed) or 'closure'}"
        )
