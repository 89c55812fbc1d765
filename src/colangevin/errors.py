"""The library's own errors and warnings, all in one place."""

from __future__ import annotations


class ColangevinError(Exception):
    """Base of every error that the library defines."""


class ConstraintError(ColangevinError, ValueError):
    """A tensor and a constraint do not fit: wrong shape, off the manifold, rank-deficient."""


class ConvergenceError(ColangevinError, RuntimeError):
    """A projection onto a manifold failed; parameters and state are as before the step."""


class ReplicaError(ColangevinError, RuntimeError):
    """Processes that should train replicas of one model have different weights."""


class DataError(ColangevinError, ValueError):
    """A data file is missing, truncated or damaged."""


class RecordError(ColangevinError, ValueError):
    """A record of an experiment is damaged, or belongs to a run with other settings."""


class ProjectionWarning(UserWarning):
    """A projection did not converge and the polar factor was used in its place."""


class DivergenceWarning(UserWarning):
    """Members of an ensemble diverged and were removed."""
