"""The C kernels' view of a bucket: a table of the memory that they work on, made with the plan."""

from __future__ import annotations

import functools
import logging
from array import array
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import Circle, Constraint, Orthogonal, Outcome, State, Unconstrained
from colangevin.integrators.pieces import advance
from colangevin.integrators.recipe import Recipe, direction
from colangevin.native import DONE, Stacks, Table, is_small, load, reason, suits
from colangevin.optimizers.step.bucket import MOMENTUM, SLACK, Bucket
from colangevin.optimizers.step.noise import Noise

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


def knows(constraint: Constraint) -> bool:
    """Whether the kernels join parameters of a geometry; a subclass may be another geometry."""
    return type(constraint) in (Unconstrained, Circle)


def kernel_for(bucket: Bucket) -> type[Kernel] | None:
    """The kind of kernel for the geometry of a bucket and its memory, if there is one."""
    constraint = bucket.constraint
    if not all(map(suits, bucket.parameters)):
        return None
    if knows(constraint):
        return Kernel if load("kernels") is not None else None
    if type(constraint) is not Orthogonal or bucket.shards:
        return None
    small = is_small(*constraint.matrix(bucket.shapes[0]))
    return MatrixKernel if small and load("stiefel") is not None else None


class Kernel:
    """Moves free or circle-constrained weights, in the memory of parameters and state.

    Args:
        bucket: what moves, with its state.
        momentum: whether there is one.
    """

    def __init__(self, bucket: Bucket, momentum: bool) -> None:
        self._bucket = bucket
        self._recipe: Recipe | None = None
        self._kinds: list[int] = []
        self._numbers = array("d")
        self._noise: tuple[Sequence[int], int] | None = None
        self._table: Any = self._new_table(bucket.parameters[0].dtype)
        for index, parameter in enumerate(bucket.parameters):
            own = bucket.contiguous(index, MOMENTUM) if momentum else None
            self._add(index, parameter, own, bucket.contiguous(index, SLACK))

    def _new_table(self, dtype: torch.dtype) -> Any:
        return Table("circle" if isinstance(self._bucket.constraint, Circle) else "free", dtype)

    def _add(self, index: int, position: Tensor, momentum: Any, slack: Any) -> None:
        bucket = self._bucket
        self._table.add(
            position,
            momentum,
            slack,
            ordinal=bucket.ordinals[index],
            radius=self._radii(position),
            members=bucket.members or 1,
        )

    def _radii(self, position: Tensor) -> Tensor | None:
        constraint = self._bucket.constraint
        if not isinstance(constraint, Circle) or not isinstance(constraint.radius, Tensor):
            return None
        bound = constraint.bound(position.dtype)  # rounded down: the kernels hold it to the bit
        assert isinstance(bound, Tensor)
        return bound.expand(position.shape).contiguous()

    def _rows(self, recipe: Recipe) -> array[float]:
        """The numbers of a recipe, once for each member."""
        radius = getattr(self._bucket.constraint, "radius", 0.0)
        number = radius if isinstance(radius, float) else 0.0
        members = self._bucket.members or 1
        if members == 1 or not recipe.differs:
            return array("d", recipe.numbers(number)) * members
        found = array("d")
        for member in range(members):
            found.extend(recipe.numbers(number, member))
        return found

    def run(
        self,
        recipe: Recipe,
        seeds: Sequence[int],
        steps: Sequence[int],
        draw: int,
        addressed: bool,
    ) -> Outcome | None:
        """Make a step; see ``run_bucket``."""
        same = recipe is self._recipe
        if not same:
            self._recipe, self._kinds, self._numbers = recipe, recipe.kinds, self._rows(recipe)
        if addressed and self._noise == (seeds, draw):
            if not same:
                self._table.retune(self._kinds, self._numbers)
            self._table.repeat(self._bucket.addresses, steps)
        else:
            self._call(seeds, steps, draw, self._slopes())
        return None

    def _call(
        self, seeds: Sequence[int], steps: Sequence[int], draw: int, slopes: Sequence[Tensor]
    ) -> Any:
        known = self._noise is not None and self._noise[0] == seeds
        own = None if known else list(seeds) * len(self._bucket.parameters)
        self._noise = seeds, draw
        kinds, numbers = self._kinds, self._numbers
        return self._table.run(slopes, kinds, numbers, steps=steps, draw=draw, seeds=own)

    def _slopes(self) -> list[Tensor]:
        """The gradients in the dtype of the weights."""
        dtype = self._bucket.parameters[0].dtype
        return [g if g.dtype is dtype else g.to(dtype) for g in self._bucket.slopes()]


