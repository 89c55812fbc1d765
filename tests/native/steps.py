"""Steps of the kernel next to the same steps of ``advance``."""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from colangevin import Circle, State, Unconstrained
from colangevin.constraints.base import Constraint, Draw, Scalar, like
from colangevin.integrators.pieces import advance
from colangevin.integrators.scheme import Action, Drift, Impulse
from colangevin.native import Segment, field, fill, lay_out, segment, step_elements
from colangevin.native.memory import DRIFT, IMPULSE, OVERDAMPED

SEED = 11
SEEDS = array("q", [SEED])


class Bounded(Circle):
    """The circle with the bounds that the kernel keeps: |θ| ≤ r, φ not within √ε of ±π/2."""

    def drift(self, state: State, step: Scalar) -> State:
        return self._keep(super().drift(state, step))

    def project(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        return self._keep(super().project(state, position, slack))

    def _keep(self, state: State) -> State:
        x, y = state.position, state.slack
        assert y is not None
        radius = like(self.radius, x)
        bound = torch.as_tensor(radius, dtype=x.dtype)
        above = bound.double() > torch.as_tensor(self.radius, dtype=torch.float64)
        bound = torch.where(above, torch.nextafter(bound, torch.zeros_like(bound)), bound)
        floor, quarter = math.sqrt(torch.finfo(x.dtype).eps), torch.tensor(math.pi / 2).to(x.dtype)
        side = torch.where(y.abs() < quarter, quarter - floor, quarter + floor)
        apart = torch.where((y.abs() - quarter).abs() < floor, torch.copysign(side, y), y)
        assert float(apart.abs().max() if y.numel() else 0.0) <= math.pi + 1e-6
        return state._replace(position=torch.clamp(x, -bound, bound), slack=apart)


def flatten(actions: Sequence[Action]) -> tuple[list[int], list[float]]:
    """Actions as the kernel wants them."""
    kinds, numbers = [], []
    for action in actions:
        values = [0.0 if value is None else float(value) for value in action]
        kind = {Drift: DRIFT, Impulse: IMPULSE}.get(type(action), OVERDAMPED)
        kinds.append(kind)
        numbers += values + [0.0] * (3 - len(values))
    return kinds, numbers


@dataclass
class Piece:
    """A parameter with its state, gradient and geometry."""

    state: State
    gradient: Tensor
    constraint: Constraint
    ordinal: int
    weight_decay: float

    def copy(self) -> "Piece":
        state = State(*[None if t is None else t.clone() for t in self.state])
        return Piece(state, self.gradient, self.constraint, self.ordinal, self.weight_decay)

    @property
    def radius(self) -> float | Tensor:
        return self.constraint.radius if isinstance(self.constraint, Circle) else 1.0


def piece(
    geometry: str, size: int, dtype: torch.dtype, ordinal: int = 0, weight_decay: float = 0.0
) -> Piece:
    """Random weights (one of them at its bound), momenta and gradients."""
    generator = torch.Generator().manual_seed(100 + ordinal + size)

    def randn() -> Tensor:
        return torch.randn(size, dtype=torch.float64, generator=generator)

    constraint: Constraint = Unconstrained()
    slack, position = None, randn()
    if geometry != "free":
        radius: float | Tensor = 0.3 + 0.2 * ordinal
        if geometry == "radii":
            radius = (0.05 + randn().abs()).to(dtype)
        constraint = Bounded(radius)
        angle = torch.remainder(3 * randn() + math.pi, 2 * math.pi) - math.pi
        angle[:1] = math.pi / 2
        position, slack = (radius * angle.sin()).to(dtype), angle.to(dtype)
    state = State(position.to(dtype), (0.5 * randn()).to(dtype), slack)
    return Piece(state, randn().to(dtype), constraint, ordinal, weight_decay)


def noise(ordinal: int, step: int, draw: int = 0) -> Draw:
    """The kernel's own normals (tested against their definition), one draw after the other."""
    count = draw

    def make(like: Tensor) -> Tensor:
        nonlocal count
        out = torch.empty_like(like)
        assert fill(out.view(1, -1), [SEED], ordinal, step, count)
        count += 1
        return out

    return make


def expected(item: Piece, actions: Sequence[Action], step: int, draw: int = 0) -> State:
    gradient = item.gradient + item.weight_decay * item.state.position
    state, draws = item.copy().state, noise(item.ordinal, step, draw)
    return advance(item.constraint, state, gradient, actions, draws)


def segment_of(item: Piece, part: slice = slice(None), row: int = 0) -> Segment:
    """A piece, or a part of it, with a row of numbers."""
    x, v, y, _ = (None if t is None else t[part] for t in item.state.tensors)
    radius = item.radius[part] if isinstance(item.radius, Tensor) else None
    geometry = "free" if isinstance(item.constraint, Unconstrained) else "circle"
    assert x is not None
    made = segment(geometry, x, v, y, seeds=SEEDS, ordinal=item.ordinal, radius=radius)
    made.row, made.first = row, part.start or 0
    return made


def step(
    segments: Sequence[Segment],
    gradients: Sequence[Tensor],
    kinds: Sequence[int],
    numbers: Sequence[float],
    made: int = 0,
    draw: int = 0,
) -> None:
    """One call of the kernel."""
    rows = lay_out(segments)
    rows[field(Segment, "step")] = array("q", [made] * len(segments))
    rows[field(Segment, "draw")] = array("q", [draw] * len(segments))
    step_elements(gradients[0].dtype, rows, array("q", kinds), array("d", numbers), gradients)


def run(pieces: Sequence[Piece], actions: Sequence[Action], made: int, draw: int = 0) -> None:
    """All pieces at once, in place; each has a row of numbers of its own."""
    kinds, values = flatten(actions)
    numbers: list[float] = []
    for item in pieces:
        radius = 0.0 if isinstance(item.radius, Tensor) else item.radius
        numbers += [item.weight_decay, radius, 0.0, *values]
    segments = [segment_of(item, row=row) for row, item in enumerate(pieces)]
    step(segments, [item.gradient for item in pieces], kinds, numbers, made, draw)
