"""VGG-11 for small images, with or without batch normalisation, and with narrower layers."""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor, nn

from colangevin import checks

CHANNELS = (1, 2, 4, 4, 8, 8, 8, 8)
"""Channels of the eight convolutions, in widths."""
POOLED = (1, 2, 4, 6, 8)
"""Layers after which the image is halved."""
LAYERS = 11


class VGG11(nn.Module):
    """Eight 3 x 3 convolutions and three linear layers (thesis 6.1.7 and 6.1.10.6).

    Five poolings bring 32 x 32 pixels to one; a single pixel stays one. The linear layers have
    as many nodes as the last convolution has channels.

    Args:
        width: channels of the first layer; 64 in the standard network.
        classes: number of outputs.
        channels: channels of the images.
        norm: batch normalisation after every convolution. Without it they have biases, and all
            initial weights are those of He et al.: with PyTorch's the signal dies out on its way.
        narrow: layers, 1 to 10, that have half as many channels or nodes (table 6.4).

    Raises:
        ValueError: if a number is not positive, or there is no such layer.

    Example:
        >>> import torch
        >>> network = VGG11(width=4, narrow=(1, 10))
        >>> network(torch.zeros(2, 3, 16, 16)).shape, network.features[0][0].weight.shape[0]
        (torch.Size([2, 10]), 2)
    """

    def __init__(
        self,
        width: int = 64,
        classes: int = 10,
        channels: int = 3,
        *,
        norm: bool = True,
        narrow: Collection[int] = (),
    ) -> None:
        super().__init__()
        for name, value in (("width", width), ("classes", classes), ("channels", channels)):
            checks.count(name, value)
        unknown = sorted(set(narrow) - set(range(1, LAYERS)))
        if unknown:
            raise ValueError(f"narrow must name layers 1 to {LAYERS - 1}, got {unknown[0]}")
        sizes = [width * factor for factor in (*CHANNELS, 8, 8)]
        sizes = [
            max(1, size // 2) if number in narrow else size
            for number, size in enumerate(sizes, start=1)
        ]
        before = [channels, *sizes]
        self.features = nn.Sequential(
            *(_convolution(before[n], sizes[n], norm, n + 1 in POOLED) for n in range(8))
        )
        self.classifier = nn.Sequential(
            nn.Sequential(nn.Linear(sizes[7], sizes[8]), nn.ReLU()),
            nn.Sequential(nn.Linear(sizes[8], sizes[9]), nn.ReLU()),
            nn.Linear(sizes[9], classes),
        )
        if not norm:
            self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Map images (n, channels, height, width) to logits (n, classes)."""
        result: Tensor = self.classifier(self.features(images).mean(dim=(-2, -1)))
        return result


def _convolution(inputs: int, outputs: int, norm: bool, pooled: bool) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(inputs, outputs, 3, padding=1, bias=not norm)]
    if norm:
        layers.append(nn.BatchNorm2d(outputs))
    layers.append(nn.ReLU())
    if pooled:
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    return nn.Sequential(*layers)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d | nn.Linear):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)
