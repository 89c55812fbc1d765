"""The C kernels' view of a bucket: the memory that they work on, read when a plan is made."""

from __future__ import annotations

import functools
import logging
from array import array
from collections.abc import Callable, Collection, Sequence
from ctypes import Structure
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from colangevin.constraints import (
    Circle,
    Constraint,
    Orthogonal,
    Outcome,
    Sphere,
    State,
    Unconstrained,
)
from colangevin.constraints.base import Scalar
from colangevin.integrators.pieces import advance
from colangevin.integrators.recipe import Recipe
from colangevin.integrators.scheme import Drift, Impulse, Overdamped
from colangevin.native import (
    DONE,
    Segment,
    Stack,
    field,
    is_small,
    lay_out,
    load,
    reason,
    segment,
    signed,
    stack,
    step_elements,
    step_matrices,
    suits,
)
from colangevin.optimizers.directions import Adam, Sign
from colangevin.optimizers.step.layout import MOMENTUM, REMEMBERED, SLACK, SLACK_MOMENTUM
from colangevin.optimizers.step.noise import Noise

if TYPE_CHECKING:
    from colangevin.optimizers.step.bucket import Bucket
    from colangevin.optimizers.step.plan import Plan

KINDS: dict[type, int] = {Impulse: 1, Drift: 2, Overdamped: 3}
"""How the kernels call the actions."""
DIRECTIONS: dict[type, int] = {Adam: 1, Sign: 2}
"""How they call the directions that they know."""
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


def knows(constraint: Constraint, shape: torch.Size, in_parts: bool) -> bool:
    """Whether the kernels join parameters of a geometry; a subclass may be another geometry."""
    if type(constraint) is Sphere:
        return not in_parts and constraint.contiguous_length(shape) > 0
    return type(constraint) in (Unconstrained, Circle)


def kernel_for(bucket: Bucket) -> type[Kernel] | None:
    """The kind of kernel for the geometry of a bucket and its memory, if there is one."""
    constraint = bucket.constraint
    if not all(map(suits, bucket.parameters)):
        return None
    if all(knows(constraint, shape, bool(bucket.shards)) for shape in bucket.shapes):
        return Kernel if load("kernels") is not None else None
    if type(constraint) is not Orthogonal or bucket.shards:
        return None
    small = is_small(*constraint.matrix(bucket.shapes[0]))
    return MatrixKernel if small and load("stiefel") is not None else None


def insist_on_kernels(plans: Collection[Plan]) -> None:
    """Refuse ``fused=True`` if no parameter can use a C kernel."""
    everything = [b for plan in plans for _, b in plan.divide(range(len(plan.parameters)))]
    if not any(kernel_for(bucket) for bucket in everything):
        kinds = sorted({type(plan.constraint).__name__ for plan in plans})
        raise RuntimeError(
            f"fused=True, but no parameter has a C kernel ({', '.join(kinds)}); they are for "
            "free, circle-constrained and small orthogonal ones and for rows of spheres, in "
            "plain CPU memory of float32 or float64"
        )


