"""The library's own errors and warnings, all in one place."""

from __future__ import annotations

from typing import Any


class ColangevinError(Exception):
    """Base of every error that the library defines.

    Example:
        >>> import torch
        >>> from colangevin import CoLA, Orthogonal
        >>> try:
        ...     CoLA([torch.nn.Parameter(torch.ones(3))], lr=0.1, constraint=Orthogonal())
        ... except ColangevinError as error:
        ...     print(type(error).__name__)
        ConstraintError
    """


class ConstraintError(ColangevinError, ValueError):
    """A tensor and a constraint do not fit: wrong shape, off the manifold, rank-deficient.

    Example:
        >>> import torch
        >>> from colangevin import CoLA, Sphere
        >>> zeros = torch.nn.Parameter(torch.zeros(2, 3))
        >>> try:
        ...     CoLA([zeros], lr=0.1, constraint=Sphere(1.0, equality=True))
        ... except ConstraintError:
        ...     print("rows of zeros have no nearest point on a sphere")
        rows of zeros have no nearest point on a sphere
    """


class ConvergenceError(ColangevinError, RuntimeError):
    """A projection onto a manifold failed; parameters and state are as before the step.

    Attributes:
        failed: which systems of a batch failed, as a tensor of booleans, where that is known.
        rest: what the others have reached, where that is known.

    Example:
        >>> import torch
        >>> from colangevin import CoLA, General
        >>> w = torch.nn.Parameter(torch.tensor([1.0, 0.0]))
        >>> unit = General(lambda q: q.square().sum().reshape(1) - 1.0)
        >>> optimizer = CoLA([w], lr=0.1, constraint=unit)
        >>> w.grad = torch.tensor([0.0, 1e10])  # no step of this length comes back
        >>> try:
        ...     optimizer.step()
        ... except ConvergenceError:
        ...     print(w.tolist())
        [1.0, 0.0]
    """

    failed: Any = None
    rest: Any = None


class ReplicaError(ColangevinError, RuntimeError):
    """Processes that should train replicas of one model have different weights.

    Example:
        >>> issubclass(ReplicaError, RuntimeError)
        True
    """


class DataError(ColangevinError, ValueError):
    """A data file is missing, truncated or damaged."""


class RecordError(ColangevinError, ValueError):
    """A record of an experiment is damaged, or belongs to a run with other settings."""


class ProjectionWarning(UserWarning):
    """A projection did not converge and the polar factor was used in its place.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("error", ProjectionWarning)  # to stop at the first one
        >>> warnings.simplefilter("default", ProjectionWarning)
    """


class DivergenceWarning(UserWarning):
    """Members of an ensemble diverged and were removed.

    Example:
        >>> import torch, warnings
        >>> from colangevin import Ensemble
        >>> ensemble = Ensemble(lambda: torch.nn.Linear(1, 1), range(2), lr=[0.1, 1e30])
        >>> points, loss = torch.ones(4, 1), torch.nn.functional.mse_loss
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = ensemble.fit(loss, points, points, epochs=3, batch_size=2)
        >>> [w.category.__name__ for w in caught], len(ensemble)
        (['DivergenceWarning'], 1)
    """


class DivergenceError(ColangevinError, RuntimeError):
    """A chain of a sampler diverged.

    Attributes:
        chain: which.
        step: at which step, the warm-up included.
        largest_gradient: the largest entry of the chain's last finite gradient.
        trace: what was drawn before, or None if nothing was.

    Example:
        >>> DivergenceError("chain 1 diverged", chain=1, step=20, largest_gradient=3e9).chain
        1
    """

    def __init__(
        self, message: str, chain: int = -1, step: int = -1, largest_gradient: float = float("nan")
    ) -> None:
        super().__init__(message)
        self.chain, self.step, self.largest_gradient = chain, step, largest_gradient
        self.trace: object = None


class SamplingWarning(UserWarning):
    """A trace should not be trusted yet; the message says what to do.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("ignore", SamplingWarning)  # if you know better
    """
