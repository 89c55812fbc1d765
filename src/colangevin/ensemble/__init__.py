"""Many seeds as one batched computation."""

from colangevin.ensemble.diverging import Removal
from colangevin.ensemble.ensemble import Ensemble
from colangevin.ensemble.sharding import ShardedEnsemble
from colangevin.ensemble.training import History, fit
from colangevin.ensemble.violations import MemberViolation

__all__ = ["Ensemble", "History", "MemberViolation", "Removal", "ShardedEnsemble", "fit"]
