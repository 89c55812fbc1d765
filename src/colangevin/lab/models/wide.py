"""Wide residual networks: normalisation and ReLU before every convolution."""

from __future__ import annotations

from torch import Tensor, nn

from colangevin import checks


class WideBlock(nn.Module):
    """Two 3 x 3 convolutions, each after normalisation and ReLU, and the way past them.

    Example:
        >>> import torch
        >>> WideBlock(4, 8, stride=2)(torch.zeros(1, 4, 6, 6)).shape
        torch.Size([1, 8, 3, 3])
    """

    def __init__(self, channels: int, width: int, stride: int = 1) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        same = stride == 1 and channels == width
        self.shortcut = None if same else nn.Conv2d(channels, width, 1, stride=stride, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """Map (n, channels, h, w) to (n, width, h / stride, w / stride)."""
        begun = self.bn1(images).relu()
        past = images if self.shortcut is None else self.shortcut(begun)
        result: Tensor = past + self.conv2(self.bn2(self.conv1(begun)).relu())
        return result


class WideResNet(nn.Module):
    """A WideResNet of depth 16, or another 6n + 4, for images of 32 x 32 pixels.

    Args:
        factor: how many times wider than 16, 32 and 64 channels.
        depth: 6n + 4 layers: n blocks in each of three stages.
        classes: number of outputs.
        channels: of the first convolution; the stages have ``factor`` times 1, 2 and 4 of it.

    Raises:
        ValueError: if a number is not positive, or the depth is not 6n + 4.

    Example:
        >>> sum(p.numel() for p in WideResNet(factor=4).parameters())
        2748890
    """

    def __init__(
        self, factor: int = 1, depth: int = 16, classes: int = 10, channels: int = 16
    ) -> None:
        super().__init__()
        for name, value in (("factor", factor), ("classes", classes), ("channels", channels)):
            checks.count(name, value)
        if depth < 10 or (depth - 4) % 6:
            raise ValueError(f"depth must be 6n + 4, such as 10, 16 or 28, got {depth}")
        self.stem = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        blocks: list[nn.Module] = []
        before = channels
        for stage in range(3):
            after = channels * factor * 2**stage
            for number in range((depth - 4) // 6):
                stride = 2 if stage and number == 0 else 1
                blocks.append(WideBlock(before, after, stride))
                before = after
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(before)
        self.head = nn.Linear(before, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Map images (n, 3, height, width) to logits (n, classes)."""
        features = self.norm(self.blocks(self.stem(images))).relu()
        result: Tensor = self.head(features.mean(dim=(-2, -1)))
        return result
