"""Langevin steps of many free or circle-constrained parameters at once, in place."""

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
        )
    )


LENGTH = ctypes.sizeof(Segment) // 8
GRADIENTS, SIZES = field(Segment, "gradient"), field(Segment, "size")
COUNTS, COLUMNS = field(Segment, "members"), field(Segment, "columns")
# Of the last segment.
MOMENTUM, SLACK, ROW, MEMBERS = (
    field(Segment, name).start - LENGTH for name in ("momentum", "slack", "row", "members")
)


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
) -> Segment:
    """What the kernel has to know of a parameter; fields that are not given here are 0.

    Of these, ``row`` is the row of numbers that it takes, or its first member does, and ``first``
    the flat index of its first number in the whole parameter. Tensors and seeds must be kept as
    long as there are steps, which write over the first three.

    Args:
        geometry: ``"free"`` or ``"circle"``.
        position: θ.
        momentum: v, or ω on a circle; None if all steps are overdamped.
        slack: on a circle the angle φ, θ = r sin φ, from −π to π.
        seeds: of the noise, one for each member.
        ordinal: number of the parameter, for its noise.
        radius: one for each weight; otherwise it is in the numbers of a step.
        members: how many parameters are stacked in the tensors, along their first dimension.

    Example:
        >>> weight, seeds = torch.zeros(3, 2), array("q", [1])
        >>> segment("free", weight, torch.zeros(3, 2), None, seeds=seeds, ordinal=0).size
        6
    """
    size = position.numel()
    if geometry not in ("free", "circle"):
        raise ValueError(f"geometry must be 'free' or 'circle', got {geometry!r}")
    if (slack is not None) != (geometry == "circle"):
        raise ValueError(f"slack is needed on a circle and nowhere else, got {slack!r}")
    if radius is not None and slack is None:
        raise ValueError(f"radius is for circles only, got {radius!r}")
    if members < 1 or size % members:
        raise ValueError(f"members must divide the {size} entries, got {members}")
    if len(seeds) != members:
        raise ValueError(f"seeds must be {members}, got {len(seeds)}")
    return Segment(
        position=address("position", position, position),
        momentum=address("momentum", momentum, position),
        slack=address("slack", slack, position),
        radius=address("radius", radius, position),
        size=size // members,
        seeds=seeds.buffer_info()[0],
        ordinal=ordinal,
        members=members,
    )


def step_elements(
    dtype: torch.dtype,
    segments: array[int],
    kinds: array[int],
    numbers: array[float],
    gradients: Sequence[Tensor] | None = None,
) -> None:
    """Do the actions on every segment, in place. All are free, or all are circles.

    Args:
        dtype: of all tensors.
        segments: laid out, with counts of steps and numbers of the first draw.
        kinds: of the actions.
        numbers: for each row weight decay, radius and three for each action.
        gradients: one for each segment; None if their addresses have been filled in.

    Example:
        >>> from colangevin.native.memory import lay_out, library
        >>> weight, velocity, seeds = torch.zeros(2), torch.zeros(2), array("q", [1])
        >>> segments = lay_out([segment("free", weight, velocity, None, seeds=seeds, ordinal=0)])
        >>> kinds, numbers = array("q", [1, 2]), array("d", [0, 0, 0, 1, 0, -0.5, 0, 0])
        >>> if library.load() is not None:
        ...     step_elements(torch.float32, segments, kinds, numbers, [torch.ones(2)])
        ...     assert weight.tolist() == [-0.5, -0.5]
    """
    width = 2 + 3 * len(kinds)
    needed = width * (segments[ROW] + segments[MEMBERS])
    check_numbers(numbers, needed, kinds, segments[MOMENTUM])
    kept = None if gradients is None else _point(segments, dtype, gradients)
    kernel("kernels", "cola_step")(
        DTYPES[dtype],
        segments[SLACK] != 0,
        len(segments) // LENGTH,
        segments.buffer_info()[0],
        len(kinds),
        kinds.buffer_info()[0],
        numbers.buffer_info()[0],
        width,
        torch.get_num_threads(),
    )
    if kept is not None:  # addresses are those of gradients that are not turned
        segments[COLUMNS] = array("q", bytes(8 * len(kept)))


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
