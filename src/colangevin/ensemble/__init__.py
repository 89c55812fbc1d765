"""Many seeds as one batched computation."""

from colangevin.ensemble.ensemble import Ensemble
from colangevin.ensemble.sharded import ShardedEnsemble
from colangevin.ensemble.state import Removal
from colangevin.ensemble.train import History, fit

__all__ = ["Ensemble", "History", "Removal", "ShardedEnsemble", "fit"]
