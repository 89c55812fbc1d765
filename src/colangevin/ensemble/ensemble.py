"""Ensemble: many seeds of one network, trained as one computation."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from colangevin.ensemble import members, removing, saving
from colangevin.ensemble.batches import batches_of, pieces
from colangevin.ensemble.building import sort_parameters
from colangevin.ensemble.fitting import History, fit
from colangevin.ensemble.looking import evaluate, violation
from colangevin.ensemble.numbers import OPTIONS, Moves, moves_of, spread
from colangevin.ensemble.removing import Removal
from colangevin.ensemble.step import Loss, Penalty, Store
from colangevin.ensemble.stepper import Stepper


class Ensemble:
    """N copies of a module, one a seed, trained side by side as one batched computation.

    Every member has its own initial weights, batch order and noise, and if wanted its own data
    and settings: ``lr``, ``momentum``, ``step_size``, ``friction``, ``temperature`` and
    ``weight_decay`` may be a number or a sequence of one a member, and a rule one constraint or
    a sequence of them, so that a sweep is one run. A member follows the trajectory that it would
    have alone with ``CoLA``, whatever the other members are.

    Args:
        factory: makes a module; the member of seed s is ``torch.manual_seed(s); factory()``. A
            factory with a parameter is given the seed.
        seeds: one a member, all different.
        rules: constraints by pattern, as in ``parameter_groups``.
        penalty: a function of the member's parameters by name, added to its loss.
        compile: compile the step (which takes some seconds); None does so once a training
            has turned out to be long.
        options: the step and dynamics as in ``CoLA``: ``lr`` and ``momentum`` or ``step_size``
            and ``friction``, ``temperature``, ``scheme``, ``delayed_gradient``,
            ``weight_decay``. They may also be set later, by ``set``.

    Raises:
        ValueError, TypeError: naming the argument.

    Example:
        >>> from colangevin import Circle
        >>> ensemble = Ensemble(
        ...     lambda: nn.Linear(2, 1), range(3), {"weight": Circle(0.5)}, lr=0.1, momentum=0.9
        ... )
        >>> inputs = torch.randn(20, 2)
        >>> targets = inputs.sum(dim=1, keepdim=True)
        >>> history = ensemble.fit(nn.functional.mse_loss, inputs, targets, epochs=5, batch_size=4)
        >>> history["loss"].shape
        torch.Size([5, 3])
        >>> bool(ensemble.member(1).weight.abs().max() <= 0.5)
        True
    """

    def __init__(
        self,
        factory: members.Factory,
        seeds: Sequence[int],
        rules: members.Rules | None = None,
        *,
        penalty: Penalty | None = None,
        compile: bool | None = None,
        **options: Any,
    ) -> None:
        self.seeds = members.check_seeds(seeds)
        if compile is not None and not isinstance(compile, bool):
            raise TypeError(f"compile must be True, False or None, got {compile!r}")
        own_rules = members.rules_of(rules or {}, len(self.seeds))
        modules = [members.make(factory, seed) for seed in self.seeds]
        groups = [members.groups_of(*pair) for pair in zip(modules, own_rules, strict=True)]
        self._template = modules[0]
        position, buffers = members.stack(modules)
        learned = {name for group in groups[0] for name in group["names"]}
        self._frozen = {n: position.pop(n) for n in list(position) if n not in learned}
        self.active = list(range(len(self.seeds)))
        self.removed: list[Removal] = []
        self.steps = self.epochs = 0
        self._options: dict[str, Any] = {}
        self._first: Moves
        self._later: Moves
        self._store = Store(position, buffers=buffers)
        self._cells, self._coupled = sort_parameters(self._store, groups)
        self._stepper = Stepper(self._template, penalty, compile, self.seeds[0])
        if options:
            self.set(**options)

    def __len__(self) -> int:
        """How many members are there, without the removed ones."""
        return len(self.active)

    def __repr__(self) -> str:
        gone = f", {len(self.removed)} removed" if self.removed else ""
        return f"Ensemble({len(self)} members{gone}, {self.steps} steps)"

    # --- settings -------------------------------------------------------------------------

    def set(self, **options: Any) -> None:
        """Set the step or the dynamics; what is not named stays as it is.

        Raises:
            ValueError, TypeError: nothing has been changed then.
        """
        unknown = set(options) - {*OPTIONS}
        if unknown:
            raise TypeError(
                f"unknown option {sorted(unknown)[0]!r}; there are {', '.join(OPTIONS)}"
            )
        self._settle({**self._options, **options})

    def _settle(self, options: dict[str, Any]) -> None:
        """Take over all options, or raise before anything has been changed."""
        own = spread(options, len(self.seeds))
        kept = [own[i] for i in self.active]
        first, later = moves_of(kept, True), moves_of(kept, False)
        if self.steps and later.overdamped != self._later.overdamped:
            raise ValueError("a training cannot go from overdamped to underdamped, or back")
        self._options, self._first, self._later = options, first, later
        if not later.overdamped and not self._store.momentum:
            for cell in self._cells:
                self._store.momentum[cell.name] = torch.zeros_like(self._store.position[cell.name])
                slack = self._store.slack.get(cell.name)
                if slack is not None and not cell.constraint.elementwise:
                    self._store.slack_momentum[cell.name] = torch.zeros_like(slack)

    # --- training -------------------------------------------------------------------------

    def step(self, loss: Loss, inputs: Tensor, targets: Tensor) -> Tensor:
        """Make one step of every member.

        Args:
            loss: a function of one member's outputs and targets that returns a number.
            inputs: one batch a member, [members, batch, ...].
            targets: likewise.

        Returns:
            The members' losses before the step.

        Raises:
            ConvergenceError: a projection failed; nothing has been changed.
        """
        if not self._options:
            raise ValueError("give lr (and momentum) or step_size (and friction) first, see set()")
        for name, tensor in (("inputs", inputs), ("targets", targets)):
            if len(tensor) != len(self):
                raise ValueError(f"{name} has {len(tensor)} batches for {len(self)} members")
        moves = self._later if self.steps else self._first
        seeds = [self.seeds[i] for i in self.active]
        losses = self._stepper.run(
            loss,
            moves,
            self._store,
            self._frozen,
            self._cells,
            self._coupled,
            (seeds, self.steps),
            (inputs.contiguous(), targets.contiguous()),  # a kernel knows no other layout
        )
        self.steps += 1
        return losses

    def epoch(
        self,
        loss: Loss,
        inputs: Tensor,
        targets: Tensor,
        *,
        batch_size: int,
        per_member: bool = False,
    ) -> Tensor:
        """Train on all points once, each member in its own random order.

        Members whose loss is no longer finite are removed, with a warning.

        Args:
            loss: as in ``step``.
            inputs: the points [points, ...] of all members, or [members, points, ...].
            targets: likewise.
            batch_size: points in a batch; the last may be smaller.
            per_member: every member has its own data.

        Returns:
            The mean loss of every member, NaN for removed ones: [seeds].
        """
        total = torch.zeros(len(self.seeds), dtype=torch.float64)
        data = batches_of(inputs, targets, len(self.seeds), per_member)
        orders, count = data.orders([self.seeds[i] for i in self.active], self.epochs), 0
        for piece in pieces(data.points, batch_size):
            if not self.active:
                break
            found = [
                self.step(loss, *batch).detach()
                for batch in data.gather(self.active, orders, piece, batch_size)
            ]
            losses = torch.stack(found)
            total[self.active] += losses.sum(dim=0).double().cpu()
            count += len(found)
            keep = removing.remove_diverged(self, losses[-1])
            orders = orders if bool(keep.all()) else orders[keep]
        self.epochs += 1
        total /= max(count, 1)
        total[[removal.member for removal in self.removed]] = math.nan
        return total

    def fit(self, loss: Loss, inputs: Tensor, targets: Tensor, **settings: Any) -> History:
        """Train for a number of epochs; see ``colangevin.ensemble.fit`` for the arguments."""
        return fit(self, loss, inputs, targets, **settings)

    # --- results --------------------------------------------------------------------------

    def member(self, index: int) -> nn.Module:
        """A member as an ordinary module of its own.

        Args:
            index: its place in ``seeds``.

        Raises:
            IndexError: if there is no such member.
            ValueError: if it was removed.

        Example:
            >>> Ensemble(lambda: nn.Linear(1, 1), [7, 8]).member(1)
            Linear(in_features=1, out_features=1, bias=True)
        """
        if not -len(self.seeds) <= index < len(self.seeds):
            raise IndexError(f"there are {len(self.seeds)} members, got index {index}")
        index %= len(self.seeds)
        removing.refuse_removed(self.removed, index)
        row = self.active.index(index)
        module = copy.deepcopy(self._template)
        tensors = self._tensors()
        with torch.no_grad():
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                tensor.copy_(tensors[name][row])
        return module

    def _tensors(self) -> dict[str, Tensor]:
        return {**self._store.position, **self._frozen, **self._store.buffers}

    @torch.no_grad()
    def __call__(self, inputs: Tensor, *, per_member: bool = False) -> Tensor:
        """The outputs of all members in evaluation mode: [members, points, ...]."""
        return self.evaluate(lambda outputs, _: outputs, inputs, None, per_member=per_member)

    @torch.no_grad()
    def evaluate(
        self,
        function: Callable[[Any, Any], Tensor],
        inputs: Tensor,
        targets: Tensor | None,
        *,
        per_member: bool = False,
    ) -> Tensor:
        """A function of outputs and targets, such as the loss, for every member that is left.

        Example:
            >>> ensemble = Ensemble(lambda: nn.Linear(2, 1), range(3))
            >>> points = torch.zeros(5, 2)
            >>> ensemble.evaluate(lambda y, t: (y - t).square().mean(), points, points[:, :1]).shape
            torch.Size([3])
        """
        rows = torch.tensor(self.active) if per_member else None
        return evaluate(self._template, self._tensors(), function, inputs, targets, rows)

    def violation(self) -> Tensor:
        """The largest relative violation of the constraints in each member that is left."""
        return violation(self._cells, self._coupled, self._store, len(self))

    def state_tensors(self) -> list[Tensor]:
        """What is kept between steps besides the parameters."""
        kept = [self._store.momentum, self._store.slack, self._store.slack_momentum]
        tensors = [tensor for part in kept for tensor in part.values()]
        entries = [entry for part in self._coupled for entry in part.state_of.values()]
        return tensors + [tensor for entry in entries for tensor in entry.values()]

    # --- saving ---------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything that a training needs to go on exactly; loads with ``weights_only``."""
        return saving.pack(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where ``state_dict`` was taken, in an ensemble of the same seeds and rules.

        As with ``torch.optim``, the options of the state replace those that were given.

        Raises:
            ValueError: if it is of other seeds, parameters or constraints; nothing is changed.
        """
        saving.unpack(self, state)
