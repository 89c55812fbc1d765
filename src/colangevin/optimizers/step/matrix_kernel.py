"""The C kernels' view of a batch of small orthogonal matrices: one stack per parameter or member.

A matrix that the kernel leaves alone, because its proposal is far off or its iteration fails, is
moved by ``advance``, as it would be without kernels.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from colangevin.constraints import Constraint, Orthogonal, Outcome, State
from colangevin.integrators.pieces import advance
from colangevin.integrators.recipe import Recipe, direction
from colangevin.native import DONE, Stacks, is_small, suits
from colangevin.optimizers.step.batches import MOMENTUM, Batch, StateOf
from colangevin.optimizers.step.kernel import Kernel
from colangevin.optimizers.step.noise import BatchNoise, Source


class MatrixKernel(Kernel):
    """Runs recipes on small orthogonal matrices, in the memory of weight and momentum."""

    library: ClassVar[str] = "stiefel"
    _places: Sequence[int] = ()

    @staticmethod
    def knows(constraint: Constraint) -> bool:
        return type(constraint) is Orthogonal

    @classmethod
    def takes(cls, batch: Batch) -> bool:
        constraint = batch.constraint
        assert isinstance(constraint, Orthogonal)
        if batch.shards:
            return False
        return is_small(*constraint.matrix(batch.shapes[0])) and all(map(suits, batch.parameters))

    def run(
        self,
        state_of: StateOf,
        recipe: Recipe,
        gradients: Sequence[Tensor],
        source: Source,
        asked: bool = False,
    ) -> Outcome:
        result = self._call(self._current(state_of, recipe, asked), recipe, gradients, source)
        outcome = Outcome(max(result.iterations))
        left = [i for i, what in enumerate(result.outcomes) if what != DONE]
        if not left:
            return outcome
        rest = _Rest(self._batch, left, state_of, recipe, gradients, source)
        return outcome.joined(rest.advance())

    def _new_table(self, dtype: torch.dtype) -> Stacks:
        return Stacks(dtype)

    def _add(self, table: Any, index: int, position: Tensor, momentum: Any, slack: Any) -> None:
        constraint, batch = self._batch.constraint, self._batch
        assert isinstance(constraint, Orthogonal)
        rows, columns = constraint.matrix(batch.shapes[index])
        place = {"rows": rows, "columns": columns, "ordinal": batch.ordinals[index]}
        if batch.members is None:
            table.add(position, momentum, **place)
            return
        stacked = position.detach()
        for member in range(batch.members):
            own = None if momentum is None else momentum[member]
            table.add(stacked[member], own, row=member, **place)

    def _slopes(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        slopes = super()._slopes(gradients)
        if self._batch.members is None:
            return slopes
        return [row for slope in slopes for row in slope.contiguous().unbind()]

    def _steps(self, source: Source) -> Sequence[int]:
        return [steps for steps in source.steps for _ in range(self._batch.members or 1)]

    def fits(self) -> bool:
        # The table has views of stacked weights, which would keep an old memory.
        places = [parameter.data_ptr() for parameter in self._batch.parameters]
        if places != self._places:
            self._table, self._places = None, places
        return super().fits()

    def _rows(self, recipe: Recipe) -> array[float]:
        constraint = self._batch.constraint
        assert isinstance(constraint, Orthogonal)
        tolerance = constraint.tolerance_in(self._batch.parameters[0].dtype)
        fixed = [constraint.scale, tolerance, float(constraint.max_iterations)]
        found = array("d")
        for member in range(self._batch.members or 1):
            weight_decay, _, *actions = recipe.numbers(member=member if recipe.differs else 0)
            found.extend([weight_decay, *fixed, *actions])
        return found


class _Rest:
    """Some of the matrices of a batch, by the formulas.

    Args:
        batch: all of them.
        chosen: which ones, counted over the batch.
        state_of: the optimizer's state.
        recipe: of all.
        gradients: of the batch's parameters.
        source: of the noise of all.
    """

    def __init__(
        self,
        batch: Batch,
        chosen: Sequence[int],
        state_of: StateOf,
        recipe: Recipe,
        gradients: Sequence[Tensor],
        source: Source,
    ) -> None:
        self._batch, self._chosen = batch, list(chosen)
        self._noise = BatchNoise(batch, source)
        self._positions = self._views(batch.parameters)
        self._momenta: list[Tensor] | None = None
        if recipe.momentum:
            self._momenta = self._views([state_of[p][MOMENTUM] for p in batch.parameters])
        self._gradients = self._views(gradients)
        self._recipe = recipe
        if batch.members is not None:
            self._recipe = recipe.spread(lambda numbers: batch.spread(numbers)[self._chosen])

    def _views(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The matrices as they lie in tensors of the parameters' shapes."""
        everything = [matrix for tensor in tensors for matrix in self._batch.lay(tensor).unbind()]
        return [everything[i] for i in self._chosen]

    def advance(self) -> Outcome | None:
        """Move them, and write them back."""
        position = torch.stack(self._positions)
        momentum = None if self._momenta is None else torch.stack(self._momenta)
        gradient = torch.stack(self._gradients).to(position.dtype)
        recipe = self._recipe
        force = direction(gradient, position, recipe.weight_decay)
        state = State(position, momentum)
        new = advance(self._batch.constraint, state, force, recipe.actions, self._draw)
        self._write(self._positions, new.position)
        if self._momenta is not None:
            assert new.momentum is not None
            self._write(self._momenta, new.momentum)
        return new.outcome

    @staticmethod
    def _write(targets: Sequence[Tensor], values: Tensor) -> None:
        for target, value in zip(targets, values.unbind(), strict=True):
            target.copy_(value)

    def _draw(self, like: Tensor) -> Tensor:
        """The noise of the whole batch, of which this is a part."""
        whole = like.new_empty(1).expand(sum(self._batch.rows), *like.shape[1:])
        return self._noise.draw(whole)[self._chosen]