class MatrixKernel(Kernel):
    """Moves small orthogonal matrices, in the memory of weight and momentum.

    A matrix that the kernel leaves alone, because its proposal is far off or its iteration fails,
    is moved by ``advance``, as it would be without kernels.
    """

    def _new_table(self, dtype: torch.dtype) -> Stacks:
        return Stacks(dtype)

    def _add(self, index: int, position: Tensor, momentum: Any, slack: Any) -> None:
        constraint, bucket = self._bucket.constraint, self._bucket
        assert isinstance(constraint, Orthogonal)
        rows, columns = constraint.matrix(bucket.shapes[index])
        place = {"rows": rows, "columns": columns, "ordinal": bucket.ordinals[index]}
        if bucket.members is None:
            self._table.add(position, momentum, **place)
            return
        for member, stacked in enumerate(position.detach()):
            own = None if momentum is None else momentum[member]
            self._table.add(stacked, own, row=member, **place)

    def _rows(self, recipe: Recipe) -> array[float]:
        constraint = self._bucket.constraint
        assert isinstance(constraint, Orthogonal)
        tolerance = constraint.tolerance_in(self._bucket.parameters[0].dtype)
        fixed = [constraint.scale, tolerance, float(constraint.max_iterations)]
        found = array("d")
        for member in range(self._bucket.members or 1):
            weight_decay, _, *actions = recipe.numbers(member=member if recipe.differs else 0)
            found.extend([weight_decay, *fixed, *actions])
        return found

    def run(
        self,
        recipe: Recipe,
        seeds: Sequence[int],
        steps: Sequence[int],
        draw: int,
        addressed: bool,
    ) -> Outcome:
        if recipe is not self._recipe:
            self._recipe, self._kinds, self._numbers = recipe, recipe.kinds, self._rows(recipe)
        slopes, members = self._slopes(), self._bucket.members
        if members is None:
            result = self._call(seeds, steps, draw, slopes)
        else:
            rows = [row for slope in slopes for row in slope.contiguous().unbind()]
            result = self._call(seeds, [s for s in steps for _ in range(members)], draw, rows)
        outcome = Outcome(max(result.iterations))
        left = [i for i, what in enumerate(result.outcomes) if what != DONE]
        if not left:
            return outcome
        noise = Noise(self._bucket, seeds, steps, draw)
        return outcome.joined(by_formulas(self._bucket, left, recipe, slopes, noise))


def by_formulas(
    bucket: Bucket, chosen: Sequence[int], recipe: Recipe, slopes: Sequence[Tensor], noise: Noise
) -> Outcome | None:
    """Move some of the matrices of a bucket, counted over all of its parameters."""

    def views(tensors: Sequence[Tensor]) -> list[Tensor]:
        everything = [matrix for tensor in tensors for matrix in bucket.to_rows(tensor).unbind()]
        return [everything[i] for i in chosen]

    def draw(like: Tensor) -> Tensor:
        whole = like.new_empty(1).expand(sum(bucket.rows), *like.shape[1:])
        return noise.draw(whole)[chosen]

    targets = [views(bucket.parameters)]
    if recipe.momentum:
        momenta = [bucket.contiguous(i, MOMENTUM) for i in range(len(bucket.parameters))]
        targets.append(views([momentum for momentum in momenta if momentum is not None]))
    if bucket.members is not None:
        recipe = recipe.spread(lambda numbers: bucket.per_member_shape(numbers)[chosen])
    stacked = [torch.stack(own) for own in targets]
    state = State(stacked[0], stacked[1] if recipe.momentum else None)
    gradient = torch.stack(views(slopes)).to(state.position.dtype)
    force = direction(gradient, state.position, recipe.weight_decay)
    new = advance(bucket.constraint, state, force, recipe.actions, draw)
    for own, values in zip(targets, new.tensors, strict=False):
        assert values is not None
        for target, value in zip(own, values.unbind(), strict=True):
            target.copy_(value)
    return new.outcome
