"""Multirate training on random subsets of the weights: a regulariser (section 5.5.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from colangevin import checks
from colangevin.integrators.recipe import direction as direction_of
from colangevin.optimizers.multirate.spread import is_rehearsal
from colangevin.optimizers.saving.state_dict import checked_form, copied, looked_at, packed_by
from colangevin.optimizers.step.noise import choose_seed
from colangevin.random import key_of, uniforms

MOMENTUM, SLOW, HIDDEN = "momentum_buffer", "slow", "hidden"
CYCLE = "cycle"
PLACE = {n: n for n in ("period", "waking_step")} | {
    name: f"_{name}" for name in ("asleep_for", "seed", "drawn")
}
"""The place in the cycle: what state dicts call it, and the attribute."""


class SubsetMultirate(Optimizer):
    """SGD in which random weights are put to sleep, at zero, and wake to a larger step.

    A cycle has k + 1 steps (k = ``period``). A random subset of every tensor is set to zero
    while the other weights make k steps of size h. Then the subset gets its values back, and
    one step of the whole network moves it by k·h and the others by h; after it a new subset
    falls asleep. Momenta of sleeping weights rest. In the very first step no weight sleeps. It is
    a plain step of SGD, so the weights may be loaded after the optimizer is made.

    In the middle of a cycle the model has zeros in the place of its sleeping weights: evaluate
    it within ``full_weights()``, and end the training with ``restore()``.

    With ``waking_step=False`` there is no slow scale: after k steps the subset gets its values back
    and another falls asleep at once, without a step of the whole network. With ``period=1`` another
    part of the weights is zero at every step: the comparison of figure 5.7.

    Args:
        params: parameters or groups; each group may set ``lr``, ``momentum``,
            ``weight_decay`` and ``probability``, see ``random_subsets``.
        lr: h.
        momentum: μ.
        weight_decay: adds weight_decay · θ to the gradient.
        probability: of a weight to be in the subset.
        period: k, at least 1.
        seed: of the subsets; by default it depends on torch's seed and on the first weights.
        waking_step: whether the subset makes a step k·h when it wakes.

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
        seed: int | None = None,
        waking_step: bool = True,
    ) -> None:
        self.period = checks.count("period", period)
        self.waking_step = checks.flag("waking_step", waking_step)
        self._asleep_for = 0
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        defaults["probability"] = probability
        _check(defaults)
        super().__init__(params, defaults)
        parameters = [p for group in self.param_groups for p in group["params"]]
        self._seed, self._drawn = choose_seed(seed, parameters), 0

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group; its weights take part from the next subset on."""
        _check({**self.defaults, **param_group})
        super().add_param_group({**param_group, CYCLE: {}})  # it is filled in state dicts

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
        self._check_step()
        if not self.state and is_rehearsal(self.param_groups):
            self._prepare()
            return loss
        awake = self._asleep_for == 0
        slow = 0 if not awake else self.period if self.waking_step else 1
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    _descend(parameter, self.state[parameter], group, slow)
        if awake:
            self._draw()
        elif self._asleep_for < self.period:
            self._asleep_for += 1
        else:
            self.restore()
            if not self.waking_step:
                self._draw()
        return loss

    def _check_step(self) -> None:
        """Refuse options and gradients that are wrong, before anything is changed."""
        for group in self.param_groups:
            _check(group)
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.layout is not torch.strided:
                    raise TypeError("a sparse gradient; SubsetMultirate takes dense ones only")

    def _prepare(self) -> None:
        """Make the state that a checkpoint is loaded into: nothing sleeps, and all is at rest."""
        for group in self.param_groups:
            for parameter in group["params"]:
                names = (MOMENTUM, SLOW, HIDDEN) if group["momentum"] else (SLOW, HIDDEN)
                self.state[parameter] = {name: torch.zeros_like(parameter) for name in names}

    def _draw(self) -> None:
        """Choose a new subset and set it to zero."""
        owners = [(p, group) for group in self.param_groups for p in group["params"]]
        for ordinal, (parameter, group) in enumerate(owners):
            if parameter.grad is None or group["probability"] == 0.0:
                self.state[parameter][SLOW] = torch.zeros_like(parameter)
                continue
            key = key_of(self._seed, ordinal, self._drawn)
            drawn = uniforms([key], parameter.numel(), device=parameter.device)
            chosen = drawn.view(parameter.shape) < group["probability"]
            # In the parameter's own dtype: loading a state dict casts to that.
            self.state[parameter][SLOW] = chosen.to(parameter.dtype)
        self._drawn += 1
        self._asleep_for = 1
        self._hide()

    def _hide(self) -> None:
        for parameter, entry in self.state.items():
            if SLOW in entry:
                entry[HIDDEN] = parameter.detach() * entry[SLOW]
                parameter.masked_fill_(entry[SLOW].bool(), 0.0)

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
        if self._asleep_for:
            for parameter, entry in self.state.items():
                if SLOW in entry and HIDDEN in entry:
                    parameter.copy_(torch.where(entry[SLOW].bool(), entry[HIDDEN], parameter))
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
        """As in torch, with the place in the cycle and the seed of the subsets in every group."""
        with packed_by(self, lambda _, state_dict: self._packed(state_dict)):
            return super().state_dict()

    def _packed(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        cycle = {name: getattr(self, own) for name, own in PLACE.items()}
        groups = [{**group, CYCLE: cycle} for group in state_dict["param_groups"]]
        packed: dict[str, Any] = copied({**state_dict, "param_groups": groups})
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue exactly where ``state_dict`` was taken.

        Raises:
            ValueError, TypeError: if it is not the state of such an optimizer; nothing has been
                changed then.
        """
        with looked_at(self, self._see):
            super().load_state_dict(state_dict)

    def _see(self, state_dict: dict[str, Any]) -> None:
        groups, states = checked_form(state_dict, self.param_groups)
        for saved, group in zip(groups, self.param_groups, strict=True):
            _check_cycle(saved.get(CYCLE), groups[0].get(CYCLE))
            _check({name: saved.get(name) for name in self.defaults})
            for key, parameter in zip(saved["params"], group["params"], strict=True):
                for name, value in (states.get(key) or {}).items():
                    if not isinstance(value, Tensor) or value.shape != parameter.shape:
                        raise ValueError(
                            f"the state dict has a {name} that does not fit a parameter of shape "
                            f"{tuple(parameter.shape)}"
                        )
        self._loaded = dict(groups[0][CYCLE])

    def __setstate__(self, state: dict[str, Any]) -> None:
        cycle = self.__dict__.pop("_loaded", None)
        if cycle is not None:  # torch's load_state_dict comes by here, before its hooks
            entries = copied(dict(state["state"]))  # torch shares memory with the state dict
            state = {**state, "state": defaultdict(dict, entries)}
            for name, own in PLACE.items():
                setattr(self, own, cycle.get(name, True))  # earlier versions lack waking_step
        super().__setstate__(state)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {own: getattr(self, own) for own in PLACE.values()}


def _check_cycle(cycle: object, first: object) -> None:
    """Refuse the cycle of a group that is damaged, or another one than that of the first group."""
    if not isinstance(cycle, dict) or cycle != first:
        raise ValueError(f"the cycle of the state dict is missing or damaged: {cycle!r:.200}")
    checks.count("period", cycle.get("period"))
    checks.flag("waking_step", cycle.get("waking_step", True))
    for name in ("asleep_for", "drawn"):
        checks.count(name, cycle.get(name), least=0)
    checks.seed("seed", cycle.get("seed"))


def _descend(parameter: Tensor, entry: dict[str, Any], group: dict[str, Any], slow: int) -> None:
    """SGD in which the subset makes ``slow`` steps in one, with 0 none, its momentum included."""
    gradient = parameter.grad
    assert gradient is not None
    gradient = direction_of(gradient, parameter.detach(), group["weight_decay"])
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
