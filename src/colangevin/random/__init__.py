"""Noise as a pure function of seed, parameter, step, draw and index."""

from colangevin.random.counter import key_of, keys_on_device, normals, signed, uniforms
from colangevin.random.rounding import rounded_at_random

__all__ = ["key_of", "keys_on_device", "normals", "rounded_at_random", "signed", "uniforms"]
