"""One step: batches, a recipe and noise, in one transaction.

A step is a list of works, one per batch, each done in place. What those that can fail write over is
kept until all are done, and put back if one fails.
There are three routes for a work: a kernel in C, blocks that stay in the cache, and the whole
batch. A group with an adaptive thermostat is a work of several batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from colangevin.constraints import Outcome, State
from colangevin.constraints.base import overwrite
from colangevin.errors import ConvergenceError
from colangevin.integrators import adaptive
from colangevin.integrators.adaptive import AdaptiveDynamics, Part
from colangevin.integrators.pieces import advance
from colangevin.integrators.recipe import Recipe, direction, stretch
from colangevin.integrators.scheme import Move
from colangevin.optimizers.step.batches import Batch, StateOf
from colangevin.optimizers.step.noise import BatchNoise, Source

if TYPE_CHECKING:
    from colangevin.optimizers.step.kernel import Kernel

BLOCK = 7 << 14
"""Numbers in a block. Smaller ones are bound by calls; temporaries of twice this size are given
back to the system whenever they are freed, and come back page by page."""


class Work(ABC):
    """What a step does to some parameters."""

    outcome: Outcome | None = None

    @property
    @abstractmethod
    def fallible(self) -> bool:
        """Whether it can fail."""

    @abstractmethod
    def run(self) -> None:
        """Do it, in place."""

    @abstractmethod
    def snapshot(self) -> Callable[[], None]:
        """Keep what is written over; returns what puts it back."""

    @abstractmethod
    def count(self) -> None:
        """Count the step, if it ends with this work."""


def carry_out(works: Sequence[Work]) -> None:
    """Carry out all works or, if one that can fail does so or is interrupted, none.

    Those that cannot fail come last. An interrupt between two of them leaves some undone.

    Raises:
        ConvergenceError: everything is as it was before.
    """
    fallible: list[Work] = []
    safe: list[Work] = []
    for work in works:
        (fallible if work.fallible else safe).append(work)
    kept = [work.snapshot() for work in fallible]
    try:
        for work in fallible:
            work.run()
    except BaseException:
        for put_back in kept:
            put_back()
        raise
    for work in fallible:
        work.count()
    for work in safe:
        work.run()
        work.count()


@dataclass
class LangevinWork(Work):
    """A batch that moves by a recipe.

    Attributes:
        batch: what moves.
        recipe: how.
        gradients: of the batch's parameters.
        source: of the noise.
        state_of: the optimizer's state.
        kernel: the C kernel of the batch, if there is one.
        start: the state to start from, if it is not the one that is stored.
        counted: whether the step ends with this work, so that the count of steps goes up.
        first: whether this is the first call of the parameters.
        asked: whether somebody has just made sure that parameters and state lie where they did.
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
    asked: bool = False

    @property
    def fallible(self) -> bool:
        return self.batch.constraint.fallible

    def run(self) -> None:
        constraint = self.batch.constraint
        try:
            if self.kernel is not None:
                self.outcome = self.kernel.run(
                    self.state_of, self.recipe, self.gradients, self.source, self.asked
                )
            elif self.start is None and constraint.elementwise and not constraint.fallible:
                self._run_in_blocks()
            else:
                self._run_whole()
        except ConvergenceError as error:
            raise ConvergenceError(f"{self.batch.name}: {error}") from error
        self.gradients = ()  # a work may be kept, gradients may not

    def count(self) -> None:
        if self.counted:
            self.batch.count(self.state_of)

    def snapshot(self) -> Callable[[], None]:
        return self.batch.snapshot(self.state_of)

    def read(self) -> tuple[State, Tensor]:
        """Where the step starts, and the gradient there."""
        state = self.start or self.batch.read(self.state_of, self.recipe.momentum, self.asked)
        return state, self.batch.gather(self.gradients)

    def _run_whole(self) -> None:
        state, gradient = self.read()
        recipe = (
            self.recipe if self.batch.members is None else self.recipe.spread(self.batch.spread)
        )
        force = direction(gradient, state.position, recipe.weight_decay)
        noise = BatchNoise(self.batch, self.source)
        new = advance(self.batch.constraint, state, force, recipe.actions, noise.draw)
        self.batch.write(self.state_of, new)
        self.outcome = new.outcome

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
            new = advance(self.batch.constraint, part, force, recipe.actions, draw)
            overwrite(part, new)
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

    @property
    def fallible(self) -> bool:
        return any(work.fallible for work in self.works)

    def snapshot(self) -> Callable[[], None]:
        kept = [work.snapshot() for work in self.works]
        friction = self.group["friction"]

        def put_back() -> None:
            self.group["friction"] = friction
            for restore in kept:
                restore()

        return put_back

    def run(self) -> None:
        states = self._moved()
        self.group["friction"] = self.friction
        for work, state in zip(self.works, states, strict=True):
            work.batch.write(work.state_of, state)
            if state.outcome is not None:
                self.outcome = state.outcome.joined(self.outcome)

    def count(self) -> None:
        for work in self.works:
            work.count()

    def _moved(self) -> list[State]:
        scheme, parts = self.settings.scheme, [_part(work) for work in self.works]
        if not any(self.fresh):
            parts = self._walk(range(len(parts)), parts, scheme.moves)
        else:
            old = [i for i, fresh in enumerate(self.fresh) if not fresh]
            if old:
                parts = self._walk(old, parts, scheme.waiting)
            parts = self._walk(range(len(parts)), parts, scheme.first)
        return [part.state for part in parts]

    def _walk(self, chosen: Sequence[int], parts: list[Part], moves: Sequence[Move]) -> list[Part]:
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
