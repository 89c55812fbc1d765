"""``torch.optim`` shells around the integrators."""

from colangevin.optimizers.cola import CoLA as CoLA
from colangevin.optimizers.directions import Adam as Adam
from colangevin.optimizers.directions import Direction as Direction
from colangevin.optimizers.directions import Gradient as Gradient
from colangevin.optimizers.directions import Polar as Polar
from colangevin.optimizers.directions import Sign as Sign
from colangevin.optimizers.multirate.multirate import Multirate as Multirate
from colangevin.optimizers.multirate.rates import Rates as Rates
from colangevin.optimizers.multirate.rates import biases_slow as biases_slow
from colangevin.optimizers.multirate.rates import fast_by_name as fast_by_name
from colangevin.optimizers.multirate.rates import input_biases_slow as input_biases_slow
from colangevin.optimizers.multirate.rates import last_layers_fast as last_layers_fast
from colangevin.optimizers.multirate.rates import random_subsets as random_subsets
from colangevin.optimizers.multirate.subset import SubsetMultirate as SubsetMultirate
from colangevin.optimizers.naming.groups import constrain_ as constrain_
from colangevin.optimizers.naming.groups import parameter_groups as parameter_groups
from colangevin.optimizers.partitioned.methods import DHSGD as DHSGD
from colangevin.optimizers.partitioned.methods import LOL as LOL
from colangevin.optimizers.partitioned.methods import SGLD as SGLD
from colangevin.optimizers.partitioned.methods import AdaptiveLangevin as AdaptiveLangevin
from colangevin.optimizers.partitioned.methods import AdLaLa as AdLaLa
from colangevin.optimizers.partitioned.methods import Langevin as Langevin
from colangevin.optimizers.partitioned.methods import LangevinInLayers as LangevinInLayers
from colangevin.optimizers.partitioned.partition import partition as partition
from colangevin.optimizers.penalties import penalty as penalty
from colangevin.optimizers.saving.transfer import hand_over as hand_over
from colangevin.optimizers.schedules import TemperatureScheduler as TemperatureScheduler
from colangevin.optimizers.schedules import annealing as annealing
from colangevin.optimizers.schedules import cyclical as cyclical
from colangevin.optimizers.tempering import SimulatedTempering as SimulatedTempering
from colangevin.optimizers.violation import Violation as Violation

__all__ = [
    "DHSGD",
    "LOL",
    "SGLD",
    "AdLaLa",
    "Adam",
    "AdaptiveLangevin",
    "CoLA",
    "Direction",
    "Gradient",
    "Langevin",
    "LangevinInLayers",
    "Multirate",
    "Polar",
    "Rates",
    "Sign",
    "SimulatedTempering",
    "SubsetMultirate",
    "TemperatureScheduler",
    "Violation",
    "annealing",
    "biases_slow",
    "constrain_",
    "cyclical",
    "fast_by_name",
    "hand_over",
    "input_biases_slow",
    "last_layers_fast",
    "parameter_groups",
    "partition",
    "penalty",
    "random_subsets",
]
