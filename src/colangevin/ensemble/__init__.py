"""Many seeds as one batched computation."""

from colangevin.ensemble.ensemble import Ensemble
from colangevin.ensemble.fitting import History, fit
from colangevin.ensemble.removing import Removal

__all__ = ["Ensemble", "History", "Removal", "fit"]
