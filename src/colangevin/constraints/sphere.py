"""The sphere constraint: every row of a weight, or all of it, keeps or bounds its norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from colangevin import checks
from colangevin.constraints.base import (
    NEAR_BOUND,
    Constraint,
    Scalar,
    State,
    Vector,
    check_scale,
    like,
    match_dims,
    tame,
    tracked,
)
from colangevin.constraints.circle import (
    INITIAL,
    INSIDE,
    SLIGHT,
    check_broadcast,
    check_radius,
    first_radius,
    largest,
)
from colangevin.constraints.inflection import INFLECTION, found_radius, look
from colangevin.constraints.sums import Alone, Cut
from colangevin.constraints.unconstrained import Unconstrained
from colangevin.errors import ConstraintError


@dataclass(frozen=True, eq=False, repr=False)
class Sphere(Constraint):
    """‖w_i‖ ≤ r (max-norm, with slack ξ_i) or ‖w_i‖ = r (unit-norm) for every row i (4.3).

    A row is what remains of a weight when ``dim`` is fixed: the weights into one output for
    ``nn.Linear``, one output channel's kernel for a convolution. Geodesics are great circles.
    With ``dim=None`` the whole weight is one such row: ‖W‖ is its Frobenius norm.

    With the radius "initial" an equality holds each row at ``factor`` times its own first norm: at
    1 nothing is moved. A bound is a matter of the whole weight, as that of ``Circle``: it is
    ``factor`` times the largest first norm of a row, so a row that starts small, or at 0, may grow.
    With ``dim=None`` every weight, or block, has ``factor`` times its own first norm in both cases.
    With "inflection" it is not the first norm, but that at which the growth of ‖W‖ slows; until
    then the weight is free.

    Args:
        radius: a positive number, or a tensor of them that broadcasts to the rows, or "initial", or
            "inflection".
        equality: hold the norm exactly instead of bounding it.
        dim: the dimension that counts the rows; None for the norm of the whole weight.
        blocks: how many blocks are stacked along dimension 0, each with rows of its own. It
            divides the columns of a matrix (``dim=1``), and a vector, which is one row. Rows
            (``dim=0``) are by themselves anyway. Each block has its own bound "initial". A tensor
            as the radius may have the blocks as one more dimension in front. With ``dim=None`` the
            norm is that of each block.
        batch_dims: with ``dim=None``, how many leading dimensions count separate weights: 1 for a
            stack of matrices, each with its own norm.
        factor: of the radius "initial" or "inflection"; by default 2 for a bound "initial", else 1.
        interval: steps between two looks at the norm, with "inflection".

    Example:
        >>> sphere = Sphere(radius=2.0, equality=True)
        >>> sphere.place(torch.tensor([[3.0, 4.0]]))
        tensor([[1.2000, 1.6000]])
        >>> whole = Sphere(radius=5.0, equality=True, dim=None)
        >>> weight = torch.tensor([[0.6, 0.0], [0.0, 0.8]])
        >>> whole.from_batch(whole.place(whole.to_batch(weight)), weight.shape)
        tensor([[3., 0.],
                [0., 4.]])
    """

    radius: float | Tensor | str = 1.0
    equality: bool = False
    dim: int | None = 0
    blocks: int = field(default=1, kw_only=True)
    batch_dims: int = field(default=0, kw_only=True, repr=False)
    factor: float | None = field(default=None, kw_only=True, repr=False)
    interval: int = field(default=200, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", check_radius(self.radius, (INITIAL, INFLECTION)))
        usual = 1.0 if self.equality or self.learns else 2.0
        factor = usual if self.factor is None else checks.positive("factor", self.factor)
        object.__setattr__(self, "factor", factor)
        if isinstance(self.dim, bool) or not isinstance(self.dim, int | None):
            raise TypeError(f"dim must be an integer or None, got {self.dim!r}")
        checks.count("blocks", self.blocks)
        checks.count("interval", self.interval)
        checks.count("batch_dims", self.batch_dims, least=0)
        if self.batch_dims and self.dim is not None:
            raise ValueError(
                f"batch_dims={self.batch_dims} needs dim=None, got dim={self.dim}: the rows of a "
                "stack of matrices are by themselves anyway"
            )

    # --- layout -------------------------------------------------------------------------

    def bind(self, shapes: Sequence[torch.Size]) -> Constraint:
        for shape in shapes:
            if len(shape) < self.batch_dims:
                raise ConstraintError(
                    f"batch_dims={self.batch_dims} is more than the dimensions of {tuple(shape)}"
                )
            if self.dim is not None and not -len(shape) <= self.dim < len(shape):
                raise ConstraintError(f"dim {self.dim} is not a dimension of shape {tuple(shape)}")
            if self.equality and self._length(shape) == 1 and shape.numel() > 1:
                what = "rows" if self.dim is not None else "blocks or weights"
                raise ConstraintError(f"{what} of length 1 cannot move on a sphere: {tuple(shape)}")
            if self._divides(shape) and len(shape) > 2:
                raise ConstraintError(
                    f"blocks={self.blocks} with dim={self.dim} divides the columns of matrices, "
                    f"got shape {tuple(shape)}"
                )
            if isinstance(self.radius, Tensor):
                return self._bind_radius(self.radius, shape)
        return self

    def _bind_radius(self, radius: Tensor, shape: torch.Size) -> Constraint:
        """With one radius for each row, in the layout of the batch."""
        rows = self._rows(shape)
        if self.dim is None:
            return self._bind_whole(radius, shape, rows)
        if self.blocks == 1:
            check_broadcast(radius.shape, torch.Size([rows]))
            return self
        apart = torch.Size([self.blocks, rows // self.blocks])
        check_broadcast(radius.shape, apart)
        every = radius.expand(apart)
        return replace(self, radius=every if self._divides(shape) else every.reshape(-1))

    def _bind_whole(self, radius: Tensor, shape: torch.Size, rows: int) -> Constraint:
        """With one radius for each weight of a stack, and each block of it."""
        if radius.shape == (rows,):
            return self
        apart = torch.Size([*shape[: self.batch_dims], *([self.blocks] if self.blocks > 1 else [])])
        check_broadcast(radius.shape, apart or torch.Size([1]))
        return replace(self, radius=radius.expand(apart or (1,)).reshape(-1))

    def _divides(self, shape: torch.Size) -> bool:
        """Whether a row goes through all blocks, so that they divide it."""
        return self.dim is not None and self.blocks > 1 and self.dim % len(shape) != 0

    def _rows(self, shape: torch.Size) -> int:
        """How many rows a weight of this shape has."""
        block = self.block(shape, self.batch_dims)
        if self.dim is None:
            return self.blocks * shape[: self.batch_dims].numel()
        return self.blocks * (1 if self._is_vector(shape) else block[self.dim])

    def _length(self, shape: torch.Size) -> int:
        return shape.numel() // self._rows(shape)

    def contiguous_length(self, shape: torch.Size) -> int:
        """The length of rows that lie one after the other in the memory of a weight; else 0.

        Example:
            >>> shape = torch.Size([3, 4])
            >>> Sphere().contiguous_length(shape), Sphere(dim=1).contiguous_length(shape)
            (4, 0)
        """
        apart = self.dim is not None and not self._is_vector(shape) and self.dim % len(shape) != 0
        return 0 if apart else self._length(shape)

    @staticmethod
    def _is_vector(shape: torch.Size) -> bool:
        return len(shape) == 1

    def batch_key(self, shape: torch.Size) -> tuple[object, ...] | None:
        own: object = self.radius
        if isinstance(own, Tensor):  # one for each row, or for each row of all members
            own = own.dtype if own.dim() == 1 and own.numel() % self._rows(shape) == 0 else None
        columns = shape[1] if self._divides(shape) else None
        return None if own is None else (own, self.equality, self._length(shape), columns)

    def joined(self, owns: Sequence[Constraint]) -> Constraint:
        radii = [own.radius for own in owns if isinstance(own, Sphere)]
        found = [radius for radius in radii if isinstance(radius, Tensor)]
        return self._with(radius=torch.cat(found)) if found else self

    def to_batch(self, tensor: Tensor, batch_dims: int = 0) -> Tensor:
        """Rows × row length, a vector is one row; or blocks × columns × column length."""
        shape = tensor.shape[batch_dims:]
        if self.dim is None:
            leading = batch_dims + self.batch_dims
            if self.blocks > 1:
                tensor, leading = tensor.unflatten(leading, (self.blocks, -1)), leading + 1
            entries = tensor.flatten(leading) if tensor.dim() > leading else tensor.unsqueeze(-1)
            return entries.flatten(0, leading - 1) if leading else entries.unsqueeze(0)
        if self._is_vector(shape):
            return tensor.unflatten(batch_dims, (self.blocks, -1))
        if self._divides(shape):
            return tensor.unflatten(batch_dims, (self.blocks, -1)).mT
        dim = self.dim % len(shape) + batch_dims
        return tensor.movedim(dim, batch_dims).flatten(batch_dims + 1)

    def from_batch(self, batch: Tensor, shape: torch.Size) -> Tensor:
        if self.dim is None or self._is_vector(shape):
            return batch.reshape(shape)
        if self._divides(shape):
            return batch.mT.reshape(shape)
        dim = self.dim % len(shape)
        moved = [shape[dim], *shape[:dim], *shape[dim + 1 :]]
        return batch.reshape(moved).movedim(0, dim)

    def cut(self, shape: torch.Size, dim: int) -> Cut:
        if self.dim is None:
            if dim >= self.batch_dims and (self.blocks == 1 or dim > self.batch_dims):
                return Cut.THROUGH
            # A slack for each weight is kept along the dimension that counts them: it must be one.
            alone = dim == 0 and self.batch_dims == 1 and self.blocks == 1
            return Cut.BETWEEN if alone else Cut.NEVER
        if self.blocks > 1 and (self._divides(shape) or self._is_vector(shape)):
            return Cut.NEVER
        counts = dim == self.dim % len(shape) and not self._is_vector(shape)
        return Cut.BETWEEN if counts else Cut.THROUGH

    def part(
        self, shape: torch.Size, first: Sequence[int], size: Sequence[int], over: Alone
    ) -> Constraint:
        radius = self.radius
        if self.dim is None:
            if isinstance(radius, Tensor) and self.batch_dims == 1 and self.blocks == 1:
                radius = radius.expand(shape[0]).narrow(0, first[0], size[0])
            return self._with(radius=radius, over=over)
        dim = self.dim % len(shape)
        if isinstance(radius, Tensor) and not self._is_vector(shape):
            radius = radius.expand(shape[dim]).narrow(0, first[dim], size[dim])
        return replace(self, radius=radius, blocks=1)._with(over=over)

    def describe(self) -> dict[str, Any]:
        own: dict[str, Any] = {
            "kind": "Sphere",
            "radius": self.radius,
            "equality": self.equality,
            "dim": self.dim,
        }
        if isinstance(self.radius, str):
            own["factor"] = self.factor
        if self.learns:
            own["interval"] = self.interval
        if self.batch_dims:
            own["batch_dims"] = self.batch_dims
        return own if self.blocks == 1 else {**own, "blocks": self.blocks}

    def for_weight(self, weight: Tensor, memory: dict[str, Any]) -> Constraint:
        if not isinstance(self.radius, str):
            return self
        assert self.factor is not None
        self.bind([weight.shape])
        rows, whole = self._rows(weight.shape) // self.blocks, self.dim is None
        each = "the norm of every" if self.equality else "the largest norm of an"
        what = "the norm of the initial weight" if whole else f"{each} initial row"
        if self.learns:
            found = found_radius(memory, self._sizes(weight))
            if found is None:
                return Unconstrained()
        kept = first_radius(memory, self.factor, what, self._sizes(weight))
        if whole:
            return self._with(radius=kept.view(-1))
        radius = kept.view(self.blocks, -1).expand(self.blocks, rows)
        # One for each row also where there is one row, as the members of an ensemble need it.
        return self._with(radius=radius if self.blocks > 1 else radius[0])

    def _sizes(self, weight: Tensor) -> Callable[[], Tensor]:
        """The norms that a radius "initial" is made of."""

        def sizes() -> Tensor:
            # Exactly, so that an equality does not move the weights by rounding.
            exact = weight.detach().to("cpu", torch.float64)
            norms = self.to_batch(exact).norm(dim=-1).flatten()
            return norms if self.equality or self.dim is None else largest(norms, self.blocks)

        return sizes

    @property
    def learns(self) -> bool:
        return isinstance(self.radius, str) and self.radius == INFLECTION

    def learn(self, weight: Tensor, memory: dict[str, Any]) -> bool:
        assert self.factor is not None
        return look(memory, weight, self.factor, self._sizes(weight))

    def for_members(self, owns: Sequence[Constraint], dims: int) -> Constraint:
        spheres = [own for own in owns if isinstance(own, Sphere)]
        radii = [own.radius for own in spheres if isinstance(own.radius, Tensor)]
        if len(radii) < len(owns):
            return super().for_members(owns, dims)
        super().for_members([own._with(radius=self.radius) for own in spheres], dims)
        return self._with(radius=torch.cat(radii))

    def check_dtype(self, dtype: torch.dtype) -> None:
        assert not isinstance(self.radius, str)
        check_scale("radius", self.radius, dtype)

    # --- geometry -----------------------------------------------------------------------

    def _radius(self, reference: Tensor) -> float | Tensor:
        assert not isinstance(self.radius, str)
        return like(self.radius, reference)

    def inner(self, batch: Tensor) -> list[int]:
        return [-1]

    def extent(self, position: Tensor, dims: list[int]) -> Tensor:
        return torch.ones_like(position[..., 0]).mul_(self._radius(position)).unsqueeze(-1)

    def excess(self, position: Tensor) -> float:
        ratio = position.norm(dim=-1) / self._radius(position)
        if self.equality:
            return float((ratio - 1.0).abs().max())
        worst = float(ratio.max())
        return 0.0 if worst < 1.0 else max(worst - 1.0, torch.finfo(position.dtype).eps)

    def place(self, position: Tensor) -> Tensor:
        """Rescale each row: to the radius, or just inside it where it is out of range."""
        norm = position.norm(dim=-1)
        radius = self._radius(position)
        if not self.equality:
            edge = torch.full_like(norm, 1.0 - 4.0 * torch.finfo(norm.dtype).eps)
            inside = torch.where(norm <= radius * (1.0 + SLIGHT), edge, INSIDE) * radius / norm
            factor = torch.where(norm < radius, torch.ones_like(norm), inside)
        elif bool((norm == 0).any()):
            what = "weight" if self.dim is None else "row"
            raise ConstraintError(f"a {what} of zeros has no nearest point on the sphere")
        else:
            factor = radius / norm
        return position * factor.unsqueeze(-1)

    def lift(self, position: Tensor) -> Tensor | None:
        if self.equality:
            return None
        norm, radius = self._dot(position, None, position, None).sqrt(), self._radius(position)
        floor = torch.finfo(norm.dtype).eps * (radius * radius)
        return ((radius - norm) * (radius + norm)).clamp_min(floor).sqrt()

    def violated(self, position: Tensor) -> Tensor:
        radius = self._radius(position)
        value = position.square().sum(dim=-1) - radius * radius
        return value if self.equality else value.clamp_min(0.0)

    def residual(self, state: State) -> Tensor:
        radius = self._radius(state.position)
        return (
            self._dot(state.position, state.slack, state.position, state.slack) / (radius * radius)
            - 1.0
        )

    def at_bound(self, state: State) -> Tensor | None:
        """Rows with ‖w‖ ≥ 0.98 r, under an inequality."""
        if self.equality:
            return None
        norm = self._dot(state.position, None, state.position, None).sqrt()
        return norm >= (1.0 - NEAR_BOUND) * self._radius(norm)

    def _dot(self, x: Tensor, x_slack: Tensor | None, y: Tensor, y_slack: Tensor | None) -> Tensor:
        """x · y of each row; the slacks of a row that is cut are the same in all parts."""
        dot = self.over.sum((x * y).sum(dim=-1))
        return dot if x_slack is None or y_slack is None else dot + x_slack * y_slack

    def tangent(self, state: State, vector: Tensor, slack: Tensor | None = None) -> Vector:
        """Π v = v − q (q·v)/r² on the rows (w, ξ)."""
        dot = self._dot(state.position, state.slack, vector, slack)
        return self._without(state, vector, slack, dot)

    def _without(
        self,
        state: State,
        vector: Tensor,
        slack: Tensor | None,
        dot: Tensor,
        out: Tensor | None = None,
    ) -> Vector:
        """v − q (q·v)/r², where q·v is known; maybe written over a tensor."""
        radius = self._radius(vector)
        along = dot / (radius * radius)
        out = None if tracked(vector, along) else out
        main = torch.sub(vector, along.unsqueeze(-1) * state.position, out=out)
        if state.slack is None:
            return Vector(main)
        rest = along * state.slack
        return Vector(main, -rest if slack is None else slack - rest)

    def drift(self, state: State, step: Scalar) -> State:
        """Great circle: q cos a + hp sin a / a with a = h|p|/r, and its derivative.

        The three products w·w, w·p and p·p at the start give those at the end, so that rows which
        are cut need one message. With c = cos a, s = h sin a / a and u = s|p|²/r², w′ = cw + sp
        and p′ = cp − uw have w′·w′ = c²w·w + 2cs w·p + s²p·p and
        w′·p′ = cs p·p − cu w·w + (c² − su) w·p.
        """
        position, slack, slack_momentum = state.position, state.slack, state.slack_momentum
        assert state.momentum is not None
        momentum = tame(state.momentum)
        slack_momentum = None if slack_momentum is None else tame(slack_momentum)
        pairs = ((position, position), (position, momentum), (momentum, momentum))
        ww, wp, pp = self.over.sums(*[(x * y).sum(dim=-1) for x, y in pairs])
        radius = self._radius(momentum)
        speed = _plus_square(pp, slack_momentum).sqrt()
        step = match_dims(step, speed)
        angle = speed * step / radius
        cos, reach = torch.cos(angle), torch.sinc(angle / torch.pi) * step
        pull = reach * (speed / radius).square()
        far = cos.unsqueeze(-1) * position + reach.unsqueeze(-1) * momentum
        momentum = cos.unsqueeze(-1) * momentum - pull.unsqueeze(-1) * position
        if slack is not None and slack_momentum is not None:
            turned = cos * slack + reach * slack_momentum
            slack, slack_momentum = turned, cos * slack_momentum - pull * slack
        square = cos * cos * ww + 2.0 * cos * reach * wp + reach * reach * pp
        moved, scale = self._scaled(state, far, slack, _plus_square(square, slack))
        dot = scale * (cos * reach * pp - cos * pull * ww + (cos * cos - reach * pull) * wp)
        if moved.slack is not None and slack_momentum is not None:
            dot = dot + moved.slack * slack_momentum
        tangent = self._without(moved, momentum, slack_momentum, dot, out=state.momentum)
        return moved._replace(momentum=tangent.main, slack_momentum=tangent.slack)

    def project(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        """w and ξ over their length; a slack of less than √eps · r could not grow again."""
        position = tame(position)
        return self._scaled(state, position, slack, self._dot(position, slack, position, slack))[0]

    def _scaled(
        self, state: State, position: Tensor, slack: Tensor | None, square: Tensor
    ) -> tuple[State, Tensor]:
        """A point whose length is known, brought to the sphere in place, and the factor."""
        radius = self._radius(position)
        scale = radius * square.rsqrt()
        if slack is not None:
            slack = slack * scale
            floor = radius * math.sqrt(torch.finfo(slack.dtype).eps)
            slack = slack.abs().clamp_min(floor).copysign(slack)
        out = None if tracked(position, scale) else state.position
        position = torch.mul(position, scale.unsqueeze(-1), out=out)
        return state._replace(position=position, slack=slack), scale

    def degrees_of_freedom(self, shapes: Sequence[torch.Size]) -> int:
        total = sum(shape.numel() for shape in shapes)
        rows = sum(self._rows(shape) for shape in shapes)
        return total - rows if self.equality else total

    def cotangency(self, state: State) -> Tensor:
        momentum, slack = state.momentum, state.slack_momentum
        assert momentum is not None
        along = self._dot(state.position, state.slack, momentum, slack)
        speed = self._dot(momentum, slack, momentum, slack).sqrt()
        return along / (speed * self._radius(along)).clamp_min(torch.finfo(along.dtype).tiny)


def _plus_square(dot: Tensor, slack: Tensor | None) -> Tensor:
    return dot if slack is None else dot + slack * slack
