"""Weights to move, gradients to move them by, and what all contestants have in common."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType

import torch
from torch import Tensor
from torch.optim import Optimizer

GRADIENT_NORM = 0.1
"""Frobenius norm of every weight's gradient, about that of a layer in training."""
HOLD = 10
"""Steps for which a gradient stays the same: momentum builds up, but nothing converges."""


class Unavailable(Exception):
    """A contestant cannot run here, and why; no mistake of its own."""


@dataclass(frozen=True)
class Weight:
    """A weight and its constraint.

    Attributes:
        shape: of the tensor; an orthogonal one is a matrix, a kernel or a stack of matrices.
        kind: ``circle``, ``orthogonal`` or ``free``.
        radius: bound of a circle-constrained weight.
        stacked: whether the first dimension counts separate matrices.
    """

    shape: tuple[int, ...]
    kind: str = "free"
    radius: float = 0.1
    stacked: bool = False

    @property
    def numel(self) -> int:
        """How many numbers it has."""
        return torch.Size(self.shape).numel()

    @property
    def matrix(self) -> tuple[int, int]:
        """Longer and shorter side of the weight read as out × everything else."""
        inner = self.shape[1:] if self.stacked else self.shape
        rows, columns = inner[0], torch.Size(inner[1:]).numel()
        return max(rows, columns), min(rows, columns)

    @property
    def products(self) -> float:
        """Cost of a product rs², the unit of everything done to an orthogonal weight."""
        tall, narrow = self.matrix
        return float(tall * narrow**2 * (self.shape[0] if self.stacked else 1))


@dataclass(frozen=True)
class Setting:
    """What contestants of one work share.

    Attributes:
        weights: their kinds and shapes.
        initial: their values; every contestant copies them.
        lr: learning rate.
        momentum: of the contestants that have one.
        temperature: of the contestants that have one.
        reference: module of the literal formulas.
        seed: of noise.
        device: where everything is.
    """

    weights: Sequence[Weight]
    initial: Sequence[Tensor]
    lr: float = 0.1
    momentum: float = 0.9
    temperature: float = 1e-6
    reference: ModuleType | None = None
    seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(weight.numel for weight in self.weights)

    def only(self, indices: Sequence[int]) -> Setting:
        """The same with some of the weights."""
        return replace(
            self,
            weights=[self.weights[i] for i in indices],
            initial=[self.initial[i] for i in indices],
        )

    def stacked(self) -> Setting:
        """The same weights, which are matrices of one shape, as one tensor."""
        first = self.weights[0]
        shape = (len(self.weights), *first.shape)
        one = Weight(shape, first.kind, first.radius, stacked=True)
        return replace(self, weights=[one], initial=[torch.stack(list(self.initial))])


@dataclass
class Contestant:
    """Something that makes steps.

    Attributes:
        step: makes one, from ``gradients``.
        gradients: tensors that are refilled between rounds; none if it computes its own.
        parameters: number of weights that it moves.
        state_bytes: how much it keeps between steps.
        kept_bytes: scratch that it does not give back after a step.
        values: the weights as they are now, of their shapes or as matrices.
        violation: relative violation of the constraint, or None without a constraint.
        constrained: whether it has a constraint.
        bucket: numbers in its largest batch of equal weights, 0 if it has none.
        note: what is remarkable after the steps, or nothing.
        compiles: whether its first step may compile and says nothing about the others.
        settles: whether it becomes faster once a training has turned out to be long.
        first: seconds of the first step.
        taken: steps made so far.
        pace: seconds of a step, roughly.
    """

    step: Callable[[], object]
    gradients: Sequence[Tensor]
    parameters: int
    state_bytes: Callable[[], int]
    kept_bytes: Callable[[], int] = lambda: 0
    values: Callable[[], Sequence[Tensor]] = lambda: ()
    violation: Callable[[], float | None] = lambda: None
    constrained: bool = False
    bucket: int = 0
    note: Callable[[], str] = lambda: ""
    compiles: bool = False
    settles: bool = False
    first: float = 0.0
    taken: int = 0
    pace: float = 0.0
    _source: Iterator[tuple[Sequence[Tensor], float]] = field(default_factory=lambda: iter(()))

    def feed(self, pool: Sequence[Sequence[Tensor]]) -> None:
        """Take gradients from a pool, in turn, and with the other sign every other time."""
        signs = itertools.chain.from_iterable(([1.0] * len(pool), [-1.0] * len(pool)))
        self._source = itertools.cycle(zip(itertools.chain(pool, pool), list(signs), strict=True))

    def refresh(self) -> None:
        """Take the next gradients."""
        if not self.gradients:
            return
        source, sign = next(self._source)
        for target, gradient in zip(self.gradients, source, strict=True):
            torch.mul(gradient.view(target.shape), sign, out=target)


