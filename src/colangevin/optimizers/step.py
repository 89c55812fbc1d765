"""One step: batches, a recipe and noise, in one transaction.

A step is a list of works, one per batch. Everything that can fail is computed first; then
everything is written.
There are four routes for a work: a kernel in C, blocks that stay in the cache, in place, and
computed in new memory. A group with an adaptive thermostat is a work of several batches.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from colangevin.constraints import Outcome, State
from colangevin.errors import ConvergenceError
from colangevin.integrators import adaptive
from colangevin.integrators.adaptive import AdaptiveDynamics, Part
from colangevin.integrators.dynamics import advance
from colangevin.integrators.recipe import Recipe, direction
from colangevin.integrators.scheme import Move
from colangevin.integrators.stretches import stretch
from colangevin.optimizers.batches import Batch, StateOf
from colangevin.optimizers.noise import BatchNoise, Source

if TYPE_CHECKING:
    from colangevin.optimizers.kernel import Kernel

BLOCK = 7 << 14
"""Numbers in a block. Smaller ones are bound by calls; temporaries of twice this size are given
back to the system whenever they are freed, and come back page by page."""
LIMIT = 1e15
"""Numbers below it have squares that can be added without an overflow, in float32 too."""


class Work(ABC):
    """What a step does to some parameters."""

    outcome: Outcome | None = None

    def compute(self) -> None:  # noqa: B027
        """Do all that can fail; nothing is written yet."""

    @abstractmethod
    def write(self) -> None:
        """Do the rest, and write what was computed."""


def carry_out(works: Sequence[Work]) -> None:
    """Carry out all works or, if one of them fails, none.

    Raises:
        ConvergenceError: nothing has been changed.
    """
    _choose(works)
    for work in works:
        work.compute()
    for work in works:
        work.write()


@dataclass
class LangevinWork(Work):
    """A batch that moves by a recipe.

    Attributes:
        batch: what moves.
        recipe: how.
        gradients: of the batch's parameters.
        source: of the noise.
        state_of: the optimizer's state.
        kernel: the C kernel of the batch, if there is one. One of matrices is given up where
            numbers may overflow.
        start: the state to start from, if it is not the one that is stored.
        counted: whether the step ends with this work, so that the count of steps goes up.
        first: whether this is the first call of the parameters.
    """

    batch: Batch
    recipe: Recipe
    gradients: Sequence[Tensor]
    source: Source
    state_of: StateOf
    kernel: Kernel | None = None
    start: State | None = None
    counted: bool = True
    first: bool = False
    in_place: bool = field(default=False, init=False)
    _new: State | None = field(default=None, init=False)
    _seen: tuple[State, Tensor] | None = field(default=None, init=False)

    def compute(self) -> None:
        constraint = self.batch.constraint
        if self.kernel is not None or self.in_place:
            return
        if self.start is None and not constraint.fallible and constraint.elementwise:
            return  # in blocks, which cannot fail
        self._new = self._advance(in_place=False)

    def write(self) -> None:
        batch = self.batch
        if self.kernel is not None:
            self.outcome = self.kernel.run(self.state_of, self.recipe, self.gradients, self.source)
        elif self._new is not None:
            batch.write(self.state_of, self._new)
        elif self.in_place:
            self._new = self._advance(in_place=True)
            batch.write(self.state_of, self._new)
        else:
            self._run_in_blocks()
        if self._new is not None:
            self.outcome = self._new.outcome
            self._new = None
        if self.counted:
            batch.count(self.state_of)
        self.gradients, self._seen = (), None  # a work may be kept, gradients may not

    def read(self) -> tuple[State, Tensor]:
        """Where the step starts, and the gradient there."""
        found, self._seen = self._seen, None
        if found is None:
            state = self.start or self.batch.read(self.state_of, self.recipe.momentum)
            found = state, self.batch.gather(self.gradients)
        return found

    def look(self) -> tuple[State, Tensor]:
        """Read what the next ``read`` returns: nothing is gathered twice in a step."""
        self._seen = self.read()
        return self._seen

    def _advance(self, in_place: bool) -> State:
        state, gradient = self.read()
        recipe = (
            self.recipe if self.batch.members is None else self.recipe.spread(self.batch.spread)
        )
        force = direction(gradient, state.position, recipe.weight_decay)
        noise = BatchNoise(self.batch, self.source)
        try:
            return advance(
                self.batch.constraint, state, force, recipe.actions, noise.draw, in_place=in_place
            )
        except ConvergenceError as error:
            raise ConvergenceError(f"{self.batch.name}: {error}") from error

    def _run_in_blocks(self) -> None:
        """Elementwise geometries in place: no temporary is larger than a block."""
        state, gradient = self.read()
        recipe = (
            self.recipe if self.batch.members is None else self.recipe.spread(self.batch.spread)
        )
        noise = BatchNoise(self.batch, self.source)
        for first, part, slope in _blocks(self.batch, state, gradient):
            force = direction(slope, part.position, recipe.weight_decay)
            draw = noise.at(first).draw
            advance(self.batch.constraint, part, force, recipe.actions, draw, in_place=True)
        self.batch.write(self.state_of, state)


def _blocks(batch: Batch, state: State, gradient: Tensor) -> Iterator[tuple[int, State, Tensor]]:
    size = state.position.numel()
    alone = len(batch.parameters) == 1 and gradient.dim() == 1 and gradient.device.type == "cpu"
    if not alone or size <= BLOCK:
        yield 0, state, gradient
        return
    for start in range(0, size, BLOCK):
        cut = slice(start, start + BLOCK)
        yield start, state.map(lambda tensor, cut=cut: tensor[cut]), gradient[cut]  # type: ignore[misc]


def _choose(works: Sequence[Work]) -> None:
    """Let works whose numbers are small enough not to overflow be done in place.

    The bounds of all works are read together: reading a number waits for an accelerator.
    """
    asked = [
        work
        for work in works
        if isinstance(work, LangevinWork)
        and work.start is None
        and not work.batch.shards  # one process would write while another fails
        and work.batch.constraint.fallible
        and work.batch.constraint.overflows_only
    ]
    if not asked:
        return
    looks = [bound for work in asked if work.kernel is None for bound in _bounds(work)]
    numbers = iter(torch.stack(looks).tolist() if looks else ())
    for work in asked:
        if work.kernel is not None:
            found = work.kernel.largest(work.state_of, work.recipe, work.gradients)
        else:
            found = next(numbers), next(numbers), next(numbers)
        work.in_place = work.recipe.reach(*found) < LIMIT
        if not work.in_place:
            work.kernel = None  # it writes at once


def _bounds(work: LangevinWork) -> list[Tensor]:
    """The largest position, momentum and gradient; NaN where there is one."""
    state, gradient = work.look()
    tensors = [state.position, state.momentum, gradient]
    return [
        torch.zeros((), device=gradient.device, dtype=torch.float64)
        if tensor is None
        else torch.linalg.vector_norm(tensor, math.inf).double()
        for tensor in tensors
    ]


@dataclass
class AdaptiveWork(Work):
    """The batches of a group with an adaptive thermostat, which share its friction variable.

    Attributes:
        settings: the group's numbers.
        works: its batches; their recipes hold the weight decay alone.
        fresh: which of them have yet to make their first call.
        friction: ξ.
        share: which of how many equal stretches of the call.
        group: where the friction variable is kept.
    """

    settings: AdaptiveDynamics
    works: Sequence[LangevinWork]
    fresh: Sequence[bool]
    friction: Tensor
    share: tuple[int, int]
    group: MutableMapping[str, Any]
    _states: list[State] = field(default_factory=list, init=False)

    def compute(self) -> None:
        scheme, parts = self.settings.scheme, [_part(work) for work in self.works]
        if not any(self.fresh):
            parts = self._run(range(len(parts)), parts, scheme.moves)
        else:
            old = [i for i, fresh in enumerate(self.fresh) if not fresh]
            if old:
                parts = self._run(old, parts, scheme.waiting)
            parts = self._run(range(len(parts)), parts, scheme.first)
        self._states = [part.state for part in parts]

    def _run(self, chosen: Sequence[int], parts: list[Part], moves: Sequence[Move]) -> list[Part]:
        batches = [self.works[i].batch for i in chosen]
        freedom = degrees_of_freedom(batches)
        walked = stretch(moves, *self.share)
        try:
            moved, self.friction = adaptive.advance(
                self.settings, [parts[i] for i in chosen], self.friction, freedom, walked
            )
        except ConvergenceError as error:
            names = "; ".join(batch.name for batch in batches)
            raise ConvergenceError(f"{names}: {error}") from error
        found = dict(zip(chosen, moved, strict=True))
        return [found.get(i, part) for i, part in enumerate(parts)]

    def write(self) -> None:
        self.group["friction"] = self.friction
        for work, state in zip(self.works, self._states, strict=True):
            work.batch.write(work.state_of, state)
            if work.counted:
                work.batch.count(work.state_of)
            if state.outcome is not None:
                self.outcome = state.outcome.joined(self.outcome)


def _part(work: LangevinWork) -> Part:
    state, gradient = work.read()
    batch = work.batch
    decay = work.recipe.weight_decay
    if isinstance(decay, Tensor):
        decay = batch.spread(decay)
    force = direction(gradient, state.position, decay)
    draw = BatchNoise(batch, work.source).draw
    if batch.members is None:
        return Part(batch.constraint, state, force, draw, total=batch.per_member)
    return Part(batch.constraint, state, force, draw, batch.spread, batch.per_member)


def degrees_of_freedom(batches: Sequence[Batch]) -> int:
    """N: the numbers of one member that are free to move, less the constraints."""
    return sum(batch.constraint.degrees_of_freedom(batch.whole_shapes) for batch in batches)
