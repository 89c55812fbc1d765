"""A step like the last one: while nothing has changed, its works serve again.

Most steps of a training differ in nothing but the gradients and, with a scheduler, some numbers. So
what a step needs is worked out once, and looked at in one pass over the parameters. Options that
have changed are read anew and give the works other numbers. Whatever else has changed (a parameter,
its memory, its state, who has a gradient, the kind of step) leads back to ``GroupCall``.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from colangevin import checks
from colangevin.integrators.recipe import FAINT, Recipe
from colangevin.native import PLAIN, Table
from colangevin.optimizers.options import NUMBERS, dynamics
from colangevin.optimizers.step.batches import STEP, WRITTEN, StateOf
from colangevin.optimizers.step.execute import LangevinWork, Work
from colangevin.optimizers.step.noise import Source

if TYPE_CHECKING:
    from colangevin.optimizers.step.layout import Layout

read_numbers = operator.itemgetter(*NUMBERS)
UNREAD = (*NUMBERS, "params", "constraint", "fallbacks", "iterations")
"""What is read elsewhere. All other entries of a group must be as they were: one that means nothing
to a step, such as a flag of SGD, may have been set by a user who thinks that it does."""


class Watched(NamedTuple):
    """A parameter with the memory and the state that works were made for.

    Attributes:
        parameter: itself.
        dtype: of it and of its gradient.
        place: address and strides.
        size: how many numbers it has.
        entry: its state.
        kept: the tensors of its state that move: name, tensor and address.
        slot: where a kernel reads the address of its gradient: table and row.
    """

    parameter: Tensor
    dtype: torch.dtype
    place: tuple[int, tuple[int, ...]]
    size: int
    entry: dict[str, Any]
    kept: tuple[tuple[str, Tensor, int], ...]
    slot: tuple[array[int], int]


class Repeat:
    """The works of a group's last step, if all of its parameters moved as whole batches.

    Args:
        group: the group's options.
        layout: its batches.
        works: of the step.
        state_of: the optimizer's state.
    """

    def __init__(
        self,
        group: dict[str, Any],
        layout: Layout,
        works: Sequence[LangevinWork],
        state_of: StateOf,
    ) -> None:
        self.layout = layout
        self._works = [(work, work.kernel) for work in works]
        found = [None if kernel is None else kernel.table for _, kernel in self._works]
        self._tables = [table for table in found if isinstance(table, Table)]
        self.by_kernels = len(self._tables) == len(works)
        self.counts = [work.batch.counts for work in works]
        self._recipe, self._size = works[0].recipe, len(group)
        self._read = operator.itemgetter(*(name for name in group if name not in UNREAD))
        self._options, self._numbers = self._read(group), plain(read_numbers(group))
        self._slopes = [array("q", bytes(8 * len(work.batch.parameters))) for work in works]
        slots = {
            own: (table, row)
            for work, table in zip(works, self._slopes, strict=True)
            for row, own in enumerate(work.batch.parameters)
        }
        self._watched = [_watched(own, state_of[own], slots[own]) for own in layout.parameters]
        self.addressed = False
        """Whether the kernels can read all gradients where they lie, since ``holds`` was asked."""
        self.active = list(range(len(self._watched)))

    @classmethod
    def of(
        cls, group: dict[str, Any], layout: Layout, works: Sequence[Work], state_of: StateOf
    ) -> Repeat | None:
        """What can be repeated of a step; None if it had anything out of the ordinary."""
        found = []
        if layout.sharded:
            return None
        for work in works:
            if not isinstance(work, LangevinWork) or work.batch.passing or work.start is not None:
                return None
            if not work.counted or work.first:
                return None
            found.append(work)
        moved = sum(len(work.batch.parameters) for work in found)
        if moved < len(layout.parameters):
            return None
        return cls(group, layout, found, state_of) if found else None

    def run(self) -> None:
        """Do the step by kernels, which cannot fail; ``counts`` are to go up by one."""
        for (work, _), table, slopes in zip(self._works, self._tables, self._slopes, strict=True):
            table.repeat(slopes, work.batch.steps())
        self.layout.mark(self.active)

    def holds(self, group: dict[str, Any], state_of: StateOf) -> bool:
        """Whether nothing but gradients and numbers has changed; the works have the new numbers.

        Raises:
            ValueError, TypeError: for an option that is wrong.
        """
        layout, parameters = self.layout, group["params"]
        if group["constraint"] is not layout.constraint or len(parameters) != len(self._watched):
            return False
        if len(group) != self._size:
            return False
        try:
            if self._read(group) != self._options:
                return False
            same = read_numbers(group) == self._numbers
        except (KeyError, RuntimeError, ValueError):  # one is missing, or an array or a tensor
            return False
        if not same and not self._follow(group):
            return False
        self.addressed = addressed = self.by_kernels
        for parameter, watched in zip(parameters, self._watched, strict=True):
            own, dtype, place, size, entry, kept, (table, row) = watched
            slope = own.grad
            if parameter is not own or slope is None or state_of.get(own) is not entry:
                return False
            if own.dtype is not dtype or slope.dtype is not dtype:
                return False
            if (own.data_ptr(), own.stride()) != place or slope.layout is not torch.strided:
                return False
            for key, tensor, pointer in kept:
                if entry.get(key) is not tensor or tensor.data_ptr() != pointer:
                    return False
            if addressed:
                table[row] = slope.data_ptr()
                plain = type(slope) in PLAIN and slope.is_cpu and slope.numel() == size
                addressed = plain and slope.is_contiguous() and not slope.is_neg()
        self.addressed = addressed
        return not layout.written(self.active)

    def _follow(self, group: dict[str, Any]) -> bool:
        """Take over the group's numbers; False if another kind of step is meant."""
        settings = dynamics(group)
        if settings.is_overdamped == self._recipe.momentum or settings.lr <= FAINT:
            return False
        decay = checks.non_negative("weight_decay", group["weight_decay"])
        self._recipe = Recipe.of(settings, decay, first=False)
        self._numbers = plain(read_numbers(group))
        for work, kernel in self._works:
            work.recipe = self._recipe
            if kernel is not None:
                kernel.retune(self._recipe)
        return True

    def works(self) -> list[LangevinWork]:
        """The works with the gradients as they are now, if it ``holds``."""
        for work, _ in self._works:
            work.outcome, work.asked = None, True
            work.gradients = [parameter.grad for parameter in work.batch.parameters]  # type: ignore[misc]
            work.source = Source(work.source.seeds, work.batch.steps())
        return [work for work, _ in self._works]


def plain(numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors, which may be changed in place, as the numbers that they are now."""
    if not any(isinstance(number, Tensor) for number in numbers):
        return numbers
    return tuple(v.tolist() if isinstance(v, Tensor) else v for v in numbers)


def _watched(own: Tensor, entry: dict[str, Any], slot: tuple[array[int], int]) -> Watched:
    names = [key for key in (STEP, *WRITTEN) if key in entry]
    kept = tuple((key, entry[key], entry[key].data_ptr()) for key in names)
    place = own.data_ptr(), own.stride()
    return Watched(own, own.dtype, place, own.numel(), entry, kept, slot)
