"""Batches of all members, each in its own order of the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from colangevin import checks

PIECE = 64
"""Batches that are gathered at once, and after which diverged members are removed."""


class Piece(NamedTuple):
    """A run of equal batches: points from ``start`` to ``stop``."""

    start: int
    stop: int


class Data(NamedTuple):
    """Inputs and targets, of all members together or of each."""

    inputs: Tensor
    targets: Tensor
    per_member: bool

    @property
    def points(self) -> int:
        """Points of one member."""
        return self.inputs.shape[1 if self.per_member else 0]

    def gather(
        self, members: Sequence[int], orders: Tensor, piece: Piece, batch_size: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of a piece, [members, batch, ...] each."""
        index = orders[:, piece.start : piece.stop].to(self.inputs.device)
        rows = torch.tensor(members, device=index.device).unsqueeze(1)
        batches = []
        for tensor in (self.inputs, self.targets):
            drawn = tensor[rows, index] if self.per_member else tensor[index]
            size = min(batch_size, piece.stop - piece.start)
            # Contiguous batches: a compiled step is for one memory layout.
            split = drawn.view(len(members), -1, size, *drawn.shape[2:]).transpose(0, 1)
            batches.append(split.contiguous())
        return zip(*batches, strict=True)


def batches_of(inputs: Tensor, targets: Tensor, members: int, per_member: bool) -> Data:
    """Check the data of a training.

    Raises:
        ValueError: if inputs and targets do not belong together, or are not one per member.

    Example:
        >>> batches_of(torch.zeros(5, 2), torch.zeros(5), 3, per_member=False).points
        5
    """
    if per_member:
        for name, tensor in (("inputs", inputs), ("targets", targets)):
            if len(tensor) != members:
                raise ValueError(
                    f"{name} must be one per member, {members} in all, got {len(tensor)}"
                )
    dim = 1 if per_member else 0
    if inputs.dim() <= dim or targets.dim() <= dim or inputs.shape[dim] != targets.shape[dim]:
        raise ValueError(
            f"inputs and targets must have as many points, got shapes {tuple(inputs.shape)} and "
            f"{tuple(targets.shape)}"
        )
    if inputs.shape[dim] == 0:
        raise ValueError("inputs must have at least one point, got none")
    return Data(inputs, targets, per_member)


def pieces(points: int, batch_size: int) -> Iterator[Piece]:
    """Cut an epoch into pieces of equal batches; the last batch may be smaller.

    Example:
        >>> list(pieces(300, 2))[-1], list(pieces(5, 2))
        (Piece(start=256, stop=300), [Piece(start=0, stop=4), Piece(start=4, stop=5)])
    """
    checks.count("batch_size", batch_size)
    size = min(batch_size, points)
    whole = points // size * size
    for start in range(0, whole, PIECE * size):
        yield Piece(start, min(start + PIECE * size, whole))
    if whole < points:
        yield Piece(whole, points)
