"""Langevin steps and their noise in plain C: elementwise ones, and those of small matrices."""

from colangevin.native.elementwise import Table
from colangevin.native.library import load, reason
from colangevin.native.normals import fill
from colangevin.native.stiefel import DONE, Stacks, is_small
from colangevin.native.table import PLAIN, suits
from colangevin.native.turning import turned

__all__ = [
    "DONE",
    "PLAIN",
    "Stacks",
    "Table",
    "fill",
    "is_small",
    "load",
    "reason",
    "suits",
    "turned",
]
