"""``torch.optim`` shells around the integrators."""

from colangevin.optimizers.cola import CoLA as CoLA
from colangevin.optimizers.dhsgd import DHSGD as DHSGD
from colangevin.optimizers.grouping import constrain_ as constrain_
from colangevin.optimizers.grouping import parameter_groups as parameter_groups
from colangevin.optimizers.handover import hand_over as hand_over
from colangevin.optimizers.inspection import Violation as Violation
from colangevin.optimizers.partition import partition as partition
from colangevin.optimizers.presets import LOL as LOL
from colangevin.optimizers.presets import AdaptiveLangevin as AdaptiveLangevin
from colangevin.optimizers.presets import AdLaLa as AdLaLa
from colangevin.optimizers.presets import Langevin as Langevin
from colangevin.optimizers.presets import LangevinInLayers as LangevinInLayers
from colangevin.optimizers.sgld import SGLD as SGLD
from colangevin.optimizers.temperature import TemperatureScheduler as TemperatureScheduler
from colangevin.optimizers.temperature import annealing as annealing
from colangevin.optimizers.temperature import cyclical as cyclical

__all__ = [
    "DHSGD",
    "LOL",
    "SGLD",
    "AdLaLa",
    "AdaptiveLangevin",
    "CoLA",
    "Langevin",
    "LangevinInLayers",
    "TemperatureScheduler",
    "Violation",
    "annealing",
    "constrain_",
    "cyclical",
    "hand_over",
    "parameter_groups",
    "partition",
]
