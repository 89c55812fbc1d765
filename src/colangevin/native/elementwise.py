"""Langevin steps of many parameters at once, in place: free ones, circles, rows of a sphere."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.native.memory import DTYPES, address, check_numbers, field, kernel, readable


class Segment(ctypes.Structure):
    """A parameter, or a part of one, as in kernels.c."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            *("position", "momentum", "slack", "gradient", "radius", "size", "first"),
            *("seeds", "ordinal", "step", "draw", "row", "members", "columns"),
            *("length", "slack_momentum", "mean", "square"),
        )
    )


LENGTH = ctypes.sizeof(Segment) // 8
GRADIENTS, SIZES = field(Segment, "gradient"), field(Segment, "size")
COUNTS, COLUMNS = field(Segment, "members"), field(Segment, "columns")
# Of the last segment.
MOMENTUM, SLACK, ROW, MEMBERS, ROWS, MEAN, SQUARE = (
    field(Segment, name).start - LENGTH
    for name in ("momentum", "slack", "row", "members", "length", "mean", "square")
)
HEAD, FACTORS = 3, 5
"""How many numbers stand before those of the actions, and of a direction for each segment."""
GRADIENT, ADAM, SIGN = 0, 1, 2
"""Directions."""
NONE = array("d")


def segment(
    geometry: str,
    position: Tensor,
    momentum: Tensor | None,
    slack: Tensor | None,
    *,
    seeds: array[int],
    ordinal: int,
    radius: Tensor | None = None,
    members: int = 1,
    length: int = 0,
    slack_momentum: Tensor | None = None,
    moments: Sequence[Tensor] = (),
) -> Segment:
    """What the kernel has to know of a parameter; fields that are not given here are 0.

    Of these, ``row`` is the row of numbers that it takes, or its first member does, and ``first``
    the flat index of its first number in the whole parameter. Tensors and seeds must be kept as
    long as there are steps, which write over the first three.

    Args:
        geometry: ``"free"``, ``"circle"`` or ``"sphere"``.
        position: θ.
        momentum: v, or ω on a circle; None if all steps are overdamped.
        slack: on a circle the angle φ, θ = r sin φ, from −π to π; on a sphere ξ, one for each row,
            or None for an equality.
        seeds: of the noise, one for each member.
        ordinal: number of the parameter, for its noise.
        radius: one for each weight, or row; otherwise it is in the numbers of a step.
        members: how many parameters are stacked in the tensors, along their first dimension.
        length: of the rows of a sphere, which lie one after the other.
        slack_momentum: that of the slacks of rows.
        moments: what a direction keeps: m, or m and s of Adam.

    Example:
        >>> weight, seeds = torch.zeros(3, 2), array("q", [1])
        >>> segment("free", weight, torch.zeros(3, 2), None, seeds=seeds, ordinal=0).size
        6
    """
    size, whole = position.numel(), position
    if geometry not in ("free", "circle", "sphere"):
        raise ValueError(f"geometry must be 'free', 'circle' or 'sphere', got {geometry!r}")
    if (slack is not None) != (geometry == "circle") and geometry != "sphere":
        raise ValueError(f"slack is needed on a circle and nowhere else, got {slack!r}")
    if radius is not None and geometry == "free":
        raise ValueError(f"radius is for circles and spheres only, got {radius!r}")
    if members < 1 or size % members:
        raise ValueError(f"members must divide the {size} entries, got {members}")
    if len(seeds) != members:
        raise ValueError(f"seeds must be {members}, got {len(seeds)}")
    if geometry == "sphere":
        if length < 1 or size // members % length:
            raise ValueError(f"length must divide the {size // members} entries, got {length}")
        whole = position.detach().view(-1)[: size // length]  # like a slack
        if slack is not None and momentum is not None and slack_momentum is None:
            raise ValueError("slack_momentum is needed where there are slacks and momenta")
    return Segment(
        position=address("position", position, position),
        momentum=address("momentum", momentum, position),
        slack=address("slack", slack, whole),
        radius=address("radius", radius, whole),
        size=size // members,
        seeds=seeds.buffer_info()[0],
        ordinal=ordinal,
        members=members,
        length=length,
        slack_momentum=address("slack_momentum", slack_momentum, whole),
        **{
            name: address(name, moment, position)
            for name, moment in zip(("mean", "square"), moments, strict=False)
        },
    )


def step_elements(
    dtype: torch.dtype,
    segments: array[int],
    kinds: array[int],
    numbers: array[float],
    gradients: Sequence[Tensor] | None = None,
    direction: int = GRADIENT,
    factors: array[float] = NONE,
) -> None:
    """Do the actions on every segment, in place. All have one geometry.

    On rows of a sphere a gradient with weight decay or of a direction is for the first action only.

    Args:
        dtype: of all tensors.
        segments: laid out, with counts of steps and numbers of the first draw.
        kinds: of the actions.
        numbers: for each row weight decay, radius, the weight decay that a direction sees, and
            three for each action.
        gradients: one for each segment; None if their addresses have been filled in.
        direction: what is made of the gradients.
        factors: β₁, β₂, ε, 1/(1 − β₁ᵗ) and 1/√(1 − β₂ᵗ) of the direction, for each segment.

    Example:
        >>> from colangevin.native.memory import lay_out, library
        >>> weight, velocity, seeds = torch.zeros(2), torch.zeros(2), array("q", [1])
        >>> segments = lay_out([segment("free", weight, velocity, None, seeds=seeds, ordinal=0)])
        >>> kinds, numbers = array("q", [1, 2]), array("d", [0, 0, 0, 0, 1, 0, -0.5, 0, 0])
        >>> if library.load() is not None:
        ...     step_elements(torch.float32, segments, kinds, numbers, [torch.ones(2)])
        ...     assert weight.tolist() == [-0.5, -0.5]
    """
    width, count = HEAD + 3 * len(kinds), len(segments) // LENGTH
    needed = width * (segments[ROW] + segments[MEMBERS])
    check_numbers(numbers, needed, kinds, segments[MOMENTUM])
    if direction:
        check_direction(direction, segments, factors)
    kept = None if gradients is None else _point(segments, dtype, gradients)
    kernel("kernels", "cola_step")(
        DTYPES[dtype],
        2 if segments[ROWS] else segments[SLACK] != 0,
        count,
        segments.buffer_info()[0],
        len(kinds),
        kinds.buffer_info()[0],
        numbers.buffer_info()[0],
        width,
        direction,
        factors.buffer_info()[0],
        torch.get_num_threads(),
    )
    if kept is not None:  # addresses are those of gradients that are not turned
        segments[COLUMNS] = array("q", bytes(8 * len(kept)))


def check_direction(direction: int, segments: array[int], factors: array[float]) -> None:
    """Refuse a direction without its memory or its numbers."""
    if direction not in (ADAM, SIGN):
        raise ValueError(f"direction must be {GRADIENT}, {ADAM} or {SIGN}, got {direction}")
    if not segments[MEAN] or (direction == ADAM and not segments[SQUARE]):
        raise ValueError("moments are needed for a direction, but there are none")
    needed = FACTORS * (len(segments) // LENGTH)
    if len(factors) < needed:
        raise ValueError(f"factors must be {needed} or more, got {len(factors)}")


def _point(segments: array[int], dtype: torch.dtype, gradients: Sequence[Tensor]) -> list[Tensor]:
    """Let each segment read its gradient; matrices, one per member, may lie column by column."""
    found, columns = [], array("q")
    for gradient, size, members in zip(gradients, segments[SIZES], segments[COUNTS], strict=True):
        turned = _is_turned(gradient, members)
        columns.append(gradient.shape[-1] if turned else 0)
        found.append(readable(gradient.mT if turned else gradient, dtype, size * members))
    segments[GRADIENTS] = array("q", [gradient.data_ptr() for gradient in found])
    segments[COLUMNS] = columns
    return found


def _is_turned(gradient: Tensor, members: int) -> bool:
    """Whether a tensor is a matrix, or one per member, with rows and columns exchanged."""
    if gradient.layout is not torch.strided or gradient.is_contiguous() or gradient.dim() < 2:
        return False
    return gradient.mT.is_contiguous() and gradient.shape[:-2].numel() == members
