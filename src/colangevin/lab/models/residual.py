"""Residual networks for images of 32 x 32 pixels, with or without batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from colangevin import checks

_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}


def _norm(width: int, norm: bool) -> nn.Module:
    return nn.BatchNorm2d(width) if norm else nn.Identity()


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with batch normalisation, and the way past them.

    Args:
        channels: channels that come in.
        width: channels that go out.
        stride: 2 halves height and width.
        norm: batch normalisation. Without it the convolutions have biases.

    Example:
        >>> import torch
        >>> BasicBlock(4, 8, stride=2)(torch.zeros(1, 4, 6, 6)).shape
        torch.Size([1, 8, 3, 3])
    """

    def __init__(self, channels: int, width: int, stride: int = 1, norm: bool = True) -> None:
        super().__init__()
        # No biases with batch normalisation, which would take them off again.
        self.conv1 = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=not norm)
        self.bn1 = _norm(width, norm)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=not norm)
        self.bn2 = _norm(width, norm)
        self.relu = nn.ReLU()
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride=stride, bias=not norm), _norm(width, norm)
            )

    def forward(self, images: Tensor) -> Tensor:
        """Map (n, channels, h, w) to (n, width, h / stride, w / stride)."""
        inner = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(images)))))
        result: Tensor = self.relu(inner + self.shortcut(images))
        return result


class ResNet(nn.Module):
    """A 3 x 3 convolution, stages of basic blocks, the average over pixels, a linear layer.

    Every stage after the first halves the image and doubles the channels. ``resnet`` builds the
    usual ones. The initialisation is PyTorch's standard one.

    Args:
        blocks: number of blocks in every stage.
        width: channels in the first stage.
        classes: number of outputs.
        channels: channels of the images.
        norm: batch normalisation. Without it the convolutions have biases.

    Raises:
        ValueError: if a number is not positive, or there is no stage.

    Example:
        >>> import torch
        >>> network = ResNet((1, 1), width=4, classes=3)
        >>> network(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        blocks: Sequence[int],
        width: int = 64,
        classes: int = 10,
        channels: int = 3,
        *,
        norm: bool = True,
    ) -> None:
        super().__init__()
        if not blocks:
            raise ValueError("blocks must name at least one stage, got none")
        for count in blocks:
            checks.count("blocks of a stage", count)
        for name, value in (("width", width), ("classes", classes), ("channels", channels)):
            checks.count(name, value)
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=not norm), _norm(width, norm), nn.ReLU()
        )
        stages: list[nn.Module] = []
        before = width
        for number, count in enumerate(blocks):
            after = width * 2**number
            first = BasicBlock(before, after, stride=1 if number == 0 else 2, norm=norm)
            rest = (BasicBlock(after, after, norm=norm) for _ in range(count - 1))
            stages.append(nn.Sequential(first, *rest))
            before = after
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(before, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Map images (n, channels, height, width) to logits (n, classes)."""
        result: Tensor = self.head(self.stages(self.stem(images)).mean(dim=(-2, -1)))
        return result


def resnet(
    depth: int | Sequence[int] = 18,
    width: int = 64,
    classes: int = 10,
    channels: int = 3,
    *,
    norm: bool = True,
) -> ResNet:
    """The ResNet-18 or ResNet-34 for CIFAR images, or a smaller relative.

    Args:
        depth: 18 or 34, or the number of blocks in every stage.
        width: channels in the first stage; 64 in the standard networks.
        classes: number of outputs.
        channels: channels of the images.
        norm: batch normalisation. Without it the convolutions have biases.

    Returns:
        The network, which maps (n, channels, 32, 32) to logits (n, classes).

    Raises:
        ValueError: if the depth is unknown, or a number is not positive.

    Example:
        >>> sum(p.numel() for p in resnet(34).parameters())
        21282122
        >>> sum(p.numel() for p in resnet((1, 1, 1), width=8).parameters())
        19954
    """
    if not isinstance(depth, int):
        return ResNet(depth, width, classes, channels, norm=norm)
    if depth not in _BLOCKS:
        raise ValueError(f"depth must be 18 or 34, or blocks such as (2, 2, 2), got {depth}")
    return ResNet(_BLOCKS[depth], width, classes, channels, norm=norm)
