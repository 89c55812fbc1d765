"""A convolutional network, a recurrent one and a vision transformer for digits (thesis 6.2.6.1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from colangevin import checks

PIXELS = 28


def digit_cnn(width: int = 32, dropout: float = 0.4, classes: int = 10) -> nn.Sequential:
    """Four convolutions and three linear layers, for images of 28 x 28 pixels.

    Batch normalisation and ReLU follow each convolution, max-pooling every second one. Dropout
    is on the middle linear layer.

    Args:
        width: channels of the first two convolutions; the others have twice as many.
        dropout: probability with which a node of the middle linear layer is dropped.
        classes: number of outputs.

    Raises:
        ValueError: if a number is not positive, or the dropout is no probability.

    Example:
        >>> digit_cnn(width=4)(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """
    checks.count("width", width)
    checks.count("classes", classes)
    checks.fraction("dropout", dropout)
    layers: list[nn.Module] = []
    before = 1
    for number, after in enumerate((width, width, 2 * width, 2 * width), start=1):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        if number % 2 == 0:
            layers.append(nn.MaxPool2d(2))
        before = after
    flat = 2 * width * (PIXELS // 4) ** 2
    return nn.Sequential(
        *layers,
        nn.Flatten(),
        *(nn.Linear(flat, 128), nn.ReLU()),
        *(nn.Linear(128, 64), nn.ReLU(), nn.Dropout(dropout)),
        nn.Linear(64, classes),
    )


class RowReader(nn.Module):
    """A recurrent network that reads an image row by row, from the top.

    Args:
        hidden: nodes of the LSTM.
        classes: number of outputs.

    Raises:
        ValueError: if a number is not positive.

    Example:
        >>> RowReader(hidden=4)(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """

    def __init__(self, hidden: int = 64, classes: int = 10) -> None:
        super().__init__()
        checks.count("hidden", hidden)
        checks.count("classes", classes)
        self.lstm = nn.LSTM(PIXELS, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Map images (n, 1, 28, 28) to logits (n, classes)."""
        states, _ = self.lstm(images.squeeze(1))
        result: Tensor = self.head(states[:, -1])
        return result


class VisionTransformer(nn.Module):
    """Patches of an image as tokens, encoder blocks, and a linear layer on a token of its own.

    Args:
        patch: height and width of a patch; a divisor of 28.
        size: length of a token's vector.
        blocks: number of encoder blocks.
        heads: heads of the self-attention; a divisor of ``size``.
        hidden: nodes of the feed-forward networks.
        classes: number of outputs.

    Raises:
        ValueError: if a number is not positive, or does not divide what it must.

    Example:
        >>> network = VisionTransformer(patch=14, size=16, blocks=1)
        >>> network(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        patch: int = 4,
        size: int = 64,
        blocks: int = 6,
        heads: int = 8,
        hidden: int = 128,
        classes: int = 10,
    ) -> None:
        super().__init__()
        sizes = {"patch": patch, "size": size, "blocks": blocks, "heads": heads}
        for name, value in {**sizes, "hidden": hidden, "classes": classes}.items():
            checks.count(name, value)
        if PIXELS % patch:
            raise ValueError(f"patch must divide {PIXELS}, got {patch}")
        if size % heads:
            raise ValueError(f"size must be a multiple of heads, got {size} and {heads}")
        self.patch = patch
        self.embedding = nn.Linear(patch**2, size)
        self.token = nn.Parameter(torch.randn(1, 1, size))
        count = (PIXELS // patch) ** 2 + 1
        # As large as the embedded patches: with small positions MNIST ends near 97.8 %.
        self.position = nn.Parameter(torch.randn(1, count, size))
        layer = nn.TransformerEncoderLayer(
            size, heads, hidden, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, blocks, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, classes))

    def forward(self, images: Tensor) -> Tensor:
        """Map images (n, 1, 28, 28) to logits (n, classes)."""
        patches = functional.unfold(images, self.patch, stride=self.patch).transpose(1, 2)
        token = self.token.expand(len(images), -1, -1)
        vectors = torch.cat([token, self.embedding(patches)], dim=1) + self.position
        result: Tensor = self.head(self.encoder(vectors)[:, 0])
        return result
