"""What a geometry must offer, and the state that it acts on."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import torch
from torch import Tensor

from colangevin.constraints.sums import ALONE, Alone, Cut
from colangevin.errors import ConstraintError

Draw: TypeAlias = Callable[[Tensor], Tensor]
"""Draws standard normals of the shape, dtype and device of the tensor it is given."""

NEAR_BOUND = 0.02
"""What is nearer to its bound than this part of its radius counts as ``at_bound``."""

Scalar: TypeAlias = "float | Tensor"
"""A number, or a tensor that broadcasts (an ensemble's members may differ)."""


class Outcome(NamedTuple):
    """What happened in projections.

    Attributes:
        iterations: of the projection that needed most of them.
        fallbacks: how many projections used another method because their iteration failed.

    Example:
        >>> Outcome(3, 0).joined(Outcome(2, 1))
        Outcome(iterations=3, fallbacks=1)
    """

    iterations: int = 0
    fallbacks: int = 0

    def joined(self, other: Outcome | None) -> Outcome:
        """The outcome of both."""
        if other is None:
            return self
        return Outcome(max(self.iterations, other.iterations), self.fallbacks + other.fallbacks)


class State(NamedTuple):
    """A point of the cotangent bundle: q = (position, slack), p = (momentum, slack momentum).

    ``outcome`` is what happened in the projections that led to this state, if there were any.

    Example:
        >>> State(torch.zeros(2), momentum=torch.ones(2)).momentum
        tensor([1., 1.])
    """

    position: Tensor
    momentum: Tensor | None = None
    slack: Tensor | None = None
    slack_momentum: Tensor | None = None
    outcome: Outcome | None = None

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """All but the outcome."""
        return self[:4]

    def map(self, function: Callable[[Tensor], Tensor]) -> State:
        """The state with a function applied to each of its tensors.

        Example:
            >>> State(torch.ones(1)).map(torch.neg).position
            tensor([-1.])
        """
        made: list[Any] = [None if t is None else function(t) for t in self.tensors]
        return State._make([*made, self.outcome])


class Vector(NamedTuple):
    """A tangent vector in the coordinates in which a geometry keeps its momentum."""

    main: Tensor
    slack: Tensor | None = None


def within(tensor: Tensor, bound: float | Tensor) -> Tensor:
    """Clip from −bound to bound."""
    limit: Any = bound
    return tensor.clamp(-limit, limit)


def like(value: float | Tensor, reference: Tensor) -> float | Tensor:
    """Bring a tensor-valued constant to the device and dtype of ``reference``."""
    if isinstance(value, Tensor):
        return value.to(device=reference.device, dtype=reference.dtype)
    return value


def flat(tensor: Tensor) -> Tensor:
    """All entries in one dimension; what has no other is left as it is."""
    return tensor if tensor.dim() == 1 else tensor.reshape(-1)


def rows_of(tensor: Tensor) -> Tensor:
    """Sums over all but the first dimension."""
    return tensor if tensor.dim() <= 1 else tensor.flatten(1).sum(dim=1)


def match_dims(factor: Scalar, tensor: Tensor) -> Scalar:
    """A factor of the members for a tensor with fewer dimensions than the batch has: a slack.

    Example:
        >>> match_dims(torch.ones(4, 1), torch.zeros(4)).shape
        torch.Size([4])
    """
    if isinstance(factor, Tensor) and factor.dim() > tensor.dim():
        return factor.reshape(factor.shape[: tensor.dim()])
    return factor


def tracked(*tensors: Tensor) -> bool:
    """Whether autograd follows what is made of these tensors, so that it needs new memory."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def inverse(step: Scalar) -> Scalar:
    """1/h; 0 where h is 0 in a tensor, as after the end of a schedule: nothing moves then.

    Example:
        >>> inverse(torch.tensor(0.0)), inverse(0.5)
        (tensor(0.), 2.0)
    """
    if not isinstance(step, Tensor):
        return 1.0 / step
    return torch.where(step == 0.0, 0.0, 1.0 / step)


def add_scaled(x: Tensor, y: Tensor, factor: Scalar, out: Tensor | None = None) -> Tensor:
    """x + factor · y, in one pass over memory where the factor is a plain number.

    Args:
        x: the first term.
        y: the second one.
        factor: of the second one.
        out: where to write the sum, unless autograd follows it.

    Example:
        >>> add_scaled(torch.ones(2), torch.ones(2), 0.5)
        tensor([1.5000, 1.5000])
    """
    if out is not None and tracked(x, y):
        out = None
    if isinstance(factor, Tensor):
        total = x + y * match_dims(factor, y)
        return total if out is None else out.copy_(total)
    # Not given at all where there is none: vmap knows no out.
    return torch.add(x, y, alpha=factor, **({} if out is None else {"out": out}))


def overwrite(old: State, new: State) -> State:
    """Write a new state into the tensors of an old one, where it has any."""
    kept: list[Any] = []
    for target, value in zip(old.tensors, new.tensors, strict=True):
        if target is not None and value is not None and target is not value:
            value = target.copy_(value)
        kept.append(value)
    return State._make([*kept, new.outcome])


def same_values(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two descriptions agree; a tensor cannot be compared by ``==``."""

    def same(a: object, b: object) -> bool:
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return a.shape == b.shape and torch.equal(a.cpu(), b.cpu().to(a.dtype))
        return type(a) is type(b) and a == b

    return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)


