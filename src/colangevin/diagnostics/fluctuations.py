"""A temperature from the fluctuations of the loss."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from colangevin import checks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LEAST = 50
"""Losses that are needed, so that chance hardly ever makes their quarters differ."""
STEADY, TYPICAL = 0.85, 0.5
"""Shares of the deviation that quarters of the series must have: on average, and most of them."""


def loss_fluctuation(losses: Tensor) -> float:
    """Standard deviation of a series of losses about its straight trend.

    A loss that still falls has a deviation, too, but none of a fluctuation, and of one that is
    slow in comparison with the series too little is seen. So the quarters of the series, each about
    its own trend, must have on average (of squares) 85 % of the deviation, and their median 50 %.

    Args:
        losses: the loss at successive steps: of the whole data, or of mini-batches.

    Raises:
        ValueError: if there are fewer than 50, some are not finite, or they have a curved trend
            or too few independent fluctuations.

    Example:
        >>> round(loss_fluctuation(torch.arange(100.0) / 100), 6)
        0.0
        >>> loss_fluctuation(torch.exp(-torch.arange(400.0) / 80))
        Traceback (most recent call last):
        ...
        ValueError: losses must fluctuate evenly about a straight trend; their deviation is 0.13, \
but in quarters of the series 0.033, 0.0094, 0.0027, 0.00077. Give more losses, or later ones
    """
    given = torch.as_tensor(losses).detach()
    series = given.double().cpu()
    if series.dim() != 1 or len(series) < LEAST:
        raise ValueError(f"losses must be at least {LEAST} numbers, got {tuple(series.shape)}")
    checks.finite("losses", series)
    whole = math.sqrt(_variance(series))
    quarters = torch.tensor([_variance(part) for part in series.tensor_split(4)]).sqrt()
    even = bool(quarters.square().mean().sqrt() >= STEADY * whole)
    even = even and bool(quarters.quantile(0.5) >= TYPICAL * whole)
    dtype = given.dtype if given.is_floating_point() else torch.float32
    rounding = torch.finfo(dtype).eps * float(series.abs().max())
    if whole > rounding and not even:
        found = ", ".join(f"{quarter:.2g}" for quarter in quarters.tolist())
        raise ValueError(
            f"losses must fluctuate evenly about a straight trend; their deviation is {whole:.2g}, "
            f"but in quarters of the series {found}. Give more losses, or later ones"
        )
    return whole


def _variance(series: Tensor) -> float:
    """Variance of a series about its straight trend."""
    time = torch.linspace(-1.0, 1.0, len(series), dtype=torch.float64)
    line = torch.stack([torch.ones_like(time), time], dim=1)
    fitted = line @ torch.linalg.lstsq(line, series.unsqueeze(1)).solution.squeeze(1)
    return float((series - fitted).square().sum()) / (len(series) - 2)


def fluctuation_temperature(losses: Tensor, degrees: int = 2) -> float:
    """The temperature at which a quadratic basin has such fluctuations of the loss.

    At temperature τ the loss of a basin with d directions is τ/2 times a χ² variable of d degrees
    of freedom: its mean lies dτ/2 above the minimum and its standard deviation is τ √(d/2). So
    τ = deviation · √(2/d). With d = 2 this is the deviation itself: the thesis's rule, a τ of the
    size of the observed fluctuations (4.7.3.1).

    Args:
        losses: at successive steps, late in a training (see ``loss_fluctuation``). Of losses of
            mini-batches, most of the fluctuation is that of the batches: take those of the
            whole data, or read the result as an upper limit.
        degrees: d, how many directions of the basin take part.

    Raises:
        ValueError: as in ``loss_fluctuation``, or if d is less than 1.

    Example:
        >>> rng = torch.Generator().manual_seed(0)
        >>> basin = 1e-4 / 2 * torch.randn(20_000, 6, generator=rng).square().sum(dim=1)
        >>> round(fluctuation_temperature(basin, degrees=6) / 1e-4, 1)
        1.0
    """
    return loss_fluctuation(losses) * math.sqrt(2.0 / checks.count("degrees", degrees))


def plot_fluctuations(losses: Tensor, axes: Axes, degrees: int = 2) -> None:
    """Draw a series of losses, with the temperature of its fluctuations in the legend.

    Args:
        losses: as in ``fluctuation_temperature``.
        axes: of matplotlib.
        degrees: as in ``fluctuation_temperature``.

    Raises:
        ValueError: as in ``fluctuation_temperature``.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> plot_fluctuations(torch.rand(50), axes)
    """
    series = torch.as_tensor(losses).detach().double().cpu()
    says = f"τ of this size: {fluctuation_temperature(losses, degrees):.2g}"
    axes.plot(series, linewidth=0.8, label=says)
    axes.set(xlabel="step", ylabel="loss")
    axes.legend(fontsize="small")
