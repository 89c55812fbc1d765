"""Multirate training on random subsets of the weights: a regulariser (section 5.5.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from colangevin import checks
from colangevin.optimizers.noise import Noise

MOMENTUM, SLOW, HIDDEN = "momentum_buffer", "slow", "hidden"


class SubsetMultirate(Optimizer):
    """SGD in which random weights are put to sleep, at zero, and wake to a larger step.

    A cycle has k + 1 steps (k = ``period``). A random subset of every tensor is set to zero
    while the other weights make k steps of size h. Then the subset gets its values back, and
    one step of the whole network moves it by k·h and the others by h; after it a new subset
    falls asleep. Momenta of sleeping weights rest. The very first step finds everybody awake
    and is a plain step of SGD, so the weights may be loaded after the optimizer is made.

    In the middle of a cycle the model has zeros in the place of its sleeping weights: evaluate
    it within ``full_weights()``, and end the training with ``restore()``.

    Args:
        params: parameters or groups; each group may set ``lr``, ``momentum``,
            ``weight_decay`` and ``probability``, see ``random_subsets``.
        lr: h.
        momentum: μ.
        weight_decay: adds weight_decay · θ to the gradient.
        probability: of a weight to be in the subset.
        period: k, at least 1.
        generator: source of the subsets; by default one of the optimizer's own.

    Raises:
        ValueError, TypeError: naming the argument and its value.

    Example:
        >>> weight = torch.nn.Parameter(torch.ones(1000))
        >>> optimizer = SubsetMultirate([weight], lr=0.1, probability=0.5, period=2)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> 400 < int((weight == 0).sum()) < 600
        True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        probability: float = 0.5,
        period: int = 5,
        generator: torch.Generator | None = None,
    ) -> None:
        self.period = checks.count("period", period)
        self._asleep_for = 0
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "probability": probability,
        }
        _check(defaults)
        super().__init__(params, defaults)
        sizes = [p.numel() for group in self.param_groups for p in group["params"]]
        self._noise = Noise(generator, salt=sum(sizes) + len(sizes))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group; its weights take part from the next subset on."""
        _check({**self.defaults, **param_group})
        super().add_param_group(param_group)

    # --- the step -----------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make one step.

        Args:
            closure: reevaluates the model and returns the loss.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        awake = self._asleep_for == 0
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    _descend(parameter, self.state[parameter], group, self.period if awake else 0)
        if awake:
            self._draw()
        elif self._asleep_for < self.period:
            self._asleep_for += 1
        else:
            self.restore()
        return loss

    def _draw(self) -> None:
        """Choose a new subset and set it to zero."""
        for group in self.param_groups:
            for parameter in group["params"]:
                entry = self.state[parameter]
                entry.pop(SLOW, None)
                if parameter.grad is None or group["probability"] == 0.0:
                    continue
                generator = self._noise.generator(parameter.device)
                uniform = torch.rand(parameter.shape, generator=generator, device=parameter.device)
                # In the parameter's own dtype: loading a state dict casts to that.
                entry[SLOW] = (uniform < group["probability"]).to(parameter.dtype)
        self._asleep_for = 1
        self._hide()

    def _hide(self) -> None:
        for parameter, entry in self._subsets():
            entry[HIDDEN] = parameter.detach() * entry[SLOW]
            parameter.masked_fill_(entry[SLOW].bool(), 0.0)

    def _subsets(self) -> Iterator[tuple[Tensor, dict[str, Any]]]:
        for parameter, entry in self.state.items():
            if SLOW in entry:
                yield parameter, entry

    # --- whole weights --------------------------------------------------------------------------

    @torch.no_grad()
    def restore(self) -> None:
        """Wake the subset: it has its values again and makes its larger step with the next step.

        Example:
            >>> weight = torch.nn.Parameter(torch.ones(8))
            >>> optimizer = SubsetMultirate([weight], lr=0.5, probability=1.0)
            >>> weight.sum().backward()
            >>> optimizer.step()
            >>> optimizer.restore()
            >>> weight[0].item()
            0.5
        """
        for parameter, entry in self._subsets():
            if HIDDEN in entry:
                hidden = entry.pop(HIDDEN)
                parameter.copy_(torch.where(entry[SLOW].bool(), hidden, parameter))
        self._asleep_for = 0

    @contextmanager
    def full_weights(self) -> Iterator[None]:
        """Within it the model has all its weights, for evaluation; afterwards the cycle goes on.

        Example:
            >>> weight = torch.nn.Parameter(torch.ones(8))
            >>> optimizer = SubsetMultirate([weight], lr=0.5, probability=1.0)
            >>> weight.sum().backward()
            >>> optimizer.step()
            >>> with optimizer.full_weights():
            ...     weight[0].item()
            0.5
            >>> weight[0].item()
            0.0
        """
        asleep_for = self._asleep_for
        self.restore()
        try:
            yield
        finally:
            if asleep_for:
                self._asleep_for = asleep_for
                with torch.no_grad():
                    self._hide()

    # --- saving -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """As in torch, with the place in the cycle and the generators."""
        own = {"period": self.period, "asleep_for": self._asleep_for}
        return {**super().state_dict(), "cycle": own, "noise": self._noise.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue exactly where ``state_dict`` was taken.

        Raises:
            ValueError: if it is not the state of such an optimizer.
        """
        missing = {"cycle", "noise"} - state_dict.keys()
        if missing:
            raise ValueError(f"the state dict lacks {', '.join(sorted(missing))}")
        base = {key: state_dict[key] for key in ("state", "param_groups")}
        super().load_state_dict(base)
        for parameter, entry in self.state.items():  # torch shares memory with the state dict
            self.state[parameter] = {name: value.clone() for name, value in entry.items()}
        self.period = checks.count("period", state_dict["cycle"]["period"])
        self._asleep_for = int(state_dict["cycle"]["asleep_for"])
        self._noise.load_state_dict(state_dict["noise"])

    def __getstate__(self) -> dict[str, Any]:
        own = {name: self.__dict__[name] for name in ("period", "_asleep_for", "_noise")}
        return {**super().__getstate__(), **own}


def _descend(parameter: Tensor, entry: dict[str, Any], group: dict[str, Any], slow: int) -> None:
    """SGD in which the subset makes ``slow`` steps in one, with 0 none, its momentum included."""
    gradient = parameter.grad
    assert gradient is not None
    if group["weight_decay"]:
        gradient = gradient.add(parameter, alpha=group["weight_decay"])
    subset = entry.get(SLOW)
    direction = gradient
    if group["momentum"]:
        old = entry.get(MOMENTUM)
        direction = gradient.clone() if old is None else old * group["momentum"] + gradient
        if subset is not None and slow == 0 and old is not None:
            direction = torch.where(subset.bool(), old, direction)
        entry[MOMENTUM] = direction
    if subset is not None:
        direction = direction * (1.0 + (slow - 1.0) * subset)
    parameter.add_(direction, alpha=-float(group["lr"]))


def _check(options: dict[str, Any]) -> None:
    checks.non_negative("lr", options["lr"])
    checks.fraction("momentum", options["momentum"])
    checks.non_negative("weight_decay", options["weight_decay"])
    checks.fraction("probability", options["probability"])
