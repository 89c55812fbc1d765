"""Ensemble: many seeds of one network, trained as one computation."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from colangevin.ensemble import members
from colangevin.ensemble.data import Points, batches_of
from colangevin.ensemble.gradients import Found, Gradients, Loss, Penalty
from colangevin.ensemble.groups import STEP, groups_of, wanted
from colangevin.ensemble.members import OPTIONS, spread
from colangevin.ensemble.state import Removal, move, pack, select, sound, unpack
from colangevin.ensemble.train import History, MembersOptimizer, evaluate, fit
from colangevin.errors import DivergenceWarning, ProjectionWarning
from colangevin.optimizers.step.execute import execute
from colangevin.optimizers.step.kernels import wants_kernels
from colangevin.optimizers.violation import Violation

NOT_READY = "give lr (and momentum) or step_size (and friction) first, see set()"


class Ensemble:
    """N copies of a module, one per seed, trained side by side as one batched computation.

    Every member has its own initial weights, batch order and noise, and if wanted its own data
    and settings. A member follows the trajectory that it would have alone with ``CoLA`` and its
    seed, whatever the other members are.

    Either give ``rules`` and options of ``CoLA``: ``lr``, ``momentum``, ``step_size``,
    ``friction``, ``temperature`` and ``weight_decay`` may be one number, or a sequence with one
    number per member. A rule may be one constraint, or a sequence with one constraint per member.
    So a sweep is one run. Or give
    ``method``, a function that makes the optimizer of one member, with settings and thermostats by
    parameter group: ``CoLA``, a preset such as ``LOL`` or ``AdLaLa``, or ``torch.optim.SGD``.

    Args:
        factory: makes a module; the member of seed s is ``torch.manual_seed(s); factory()``. A
            factory with a parameter is given the seed.
        seeds: one per member, all different.
        rules: constraints by pattern, as in ``parameter_groups``.
        method: makes an optimizer of a member's module; its noise has the member's seed.
        penalty: a function of the member's parameters by name, added to its loss.
        compile: compile the gradients (which takes some seconds); None does so once a training
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
        method: members.Method | None = None,
        penalty: Penalty | None = None,
        compile: bool | None = None,
        **options: Any,
    ) -> None:
        self.seeds = members.check_seeds(seeds)
        if compile is not None and not isinstance(compile, bool):
            raise TypeError(f"compile must be True, False or None, got {compile!r}")
        if method is not None and (rules or options):
            raise ValueError("give method, or rules and options, not both")
        self._options = self._checked(options)
        self._ready = bool(options) or method is not None
        own = spread(self._options, len(self.seeds))
        methods = members.methods_of(rules or {}, own, self.seeds)
        methods = methods if method is None else [method] * len(methods)
        modules = [members.make(factory, seed) for seed in self.seeds]
        optimizers = list(map(members.optimizer_of, methods, modules, self.seeds))
        self._template = modules[0]
        names: list[dict[Tensor, str]]
        names = [{p: name for name, p in module.named_parameters()} for module in modules]
        self._groups = groups_of(optimizers, names)
        self._learned, self._buffers = members.stack(modules)
        trained = {name for group in self._groups for name in group.names}
        self._frozen = {n: self._learned.pop(n) for n in list(self._learned) if n not in trained}
        self.active = list(range(len(self.seeds)))
        self._own_seeds = list(self.seeds)
        self.removed: list[Removal] = []
        self.steps = self.epochs = self.fallbacks = 0
        self._native = wants_kernels(None)
        self._state = members.masters(optimizers, names, self._learned)
        self._optimizer: MembersOptimizer | None = None
        self._gradients = Gradients(self._template, penalty, compile, self.seeds[0])
        for group in self._groups:
            group.check()
        self._lay_out()

    def _lay_out(self) -> None:
        for group in self._groups:
            group.lay_out(self._learned, self._state, self._native)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy has memory of its own."""
        self.__dict__.update(state)
        if self.active:
            self._lay_out()

    def __len__(self) -> int:
        """The number of members, without the removed ones."""
        return len(self.active)

    def __repr__(self) -> str:
        gone = f", {len(self.removed)} removed" if self.removed else ""
        return f"Ensemble({len(self)} members{gone}, {self.steps} steps)"

    # --- settings -------------------------------------------------------------------------

    @staticmethod
    def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
        unknown = set(options) - {*OPTIONS}
        if unknown:
            raise TypeError(
                f"unknown option {sorted(unknown)[0]!r}; there are {', '.join(OPTIONS)}"
            )
        return dict(options)

    def set(self, **options: Any) -> None:
        """Set the step or the dynamics; what is not named stays as it is.

        With ``method`` a setting is that of every group.

        Raises:
            ValueError, TypeError: nothing has been changed then.
        """
        named = self._checked(options)
        self._settle({**self._options, **named}, named)

    def _set_alike(self, **options: float) -> None:
        """Set numbers of the step, one for all members, who had one before: only one is checked."""
        self._options = {**self._options, **self._checked(options)}
        for part in self._groups:
            (found,) = wanted([options], part.options[:1], True)
            part.set([{name: found[name] for name in STEP if name in found}] * len(part.options))

    def _settle(self, options: dict[str, Any], named: Mapping[str, Any]) -> None:
        """Take over the named options, or raise before anything has been changed."""
        each = spread(dict(named), len(self.seeds))
        own = [each[i] for i in self.active]
        before = [[dict(group) for group in part.options] for part in self._groups]
        overdamped = [part.momentum for part in self._groups]
        try:
            for part in self._groups:
                part.set(wanted(own, part.options, self._ready))
                part.check()
            if self.steps and overdamped != [part.momentum for part in self._groups]:
                raise ValueError("a training cannot go from overdamped to underdamped, or back")
        except Exception:
            for part, old in zip(self._groups, before, strict=True):
                part.set(old)
            raise
        self._options, self._ready = options, True
        for part in self._groups:
            part.attach()

    # --- training -------------------------------------------------------------------------

    def step(self, loss: Loss, inputs: Tensor, targets: Tensor, *, shared: bool = False) -> Tensor:
        """Make one step of every member.

        Args:
            loss: a function of one member's outputs and targets that returns a number.
            inputs: one batch per member, [members, batch, ...].
            targets: likewise.
            shared: all members have the same batch: inputs and targets are [batch, ...].

        Returns:
            The members' losses before the step.

        Raises:
            ConvergenceError: a projection failed; nothing has been changed.
        """
        with self._gradients.threads(inputs, len(self.active), shared):
            found = self.slopes(loss, inputs, targets, shared=shared)
            self.walk(found)
        return found.losses.detach()

    @torch.no_grad()
    def slopes(
        self,
        loss: Loss,
        inputs: Tensor,
        targets: Tensor,
        *,
        shared: bool = False,
        weights: Mapping[str, Tensor] | None = None,
    ) -> Found:
        """Losses and gradients of all members, as ``step`` needs them; nothing moves.

        Args:
            loss: as in ``step``.
            inputs: likewise.
            targets: likewise.
            shared: likewise.
            weights: where, if not at the members' own weights: stacked tensors by name.
        """
        if not self._ready:
            raise ValueError(NOT_READY)
        if self._optimizer is not None:
            self._optimizer.follow()
        count = len(self.active)
        for name, tensor in (("inputs", inputs), ("targets", targets)):
            if not shared and len(tensor) != count:
                raise ValueError(f"{name} has {len(tensor)} batches for {count} members")
        rest = {**self._frozen, **self._buffers} if self._frozen or self._buffers else {}
        batch = inputs.contiguous(), targets.contiguous()  # one memory layout is compiled
        # In the members' own order: the functions take lists.
        where = self._learned if weights is None else {n: weights[n] for n in self._learned}
        return self._gradients(loss, where, rest, *batch, self.steps, shared)

    @torch.no_grad()
    def walk(self, found: Found) -> None:
        """Make one step of every member with the gradients of ``slopes``."""
        plans = [
            plan
            for group in self._groups
            for plan in group.ready(found.gradients, self._own_seeds, self.steps)
        ]
        execute(plans)
        fallbacks = sum(group.finish().fallbacks for group in self._groups)
        for name, tensor in found.buffers.items():
            self._buffers[name].copy_(tensor)
        if any(not group.rests for group in self._groups):
            self.steps += 1
        self._note(fallbacks)
        if self._optimizer is not None:
            self._optimizer.step()

    def _note(self, fallbacks: int) -> None:
        if fallbacks and not self.fallbacks:
            warnings.warn(
                "the quasi-Newton projection did not converge for some weights and the polar "
                "factor was used; smaller steps avoid this (Ensemble.fallbacks counts it)",
                ProjectionWarning,
                stacklevel=5,
            )
        self.fallbacks += fallbacks

    def epoch(
        self,
        loss: Loss,
        inputs: Points,
        targets: Tensor | None = None,
        *,
        batch_size: int | None = None,
        per_member: bool = False,
    ) -> Tensor:
        """Train on all points once.

        With tensors or a dataset each member has its own random order. A loader has one order,
        and all members see its batches. Members whose loss or weights are no longer finite are
        removed, with a warning.

        Args:
            loss: as in ``step``.
            inputs: the points [points, ...] of all members, or [members, points, ...]; or a
                dataset; or a loader such as ``torch.utils.data.DataLoader``.
            targets: likewise; None with a dataset or a loader, which bring them.
            batch_size: points in a batch, the last may be smaller; None with a loader.
            per_member: every member has its own data.

        Returns:
            The mean loss of every member, NaN for removed ones: [seeds].
        """
        sums, count = torch.zeros(len(self.seeds), dtype=torch.float64), 0
        runs = batches_of(self, inputs, targets, batch_size, per_member)
        for batches in runs if self.active else ():
            found = [self.step(loss, *batch) for batch in batches]
            losses = torch.stack(found)
            sums[self.active] += losses.sum(dim=0).double().cpu()
            count += len(found)
            self._remove_diverged(losses[-1])
            if not self.active:
                break
        self.epochs += 1
        sums /= max(count, 1)
        sums[[removal.member for removal in self.removed]] = math.nan
        return sums

    def fit(
        self, loss: Loss, inputs: Points, targets: Tensor | None = None, **settings: Any
    ) -> History:
        """Train for a number of epochs; see ``colangevin.ensemble.fit`` for the arguments."""
        return fit(self, loss, inputs, targets, **settings)

    # --- members that go ------------------------------------------------------------------

    def _remove_diverged(self, losses: Tensor) -> None:
        """Remove members whose loss or weights are no longer finite, with a warning."""
        keep = sound(losses, self._learned.values(), self._groups)
        if bool(keep.all()):
            return
        gone = [i for i, stays in zip(self.active, keep.tolist(), strict=True) if not stays]
        self.removed += [Removal(i, self.seeds[i], self.steps) for i in gone]
        warnings.warn(
            f"{len(gone)} of {len(self.seeds)} members diverged and were removed at step "
            f"{self.steps}: seeds {[self.seeds[i] for i in gone]}; see Ensemble.removed",
            DivergenceWarning,
            stacklevel=3,
        )
        self._select([row for row, stays in enumerate(keep.tolist()) if stays])

    def _select(self, rows: Sequence[int]) -> None:
        """Keep the members in these rows; an ensemble of another optimizer has more to select."""
        select(self, rows)

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
        for removal in self.removed:
            if removal.member == index:
                raise ValueError(
                    f"member {index} (seed {removal.seed}) diverged and was removed at step "
                    f"{removal.step}"
                )
        row = self.active.index(index)
        module = copy.deepcopy(self._template)
        tensors = self._tensors()
        with torch.no_grad():
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                tensor.copy_(tensors[name][row])
        return module

    def __getitem__(self, index: int) -> nn.Module:
        """The same as ``member``."""
        return self.member(index)

    def __iter__(self) -> Iterator[nn.Module]:
        """The members that are left, each as a module of its own."""
        return (self.member(index) for index in list(self.active))

    @property
    def members(self) -> list[nn.Module]:
        """The members that are left, each as a module of its own."""
        return list(self)

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        """The parameters by name, with the members that are left in front: [members, ...].

        These are the tensors that are trained: clone what you want to keep, and write nothing.

        Example:
            >>> Ensemble(lambda: nn.Linear(2, 1), range(3)).parameters["weight"].shape
            torch.Size([3, 1, 2])
        """
        tables = {**self._learned, **self._frozen}
        return MappingProxyType({n: tables[n] for n, _ in self._template.named_parameters()})

    @property
    def device(self) -> torch.device:
        """Where the members are."""
        return next(iter((self._learned or self._frozen).values())).device

    def to(self, device: str | int | torch.device) -> Ensemble:
        """Move all members and their state to a device, and return the ensemble itself.

        Example:
            >>> Ensemble(lambda: nn.Linear(2, 1), range(3)).to("cpu").device
            device(type='cpu')
        """
        place = torch.device(device)
        if place != self.device:
            move(self, lambda tensor: tensor.to(place))
        return self

    @property
    def optimizer(self) -> MembersOptimizer:
        """What schedulers of torch take as their optimizer.

        It has one group per parameter group and member. What a scheduler writes there (``lr``,
        ``momentum``, ``temperature``, ``weight_decay``) counts from the next step on.

        Example:
            >>> ensemble = Ensemble(lambda: nn.Linear(1, 1), range(2), lr=0.1)
            >>> scheduler = torch.optim.lr_scheduler.ExponentialLR(ensemble.optimizer, 0.5)
            >>> points = torch.ones(4, 1)
            >>> for _ in range(3):
            ...     _ = ensemble.epoch(nn.functional.mse_loss, points, points, batch_size=2)
            ...     scheduler.step()
            >>> scheduler.get_last_lr()
            [0.0125, 0.0125]
        """
        if self._optimizer is None:
            if not self._ready:
                raise ValueError(NOT_READY)
            self._optimizer = MembersOptimizer(self._groups)
        return self._optimizer

    def _tensors(self) -> dict[str, Tensor]:
        return {**self._learned, **self._frozen, **self._buffers}

    def __call__(
        self, inputs: Tensor, *, per_member: bool = False, batch_size: int | None = None
    ) -> Tensor:
        """The outputs of all members in evaluation mode: [members, points, ...]."""
        return evaluate(self, lambda outputs, _: outputs, inputs, None, per_member, batch_size)

    def evaluate(
        self,
        function: Callable[[Any, Any], Tensor],
        inputs: Points,
        targets: Tensor | None = None,
        *,
        per_member: bool = False,
        batch_size: int | None = None,
    ) -> Tensor:
        """A function of outputs and targets, such as the loss, for every member that is left.

        Args:
            function: of one member's outputs and targets.
            inputs: points, a dataset, or a loader.
            targets: of a tensor of points.
            per_member: every member has its own points.
            batch_size: evaluate so many points at a time, which needs less memory. The function
                must then return a mean over the points, or one value per point.

        Example:
            >>> ensemble = Ensemble(lambda: nn.Linear(2, 1), range(3))
            >>> points = torch.zeros(5, 2)
            >>> ensemble.evaluate(lambda y, t: (y - t).square().mean(), points, points[:, :1]).shape
            torch.Size([3])
        """
        return evaluate(self, function, inputs, targets, per_member, batch_size)

    @torch.no_grad()
    def violation(self) -> list[Violation]:
        """For each group a ``Violation``, as of ``CoLA``: the worst of the members that are left.

        Its attribute ``members`` has the residual of each of them.

        Raises:
            ValueError: if a geometry's ``residual`` does not have the rows of its batch first.

        Example:
            >>> from colangevin import Circle
            >>> ensemble = Ensemble(lambda: nn.Linear(2, 1), range(3), {"weight": Circle(2.0)})
            >>> weight, bias = ensemble.violation()
            >>> weight.residual < 1e-6, len(weight.members)
            (True, 3)
        """
        return [group.violation(self._state) for group in self._groups]

    def state_tensors(self) -> list[Tensor]:
        """What is kept between steps besides the parameters."""
        return [t for entry in self._state.values() for t in entry.values() if t.dim()]

    # --- saving ---------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything that a training needs to go on exactly; loads with ``weights_only``."""
        return pack(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where ``state_dict`` was taken, in an ensemble of the same seeds and rules.

        As with ``torch.optim``, the options of the state replace those that were given.

        Raises:
            ValueError: if it is of other seeds, parameters or constraints; nothing is changed.
        """
        unpack(self, state)
