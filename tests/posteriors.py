"""Small things to sample."""

import numpy as np
import torch
from torch import Tensor, nn

from chains import Estimate
from targets import batch_means_mcse


class Point(nn.Module):
    """One parameter q, without a forward pass."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.q = nn.Parameter(start)


def point(*numbers: float) -> Point:
    return Point(torch.tensor(numbers, dtype=torch.float64))


def line(points: int = 30, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Inputs [points, 2] and targets [points, 1] of a line with noise 0.5."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(points, 2, generator=generator, dtype=torch.float64)
    noise = torch.randn(points, generator=generator, dtype=torch.float64)
    targets = inputs @ torch.tensor([1.0, -0.5], dtype=torch.float64) + 0.3 + 0.5 * noise
    return inputs, targets.unsqueeze(1)


def line_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean() / (2 * 0.5**2)


def linear() -> nn.Module:
    return nn.Linear(2, 1).double()


def estimate(samples: Tensor) -> Estimate:
    """The mean of [chains, draws]; chains are independent, each is one batch."""
    array = samples.double().numpy()
    return Estimate(float(np.mean(array)), batch_means_mcse(array.T, batches=1))
