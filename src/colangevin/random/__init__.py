"""Noise as a pure function of seed, parameter, step, draw and index."""

from colangevin.random.counter import normals as normals
from colangevin.random.counter import uniforms as uniforms
from colangevin.random.keys import key_of as key_of

__all__ = ["key_of", "normals", "uniforms"]