def tolerance_for(dtype: torch.dtype) -> float:
    """The accuracy to which a constraint is held: 1e-6 in float32, 1e-12 in float64."""
    return 1e-12 if dtype == torch.float64 else 1e-6


def tame(tensor: Tensor) -> Tensor:
    """Cut off numbers whose squares would leave the dtype's range; a NaN stays."""
    limit = 1e150 if tensor.dtype == torch.float64 else 1e15
    return tensor.clamp(-limit, limit)


def check_scale(name: str, value: float | Tensor, dtype: torch.dtype) -> None:
    """Refuse a length whose square a dtype cannot hold.

    Raises:
        ConstraintError: naming the length.
    """
    power = 150 if dtype == torch.float64 else 18
    low, high = 10.0**-power, 10.0**power
    values = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
    bad = ~((values >= low) & (values <= high))
    if bool(bad.any()):
        raise ConstraintError(
            f"{name} must lie between {low:g} and {high:g} for weights of {dtype}, "
            f"got {float(values[bad].flatten()[0]):g}"
        )


class Constraint(ABC):
    """A geometry: functions on batches of tensors; it knows nothing of optimizers.

    All are pure but ``drift`` and ``project``, which may write over the state that they are given.

    A *batch* is what ``to_batch`` makes of a parameter: a tensor whose leading dimensions
    count independent copies of the manifold. Batches with equal ``batch_key`` may be
    concatenated along their first dimension, so many parameters cost one call. What is one
    number or more per copy (residual, slack, kinetic terms) has the copies first, too.

    Example:
        >>> import colangevin as cl
        >>> isinstance(cl.Circle(0.5), cl.Constraint), isinstance(cl.Orthogonal(), cl.Constraint)
        (True, True)
    """

    fallible: ClassVar[bool] = False
    """Whether a projection can fail: a step then keeps what it writes over, to put it back."""
    elementwise: ClassVar[bool] = False
    """Whether every entry is a manifold of its own."""
    derived: ClassVar[bool] = False
    """Whether weights are a function of their slack: what is written to them alone is lost."""
    double_safe: ClassVar[bool] = True
    """Whether ``residual`` may be asked in float64 whatever the parameter's dtype is."""
    quotient: ClassVar[bool] = False
    """Whether momenta are kept modulo the normal space.

    A drift that projects along the normals at its start, Q' = Q + hP − QΛ, absorbs a normal
    part of P in Λ. Then Π needs no work of its own: ``close`` applies it where a cotangent
    momentum is wanted.
    """
    capturable: ClassVar[bool] = True
    """Whether a step does without numbers from the device where ``captured`` asks for it."""
    captured: bool = False
    """Whether a step must not read numbers from the device, because a graph captures it."""
    walls: ClassVar[bool] = False
    """Whether ``slide`` and ``land`` are others than ``drift`` and ``project``."""
    joint: bool = False
    """Whether one constraint couples several parameters."""
    interval: int = 0
    """Steps between two looks at a weight, for a geometry that learns."""
    blocks: int = 1
    """How many blocks, one below the other, a weight consists of; each is constrained by itself."""

    over: Alone = ALONE
    """What adds up over the parts of a weight that is cut through copies of the manifold."""

    def __repr__(self) -> str:
        """The fields of a dataclass; blocks only where there are several."""
        own: Any = self
        if not is_dataclass(own):
            return object.__repr__(self)
        names = [field.name for field in fields(own) if field.repr]
        shown = [name for name in names if name != "blocks" or self.blocks > 1]
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in shown)})"

    # --- layout -------------------------------------------------------------------------

    def bind(self, shapes: Sequence[torch.Size]) -> Constraint:
        """Return the geometry for parameters of these shapes (several only if ``joint``).

        Raises:
            ConstraintError: if the constraint cannot hold for such a parameter.
        """
        return self

    def block(self, shape: torch.Size, dim: int = 0) -> torch.Size:
        """The shape of one of the ``blocks`` of a weight of this shape.

        Args:
            shape: of the weight.
            dim: the dimension along which the blocks are stacked.

        Raises:
            ConstraintError: if the weight cannot be divided.
        """
        if self.blocks == 1:
            return shape
        if len(shape) <= dim or shape[dim] % self.blocks:
            raise ConstraintError(
                f"blocks={self.blocks} must divide the number of rows, got shape {tuple(shape)}"
            )
        return torch.Size([*shape[:dim], shape[dim] // self.blocks, *shape[dim + 1 :]])

    @abstractmethod
    def batch_key(self, shape: torch.Size) -> tuple[object, ...] | None:
        """Parameters with equal keys may share a batch; None means on its own."""

    def joined(self, owns: Sequence[Constraint]) -> Constraint:
        """The geometry of the batches of parameters with equal keys, one after the other.

        Args:
            owns: the geometry of each parameter, of which this is the first.
        """
        return self

    @abstractmethod
    def to_batch(self, tensor: Tensor, batch_dims: int = 0) -> Tensor:
        """Lay a parameter out as a batch; its first ``batch_dims`` dimensions are copies.

        The result is [copies, ...] with two dimensions or more, or of any shape if ``elementwise``.
        A stack of k weights, with ``batch_dims=1``, becomes [k · copies, ...] or [k, copies, ...]:
        the batches of the weights, one after the other.
        """

    @abstractmethod
    def from_batch(self, batch: Tensor, shape: torch.Size) -> Tensor:
        """Undo ``to_batch`` for a parameter of this shape."""

    def for_weight(self, weight: Tensor, memory: dict[str, Any]) -> Constraint:
        """The geometry of one parameter, where that depends on its first weights.

        Args:
            weight: the parameter.
            memory: the optimizer's state of this parameter. A tensor of numbers under the key
                "radius" is saved with it; it has the same shape whatever the weights are.
        """
        return self

    @property
    def learns(self) -> bool:
        """Whether ``learn`` is to be asked after every ``interval`` steps of a weight."""
        return False

    def learn(self, weight: Tensor, memory: dict[str, Any]) -> bool:
        """Look at a weight; whether ``for_weight`` has another geometry for it from now on."""
        return False

    def check_dtype(self, dtype: torch.dtype) -> None:  # noqa: B027
        """Refuse a dtype that cannot hold the constraint.

        Raises:
            ConstraintError: naming what is out of range.
        """

    def for_members(self, owns: Sequence[Constraint], dims: int) -> Constraint:
        """The geometry of the stacked weights of an ensemble, [members, ...].

        Args:
            owns: the geometry of each member, of which this is the first.
            dims: dimensions of one member's weight.

        Raises:
            ConstraintError: if it cannot differ between members, and does.
        """
        mine = self.describe()
        if any(own is not self and not same_values(own.describe(), mine) for own in owns):
            raise ConstraintError(f"{type(self).__name__} cannot differ between members")
        return self

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Plain values that identify the constraint, for a state dict."""

    # --- parts ---------------------------------------------------------------------------

    def cut(self, shape: torch.Size, dim: int) -> Cut:
        """What it means that a weight of this shape is cut along a dimension."""
        return Cut.NEVER

    def part(
        self, shape: torch.Size, first: Sequence[int], size: Sequence[int], over: Alone
    ) -> Constraint:
        """The geometry of a part of a weight, which is cut along dimensions that allow it.

        Args:
            shape: of the whole weight, which this geometry is bound to.
            first: where the part begins, in each dimension.
            size: how far it reaches.
            over: adds up over the parts, where copies are cut through.
        """
        return self._with(over=over)

    def _with(self, **values: object) -> Constraint:
        """A copy with other values of what is no field."""
        made = copy.copy(self)
        for name, value in values.items():
            object.__setattr__(made, name, value)
        return made

    def on(self, device: torch.device) -> Constraint:
        """The same with its tensors on a device, where a step would wait for each of them.

        Those in float64 cannot go to a device that has none.
        """
        if device.type in ("cpu", "mps"):
            return self
        return self._with(**{n: v.to(device) for n, v in vars(self).items() if type(v) is Tensor})

    # --- geometry -----------------------------------------------------------------------

    @abstractmethod
    def excess(self, position: Tensor) -> float:
        """How far off the manifold a tensor without slack is, relative to its scale."""

    @abstractmethod
    def place(self, position: Tensor) -> Tensor:
        """Put a tensor on the manifold, or inside the open set of an inequality."""

    def lift(self, position: Tensor) -> Tensor | None:
        """The slack that belongs to a feasible position (None for equalities).

        It has the shape of the batch if ``elementwise``, else the copies come first. A geometry may
        keep another coordinate in its place, from which ``slack_of`` makes it.
        """
        return None

    def lift_again(self, position: Tensor, old: Tensor) -> Tensor | None:
        """``lift`` for a position that was changed: on the side, ξ < 0 or not, of its old slack."""
        slack = self.lift(position)
        return None if slack is None else torch.copysign(slack, old)

    def slack_of(self, state: State) -> Tensor | None:
        """ξ of a state: its slack, unless a geometry keeps another coordinate in its place."""
        return state.slack

    def narrow(self, position: Tensor, dtype: torch.dtype) -> Tensor:
        """Positions in the lower precision of a parameter."""
        return position.to(dtype)

    @abstractmethod
    def residual(self, state: State) -> Tensor:
        """g(q), relative to its scale: one number or more per copy, [copies, ...]."""

    def violated(self, position: Tensor) -> Tensor:
        """g(θ) of a batch for an equality, max(g(θ), 0) for an inequality, without a scale.

        A soft penalty sums its squares: min over ξ of (g + ξ²)² is max(g, 0)². A geometry
        without this method has no soft form.
        """
        raise TypeError(f"{type(self).__name__} has no soft form: it does not define violated()")

    @abstractmethod
    def tangent(self, state: State, vector: Tensor, slack: Tensor | None = None) -> Vector:
        """Π applied to an ambient vector, in momentum coordinates."""

    def impulse(
        self,
        state: State,
        gradient: Tensor | None,
        weight: Scalar,
        scale: Scalar,
        draw: Draw | None,
    ) -> Vector:
        """Π(weight · gradient + scale · R), R standard normal; either part may be None.

        Π is linear and the momentum is tangent already, so the kick of B and the noise of
        O share one projection.
        """
        slack = None
        vector = gradient
        if gradient is not None and (isinstance(weight, Tensor) or weight != 1.0):
            vector = gradient * weight
        if draw is not None:
            noise = draw(state.position)
            vector = noise * scale if vector is None else add_scaled(vector, noise, scale)
            slack = (
                None if state.slack is None else draw(state.slack) * match_dims(scale, state.slack)
            )
        if vector is None:
            vector = torch.zeros_like(state.position)
        return self.tangent(state, vector, slack)

    def close(self, state: State) -> State:
        """The same state with its momentum in the cotangent space."""
        if not self.quotient or state.momentum is None:
            return state
        momentum = self.tangent(state, state.momentum, state.slack_momentum)
        # The position's rounding leaves a share of a large normal part: twice is enough.
        momentum = self.tangent(state, *momentum)
        return state._replace(momentum=momentum.main, slack_momentum=momentum.slack)

    def ambient_momentum(self, state: State) -> Tensor:
        """The momentum as a vector in the space of the weight, without the slack's part."""
        momentum = self.close(state).momentum
        assert momentum is not None
        return momentum

    @abstractmethod
    def drift(self, state: State, step: Scalar) -> State:
        """A: move along the geodesic for the time ``step``.

        It may write over the tensors of ``state``: the new state is what it returns, the old one
        is lost unless the caller has kept a copy, ``state.map(torch.clone)``.
        """

    def slide(self, state: State, step: Scalar) -> State:
        """A at temperature 0, where a wall stops what runs into it: ``drift`` where there is none.

        A reflected weight would come back to a wall that the loss presses it against, for ever.
        """
        return self.drift(state, step)

    def velocity(self, state: State) -> Tensor:
        """How fast the weight moves, without the slack's part: the momentum, if masses are 1."""
        return self.ambient_momentum(state)

    def euler(
        self, state: State, gradient: Tensor, step: Scalar, scale: Scalar, draw: Draw | None
    ) -> tuple[Tensor, Tensor | None]:
        """The Euler–Maruyama proposal q − step · G + scale · R: its position and its slack."""
        position, slack = add_scaled(state.position, gradient, -step), state.slack
        if draw is not None:
            position = add_scaled(position, draw(position), scale)
            slack = None if slack is None else add_scaled(slack, draw(slack), scale)
        return position, slack

    def inner(self, batch: Tensor) -> list[int]:
        """The dimensions of one copy in a batch; all of them where every entry is one."""
        return list(range(0 if self.elementwise else 1, batch.dim()))

    def extent(self, position: Tensor, dims: list[int]) -> Tensor:
        """How long relative updates are for lr = 1: the radius, or the norm of a free weight.

        Args:
            position: a batch.
            dims: what belongs to one update.
        """
        return torch.linalg.vector_norm(position, dim=dims, keepdim=True)

    @abstractmethod
    def project(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        """Bring an Euler–Maruyama proposal back to the manifold.

        It may write over the tensors of ``state``, as ``drift``, and over the proposal.
        """

    def land(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        """``project`` at temperature 0, where a wall stops what runs into it."""
        return self.project(state, position, slack)

    def at_bound(self, state: State) -> Tensor | None:
        """Which weights, rows or singular values are at their bound; None if there is no bound."""
        return None

    @abstractmethod
    def degrees_of_freedom(self, shapes: Sequence[torch.Size]) -> int:
        """Dimension of the manifold for parameters of these shapes."""

    def kinetic_terms(self, state: State) -> Tensor:
        """½|p|² of each copy of the manifold, counted by the first dimension of the position."""
        state = self.close(state)
        assert state.momentum is not None
        square = self.over.sum(rows_of(state.momentum.square()))
        if state.slack_momentum is not None:
            square = square + rows_of(state.slack_momentum.square())
        return square / 2

    def kinetic_energy(self, state: State) -> Tensor:
        """½|p|² summed over everything."""
        return self.kinetic_terms(state).sum()

    def sample_momentum(self, state: State, temperature: float, draw: Draw) -> State:
        """Draw a tangent momentum from the Maxwell–Boltzmann law at ``temperature``."""
        momentum = self.impulse(state, None, 0.0, temperature**0.5, draw)
        return self.close(state._replace(momentum=momentum.main, slack_momentum=momentum.slack))

    @abstractmethod
    def cotangency(self, state: State) -> Tensor:
        """|∇gᵀp| relative to |∇g||p| for the momentum as it stands in ``state``."""
