"""Constrained, partitioned and multirate Langevin dynamics for training PyTorch networks.

Example:
    >>> import torch, colangevin as cl
    >>> model = torch.nn.Linear(4, 2)
    >>> groups = cl.constrain_(model, {"weight": cl.Orthogonal()})
    >>> optimizer = cl.CoLA(groups, lr=0.1, momentum=0.9)
"""

from colangevin.constraints import Circle as Circle
from colangevin.constraints import Constraint as Constraint
from colangevin.constraints import General as General
from colangevin.constraints import Orthogonal as Orthogonal
from colangevin.constraints import Sphere as Sphere
from colangevin.constraints import State as State
from colangevin.constraints import Unconstrained as Unconstrained
from colangevin.diagnostics import configurational_temperature as configurational_temperature
from colangevin.diagnostics import friction_variable as friction_variable
from colangevin.diagnostics import kinetic_temperature as kinetic_temperature
from colangevin.errors import ColangevinError as ColangevinError
from colangevin.errors import ConstraintError as ConstraintError
from colangevin.errors import ConvergenceError as ConvergenceError
from colangevin.errors import ProjectionWarning as ProjectionWarning
from colangevin.optimizers import DHSGD as DHSGD
from colangevin.optimizers import LOL as LOL
from colangevin.optimizers import SGLD as SGLD
from colangevin.optimizers import AdaptiveLangevin as AdaptiveLangevin
from colangevin.optimizers import AdLaLa as AdLaLa
from colangevin.optimizers import CoLA as CoLA
from colangevin.optimizers import Langevin as Langevin
from colangevin.optimizers import LangevinInLayers as LangevinInLayers
from colangevin.optimizers import TemperatureScheduler as TemperatureScheduler
from colangevin.optimizers import Violation as Violation
from colangevin.optimizers import annealing as annealing
from colangevin.optimizers import constrain_ as constrain_
from colangevin.optimizers import cyclical as cyclical
from colangevin.optimizers import hand_over as hand_over
from colangevin.optimizers import parameter_groups as parameter_groups
from colangevin.optimizers import partition as partition

__version__ = "0.1.0"

__all__ = [
    "DHSGD",
    "LOL",
    "SGLD",
    "AdLaLa",
    "AdaptiveLangevin",
    "Circle",
    "CoLA",
    "ColangevinError",
    "Constraint",
    "ConstraintError",
    "ConvergenceError",
    "General",
    "Langevin",
    "LangevinInLayers",
    "Orthogonal",
    "ProjectionWarning",
    "Sphere",
    "State",
    "TemperatureScheduler",
    "Unconstrained",
    "Violation",
    "annealing",
    "configurational_temperature",
    "constrain_",
    "cyclical",
    "friction_variable",
    "hand_over",
    "kinetic_temperature",
    "parameter_groups",
    "partition",
]
