"""Elementwise Langevin steps and their noise, in plain C."""

from colangevin.native.elementwise import Table, suits
from colangevin.native.library import load, reason
from colangevin.native.normals import fill

__all__ = ["Table", "fill", "load", "reason", "suits"]
