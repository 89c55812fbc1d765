"""A generator of digits and its judge: DCGAN for images of 32 x 32 pixels (thesis 6.2.6.1)."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from colangevin import checks

NOISE = 100
DEVIATION = 0.02
"""Standard deviation of the first weights."""


def generator(features: int = 64, noise: int = NOISE) -> nn.Sequential:
    """Five transposed convolutions from noise (n, noise, 1, 1) to images (n, 1, 32, 32) in [-1, 1].

    The first makes 4 x 4 pixels, the next three double them, the last keeps their number. With
    a first layer of 2 x 2 pixels three of the ten digits did not appear.

    Args:
        features: channels before the last layer; each layer before has twice as many.
        noise: length of the input.

    Raises:
        ValueError: if a number is not positive.

    Example:
        >>> import torch
        >>> generator(features=2)(torch.randn(3, 100, 1, 1)).shape
        torch.Size([3, 1, 32, 32])
    """
    checks.count("features", features)
    checks.count("noise", noise)
    widths = [noise, 8 * features, 4 * features, 2 * features, features]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        up = _up(before, after) if layers else nn.ConvTranspose2d(before, after, 4, bias=False)
        layers += [up, nn.BatchNorm2d(after), nn.ReLU()]
    last = nn.ConvTranspose2d(features, 1, 3, padding=1, bias=False)
    return _begin(nn.Sequential(*layers, last, nn.Tanh()))


def discriminator(features: int = 64) -> nn.Sequential:
    """Five convolutions from images (n, 1, 32, 32) to logits (n,): positive for real images.

    Its layers are those of the generator in the opposite order.

    Args:
        features: channels after the first layer; each later one has twice as many.

    Raises:
        ValueError: if the number is not positive.

    Example:
        >>> import torch
        >>> discriminator(features=2)(torch.zeros(3, 1, 32, 32)).shape
        torch.Size([3])
    """
    checks.count("features", features)
    widths = [features, 2 * features, 4 * features, 8 * features]
    first = nn.Conv2d(1, features, 3, padding=1, bias=False)
    layers: list[nn.Module] = [first, nn.LeakyReLU(0.2)]
    for before, after in pairwise(widths):
        layers += [_down(before, after), nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
    last = nn.Conv2d(8 * features, 1, 4, bias=False)
    return _begin(nn.Sequential(*layers, last, nn.Flatten(0)))


def _up(inputs: int, outputs: int) -> nn.Module:
    return nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1, bias=False)


def _down(inputs: int, outputs: int) -> nn.Module:
    return nn.Conv2d(inputs, outputs, 4, stride=2, padding=1, bias=False)


def _begin(network: nn.Sequential) -> nn.Sequential:
    """Normal first weights; those of batch normalisation around 1, as in DCGAN."""
    for module in network:
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.normal_(module.weight, 0.0, DEVIATION)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, DEVIATION)
    return network
