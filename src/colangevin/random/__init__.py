"""Noise as a pure function of seed, parameter, step, draw and index."""

from colangevin.random.counter import key_of, normals, uniforms

__all__ = ["key_of", "normals", "uniforms"]
