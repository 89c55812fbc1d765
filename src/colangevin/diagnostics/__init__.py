"""What can be measured of a network and its dynamics."""

from colangevin.diagnostics.temperature import Configurational as Configurational
from colangevin.diagnostics.temperature import (
    configurational_temperature as configurational_temperature,
)
from colangevin.diagnostics.temperature import friction_variable as friction_variable
from colangevin.diagnostics.temperature import kinetic_temperature as kinetic_temperature

__all__ = [
    "Configurational",
    "configurational_temperature",
    "friction_variable",
    "kinetic_temperature",
]
