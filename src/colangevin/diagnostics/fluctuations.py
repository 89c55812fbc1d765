"""A temperature from the fluctuations of the loss."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from colangevin import checks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def loss_fluctuation(losses: Tensor) -> float:
    """Standard deviation of a series of losses about its straight trend.

    Args:
        losses: the loss at successive steps: of the whole data, or of mini-batches.

    Raises:
        ValueError: if there are fewer than 10, or some are not finite.

    Example:
        >>> round(loss_fluctuation(torch.arange(100.0) / 100), 6)
        0.0
    """
    series = torch.as_tensor(losses).detach().double().cpu()
    if series.dim() != 1 or len(series) < 10:
        raise ValueError(f"losses must be at least 10 numbers, got shape {tuple(series.shape)}")
    if not bool(series.isfinite().all()):
        raise ValueError("losses must be finite, got NaN or infinity")
    time = torch.linspace(-1.0, 1.0, len(series), dtype=torch.float64)
    line = torch.stack([torch.ones_like(time), time], dim=1)
    fitted = line @ torch.linalg.lstsq(line, series.unsqueeze(1)).solution.squeeze(1)
    return float((series - fitted).square().sum().div(len(series) - 2).sqrt())


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

    Example:
        >>> rng = torch.Generator().manual_seed(0)
        >>> basin = 1e-4 / 2 * torch.randn(20_000, 6, generator=rng).square().sum(dim=1)
        >>> round(fluctuation_temperature(basin, degrees=6) / 1e-4, 1)
        1.0
    """
    return loss_fluctuation(losses) * math.sqrt(2.0 / checks.count("degrees", degrees))


def plot_fluctuations(losses: Tensor, axes: Axes) -> None:
    """Draw a series of losses, with the temperature of its fluctuations in the legend.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> plot_fluctuations(torch.rand(50), axes)
    """
    series = torch.as_tensor(losses).detach().double().cpu()
    says = f"τ of this size: {fluctuation_temperature(series):.2g}"
    axes.plot(series, linewidth=0.8, label=says)
    axes.set(xlabel="step", ylabel="loss")
    axes.legend(fontsize="small")
