"""Scheme words, the recipe of one call, and the pieces of the splitting that it is made of."""

from colangevin.integrators.pieces import advance as advance
from colangevin.integrators.pieces import drift as drift
from colangevin.integrators.pieces import impulse as impulse
from colangevin.integrators.pieces import overdamped as overdamped
from colangevin.integrators.recipe import Dynamics as Dynamics
from colangevin.integrators.scheme import Scheme as Scheme
from colangevin.integrators.scheme import parse as parse
