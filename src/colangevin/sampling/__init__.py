"""From a loss to a posterior: chains, traces and predictions."""

from colangevin.sampling.convergence import autocorrelation as autocorrelation
from colangevin.sampling.convergence import autocorrelation_time as autocorrelation_time
from colangevin.sampling.convergence import ess as ess
from colangevin.sampling.convergence import mcse as mcse
from colangevin.sampling.convergence import nested_rhat as nested_rhat
from colangevin.sampling.convergence import rhat as rhat
from colangevin.sampling.degeneracy import LearningCoefficient as LearningCoefficient
from colangevin.sampling.degeneracy import learning_coefficient as learning_coefficient
from colangevin.sampling.pictures import plot_marginal as plot_marginal
from colangevin.sampling.pictures import plot_reliability as plot_reliability
from colangevin.sampling.predictions import Interval as Interval
from colangevin.sampling.predictions import Prediction as Prediction
from colangevin.sampling.sampler import sample as sample
from colangevin.sampling.summaries import Summary as Summary
from colangevin.sampling.traces import Trace as Trace
from colangevin.sampling.traces import load_trace as load_trace
from colangevin.sampling.tuning import Tuning as Tuning

__all__ = [
    "Interval",
    "LearningCoefficient",
    "Prediction",
    "Summary",
    "Trace",
    "Tuning",
    "autocorrelation",
    "autocorrelation_time",
    "ess",
    "learning_coefficient",
    "load_trace",
    "mcse",
    "nested_rhat",
    "plot_marginal",
    "plot_reliability",
    "rhat",
    "sample",
]
