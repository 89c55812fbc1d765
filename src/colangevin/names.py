"""Every public name of the library, and where it lives.

Add a name here, as an import and in ``__all__``: ``colangevin.Name`` then works.
"""

from colangevin.constraints import Box as Box
from colangevin.constraints import Circle as Circle
from colangevin.constraints import Constraint as Constraint
from colangevin.constraints import DiagonalGram as DiagonalGram
from colangevin.constraints import General as General
from colangevin.constraints import Massive as Massive
from colangevin.constraints import NonNegative as NonNegative
from colangevin.constraints import Orthogonal as Orthogonal
from colangevin.constraints import Simplex as Simplex
from colangevin.constraints import Spectral as Spectral
from colangevin.constraints import Sphere as Sphere
from colangevin.constraints import State as State
from colangevin.constraints import Unconstrained as Unconstrained
from colangevin.diagnostics import compare as compare
from colangevin.diagnostics import configurational_temperature as configurational_temperature
from colangevin.diagnostics import friction_variable as friction_variable
from colangevin.diagnostics import kinetic_temperature as kinetic_temperature
from colangevin.ensemble import Ensemble as Ensemble
from colangevin.ensemble import ShardedEnsemble as ShardedEnsemble
from colangevin.errors import ColangevinError as ColangevinError
from colangevin.errors import ConstraintError as ConstraintError
from colangevin.errors import ConvergenceError as ConvergenceError
from colangevin.errors import DivergenceError as DivergenceError
from colangevin.errors import DivergenceWarning as DivergenceWarning
from colangevin.errors import ProjectionWarning as ProjectionWarning
from colangevin.errors import ReplicaError as ReplicaError
from colangevin.errors import SamplingWarning as SamplingWarning
from colangevin.optimizers import DHSGD as DHSGD
from colangevin.optimizers import LOL as LOL
from colangevin.optimizers import SGLD as SGLD
from colangevin.optimizers import Adam as Adam
from colangevin.optimizers import AdaptiveLangevin as AdaptiveLangevin
from colangevin.optimizers import AdLaLa as AdLaLa
from colangevin.optimizers import CoLA as CoLA
from colangevin.optimizers import Direction as Direction
from colangevin.optimizers import Gradient as Gradient
from colangevin.optimizers import Langevin as Langevin
from colangevin.optimizers import LangevinInLayers as LangevinInLayers
from colangevin.optimizers import Multirate as Multirate
from colangevin.optimizers import Polar as Polar
from colangevin.optimizers import Rates as Rates
from colangevin.optimizers import Sign as Sign
from colangevin.optimizers import SimulatedTempering as SimulatedTempering
from colangevin.optimizers import SubsetMultirate as SubsetMultirate
from colangevin.optimizers import TemperatureScheduler as TemperatureScheduler
from colangevin.optimizers import Violation as Violation
from colangevin.optimizers import annealing as annealing
from colangevin.optimizers import biases_slow as biases_slow
from colangevin.optimizers import constrain_ as constrain_
from colangevin.optimizers import cyclical as cyclical
from colangevin.optimizers import fast_by_name as fast_by_name
from colangevin.optimizers import hand_over as hand_over
from colangevin.optimizers import input_biases_slow as input_biases_slow
from colangevin.optimizers import last_layers_fast as last_layers_fast
from colangevin.optimizers import parameter_groups as parameter_groups
from colangevin.optimizers import partition as partition
from colangevin.optimizers import penalty as penalty
from colangevin.optimizers import random_subsets as random_subsets
from colangevin.sampling import Prediction as Prediction
from colangevin.sampling import Trace as Trace
from colangevin.sampling import load_trace as load_trace
from colangevin.sampling import sample as sample

__all__ = [
    "DHSGD",
    "LOL",
    "SGLD",
    "AdLaLa",
    "Adam",
    "AdaptiveLangevin",
    "Box",
    "Circle",
    "CoLA",
    "ColangevinError",
    "Constraint",
    "ConstraintError",
    "ConvergenceError",
    "DiagonalGram",
    "Direction",
    "DivergenceError",
    "DivergenceWarning",
    "Ensemble",
    "General",
    "Gradient",
    "Langevin",
    "LangevinInLayers",
    "Massive",
    "Multirate",
    "NonNegative",
    "Orthogonal",
    "Polar",
    "Prediction",
    "ProjectionWarning",
    "Rates",
    "ReplicaError",
    "SamplingWarning",
    "ShardedEnsemble",
    "Sign",
    "Simplex",
    "SimulatedTempering",
    "Spectral",
    "Sphere",
    "State",
    "SubsetMultirate",
    "TemperatureScheduler",
    "Trace",
    "Unconstrained",
    "Violation",
    "annealing",
    "biases_slow",
    "compare",
    "configurational_temperature",
    "constrain_",
    "cyclical",
    "fast_by_name",
    "friction_variable",
    "hand_over",
    "input_biases_slow",
    "kinetic_temperature",
    "last_layers_fast",
    "load_trace",
    "parameter_groups",
    "partition",
    "penalty",
    "random_subsets",
    "sample",
]
