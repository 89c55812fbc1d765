"""MobileNetV2 with the parameter names of torchvision, so that its weights load as they are."""

from __future__ import annotations

from torch import Tensor, nn

from colangevin import checks

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks and stride of each stage."""


def _convolution(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(inplace=True),
    )


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project; with a shortcut where the shapes agree."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        layers: list[nn.Module] = [_convolution(inputs, hidden, 1)] if expansion > 1 else []
        layers += [
            _convolution(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        self.conv = nn.Sequential(*layers)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, images: Tensor) -> Tensor:
        """Return the block's output."""
        return images + self.conv(images) if self.shortcut else self.conv(images)


class MobileNetV2(nn.Module):
    """MobileNetV2 of width 1: 53 layers, the last of them the classifier.

    Args:
        classes: Number of outputs.
        dropout: Probability before the classifier.

    Example:
        >>> import torch
        >>> MobileNetV2(classes=10).eval()(torch.zeros(1, 3, 32, 32)).shape
        torch.Size([1, 10])
    """

    def __init__(self, classes: int = 1000, dropout: float = 0.2) -> None:
        super().__init__()
        checks.count("classes", classes)
        checks.fraction("dropout", dropout)
        width = 32
        features: list[nn.Module] = [_convolution(3, width, 3, stride=2)]
        for expansion, channels, blocks, stride in STAGES:
            for block in range(blocks):
                step = stride if block == 0 else 1
                features.append(InvertedResidual(width, channels, step, expansion))
                width = channels
        self.features = nn.Sequential(*features, _convolution(width, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(1280, classes))

    def forward(self, images: Tensor) -> Tensor:
        """Return one logit a class for images of shape (n, 3, height, width)."""
        return self.classifier(self.features(images).mean(dim=(2, 3)))
