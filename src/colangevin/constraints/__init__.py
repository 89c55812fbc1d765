"""Geometry only: one file per constraint, none of which knows about optimizers."""

from colangevin.constraints.base import Constraint as Constraint
from colangevin.constraints.base import Outcome as Outcome
from colangevin.constraints.base import State as State
from colangevin.constraints.base import Vector as Vector
from colangevin.constraints.box import Box as Box
from colangevin.constraints.box import NonNegative as NonNegative
from colangevin.constraints.circle import Circle as Circle
from colangevin.constraints.diagonal_gram import DiagonalGram as DiagonalGram
from colangevin.constraints.general import General as General
from colangevin.constraints.orthogonal import Orthogonal as Orthogonal
from colangevin.constraints.simplex import Simplex as Simplex
from colangevin.constraints.spectral import Spectral as Spectral
from colangevin.constraints.sphere import Sphere as Sphere
from colangevin.constraints.unconstrained import Massive as Massive
from colangevin.constraints.unconstrained import Unconstrained as Unconstrained

__all__ = [
    "Box",
    "Circle",
    "Constraint",
    "DiagonalGram",
    "General",
    "Massive",
    "NonNegative",
    "Orthogonal",
    "Outcome",
    "Simplex",
    "Spectral",
    "Sphere",
    "State",
    "Unconstrained",
    "Vector",
]
