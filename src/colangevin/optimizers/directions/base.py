"""What a direction must offer: an update made of a gradient and of what it remembers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from colangevin import checks
from colangevin.constraints import Constraint


class Direction(ABC):
    """Turns gradients into the updates u that a step goes along: θ ← return(θ − lr · u).

    The geometry of the group brings the weights back. A direction of your own is a class with
    ``update``, and the names of the tensors that it keeps.

    Example:
        >>> import colangevin as cl
        >>> class Normed(cl.Direction):
        ...     def update(self, gradient, weight, memory, step):
        ...         return gradient / gradient.norm()
        >>> weight = torch.nn.Parameter(torch.zeros(2))
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> cl.CoLA([weight], lr=1.0, direction=Normed()).step()
        >>> weight.data
        tensor([-0.6000, -0.8000])
    """

    keeps: ClassVar[tuple[str, ...]] = ()
    """Names of tensors of the weight's shape that it remembers. They start from 0."""
    whole: ClassVar[bool] = False
    """Whether ``finish`` needs all of a weight, also where each process has a part of it."""
    trusted: ClassVar[bool] = False
    """Whether its updates need no look at their shape and at NaN: those of the library."""
    relative: bool = False
    """Whether an update is as long as lr times the radius, or times a free weight's norm."""
    tangent: bool = False
    """Whether an update is projected onto the tangent space before it gets its length."""

    @abstractmethod
    def update(
        self, gradient: Tensor, weight: Tensor, memory: dict[str, Tensor], step: int
    ) -> Tensor:
        """The update of one weight.

        Args:
            gradient: of the weight, with the weight decay's share; not to be changed.
            weight: where it was taken; not to be changed. In an ensemble both have the members
                as one more dimension in front.
            memory: what it keeps, by name, to be changed in place.
            step: 1 in the first step.
        """

    def updates(
        self,
        gradients: Sequence[Tensor],
        weights: Sequence[Tensor],
        memories: Sequence[dict[str, Tensor]],
        steps: Sequence[int],
    ) -> list[Tensor]:
        """The updates of several weights."""
        each = zip(gradients, weights, memories, steps, strict=True)
        return [self.update(*own) for own in each]

    def finish(
        self,
        updates: Sequence[Tensor],
        constraint: Constraint,
        weights: Sequence[Tensor],
        lead: int,
    ) -> list[Tensor]:
        """What is made of the updates of weights as a whole.

        Args:
            updates: of the weights, which have one geometry.
            constraint: the geometry.
            weights: where they are.
            lead: how many dimensions in front count members.
        """
        return list(updates)

    def check(self, name: str, shape: torch.Size, constraint: Constraint) -> None:
        """Refuse a weight that it has no direction for.

        Raises:
            ValueError: naming the weight.
        """
        if not self.tangent:
            return
        zeros = torch.zeros(shape)
        if constraint.joint or constraint.lift(constraint.to_batch(zeros)) is not None:
            raise ValueError(
                f"tangent=True of direction {self!r} needs free weights or an equality of one "
                f"weight, such as Sphere(equality=True), got {constraint!r} for {name}"
            )

    def describe(self) -> dict[str, Any]:
        """Plain values that identify it, for a state dict."""
        own: Any = self
        names = [field.name for field in fields(own)] if is_dataclass(own) else sorted(vars(self))
        values = {name: getattr(self, name) for name in names}
        plain = {n: list(v) if isinstance(v, tuple) else v for n, v in values.items()}
        return {"kind": type(self).__name__, **plain}


def update_alone(
    self: Direction, gradient: Tensor, weight: Tensor, memory: dict[str, Tensor], step: int
) -> Tensor:
    """``update`` of a direction that works on several weights at once."""
    return self.updates([gradient], [weight], [memory], [step])[0]


@dataclass(frozen=True)
class Gradient(Direction):
    """The gradient itself: SGD, or Langevin dynamics.

    Args:
        relative: an update is as long as lr times the radius, or times a free weight's norm.
        tangent: an update is projected onto the tangent space of the constraint first.

    Example:
        >>> Gradient().update(torch.ones(1), torch.zeros(1), {}, 1)
        tensor([1.])
    """

    relative: bool = False
    tangent: bool = False
    trusted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_flags(self, *FLAGS)

    def update(
        self, gradient: Tensor, weight: Tensor, memory: dict[str, Tensor], step: int
    ) -> Tensor:
        return gradient


def check_flags(direction: Direction, *names: str) -> None:
    """Refuse flags of a direction that are not True or False.

    Raises:
        TypeError: naming the flag and its value.

    Example:
        >>> check_flags(Gradient(), "relative", "tangent")
    """
    for name in names:
        checks.flag(name, getattr(direction, name))


FLAGS = "relative", "tangent"
"""The flags that all directions of the library have."""


def check_betas(betas: object) -> tuple[float, float]:
    """Two numbers from 0 up to, but without, 1.

    Raises:
        ValueError, TypeError: naming the value.

    Example:
        >>> check_betas((0.9, 1.0))
        Traceback (most recent call last):
        ...
        ValueError: betas must be two numbers, at least 0 and below 1, got (0.9, 1.0)
    """
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise TypeError(f"betas must be two numbers, at least 0 and below 1, got {betas!r}")
    first, second = (checks.number("betas", beta) for beta in betas)
    if not (0.0 <= first < 1.0 and 0.0 <= second < 1.0):
        raise ValueError(f"betas must be two numbers, at least 0 and below 1, got {betas!r}")
    return first, second
