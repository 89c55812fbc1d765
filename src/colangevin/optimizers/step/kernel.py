"""The C kernels' view of a batch: a table of its segments, one per parameter or member."""

from __future__ import annotations

import functools
import logging
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from colangevin.constraints import Circle, Constraint, Outcome, Unconstrained
from colangevin.integrators.recipe import Recipe
from colangevin.native import Stacks, Table, load, reason, suits
from colangevin.optimizers.step.batches import MOMENTUM, SLACK, Batch, StateOf

if TYPE_CHECKING:
    from colangevin.optimizers.step.noise import Source

LOGGER = logging.getLogger("colangevin")


@functools.cache
def _say_once(reason: str | None) -> None:
    LOGGER.warning(
        "there are no C kernels, so steps on a CPU are slower: %s (fused=False silences this)",
        reason,
    )


def wants_kernels(fused: object) -> bool:
    """Whether to use the kernels, from the argument ``fused``.

    Raises:
        TypeError: if it is not True, False or None.
        RuntimeError: if it is True and there are no kernels.

    Example:
        >>> wants_kernels(False)
        False
    """
    if fused is not None and not isinstance(fused, bool):
        raise TypeError(f"fused must be True, False or None, got {fused!r}")
    if fused is False:
        return False
    if load() is None:
        if fused:
            raise RuntimeError(f"fused=True, but there are no C kernels: {reason()}")
        _say_once(reason())
        return False
    return True


class Kernel:
    """Runs recipes on a batch by the C kernels, in the memory of parameters and state.

    Args:
        batch: one of a geometry that the kernels know.
    """

    library: ClassVar[str] = "kernels"
    """Which compiled library it is in."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._table: Table | Stacks | None = None
        self._used: list[tuple[Tensor, str, Tensor | None]] = []
        self._seeds: Sequence[int] = ()
        self._recipe: Recipe | None = None
        self._momentum: str | None = None
        self._numbers = array("d")
        self._kinds: list[int] = []

    @staticmethod
    def knows(constraint: Constraint) -> bool:
        """Whether there is a kernel for a geometry; a subclass may be another geometry."""
        return type(constraint) in (Unconstrained, Circle)

    @classmethod
    def of(cls, batch: Batch) -> Kernel | None:
        """The kernel of a batch, if there is one for its geometry and its memory."""
        if not cls.knows(batch.constraint) or not cls.takes(batch):
            return None
        return cls(batch) if load(cls.library) is not None else None

    @classmethod
    def takes(cls, batch: Batch) -> bool:
        """Whether the memory of the parameters suits."""
        return all(map(suits, batch.parameters))

    @property
    def table(self) -> Table | Stacks | None:
        """What the last call was made with."""
        return self._table

    def fits(self) -> bool:
        """Whether the parameters still lie as the kernels need it."""
        if self._table is not None and self._table.is_current():
            return True
        self._table = None
        return all(map(suits, self._batch.parameters))

    def run(
        self,
        state_of: StateOf,
        recipe: Recipe,
        gradients: Sequence[Tensor],
        source: Source,
        asked: bool = False,
    ) -> Outcome | None:
        """Make a call; what happened in its projections, if there are any.

        With ``asked`` it is known that parameters and state lie where they did.
        """
        self._call(self._current(state_of, recipe, asked), recipe, gradients, source)
        return None

    def _current(self, state_of: StateOf, recipe: Recipe, asked: bool) -> Any:
        """The table, which is made anew where state or momentum is another."""
        if self._table is None or not (asked or self._is_current(state_of, recipe)):
            self._table = self._lay_out(state_of, recipe)
        return self._table

    def retune(self, recipe: Recipe) -> None:
        """Let a table that repeats its last call do so with the numbers of another recipe."""
        if recipe is not self._recipe:
            self._recipe, self._kinds = recipe, recipe.kinds
            self._numbers = self._rows(recipe)
        if isinstance(self._table, Table):
            self._table.retune(self._kinds, self._numbers)

    def _call(self, table: Any, recipe: Recipe, gradients: Sequence[Tensor], source: Source) -> Any:
        if recipe is not self._recipe:
            self._recipe, self._kinds = recipe, recipe.kinds
            self._numbers = self._rows(recipe)
        return table.run(
            self._slopes(gradients),
            self._kinds,
            self._numbers,
            steps=self._steps(source),
            draw=source.draw,
            seeds=self._new_seeds(source),
        )

    def _slopes(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The gradients as the table wants them."""
        dtype = self._batch.parameters[0].dtype
        return [g if g.dtype is dtype else g.to(dtype) for g in gradients]

    def _steps(self, source: Source) -> Sequence[int]:
        """The counts of steps as the table wants them."""
        return source.steps

    def _new_seeds(self, source: Source) -> list[int] | None:
        """The seeds of all rows, if the table has not got them yet."""
        if source.seeds is self._seeds or source.seeds == self._seeds:
            return None
        self._seeds = source.seeds
        return list(source.seeds) * len(self._batch.parameters)

    def _is_current(self, state_of: StateOf, recipe: Recipe) -> bool:
        assert self._table is not None
        wanted = MOMENTUM if recipe.momentum else None
        if self._momentum is not wanted:
            return False
        return all(state_of[p].get(key) is tensor for p, key, tensor in self._used)

    def _new_table(self, dtype: torch.dtype) -> Table | Stacks:
        kind = "circle" if isinstance(self._batch.constraint, Circle) else "free"
        return Table(kind, dtype)

    def _lay_out(self, state_of: StateOf, recipe: Recipe) -> Table | Stacks:
        batch = self._batch
        table = self._new_table(batch.parameters[0].dtype)
        self._momentum = MOMENTUM if recipe.momentum else None
        self._used, self._seeds = [], ()
        for index, parameter in enumerate(batch.parameters):
            entry = state_of[parameter]
            keys = [key for key in (self._momentum, SLACK) if key is not None and key in entry]
            for key in keys:
                entry[key] = entry[key].to(parameter.dtype).contiguous()  # itself, mostly
                self._used.append((parameter, key, entry[key]))
            momentum = entry[MOMENTUM] if recipe.momentum else None
            self._add(table, index, parameter, momentum, entry.get(SLACK))
        return table

    def _add(self, table: Any, index: int, position: Tensor, momentum: Any, slack: Any) -> None:
        # The parameter itself: a detached one would not be given other memory with it.
        table.add(
            position,
            momentum,
            slack,
            ordinal=self._batch.ordinals[index],
            radius=self._radii(position),
            members=self._batch.members or 1,
        )

    def _radii(self, position: Tensor) -> Tensor | None:
        constraint = self._batch.constraint
        if not isinstance(constraint, Circle) or not isinstance(constraint.radius, Tensor):
            return None
        bound = constraint.bound(position.dtype)  # rounded down: the kernels hold it to the bit
        assert isinstance(bound, Tensor)
        return bound.expand(position.shape).contiguous()

    def _rows(self, recipe: Recipe) -> array[float]:
        radius = getattr(self._batch.constraint, "radius", 0.0)
        number = radius if isinstance(radius, float) else 0.0
        members = self._batch.members or 1
        if members == 1 or not recipe.differs:
            return array("d", recipe.numbers(number)) * members
        found = array("d")
        for member in range(members):
            found.extend(recipe.numbers(number, member))
        return found
