"""The C kernels' view of a batch: a table of its segments, one per parameter or member."""

from __future__ import annotations

import functools
import logging
from array import array
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from colangevin.constraints import Circle, Constraint, Unconstrained
from colangevin.integrators.recipe import Recipe
from colangevin.native import Table, load, reason, suits
from colangevin.optimizers.batches import MOMENTUM, SLACK, Batch, StateOf
from colangevin.optimizers.noise import Source

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

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._table: Table | None = None
        self._used: list[tuple[Tensor, str, Tensor | None]] = []
        self._places: list[int] = []
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
        if not cls.knows(batch.constraint) or load() is None:
            return None
        return cls(batch) if all(map(suits, batch.parameters)) else None

    def fits(self) -> bool:
        """Whether the parameters still lie as the kernels need it."""
        # In an ensemble the table has views of the stacked weights, which keep the old memory.
        moved = self._batch.members is not None and self._places != self._find()
        if self._table is not None and not moved and self._table.is_current():
            return True
        self._table = None
        return all(map(suits, self._batch.parameters))

    def run(
        self, state_of: StateOf, recipe: Recipe, gradients: Sequence[Tensor], source: Source
    ) -> None:
        """Make a call."""
        batch = self._batch
        if self._table is None or not self._is_current(state_of, recipe):
            self._table = self._lay_out(state_of, recipe, source)
        if recipe is not self._recipe:
            self._recipe, self._kinds = recipe, recipe.kinds
            self._numbers = self._rows(recipe)
        copies = len(source.seeds)
        steps = source.steps if copies == 1 else [n for n in source.steps for _ in source.seeds]
        self._table.run(
            self._slopes(gradients),
            self._kinds,
            self._numbers,
            steps=steps,
            draw=source.draw,
            seeds=list(source.seeds) * len(batch.parameters),
        )

    def _slopes(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        dtype = self._batch.parameters[0].dtype
        slopes = [g if g.dtype is dtype else g.to(dtype) for g in gradients]
        if self._batch.members is None:
            return slopes
        return [row for slope in slopes for row in slope.contiguous().unbind()]

    def _is_current(self, state_of: StateOf, recipe: Recipe) -> bool:
        assert self._table is not None
        wanted = MOMENTUM if recipe.momentum else None
        if self._momentum is not wanted:
            return False
        return all(state_of[p].get(key) is tensor for p, key, tensor in self._used)

    def _lay_out(self, state_of: StateOf, recipe: Recipe, source: Source) -> Table:
        batch, constraint = self._batch, self._batch.constraint
        kind = "circle" if isinstance(constraint, Circle) else "free"
        table = Table(kind, batch.parameters[0].dtype)
        self._momentum = MOMENTUM if recipe.momentum else None
        self._used, self._places = [], self._find()
        for index, parameter in enumerate(batch.parameters):
            entry = state_of[parameter]
            keys = [key for key in (self._momentum, SLACK) if key in entry]
            for key in keys:
                entry[key] = entry[key].to(parameter.dtype).contiguous()  # itself, mostly
                self._used.append((parameter, key, entry[key]))
            momentum = entry[MOMENTUM] if recipe.momentum else None
            self._add(table, index, parameter, momentum, entry.get(SLACK))
        return table

    def _find(self) -> list[int]:
        return [parameter.data_ptr() for parameter in self._batch.parameters]

    def _add(self, table: Table, index: int, position: Tensor, momentum: Any, slack: Any) -> None:
        ordinal, radius = self._batch.ordinals[index], self._radii(position)
        if self._batch.members is None:
            # The parameter itself: a detached one would not be given other memory with it.
            table.add(position, momentum, slack, ordinal=ordinal, radius=radius)
            return
        stacked = position.detach()
        for member in range(self._batch.members):
            table.add(
                stacked[member],
                None if momentum is None else momentum[member],
                None if slack is None else slack[member],
                ordinal=ordinal,
                radius=None if radius is None else radius[member],
                row=member,
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
        rows = [
            recipe.numbers(number, member) for member in range(members if recipe.differs else 1)
        ]
        if len(rows) < members:
            rows *= members
        return array("d", [value for row in rows for value in row])
