"""Noise as a pure function of seed, parameter, step, draw and index."""

from colangevin.random.counter import key_of, normals, uniforms
from colangevin.random.rounding import rounded_at_random

__all__ = ["key_of", "normals", "rounded_at_random", "uniforms"]