class Kernel:
    """Moves free or circle-constrained weights and rows of spheres, in the memory of all of them.

    Addresses are read once: a plan has new kernels made where memory has moved.

    Args:
        bucket: what moves, with its state.
        momentum: whether there is one.
    """

    kind: ClassVar[tuple[type[Structure], Callable[..., Any]]] = (Segment, step_elements)

    def __init__(self, bucket: Bucket, momentum: bool) -> None:
        structure, self._move = self.kind
        self._bucket = bucket
        self._positions, self._addresses = list(bucket.parameters), bucket.addresses
        self._members = bucket.members or 1
        self._dtype = bucket.parameters[0].dtype
        self._recipe: Recipe | None = None
        self._coupled: Scalar | None = None
        self._decays, self._whole = False, isinstance(bucket.constraint, Sphere)
        self._kinds, self._numbers = array("q"), array("d")
        self._fixed = self._constants()
        self._direction = self._own_direction()
        self._noise: object = None
        self._seeds = array("q", bytes(8 * self._members))
        self._kept: list[Any] = []  # what structures point to must not be freed
        found: list[Structure] = []
        for index, parameter in enumerate(bucket.parameters):
            own = bucket.contiguous(index, MOMENTUM) if momentum else None
            found += self._structures(index, parameter, own)
        self._rows = lay_out(found)
        names = ("gradient", "step", "draw")
        self._gradient, self._step, self._draw = (field(structure, name) for name in names)

    def __reduce__(self) -> Any:
        raise TypeError("a kernel knows addresses of this process, so it cannot be copied")

    def _structures(self, index: int, position: Tensor, momentum: Any) -> list[Structure]:
        bucket, constraint = self._bucket, self._bucket.own(index)
        slack, geometry, length = bucket.contiguous(index, SLACK), "free", 0
        slack_momentum = None if momentum is None else bucket.contiguous(index, SLACK_MOMENTUM)
        radius = getattr(constraint, "radius", None)
        if isinstance(constraint, Circle):
            geometry, radius = "circle", constraint.bound(position.dtype)  # held to the bit
        elif isinstance(constraint, Sphere):
            geometry, length = "sphere", constraint.contiguous_length(bucket.shapes[index])
        if isinstance(radius, Tensor):
            shape = position.shape if length == 0 else (position.numel() // length,)
            radius = radius.to(position.dtype).expand(shape).contiguous()
        keeps = () if self._direction is None else self._direction.keeps
        moments = [bucket.contiguous(index, REMEMBERED + name) for name in keeps]
        self._kept += momentum, slack, slack_momentum, radius, *moments
        made = segment(
            geometry,
            position,
            momentum,
            slack,
            seeds=self._seeds,
            ordinal=bucket.ordinals[index],
            radius=radius if isinstance(radius, Tensor) else None,
            members=self._members,
            length=length,
            slack_momentum=slack_momentum,
            moments=[moment for moment in moments if moment is not None],
        )
        return [made]

    def _constants(self) -> list[float]:
        """The numbers of the geometry, and a place for what a direction sees of weight decay."""
        radius = getattr(self._bucket.constraint, "radius", 0.0)
        return [radius if isinstance(radius, float) else 0.0, 0.0]

    def _own_direction(self) -> Adam | Sign | None:
        """The direction, if the kernel knows its updates."""
        direction = self._bucket.direction
        if not isinstance(direction, Adam | Sign) or type(direction) not in DIRECTIONS:
            return None  # a subclass may be another direction
        return None if direction.relative or direction.tangent else direction

    def directs(self, recipe: Recipe) -> bool:
        """Whether it makes the updates of the direction, in one pass with the step itself."""
        return self._direction is not None and not (self._whole and self._is_late(recipe))

    def _is_late(self, recipe: Recipe) -> bool:
        """Whether what it makes of gradients would be wanted when the weights have moved."""
        return any(
            type(action) is Overdamped or (type(action) is Impulse and action.weight is not None)
            for action in recipe.actions[1:]
        )

    def run(
        self,
        recipe: Recipe,
        seeds: Sequence[int],
        steps: Sequence[int],
        draw: int,
        addressed: bool,
        coupled: Scalar | None = None,
    ) -> Outcome | None:
        """Make a step; see ``run_formulas``.

        With a ``coupled`` weight decay the kernel makes the updates of the direction, too.
        """
        rows, counts, slopes = self._rows, steps, None
        if recipe is not self._recipe or coupled is not self._coupled:
            self._recipe, self._coupled, actions = recipe, coupled, recipe.actions
            self._kinds = array("q", [KINDS[type(action)] for action in actions])
            decay = recipe.weight_decay
            # Gradients with weight decay are made here where the kernel would see other weights.
            self._decays = type(decay) is not float or decay != 0.0
            self._decays = self._decays and self._whole and self._is_late(recipe)
            # What is not there is 0.
            row: list[Any] = [0.0 if self._decays else decay, *self._fixed]
            if coupled is not None:
                row[-1] = coupled
            row += [value for action in actions for value in (*action, None, None)[:3]]
            alike = self._members == 1 or Tensor not in map(type, row)
            self._numbers = array("d", [v or 0.0 for v in row] if alike else _members_of(row))
            self._numbers *= self._members if alike else 1
        if self._noise != (seeds, draw):
            self._set_noise(seeds, draw)
        if addressed and not self._decays:
            rows[self._gradient] = self._addresses
        else:
            slopes = self._slopes()
            counts = [step for step in steps for _ in range(len(slopes) // len(steps))]
        rows[self._step] = array("q", counts)
        work = (self._dtype, rows, self._kinds, self._numbers, slopes)
        direction = () if coupled is None else self._factors(steps)
        results = self._move(*work, *direction)
        increment_version(self._positions)
        return None if results is None else self._judge(results, seeds, steps, draw)

    def _factors(self, steps: Sequence[int]) -> tuple[int, array[float]]:
        """The direction, and its numbers for each parameter."""
        own = self._direction
        assert own is not None
        found = [number for age in self._bucket.ages(steps) for number in own.numbers(age)]
        return DIRECTIONS[type(own)], array("d", found)

    def _set_noise(self, seeds: Sequence[int], draw: int) -> None:
        if len(seeds) != self._members:
            raise ValueError(f"seeds must be {self._members}, got {len(seeds)}")
        self._seeds[:] = array("q", map(signed, seeds))
        self._rows[self._draw] = array("q", [draw]) * len(self._rows[self._draw])
        self._noise = seeds, draw

    def _judge(self, results: Any, seeds: Any, steps: Any, draw: int) -> Outcome | None:
        """What happened, for kernels that tell."""
        return None

    def _slopes(self) -> list[Tensor]:
        """The gradients in the dtype of the weights."""
        found = [g if g.dtype is self._dtype else g.to(self._dtype) for g in self._bucket.slopes()]
        if self._recipe is not None and self._decays:
            weights = [position.detach() for position in self._positions]
            found = self._bucket.decayed(found, weights, self._recipe.weight_decay)
        return found


class MatrixKernel(Kernel):
    """Moves small orthogonal matrices, in the memory of weight and momentum.

    A matrix that the kernel leaves alone, because its proposal is far off or its iteration fails,
    is moved by ``advance``, as it would be without kernels.
    """

    kind = (Stack, step_matrices)

    def _structures(self, index: int, position: Tensor, momentum: Any) -> list[Structure]:
        constraint, bucket = self._bucket.constraint, self._bucket
        assert isinstance(constraint, Orthogonal)
        rows, columns = constraint.matrix(bucket.shapes[index])
        place = {"rows": rows, "columns": columns, "ordinal": bucket.ordinals[index]}
        self._kept.append(momentum)
        if bucket.members is None:
            return [stack(position, momentum, **place)]
        momenta = [None] * self._members if momentum is None else momentum
        pairs = zip(position.detach(), momenta, strict=True)
        found = [stack(own, its, **place) for own, its in pairs]
        for member, made in enumerate(found):
            made.row = member
        return list(found)

    def _own_direction(self) -> None:
        """None: updates come from the formulas."""

    def _constants(self) -> list[float]:
        constraint = self._bucket.constraint
        assert isinstance(constraint, Orthogonal)
        tolerance = constraint.tolerance_in(self._dtype)
        return [constraint.scale, tolerance, float(constraint.max_iterations)]

    def _set_noise(self, seeds: Sequence[int], draw: int) -> None:
        super()._set_noise(seeds, draw)
        self._rows[field(Stack, "seed")] = self._seeds * len(self._bucket.parameters)

    def _slopes(self) -> list[Tensor]:
        """One for each stack."""
        slopes = super()._slopes()
        if self._bucket.members is None:
            return slopes
        return [own for slope in slopes for own in slope.contiguous().unbind()]

    def _judge(
        self, results: array[int], seeds: Sequence[int], steps: Sequence[int], draw: int
    ) -> Outcome:
        outcome = Outcome(max(results[::2]))
        left = [i for i, what in enumerate(results[1::2]) if what != DONE]
        if not left:
            return outcome
        assert self._recipe is not None
        noise, slopes = Noise(self._bucket, seeds, steps, draw), super()._slopes()
        return outcome.joined(by_formulas(self._bucket, left, self._recipe, slopes, noise))


def _members_of(row: Sequence[Any]) -> list[float]:
    """The numbers of all members, one row after the other; a tensor has one for each."""
    members = next(len(value) for value in row if isinstance(value, Tensor))
    columns = [v.tolist() if isinstance(v, Tensor) else [v or 0.0] * members for v in row]
    return [number for own in zip(*columns, strict=True) for number in own]


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
    force = bucket.force(gradient, state.position, recipe.weight_decay)
    new = advance(bucket.constraint, state, force, recipe.actions, draw)
    for own, values in zip(targets, new.tensors, strict=False):
        assert values is not None
        for target, value in zip(own, values.unbind(), strict=True):
            target.copy_(value)
    return new.outcome
