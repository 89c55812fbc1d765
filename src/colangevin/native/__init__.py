"""Langevin steps and their noise in plain C: elementwise ones, and those of small matrices."""

from colangevin.native.elementwise import Segment, segment, step_elements
from colangevin.native.library import load, reason
from colangevin.native.memory import PLAIN, field, fill, lay_out, signed, suits, turned
from colangevin.native.stiefel import DONE, Stack, is_small, stack, step_matrices

__all__ = [
    "DONE",
    "PLAIN",
    "Segment",
    "Stack",
    "field",
    "fill",
    "is_small",
    "lay_out",
    "load",
    "reason",
    "segment",
    "signed",
    "stack",
    "step_elements",
    "step_matrices",
    "suits",
    "turned",
]
