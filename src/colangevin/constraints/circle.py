"""The circle constraint: every weight stays within its radius."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from colangevin import checks
from colangevin.constraints.angles import (
    COSINE,
    NEAR,
    QUARTER,
    SINE,
    angle_of,
    hold_,
    polynomial,
    scaled_,
    wrap_,
)
from colangevin.constraints.base import (
    NEAR_BOUND,
    Constraint,
    Draw,
    Scalar,
    State,
    Vector,
    add_scaled,
    check_scale,
    like,
    rows_of,
    within,
)
from colangevin.constraints.inflection import INFLECTION, RADIUS, found_radius, look
from colangevin.constraints.sums import Alone, Cut, part_of
from colangevin.constraints.unconstrained import Unconstrained
from colangevin.errors import ConstraintError

INSIDE = 0.9
"""Where the largest weight of an out-of-range tensor is put, as a fraction of the radius.

On the boundary itself cos φ is 0, the kick G cos φ/r vanishes, and at temperature 0 the weight
would never leave.
"""
SLIGHT = 0.004
"""Up to this relative excess weights are clipped: they were rounded, as in bfloat16."""
INITIAL = "initial"
FAN_IN = "fan_in"


@dataclass(frozen=True, eq=False, repr=False)
class Circle(Constraint):
    """|θ_i| ≤ r_i for every weight, as θ² + ξ² = r² with a slack ξ (4.2).

    A point of the circle is kept as its angle φ, θ = r sin φ and ξ = r cos φ, and the momentum
    p = ω(ξ, −θ) as the angular speed ω. A is φ ← φ + ωh; B is ω ← ω − hG cos φ/r; the noise of O
    is R/r. ``State.slack`` is φ, from −π to π: θ is a function of it, so what is written to θ alone
    is lost with the next drift. No weight ever exceeds its radius. φ is never nearer to ±π/2 than
    √eps, so a weight that is pressed against its bound can leave it.

    Args:
        radius: a positive number, or a tensor of them that broadcasts to the weight, or
            "initial" for ``factor`` times the largest initial weight of each parameter, or
            "fan_in" for ``factor``/√n, n the number of inputs of an output (numel/shape[0]), or
            "inflection": a parameter is free until the growth of its norm slows, and then has
            ``factor`` times its largest weight.
        factor: of the radius "initial", 2 by default, or of the others, 1 by default.
        interval: steps between two looks at the norm, with "inflection".
        blocks: how many blocks are stacked along dimension 0. Each has its own radius "initial",
            and a block that is out of range is rescaled by itself. A tensor as the radius may have
            the blocks as one more dimension in front.

    Example:
        >>> circle = Circle(radius=0.5)
        >>> weight = circle.place(torch.tensor([0.3, -1.0]))
        >>> weight
        tensor([ 0.1350, -0.4500])
        >>> state = State(weight, torch.tensor([1.0, 1.0]), circle.lift(weight))
        >>> bool(circle.residual(circle.drift(state, 0.1)).abs().max() < 1e-6)
        True
    """

    radius: float | Tensor | str
    factor: float | None = field(default=None, repr=False)
    interval: int = field(default=200, kw_only=True, repr=False)
    blocks: int = field(default=1, kw_only=True)
    _inverse: float | Tensor = field(init=False, repr=False)
    elementwise: ClassVar[bool] = True
    derived: ClassVar[bool] = True
    _exact: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        usual = 2.0 if isinstance(self.radius, str) and self.radius == INITIAL else 1.0
        factor = usual if self.factor is None else checks.positive("factor", self.factor)
        object.__setattr__(self, "factor", factor)
        checks.count("blocks", self.blocks)
        checks.count("interval", self.interval)
        radius = check_radius(self.radius, (INITIAL, FAN_IN, INFLECTION))
        if isinstance(radius, str):
            return
        object.__setattr__(self, "radius", radius)
        # Divisions are made once, and exactly: in a kernel they cost more than the memory.
        exact = radius.double() if isinstance(radius, Tensor) else radius
        object.__setattr__(self, "_inverse", 1.0 / exact)

    # --- layout -------------------------------------------------------------------------

    def bind(self, shapes: Sequence[torch.Size]) -> Constraint:
        for shape in shapes:
            block = self.block(shape)
            if isinstance(self.radius, str) and self.radius == FAN_IN:
                return replace(self, radius=self._of_inputs(shape))
            if isinstance(self.radius, Tensor):
                every = one_below_the_other(self.radius, shape, block)
                return self if every is self.radius else replace(self, radius=every)
        return self

    def _of_inputs(self, shape: torch.Size) -> float:
        """The radius "fan_in" of a weight of this shape."""
        if len(shape) < 2 or not shape.numel():
            raise ConstraintError(
                f"radius='fan_in' needs a weight of 2 dimensions or more, which is not empty, got "
                f"shape {tuple(shape)}; give a number for others, such as biases"
            )
        assert self.factor is not None
        return self.factor / math.sqrt(shape.numel() // shape[0])

    def batch_key(self, shape: torch.Size) -> tuple[object, ...] | None:
        return (self.radius,) if isinstance(self.radius, float) else None

    def to_batch(self, tensor: Tensor, batch_dims: int = 0) -> Tensor:
        if isinstance(self.radius, Tensor):
            return tensor
        return tensor if tensor.dim() == 1 and not batch_dims else tensor.flatten(batch_dims)

    def from_batch(self, batch: Tensor, shape: torch.Size) -> Tensor:
        return batch.reshape(shape)

    def cut(self, shape: torch.Size, dim: int) -> Cut:
        return Cut.BETWEEN

    def part(
        self, shape: torch.Size, first: Sequence[int], size: Sequence[int], over: Alone
    ) -> Constraint:
        radius = self.radius
        if isinstance(radius, Tensor):
            radius = part_of(radius, shape, first, size)
        # The last bits of a part must not depend on where a weight was cut.
        return replace(self, radius=radius, blocks=1)._with(_exact=True)

    def describe(self) -> dict[str, Any]:
        # The last one tells a state dict apart that has the slack in the place of the angle.
        own: dict[str, Any] = {"kind": "Circle", "radius": self.radius, "keeps": "angle"}
        if isinstance(self.radius, str):
            own["factor"] = self.factor
        if self.learns:
            own["interval"] = self.interval
        return own if self.blocks == 1 else {**own, "blocks": self.blocks}

    def for_weight(self, weight: Tensor, memory: dict[str, Any]) -> Constraint:
        if not isinstance(self.radius, str) or self.radius == FAN_IN:
            return self  # bind knows the latter: it takes the shape alone
        assert self.factor is not None
        self.block(weight.shape)
        sizes = self._sizes(weight)
        if self.learns:
            kept = found_radius(memory, sizes)
        else:
            kept = first_radius(memory, self.factor, "the largest initial weight", sizes)
        if kept is None:
            return Unconstrained()
        if self.blocks == 1:
            return replace(self, radius=float(kept))
        return replace(self, radius=kept.view(-1, *[1] * weight.dim()))

    def _sizes(self, weight: Tensor) -> Callable[[], Tensor]:
        return lambda: largest(weight.detach().abs(), self.blocks)

    @property
    def learns(self) -> bool:
        return isinstance(self.radius, str) and self.radius == INFLECTION

    def learn(self, weight: Tensor, memory: dict[str, Any]) -> bool:
        assert self.factor is not None
        return look(memory, weight, self.factor, self._sizes(weight))

    def for_members(self, owns: Sequence[Constraint], dims: int) -> Constraint:
        radii = [own.radius for own in owns if type(own) is type(self)]
        if len(radii) < len(owns):
            raise ConstraintError("the members' constraints must be of one kind")
        if all(isinstance(radius, float) for radius in radii) and len(set(radii)) > 1:
            column = torch.tensor(radii, dtype=torch.float64).view(-1, *[1] * dims)
            return replace(self, radius=column)
        tensors = [radius for radius in radii if isinstance(radius, Tensor)]
        if self.blocks > 1 and len(tensors) == len(owns):
            return replace(self, radius=torch.stack(tensors))
        return super().for_members(owns, dims)

    def check_dtype(self, dtype: torch.dtype) -> None:
        assert not isinstance(self.radius, str)
        check_scale("radius", self.radius, dtype)

    # --- geometry -----------------------------------------------------------------------

    def _radius(self, reference: Tensor) -> float | Tensor:
        assert not isinstance(self.radius, str)
        return like(self.radius, reference)

    def bound(self, dtype: torch.dtype, device: torch.device | None = None) -> float | Tensor:
        """The largest numbers of a dtype that do not exceed the radius."""
        assert not isinstance(self.radius, str)
        if isinstance(self.radius, float):
            return _bound(self.radius, dtype)
        return below(self.radius.double(), dtype).to(device)

    def excess(self, position: Tensor) -> float:
        ratio = float((position / self._radius(position)).abs().max())
        return 0.0 if ratio < 1.0 else max(ratio - 1.0, torch.finfo(position.dtype).eps)

    def place(self, position: Tensor) -> Tensor:
        """Rescale an out-of-range tensor as a whole, so that it keeps its shape.

        Where it is out of range by rounding alone, it is clipped. Each block counts by itself.
        """
        ratio = self._ratio(position)
        edge = self._radius(position) * (1.0 - 4.0 * torch.finfo(position.dtype).eps)
        clipped = torch.where(ratio < 1.0, position, within(position, edge))
        return torch.where(ratio <= 1.0 + SLIGHT, clipped, position * (INSIDE / ratio))

    def _ratio(self, position: Tensor) -> Tensor:
        """The largest |θ|/r of a weight, or that of its block for each row."""
        ratio = (position / self._radius(position)).abs()
        if self.blocks == 1:
            return ratio.max()
        worst = ratio.reshape(self.blocks, -1).amax(dim=1)
        rows = worst.repeat_interleave(len(position) // self.blocks)
        return rows.view(-1, *[1] * (position.dim() - 1))

    def lift(self, position: Tensor) -> Tensor:
        radius = self._radius(position)
        # (r − θ)(r + θ) keeps full accuracy near the boundary, where r² − θ² cancels. On it
        # the slack is rounding's size, because a weight with none would never leave.
        floor = torch.finfo(position.dtype).eps * (radius * radius)
        slack = ((radius - position) * (radius + position)).clamp_min(floor).sqrt()
        return angle_of(position, slack)

    def lift_again(self, position: Tensor, old: Tensor) -> Tensor:
        angle = self.lift(position)
        across = torch.full_like(angle, math.pi).copysign(angle) - angle
        return torch.where(old.abs() > QUARTER, across, angle)

    def slack_of(self, state: State) -> Tensor:
        assert state.slack is not None
        return torch.cos(state.slack).mul_(self._radius(state.slack))

    def narrow(self, position: Tensor, dtype: torch.dtype) -> Tensor:
        bound = self.bound(dtype, position.device)
        rounded = position.to(dtype)
        return within(rounded, bound)

    def violated(self, position: Tensor) -> Tensor:
        radius = self._radius(position)
        return (position.square() - radius * radius).clamp_min(0.0)

    def residual(self, state: State) -> Tensor:
        """θ/r − sin φ."""
        assert state.slack is not None
        return state.position / self._radius(state.position) - torch.sin(state.slack)

    def at_bound(self, state: State) -> Tensor:
        """|θ| ≥ 0.98 r."""
        return state.position.abs() >= (1.0 - NEAR_BOUND) * self._radius(state.position)

    def tangent(self, state: State, vector: Tensor, slack: Tensor | None = None) -> Vector:
        assert state.slack is not None
        along = torch.cos(state.slack).mul_(vector)
        if slack is not None:
            along.sub_(torch.sin(state.slack).mul_(slack))
        return Vector(along.mul_(like(self._inverse, vector)))

    def impulse(
        self,
        state: State,
        gradient: Tensor | None,
        weight: Scalar,
        scale: Scalar,
        draw: Draw | None,
    ) -> Vector:
        """One normal per weight has the same law as two projected ones."""
        assert state.slack is not None
        speed = None
        if gradient is not None:
            factor = like(self._inverse, gradient) * weight
            if not (self._exact or self._blind(state.slack)):
                speed = polynomial(state.slack, COSINE, factor)
            if speed is not None:
                speed.mul_(gradient)
            else:
                speed = scaled_(torch.cos(state.slack).mul_(gradient), factor)
        if draw is not None:
            noise = draw(state.position) * (like(self._inverse, state.position) * scale)
            speed = noise if speed is None else speed.add_(noise)
        return Vector(torch.zeros_like(state.position) if speed is None else speed)

    def drift(self, state: State, step: Scalar) -> State:
        """φ ← φ + ωh, written over the tensors of ``state``."""
        assert state.slack is not None and state.momentum is not None
        add_scaled(state.slack, state.momentum, step, out=state.slack)
        return self._settle(state)

    def euler(
        self, state: State, gradient: Tensor, step: Scalar, scale: Scalar, draw: Draw | None
    ) -> tuple[Tensor, Tensor | None]:
        """That of (θ, ξ); without noise it is turned on from the angle, which is what counts."""
        if draw is not None:
            here = state._replace(slack=self.slack_of(state))
            return super().euler(here, gradient, step, scale, draw)
        assert state.slack is not None
        radius, sine, cosine = self._radius(gradient), state.slack.sin(), state.slack.cos()
        kick = gradient * -step
        along = (kick * state.position).div_(radius).add_(radius)
        across = kick.mul_(cosine)
        position = torch.addcmul(along * sine, across, cosine)
        return position, torch.addcmul(along.mul_(cosine), across, sine, value=-1.0)

    def extent(self, position: Tensor, dims: list[int]) -> Tensor:
        radii = torch.ones_like(position).mul_(self._radius(position))
        return torch.linalg.vector_norm(radii, dim=dims, keepdim=True)

    def project(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        """(4.47) with atan2 in the place of arctan, written over the tensors of ``state``."""
        assert slack is not None and state.slack is not None
        # 0 · θ is NaN where θ is not finite, whose angle would look like any other.
        state.slack.copy_(angle_of(position, slack)).add_(position, alpha=0.0)
        return self._settle(state)

    def _settle(self, state: State) -> State:
        """The weights of new angles, which are wrapped and held away from ±π/2."""
        angle, position, radius = state.slack, state.position, self._radius(state.position)
        assert angle is not None
        # Nearly always there is nothing to hold, but a GPU would have to wait for the answer.
        blind = self._blind(angle)
        series = None if blind or self._exact else polynomial(angle, SINE, radius)
        if series is not None:
            torch.mul(series, angle, out=position)
        elif not blind and float(angle.abs().amax()) <= NEAR:
            scaled_(torch.sin(angle, out=position), radius)
        else:
            bound: Any = self.bound(position.dtype, position.device)
            scaled_(torch.sin(hold_(wrap_(angle)), out=position), radius).clamp_(-bound, bound)
        return state

    def _blind(self, angle: Tensor) -> bool:
        """Whether angles cannot be looked at without waiting for a device."""
        return self.captured or not angle.is_cpu or not angle.numel()

    def ambient_momentum(self, state: State) -> Tensor:
        assert state.momentum is not None
        return state.momentum * self.slack_of(state)

    def degrees_of_freedom(self, shapes: Sequence[torch.Size]) -> int:
        return sum(shape.numel() for shape in shapes)

    def kinetic_terms(self, state: State) -> Tensor:
        assert state.momentum is not None
        return rows_of((state.momentum * self._radius(state.momentum)).square()) / 2

    def cotangency(self, state: State) -> Tensor:
        """∇gᵀp of the momentum p = ω(ξ, −θ)."""
        position, slack, speed = state.position, self.slack_of(state), state.momentum
        assert speed is not None
        size = (speed * self._radius(speed) ** 2).abs().clamp_min(torch.finfo(speed.dtype).tiny)
        return (position * (speed * slack) - slack * (speed * position)) / size


@functools.lru_cache(maxsize=256)
def _bound(radius: float, dtype: torch.dtype) -> float:
    return float(below(torch.tensor(radius, dtype=torch.float64), dtype))


def below(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """The largest numbers of a dtype that are not above some of float64.

    Example:
        >>> float(below(torch.tensor(0.1, dtype=torch.float64), torch.float32)) <= 0.1
        True
    """
    near = numbers.to(dtype)
    integer = torch.int64 if dtype == torch.float64 else torch.int32
    integer = torch.int16 if dtype in (torch.bfloat16, torch.float16) else integer
    # The bits of positive numbers are in the numbers' order, those of negative ones against it.
    signed = torch.where(near == 0.0, -near.abs(), near)
    lower = (signed.view(integer) + torch.where(signed > 0.0, -1, 1).to(integer)).view(dtype)
    return torch.where(near.double() > numbers, lower, near)


def check_radius(radius: object, words: tuple[str, ...] = (INITIAL,)) -> float | Tensor | str:
    """Return a radius: a positive number, a tensor of them, or a word, such as "initial"."""
    if isinstance(radius, str):
        return checks.choice("radius", radius, words)
    return checks.radius("radius", radius)


def largest(sizes: Tensor, blocks: int) -> Tensor:
    """The largest of sizes, or that of each block of them."""
    if sizes.numel() == 0:
        return torch.ones([] if blocks == 1 else blocks)
    found = sizes.reshape(blocks, -1).amax(dim=1)
    return found[0] if blocks == 1 else found


def first_radius(
    memory: dict[str, Any], factor: float, what: str, sizes: Callable[[], Tensor]
) -> Tensor:
    """``factor`` times sizes of the first weights, which the state of a parameter keeps.

    Args:
        memory: the state of the parameter.
        factor: of the radius "initial".
        what: the sizes, in words.
        sizes: measures them, where there are none in the memory yet.

    Raises:
        ConstraintError: if a size is 0 or not finite.
    """
    if RADIUS not in memory:
        found = sizes().to("cpu", torch.float64)
        bad = found[~((found > 0.0) & found.isfinite())]
        if bad.numel():
            raise ConstraintError(
                f"radius='initial' needs {what} to be positive and finite, got {float(bad[0])}"
            )
        memory[RADIUS] = factor * found
    kept: Tensor = memory[RADIUS]
    return kept


def one_below_the_other(
    bound: Tensor, shape: torch.Size, block: torch.Size, name: str = "radius"
) -> Tensor:
    """Bounds for a weight; they may have its blocks as one more dimension in front.

    Raises:
        ConstraintError: if they do not belong one to each entry of the weight.

    Example:
        >>> bound = torch.tensor([0.1, 0.2]).view(2, 1, 1)
        >>> one_below_the_other(bound, torch.Size([4, 3]), torch.Size([2, 3])).flatten()
        tensor([0.1000, 0.1000, 0.2000, 0.2000])
    """
    if shape == block or bound.dim() <= len(shape):
        check_broadcast(bound.shape, shape, name)
        return bound
    blocks = shape[0] // block[0]
    check_broadcast(bound.shape, torch.Size([blocks, *block]), name)
    return bound.expand(blocks, block[0], *bound.shape[2:]).flatten(0, 1)


def check_broadcast(radius: torch.Size, weight: torch.Size, name: str = "radius") -> None:
    """Refuse radii, or other bounds, that do not belong one to each entry, or row, of a weight."""
    try:
        fits = torch.broadcast_shapes(radius, weight) == weight
    except RuntimeError:
        fits = False
    if not fits:
        raise ConstraintError(
            f"{name} of shape {tuple(radius)} does not broadcast to "
            f"{tuple(weight)}, the shape of what it bounds"
        )