def draw_initial(
    weights: Sequence[Weight], generator: torch.Generator, device: torch.device
) -> list[Tensor]:
    """Weights that satisfy their constraints: random, within half of the bound, orthogonal."""
    drawn: dict[Weight, Tensor] = {}
    found = []
    for weight in weights:
        # QR of large matrices takes long, so equal ones share it (and differ by a reflection).
        if weight.kind == "orthogonal" and weight in drawn:
            signs = torch.randint(0, 2, (weight.shape[0],), generator=generator) * 2.0 - 1.0
            shape = (-1, *[1] * (len(weight.shape) - 1))
            found.append(drawn[weight] * signs.view(shape).to(device))
            continue
        if weight.kind == "orthogonal":
            drawn[weight] = _orthogonal(weight, generator).to(device)
            found.append(drawn[weight])
        else:
            bound = weight.radius / 2
            tensor = torch.empty(weight.shape).uniform_(-bound, bound, generator=generator)
            found.append(tensor.to(device))
    return found


def _orthogonal(weight: Weight, generator: torch.Generator) -> Tensor:
    tall, narrow = weight.matrix
    copies = weight.shape[0] if weight.stacked else 1
    factor = torch.linalg.qr(torch.randn(copies, tall, narrow, generator=generator)).Q
    inner = weight.shape[1:] if weight.stacked else weight.shape
    wide = inner[0] < torch.Size(inner[1:]).numel()
    return (factor.mT if wide else factor).reshape(weight.shape).contiguous()


def draw_pool(
    weights: Sequence[Weight], size: int, generator: torch.Generator, device: torch.device
) -> list[list[Tensor]]:
    """Sets of random gradients, each of norm ``GRADIENT_NORM`` for every matrix."""
    pool = []
    for _ in range(size):
        gradients = []
        for weight in weights:
            normal = torch.randn(weight.shape, generator=generator)
            dims = tuple(range(1 if weight.stacked else 0, normal.dim()))
            norm = torch.linalg.vector_norm(normal, dim=dims, keepdim=True)
            gradients.append(normal.mul_(GRADIENT_NORM / norm).to(device))
        pool.append(gradients)
    return pool


def bytes_of(optimizers: Sequence[Optimizer]) -> int:
    """Bytes of the tensors in the optimizers' states, single numbers left out."""
    entries = [entry for optimizer in optimizers for entry in optimizer.state.values()]
    tensors = [t for entry in entries for t in entry.values() if isinstance(t, Tensor)]
    return sum(t.numel() * t.element_size() for t in tensors if t.numel() > 1)


@torch.no_grad()
def orthogonality(weights: Sequence[Weight], tensors: Sequence[Tensor]) -> float | None:
    """Largest entry of QᵀQ − I over the orthogonal weights, in double precision."""
    largest = None
    for weight, tensor in zip(weights, tensors, strict=True):
        if weight.kind == "orthogonal":
            matrix = tensor.detach().double().flatten(2 if weight.stacked else 1)
            if matrix.shape[-2] < matrix.shape[-1]:
                matrix = matrix.mT
            gram = matrix.mT @ matrix
            gram.diagonal(dim1=-2, dim2=-1).sub_(1.0)
            largest = max(largest or 0.0, float(gram.abs().max()))
    return largest
