"""A small transformer language model: two encoder layers with a causal mask."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from colangevin import checks
from colangevin.lab.models.cross_entropy import linear_cross_entropy


def check_sizes(size: int, heads: int, **others: int) -> None:
    """Refuse sizes of a transformer that cannot be.

    Raises:
        ValueError: if a number is not positive, or the heads do not divide the size.

    Example:
        >>> check_sizes(8, 3, layers=2)
        Traceback (most recent call last):
        ...
        ValueError: size must be a multiple of heads, got 8 and 3
    """
    for name, value in {"size": size, "heads": heads, **others}.items():
        checks.count(name, value)
    if size % heads:
        raise ValueError(f"size must be a multiple of heads, got {size} and {heads}")


class PositionalEncoding(nn.Module):
    """Adds sines and cosines of the position, then drops out.

    Args:
        size: length of a token's vector.
        dropout: probability with which a number is dropped in training.
        longest: largest number of positions.

    Example:
        >>> encoding = PositionalEncoding(4, dropout=0.0)
        >>> encoding(torch.zeros(1, 1, 4))
        tensor([[[0., 1., 0., 1.]]])
    """

    waves: Tensor

    def __init__(self, size: int, dropout: float = 0.2, longest: int = 5000) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(longest).unsqueeze(1)
        frequency = torch.exp(torch.arange(0, size, 2) * (-math.log(10000.0) / size))
        waves = torch.zeros(longest, 1, size)
        waves[:, 0, 0::2] = torch.sin(position * frequency)
        waves[:, 0, 1::2] = torch.cos(position * frequency[: size // 2])
        # Not saved: it follows from the sizes.
        self.register_buffer("waves", waves, persistent=False)

    def forward(self, vectors: Tensor) -> Tensor:
        """Add the encoding to vectors (length, n, size)."""
        result: Tensor = self.dropout(vectors + self.waves[: len(vectors)])
        return result


class TransformerLM(nn.Module):
    """A language model: every position predicts the next token from itself and those before it.

    With the default sizes it is the network of the circle-constraint experiments: 2 encoder
    layers, each with self-attention of 2 heads and a feed-forward network of 200 nodes.
    Embedding and output weights begin uniform in [-0.1, 0.1], the rest in PyTorch's standard way,
    which makes the layers copies of one another at first.

    Args:
        vocabulary: number of different tokens.
        size: length of a token's vector.
        heads: heads of the self-attention; a divisor of ``size``.
        hidden: nodes of the feed-forward networks.
        layers: number of encoder layers.
        dropout: probability with which a number is dropped in training.
        longest: largest number of positions.

    Raises:
        ValueError: if a number is not positive, or the heads do not divide the size.

    Example:
        >>> model = TransformerLM(vocabulary=50, size=8, heads=2, hidden=16)
        >>> model(torch.zeros(7, 3, dtype=torch.int64)).shape
        torch.Size([7, 3, 50])
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        size: int = 200,
        heads: int = 2,
        hidden: int = 200,
        layers: int = 2,
        dropout: float = 0.2,
        longest: int = 5000,
    ) -> None:
        super().__init__()
        others = {"vocabulary": vocabulary, "hidden": hidden, "layers": layers}
        check_sizes(size, heads, **others, longest=longest)
        self.size = size
        self.embedding = nn.Embedding(vocabulary, size)
        self.position = PositionalEncoding(size, dropout, longest)
        layer = nn.TransformerEncoderLayer(size, heads, hidden, dropout)
        # Nested tensors serve padded inputs, of which there are none here.
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.output = nn.Linear(size, vocabulary)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.output.weight, -0.1, 0.1)
        nn.init.zeros_(self.output.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (length, n) to logits (length, n, vocabulary).

        Args:
            tokens: token numbers, time along the first dimension, as ``data.text.batchify``
                and ``data.text.windows`` lay them out.

        Returns:
            Logits of the token that follows, at every position.

        Raises:
            ValueError: if there are more positions than the encoding has.
        """
        result: Tensor = self.output(self.features(tokens))
        return result

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean cross entropy of the tokens that follow, without a tensor of all logits.

        Args:
            tokens: as in ``forward``.
            targets: the tokens that follow, in one dimension.

        Example:
            >>> model = TransformerLM(vocabulary=50, size=8, heads=2, hidden=16)
            >>> model.loss(torch.zeros(7, 3, dtype=torch.int64), torch.arange(21)).shape
            torch.Size([])
        """
        return linear_cross_entropy(self.output, self.features(tokens).flatten(0, 1), targets)

    def features(self, tokens: Tensor) -> Tensor:
        """What the output layer gets: (length, n, size)."""
        if len(tokens) > len(self.position.waves):
            raise ValueError(f"{len(tokens)} positions, but at most {len(self.position.waves)}")
        mask = nn.Transformer.generate_square_subsequent_mask(len(tokens), device=tokens.device)
        vectors = self.position(self.embedding(tokens) * math.sqrt(self.size))
        result: Tensor = self.encoder(vectors, mask=mask, is_causal=True)
        return result
