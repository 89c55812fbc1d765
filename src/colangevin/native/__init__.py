"""Langevin steps and their noise in plain C: elementwise ones, and those of small matrices."""

from colangevin.native.elementwise import Table
from colangevin.native.library import load, reason
from colangevin.native.normals import fill
from colangevin.native.stiefel import Stacks
from colangevin.native.table import suits

__all__ = ["Stacks", "Table", "fill", "load", "reason", "suits"]
