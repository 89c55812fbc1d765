"""From a parameter group to works: which batches move in a call, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from colangevin import checks
from colangevin.constraints import State
from colangevin.integrators.adaptive import AdaptiveDynamics
from colangevin.integrators.recipe import FAINT, Recipe, stretch
from colangevin.integrators.scheme import Action, Impulse, Move, Overdamped, has_letter
from colangevin.optimizers import thermostats
from colangevin.optimizers.option_checks import refuse_unread
from colangevin.optimizers.step import placing
from colangevin.optimizers.step.batches import Batch, StateOf
from colangevin.optimizers.step.execute import AdaptiveWork, LangevinWork, Work
from colangevin.optimizers.step.noise import DRAWS, Source

if TYPE_CHECKING:
    from colangevin.optimizers.step.layout import Layout


class Call(NamedTuple):
    """What a call of ``step()`` does, where that differs from a whole step.

    Attributes:
        share: which of how many equal stretches of the step.
        gradients: in the place of the parameters' own, with the weight decay in them.
        rates: the learning rates of the groups, in the place of their own.
        actions: in the place of the groups' own, for parameters without momentum.
        only: the groups that take part; None for all.
        counted: whether the step ends with this call.
    """

    share: tuple[int, int] = (0, 1)
    gradients: Mapping[Tensor, Tensor] | None = None
    rates: Sequence[float] | None = None
    actions: tuple[Action, ...] | None = None
    only: Sequence[int] | None = None
    counted: bool = True


WHOLE = Call()
"""A whole step with the gradients as they stand."""


class Moving(NamedTuple):
    """A batch that moves.

    Attributes:
        batch: the parameters.
        steps: how many steps each has made.
        fresh: whether this is their first call.
        start: where from, if not from the stored state.
    """

    batch: Batch
    steps: list[int]
    fresh: bool
    start: State | None = None


class GroupCall:
    """A call on one group; nothing is changed before its works are carried out.

    Args:
        call: what to do.
        index: the place of the group.
        group: its options.
        layout: its batches.
        state_of: the optimizer's state.
        strict: refuse weights that are off the manifold.

    Raises:
        ValueError, TypeError: for options or gradients that are wrong.
    """

    def __init__(
        self,
        call: Call,
        index: int,
        group: dict[str, Any],
        layout: Layout,
        state_of: StateOf,
        strict: bool,
    ) -> None:
        refuse_unread(group)
        self._call, self._group, self._layout = call, group, layout
        self._state_of, self._strict = state_of, strict
        self._lr = group["lr"] if call.rates is None else call.rates[index]
        # Gradients that were kept have the weight decay of their time in them.
        decay = group["weight_decay"] if call.gradients is None else 0.0
        self._weight_decay = checks.non_negative("weight_decay", decay)
        self._settings = layout.settings(group, self._lr)
        self._adaptive = isinstance(self._settings, AdaptiveDynamics)
        self._momentum = self._adaptive or not self._settings.is_overdamped
        self.active = self._moving() if call.only is None or index in call.only else []

    def _moving(self) -> list[int]:
        """The parameters that move: none where lr is 0."""
        given, layout = self._call.gradients, self._layout
        if given is None:
            found = layout.active()
        else:
            found = [i for i, p in enumerate(layout.parameters) if p in given and p.numel()]
            if found and layout.constraint.joint:
                found = list(range(len(layout.parameters)))
        return found if float(self._settings.lr) > FAINT else []

    def works(self) -> list[Work]:
        """What is to be done."""
        if not self.active:
            return []
        self._layout.fetch(self.active)
        moving = self._batches()
        works = [self._work(one) for one in moving]
        if not self._adaptive:
            return list(works)
        device = works[0].batch.parameters[0].device
        friction = thermostats.friction_variable(self._group, device)
        fresh = [one.fresh for one in moving]
        return [AdaptiveWork(self._settings, works, fresh, friction, self._call.share, self._group)]

    # --- batches ------------------------------------------------------------------------------

    def _batches(self) -> list[Moving]:
        written = self._layout.written(self.active)
        found = self._starts(written) if written else {}
        moving = [one for _, one in found.values()]
        elsewhere = {i for indices, _ in found.values() for i in indices}
        rest = [i for i in self.active if i not in elsewhere] if elsewhere else self.active
        for _, batch in self._layout.split(rest) if rest else []:
            moving += self._by_age(batch)
        return moving

    def _by_age(self, batch: Batch) -> list[Moving]:
        """Parameters that have never moved make a first call, which may differ."""
        steps, fresh = batch.ages(self._state_of, self._momentum)
        count = len(batch.parameters)
        if not fresh or len(fresh) == count:
            return [Moving(batch, steps, bool(fresh))]
        old = [i for i in range(count) if i not in fresh]
        return [
            Moving(batch.part(chosen), [steps[i] for i in chosen], chosen is fresh)
            for chosen in (fresh, old)
        ]

    def _starts(self, written: Sequence[int]) -> dict[int, tuple[list[int], Moving]]:
        """Where parameters that were written to start, if not from where they are."""
        found: dict[int, tuple[list[int], Moving]] = {}
        placements = []
        for indices, batch in self._layout.singles(written):
            steps, fresh = batch.ages(self._state_of, self._momentum)
            placed = placing.placement_of(batch, self._strict)
            state = batch.read(self._state_of, self._momentum)
            position = state.position if placed is None else placed.position
            slack = placing.lifted(batch, self._state_of, position)
            same = slack is None or (state.slack is not None and torch.equal(slack, state.slack))
            if placed is None and same:
                continue
            placements += [] if placed is None else [placed]
            start = state._replace(position=position, slack=slack)
            found[indices[0]] = indices, Moving(batch, steps, bool(fresh), start)
        placing.announce(self._group, placements)
        return found

    # --- works --------------------------------------------------------------------------------

    def _work(self, moving: Moving) -> LangevinWork:
        batch, call = moving.batch, self._call
        draw = self._first_draw(moving.fresh) if call.share[0] else 0
        source = Source([self._layout.seed(self._group)], moving.steps, draw)
        plain = moving.start is None and not self._adaptive
        recipe = self._recipe(moving.fresh)
        # The kernels count the indices of the noise from the beginning of what they work on.
        plain = plain and not (batch.shards and any(map(is_noisy, recipe.actions)))
        return LangevinWork(
            batch,
            recipe,
            self._gradients(batch),
            source,
            self._state_of,
            self._layout.kernel(batch) if plain else None,
            moving.start,
            call.counted,
            moving.fresh,
        )

    def _first_draw(self, fresh: bool) -> int:
        """The number of the first draw: as in the whole call, if the noise is in one stretch."""
        index, parts = self._call.share
        earlier = (action for i in range(index) for action in self._actions(fresh, i, parts))
        return index * DRAWS if any(map(is_noisy, earlier)) else 0

    def _actions(self, fresh: bool, index: int, parts: int) -> tuple[Action | Move, ...]:
        if not self._adaptive:
            return stretch(self._settings.actions(fresh), index, parts)
        scheme = self._settings.scheme
        return stretch(scheme.first if fresh else scheme.moves, index, parts)

    def _recipe(self, fresh: bool) -> Recipe:
        if self._adaptive:
            return Recipe((), True, self._weight_decay)
        if self._call.actions is not None:
            return Recipe(self._call.actions, False)
        return self._layout.recipe(self._settings, self._weight_decay, fresh, self._call.share)

    def _gradients(self, batch: Batch) -> list[Tensor]:
        """Without a gradient of its own, a parameter moves only with a joint constraint."""
        given, parameters = self._call.gradients, batch.parameters
        found = [p.grad if given is None else given.get(p) for p in batch.owners]
        if batch.shards:
            pairs = enumerate(found)
            found = [None if own is None else batch.localised(i, own) for i, own in pairs]
        return [
            torch.zeros_like(p) if own is None else own
            for own, p in zip(found, parameters, strict=True)
        ]


def is_noisy(action: Action | Move) -> bool:
    """Whether there may be noise in an action, or in a move of an adaptive thermostat."""
    if isinstance(action, (Impulse, Overdamped)):
        return action.scale is not None
    return has_letter(action, "DF")
