"""``torch.optim`` shells around the integrators."""

from colangevin.optimizers.cola import CoLA as CoLA
from colangevin.optimizers.cola import Violation as Violation
from colangevin.optimizers.grouping import constrain_ as constrain_
from colangevin.optimizers.grouping import parameter_groups as parameter_groups
from colangevin.optimizers.temperature import TemperatureScheduler as TemperatureScheduler
from colangevin.optimizers.temperature import annealing as annealing
from colangevin.optimizers.temperature import cyclical as cyclical

__all__ = [
    "CoLA",
    "TemperatureScheduler",
    "Violation",
    "annealing",
    "constrain_",
    "cyclical",
    "parameter_groups",
]
