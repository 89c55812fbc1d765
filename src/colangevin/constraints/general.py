"""Any constraint that a user can write in torch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from colangevin import checks
from colangevin.constraints import general_solver as solver
from colangevin.constraints.base import Constraint, Outcome, Scalar, State, Vector, tolerance_for
from colangevin.constraints.general_solver import System, arity, check_arity
from colangevin.errors import ConstraintError, ConvergenceError

MARGIN = 0.1
"""How far inside an inequality an infeasible tensor is put, relative to the scale of g."""


@dataclass(frozen=True, eq=False, repr=False)
class General(Constraint):
    """g(q) = 0, or g(q) ≤ 0 with slack ξ as g(q) + ξ² = 0, for a function g written in torch.

    The Jacobian comes from ``torch.func``, the multipliers from Newton's method on the m × m
    system, A from RATTLE. The Jacobian must have full rank, so every independent equation
    must be returned once (the upper triangle of a symmetric matrix equation, not all of it).

    Args:
        g: takes one parameter and returns a tensor of m ≤ n numbers. If it takes several
            arguments, it couples the parameters of its group, in their order.
        inequality: read g as g ≤ 0.
        projection: of the overdamped step: "oblique" along the old normals (4.41) or
            "orthogonal" to the nearest point (4.42), which is more robust.
        batch_dims: how many leading dimensions of the parameter count independent copies,
            each with its own g: 1 constrains every row, solved as one batched system.
        blocks: how many blocks are stacked along the first dimension after those, each with its
            own g.
        tolerance: largest |g| relative to its scale; the default is the dtype's rounding.
        max_iterations: limit of Newton's method.

    Example:
        >>> ellipse = General(lambda w: (w * torch.tensor([1.0, 2.0])).square().sum() - 1.0)
        >>> ellipse.bind([torch.Size([2])]).place(torch.tensor([[2.0, 0.0]]))
        tensor([[1., 0.]])
    """

    g: Callable[..., Tensor]
    inequality: bool = False
    projection: str = "oblique"
    batch_dims: int = 0
    tolerance: float | None = None
    max_iterations: int = 50
    shapes: tuple[torch.Size, ...] = ()
    blocks: int = field(default=1, kw_only=True)
    fallible: ClassVar[bool] = True
    quotient: ClassVar[bool] = True
    capturable: ClassVar[bool] = False
    double_safe: ClassVar[bool] = False  # constants inside g have a dtype of their own

    def __post_init__(self) -> None:
        if not callable(self.g):
            raise TypeError(f"g must be a function, got {self.g!r}")
        checks.choice("projection", self.projection, ("oblique", "orthogonal"))
        checks.count("max_iterations", self.max_iterations)
        if self.tolerance is not None:
            checks.positive("tolerance", self.tolerance)
        checks.count("batch_dims", self.batch_dims, least=0)
        checks.count("blocks", self.blocks)
        object.__setattr__(self, "joint", arity(self.g) > 1)

    # --- layout -------------------------------------------------------------------------

    def bind(self, shapes: Sequence[torch.Size]) -> Constraint:
        check_arity(self.g, len(shapes))
        for shape in shapes:
            if len(shape) < self.batch_dims:
                raise ConstraintError(
                    f"batch_dims={self.batch_dims} exceeds the dimensions of shape {tuple(shape)}"
                )
        if len({shape[: self.batch_dims] for shape in shapes}) > 1:
            raise ConstraintError(
                f"the first batch_dims={self.batch_dims} dimensions of the parameters of one g "
                f"must agree, got shapes {', '.join(str(tuple(shape)) for shape in shapes)}"
            )
        return replace(self, shapes=tuple(self._copy(shape) for shape in shapes))

    def _copy(self, shape: torch.Size) -> torch.Size:
        """The shape of what g takes."""
        return self.block(shape, self.batch_dims)[self.batch_dims :]

    def _copies(self, shape: torch.Size) -> int:
        return self.blocks * shape[: self.batch_dims].numel()

    def batch_key(self, shape: torch.Size) -> tuple[object, ...] | None:
        return None if self.joint else (id(self.g), self._copy(shape))

    def to_batch(self, tensor: Tensor, batch_dims: int = 0) -> Tensor:
        leading = batch_dims + self.batch_dims
        return tensor.reshape(self.blocks * tensor.shape[:leading].numel(), -1)

    def from_batch(self, batch: Tensor, shape: torch.Size) -> Tensor:
        return batch.reshape(shape)

    def describe(self) -> dict[str, Any]:
        own = {
            "kind": "General",
            "inequality": self.inequality,
            "projection": self.projection,
            "batch_dims": self.batch_dims,
        }
        return own if self.blocks == 1 else {**own, "blocks": self.blocks}

    @functools.cached_property
    def system(self) -> System:
        """The equations for parameters of the bound shapes."""
        return System(self.g, self.inequality, self.shapes)

    # --- geometry -----------------------------------------------------------------------

    def check(self, position: Tensor) -> None:
        """Refuse a g that does not return m ≤ n finite numbers with a Jacobian of full rank.

        Raises:
            ConstraintError: naming what is wrong.
        """
        value = self.g(*self.system.parts(position[0]))
        if not isinstance(value, Tensor) or not value.is_floating_point():
            raise ConstraintError(f"g must return a floating-point tensor, got {value!r}")
        if value.dtype != position.dtype:
            raise ConstraintError(
                f"g must return numbers of the weight's dtype {position.dtype}, got {value.dtype}; "
                "give constants inside g the dtype of its argument"
            )
        size = position.shape[1]
        if value.numel() == 0 or (value.numel() > size and not self.inequality):
            raise ConstraintError(
                f"g must return between 1 and {size} numbers for {size} weights, "
                f"got shape {tuple(value.shape)}"
            )
        if not bool(self.system.values(position).isfinite().all()):
            raise ConstraintError("g is not finite at the weight")

    def _check_rank(self, point: Tensor) -> None:
        jacobian = self.system.equations(point)[1]
        rank = int(torch.linalg.matrix_rank(jacobian).min())
        if rank < jacobian.shape[1]:
            raise ConstraintError(
                f"the Jacobian of g has rank {rank} for {jacobian.shape[1]} equations; "
                "return every independent equation once (of a symmetric matrix, the upper "
                "triangle)"
            )

    def excess(self, position: Tensor) -> float:
        self.check(position)
        value, jacobian = self.system.linearise(position)
        relative = value / solver.scale_of(jacobian, position)
        if not self.inequality:
            self._check_rank(position)
            return float(relative.abs().max())
        worst = float(relative.max())
        if worst < 0.0:
            self._check_rank(self.system.join(position, self.lift(position)))
        return 0.0 if worst < 0.0 else max(worst, torch.finfo(position.dtype).eps)

    def place(self, position: Tensor) -> Tensor:
        self.check(position)
        try:
            placed = self._enter(position) if self.inequality else self._nearest(position)
        except ConvergenceError as error:
            raise ConstraintError(f"no point of the constraint found: {error}") from error
        self._check_rank(self.system.join(placed, self.lift(placed)))
        return placed

    def _nearest(self, position: Tensor) -> Tensor:
        if self.excess(position) <= tolerance_for(position.dtype) / 10:
            return position
        limits = (self.tolerance, 4 * self.max_iterations)
        try:
            return solver.orthogonal(self.system.linearise, position, *limits)[0]
        except ConvergenceError:
            return solver.least_norm(self.system.linearise, position, *limits)

    def _enter(self, position: Tensor) -> Tensor:
        """Least-norm Newton steps on the violated inequalities, to just inside."""
        for _ in range(4 * self.max_iterations):
            value, jacobian = self.system.linearise(position)
            if bool((value < 0).all()):
                return position
            margin = MARGIN * solver.scale_of(jacobian, position)
            # Inequalities that hold already are left out: there the weights are free to move.
            violated = (value >= 0).to(value.dtype)
            target = ((value + margin) * violated).unsqueeze(-1)
            inverse = torch.linalg.pinv(jacobian * violated.unsqueeze(-1))
            position = position - (inverse @ target).squeeze(-1)
        raise ConvergenceError("the inequality g ≤ 0 could not be reached from the weight")

    def lift(self, position: Tensor) -> Tensor | None:
        return (-self.system.values(position)).clamp_min(0.0).sqrt() if self.inequality else None

    def violated(self, position: Tensor) -> Tensor:
        value = self.system.values(position)
        return value.clamp_min(0.0) if self.inequality else value

    def residual(self, state: State) -> Tensor:
        point = self.system.join(state.position, state.slack)
        value, jacobian = self.system.equations(point)
        return value / solver.scale_of(jacobian, point)

    def tangent(self, state: State, vector: Tensor, slack: Tensor | None = None) -> Vector:
        """Π v = v − Jᵀ(JJᵀ)⁻¹Jv (4.43), with the tangential projector named Π."""
        jacobian = self.system.equations(self.system.join(state.position, state.slack))[1]
        if self.inequality and slack is None:
            assert state.slack is not None
            slack = torch.zeros_like(state.slack)
        return Vector(
            *self.system.split(self._remove_normal(jacobian, self.system.join(vector, slack)))
        )

    @staticmethod
    def _remove_normal(jacobian: Tensor, vector: Tensor) -> Tensor:
        normal = (jacobian @ vector.unsqueeze(-1)).squeeze(-1)
        multiplier = solver.solve(jacobian @ jacobian.mT, normal)
        if not bool(multiplier.isfinite().all()):
            raise ConvergenceError("the Jacobian of g is rank-deficient here")
        return vector - (jacobian.mT @ multiplier.unsqueeze(-1)).squeeze(-1)

    def drift(self, state: State, step: Scalar) -> State:
        """RATTLE without its closing projection: q' = q + hp − Jᵀλ, p ← p − Jᵀλ/h."""
        assert state.momentum is not None
        point = self.system.join(state.position, state.slack)
        momentum = self.system.join(state.momentum, self._slack_part(state))
        normals = self.system.equations(point)[1]
        try:
            moved = self._oblique(point + momentum * step, normals)
        except ConvergenceError as error:
            if error.rest is not None:
                error.rest = self._drifted(state, momentum, step, normals, *error.rest)
            raise
        return self._drifted(state, momentum, step, normals, *moved)

    def _drifted(
        self,
        state: State,
        momentum: Tensor,
        step: Scalar,
        normals: Tensor,
        moved: Tensor,
        multiplier: Tensor,
        count: int,
    ) -> State:
        """The state at the projected points; ``momentum`` is that of the slack as well."""
        momentum = momentum - (normals.mT @ (multiplier / step).unsqueeze(-1)).squeeze(-1)
        (position, slack), (main, slack_momentum) = (
            self.system.split(moved),
            self.system.split(momentum),
        )
        slack = self._hold(position, slack, normals)
        outcome = Outcome(count).joined(state.outcome)
        return State(position, main, slack, slack_momentum, outcome)

    def _hold(self, position: Tensor, slack: Tensor | None, normals: Tensor) -> Tensor | None:
        """A slack of less than rounding's size could not grow again."""
        if slack is None:
            return None
        scale = solver.scale_of(normals[:, :, : position.shape[1]], position)
        floor = (scale * torch.finfo(slack.dtype).eps).sqrt()
        return torch.where(slack.abs() < floor, floor.copysign(slack), slack)

    def _oblique(self, proposal: Tensor, normals: Tensor) -> tuple[Tensor, Tensor, int]:
        limits = (self.tolerance, self.max_iterations)
        return solver.oblique(self.system.equations, self.system.left, proposal, normals, *limits)

    @staticmethod
    def _slack_part(state: State) -> Tensor | None:
        if state.slack is not None and state.slack_momentum is None:
            return torch.zeros_like(state.slack)
        return state.slack_momentum

    def project(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        proposal = self.system.join(position, slack)
        normals = self.system.equations(self.system.join(state.position, state.slack))[1]
        if self.projection == "orthogonal":
            limits = (self.tolerance, self.max_iterations)
            moved, count = solver.orthogonal(self.system.equations, proposal, *limits)
        else:
            moved, _, count = self._oblique(proposal, normals)
        position, slack = self.system.split(moved)
        outcome = Outcome(count).joined(state.outcome)
        slack = self._hold(position, slack, normals)
        return state._replace(position=position, slack=slack, outcome=outcome)

    def degrees_of_freedom(self, shapes: Sequence[torch.Size]) -> int:
        total = sum(shape.numel() for shape in shapes)
        if self.inequality:
            return total
        if self.joint:
            return total - self._copies(shapes[0]) * self._equation_count(shapes)
        copies = [self._copies(shape) for shape in shapes]
        counts = [self._equation_count([shape]) for shape in shapes]
        return total - sum(n * m for n, m in zip(copies, counts, strict=True))

    def _equation_count(self, shapes: Sequence[torch.Size]) -> int:
        bound = self.bind(shapes)
        assert isinstance(bound, General)
        with torch.no_grad():
            for example in _examples(bound.system.size):
                try:
                    return bound.system.of_one(example).numel()
                except RuntimeError:  # constants in g may be of another dtype or device
                    continue
        raise ConstraintError("the equations of g cannot be counted: it takes no vector of ones")

    def cotangency(self, state: State) -> Tensor:
        assert state.momentum is not None
        jacobian = self.system.equations(self.system.join(state.position, state.slack))[1]
        momentum = self.system.join(state.momentum, self._slack_part(state))
        along = (jacobian @ momentum.unsqueeze(-1)).squeeze(-1)
        size = jacobian.norm(dim=-1) * momentum.norm(dim=-1, keepdim=True)
        return along / size.clamp_min(torch.finfo(along.dtype).tiny)


def _examples(size: int) -> Iterator[Tensor]:
    """Vectors of ones of every dtype and device that weights are likely to have."""
    devices = [torch.device("cpu")]
    for kind in ("cuda", "mps", "xpu"):
        module = getattr(torch, kind, None)
        if module is not None and module.is_available():
            devices.append(torch.device(kind))
    for device in devices:
        for dtype in (torch.float32, torch.float64):
            yield torch.ones(size, dtype=dtype, device=device)
