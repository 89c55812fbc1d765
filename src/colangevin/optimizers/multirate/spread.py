"""An optimizer's update, made in equal moves while other parameters make their steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from colangevin import checks
from colangevin.optimizers.cola import CoLA
from colangevin.optimizers.saving.state_dict import checked_form, copied
from colangevin.optimizers.step.layout import HALF
from colangevin.optimizers.step.plan import WHOLE, Call
from colangevin.torch_compat import is_sharded, local_of

if TYPE_CHECKING:
    from colangevin.optimizers.multirate.multirate import Multirate

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
        self._parts = self._done = 1
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
            self._kept = self._cola._forces() if self._cola else self._update()
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
        """What resumes the update where ``entries`` were taken, if they fit; None for no update."""
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


# --- state dicts ----------------------------------------------------------------------------
# State dicts of ``Multirate`` in torch's form: all that has to survive is state of a parameter.
#
# So ``torch.distributed.checkpoint`` can save and load them. The names of what ``Multirate`` adds
# to the entries of its optimizers begin with ``multirate``. They are the same at every step, as a
# checkpoint is loaded by the names that a new optimizer has.

Entries: TypeAlias = dict[Tensor, dict[str, Any]]
Path: TypeAlias = "list[tuple[Multirate, bool]]"
"""From the outermost ``Multirate`` to an optimizer: each, and whether its slow part is next."""


def leaves(multirate: Multirate, above: Path | None = None) -> Iterator[tuple[Spread, Path]]:
    """The optimizers at the ends, in the order of the groups, with the path to each."""
    for part, slow in ((multirate._fast, False), (multirate._slow, True)):
        path = [*(above or []), (multirate, slow)]
        if isinstance(part, Spread):
            yield part, path
        else:
            yield from leaves(part, path)


def _is_spread(path: Path, place_of: Mapping[Multirate, Mapping[str, Any]]) -> bool:
    """Whether the steps of the optimizer at the end of a path are spread."""
    places = [place_of[multirate] for multirate, slow in path if slow]
    return any(place["drift"] and place["period"] > 1 for place in places)


def entries(multirate: Multirate) -> Entries:
    """What is to be saved for each parameter besides the state of its optimizer."""
    found: Entries = {}
    for leaf, path in leaves(multirate):
        place_of = {own: own._place for own, _ in path}
        numbers = {
            f"{PREFIX}{level}_{name}": value
            for level, place in enumerate(place_of.values())
            for name, value in place.items()
        }
        own = leaf.entries() if _is_spread(path, place_of) else {}
        found.update({p: {**numbers, **own.get(p, {})} for p in leaf.parameters()})
    return found


def states(multirate: Multirate) -> Entries:
    """The state of every parameter, as its optimizer has it, with what is saved besides."""
    kept = {p: entry for leaf, _ in leaves(multirate) for p, entry in leaf.optimizer.state.items()}
    return {p: {**kept.get(p, {}), **own} for p, own in entries(multirate).items()}


def packed(multirate: Multirate) -> dict[str, Any]:
    """The state of all optimizers as one state dict."""
    groups: list[dict[str, Any]] = []
    state: dict[int, dict[str, Any]] = {}
    own = entries(multirate)
    for leaf, _ in leaves(multirate):
        first = len(state)
        saved = leaf.optimizer.state_dict()
        for group in saved["param_groups"]:
            groups.append({**group, "params": [first + key for key in group["params"]]})
        for index, parameter in enumerate(leaf.parameters()):
            state[first + index] = {**saved["state"].get(index, {}), **own[parameter]}
    whole: dict[str, Any] = copied({"state": state, "param_groups": groups})
    return whole


# --- loading --------------------------------------------------------------------------------


def load(multirate: Multirate, state_dict: Mapping[str, Any]) -> None:
    """Load all of a state dict or nothing."""
    parts = list(_parts(multirate, state_dict))
    saved = {parameter: entry for _, _, found in parts for parameter, entry in found.items()}
    place_of: dict[Multirate, dict[str, Any]] = {}
    resumed = []
    for leaf, path in leaves(multirate):
        for level, (own, _) in enumerate(path):
            if own not in place_of:
                place_of[own] = _place(own, saved, level)
        resumed.append(leaf.resume(saved if _is_spread(path, place_of) else None))
    before = []
    try:
        for optimizer, own_state, _ in parts:
            before.append((optimizer, copied(optimizer.state_dict())))
            optimizer.load_state_dict(own_state)
    except Exception:
        for optimizer, former in before[:-1]:
            optimizer.load_state_dict(former)
        raise
    for take_over in resumed:
        take_over()
    for own in reversed(place_of):  # the innermost first
        own._resume(place_of[own])


def _parts(
    multirate: Multirate, state_dict: Mapping[str, Any]
) -> Iterator[tuple[Optimizer, dict[str, Any], Entries]]:
    """Each optimizer with its state dict, and what its parameters have besides."""
    groups, states = checked_form(state_dict, multirate.param_groups)
    for leaf, _ in leaves(multirate):
        count = len(leaf.optimizer.param_groups)
        own, groups = groups[:count], groups[count:]
        state: dict[Any, Any] = {}
        found: Entries = {}
        for saved, group in zip(own, leaf.optimizer.param_groups, strict=True):
            for key, parameter in zip(saved["params"], group["params"], strict=True):
                entry = states.get(key) or {}
                found[parameter] = {k: v for k, v in entry.items() if k.startswith(PREFIX)}
                rest = {k: v for k, v in entry.items() if not k.startswith(PREFIX)}
                if rest:
                    state[key] = rest
        yield leaf.optimizer, {"state": state, "param_groups": own}, found


def _place(multirate: Multirate, saved: Entries, level: int) -> dict[str, Any]:
    """Period, drift and steps, which all parameters of an optimizer must agree on."""
    found = {}
    for name in multirate._place:
        key = f"{PREFIX}{level}_{name}"
        own = [p for group in multirate.param_groups for p in group["params"]]
        values = [saved[p][key] for p in own if key in saved.get(p, {})]
        if not values:
            raise ValueError(f"the state dict is of another optimizer: it lacks {key}")
        if any(value != values[0] for value in values):
            raise ValueError(f"{key} differs between the parameters of the state dict")
        found[name] = values[0]
    checks.count("period", found["period"])
    checks.count("steps", found["steps"], least=0)
    checks.flag("drift", found["drift"])
    return found


# --- preparing ------------------------------------------------------------------------------


def unprepared(multirate: Multirate) -> list[Optimizer]:
    """Optimizers that make their state at the first step: ``CoLA`` has it from the start."""
    found = [leaf.optimizer for leaf, _ in leaves(multirate)]
    return [optimizer for optimizer in found if not isinstance(optimizer, CoLA)]


def is_rehearsal(groups: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a step is one that ``torch.distributed.checkpoint`` makes to get state to load into.

    It sets all learning rates and all gradients to 0. Nothing may move or be counted then.
    """
    if any(float(group.get("lr", 1.0)) != 0.0 for group in groups):
        return False
    gradients = [p.grad for group in groups for p in group["params"] if p.grad is not None]
    return not any(bool(gradient.any()) for gradient in gradients)
