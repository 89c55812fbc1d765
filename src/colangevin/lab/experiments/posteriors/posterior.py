"""What the experiments on posteriors share: samplings as jobs, and scores of predictions."""

from __future__ import annotations

import importlib.util
import shutil
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from colangevin.errors import SamplingWarning
from colangevin.lab import kit
from colangevin.sampling import Trace, sample, scores
from colangevin.sampling.predictions import Prediction

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Of the central intervals whose coverage is measured."""
LEAST = 1e-6
"""The least standard deviation that a network can claim, as in bde."""


class Stopped(Exception):
    """The user wants an end."""


def sampled(log: kit.Log, name: str, steps: int, *model: Any, **arguments: Any) -> Trace | None:
    """Sample as a part of a job; None if the user wanted an end.

    Draws lie in a folder beside the record while the job runs, so that a job that was stopped or
    killed goes on from there. Without safetensors it begins anew.

    Args:
        log: of the job.
        name: of the sampling among those of the job.
        steps: of the sampling at most, for the share that is done.
        model: model, loss and data of ``colangevin.sample``.
        arguments: its other arguments.
    """
    folder = log.directory / f"{log.job.name}.{name}.trace"
    path = folder if importlib.util.find_spec("safetensors") else None

    def progress(done: int) -> None:
        if not log.keep_going(min(0.999, done / steps)):
            raise Stopped

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplingWarning)  # R-hat is in the record
            trace = sample(*model, path=path, progress=progress, **arguments)
    except Stopped:
        log.save({})
        return None
    return trace


def tidy(log: kit.Log) -> None:
    """Delete the draws of a job that is done."""
    for folder in log.directory.glob(f"{log.job.name}.*.trace"):
        shutil.rmtree(folder)


def deviations(outputs: Tensor) -> Tensor:
    """σ = log(1 + eˢ) of the outputs (μ, s), as in bde.

    It grows like s. The exponential of an output has so heavy a tail over draws that a few of
    them make up the variance of a prediction.

    Example:
        >>> round(float(deviations(torch.tensor([[1.0, 100.0]]))), 3)
        100.0
    """
    return nn.functional.softplus(outputs[..., 1]) + LEAST


def gaussian_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean of −log N(y; μ, σ²), where the outputs are μ and s, without log √(2π).

    Example:
        >>> unit = torch.log(torch.tensor(1.0).expm1())  # σ = 1
        >>> outputs = torch.stack([torch.tensor(1.0), unit]).view(1, 2)
        >>> round(float(gaussian_loss(outputs, torch.tensor([3.0]))), 4)
        2.0
    """
    spread = deviations(outputs)
    scaled = (targets - outputs[..., 0]) / spread
    return (scaled.square() / 2.0 + spread.log()).mean()


def regression_scores(outputs: Tensor, targets: Tensor) -> dict[str, Any]:
    """RMSE, two NLLs, CRPS and coverage of the mixture of draws.

    ``nll`` is that of the mixture. ``nll_moments`` is that of one Gaussian with the mixture's mean
    and variance, as bde's paper has it.

    Args:
        outputs: μ and s of every draw [draws, points, 2]; see ``deviations``.
        targets: [points].

    Example:
        >>> found = regression_scores(torch.zeros(3, 2, 2), torch.tensor([0.0, 2.0]))
        >>> round(found["rmse"], 4), found["nll"] == found["nll_moments"], found["coverage"][-1]
        (1.4142, True, 0.5)
    """
    outputs, targets = outputs.double(), targets.double()
    means, spreads = outputs[..., 0], deviations(outputs)
    mean = means.mean(dim=0)
    variance = spreads.square().mean(dim=0) + means.var(dim=0, correction=0)
    moments = scores.gaussian_nll(mean.unsqueeze(0), variance.sqrt().unsqueeze(0), targets)
    generator = torch.Generator().manual_seed(0)
    drawn = means + spreads * torch.randn(means.shape, dtype=torch.float64, generator=generator)
    prediction = Prediction(drawn.unsqueeze(0))
    inside = [prediction.interval(level).covers(targets) for level in LEVELS]
    if len(drawn) < 50:  # quantiles of few numbers: those of the Gaussian of the same moments
        z = (targets - mean).abs() / variance.sqrt()
        inside = [torch.special.erf(z / 2**0.5) <= level for level in LEVELS]
    return {
        "rmse": scores.rmse(mean, targets),
        "nll": scores.gaussian_nll(means, spreads, targets),
        "nll_moments": moments,
        "crps": scores.crps(drawn, targets),
        "coverage": [float(own.double().mean()) for own in inside],
    }


def members_outputs(members: list[nn.Module], inputs: Tensor) -> Tensor:
    """What modules of one kind say: [members, points, ...]."""
    with torch.no_grad():
        return torch.stack([member(inputs) for member in members])
