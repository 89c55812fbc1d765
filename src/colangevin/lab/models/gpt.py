"""A GPT: normalisation before each part, no biases in the hidden matrices."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from colangevin.lab.models.transformer import check_sizes


class Attention(nn.Module):
    """Causal self-attention, without biases.

    Example:
        >>> import torch
        >>> Attention(size=8, heads=2)(torch.zeros(3, 5, 8)).shape
        torch.Size([3, 5, 8])
    """

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (
            nn.Linear(size, size, bias=False) for _ in range(4)
        )

    def forward(self, vectors: Tensor) -> Tensor:
        """Map vectors (n, length, size) to the same shape."""
        parts = [part(vectors) for part in (self.query, self.key, self.value)]
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(-2))
        return result


class Block(nn.Module):
    """Attention and a feed-forward network, each on a normalised input and added to it."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.attention = Attention(size, heads)
        self.mlp = nn.Sequential(
            nn.Linear(size, 4 * size, bias=False),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * size, size, bias=False),
        )

    def forward(self, vectors: Tensor) -> Tensor:
        """Map vectors (n, length, size) to the same shape."""
        vectors = vectors + self.attention(self.attention_norm(vectors))
        result: Tensor = vectors + self.mlp(self.mlp_norm(vectors))
        return result


class GPT(nn.Module):
    """Predicts each next token of a text from those before it.

    All but positions and head begin in PyTorch's standard way: the hidden matrices,
    ``*.attention.*`` and ``*.mlp.*``, uniform between ±1/√fan_in, and the tokens' vectors with
    deviation 1, so they are not small beside what the blocks add. Positions have deviation 0.1.
    The head begins at 0, so the first loss is log(vocabulary).

    Args:
        vocabulary: number of different tokens.
        size: length of a token's vector.
        heads: heads of the self-attention; a divisor of ``size``.
        layers: number of blocks.
        longest: largest number of tokens that it sees.

    Raises:
        ValueError: if a number is not positive, or the heads do not divide the size.

    Example:
        >>> import torch
        >>> model = GPT(vocabulary=50, size=8, heads=2, layers=1, longest=5)
        >>> model(torch.zeros(3, 5, dtype=torch.int64)).shape
        torch.Size([3, 5, 50])
        >>> [name for name, _ in model.named_parameters() if ".mlp." in name]
        ['blocks.0.mlp.0.weight', 'blocks.0.mlp.2.weight']
    """

    def __init__(
        self, vocabulary: int, *, size: int, heads: int, layers: int, longest: int
    ) -> None:
        super().__init__()
        check_sizes(size, heads, vocabulary=vocabulary, layers=layers, longest=longest)
        self.embedding = nn.Embedding(vocabulary, size)
        self.position = nn.Embedding(longest, size)
        self.blocks = nn.Sequential(*(Block(size, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(size)
        self.head = nn.Linear(size, vocabulary, bias=False)
        nn.init.normal_(self.position.weight, std=0.1)
        nn.init.zeros_(self.head.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (n, length) to logits (n, length, vocabulary) of the token that follows.

        Raises:
            ValueError: if there are more tokens in a row than the model has positions.
        """
        length, longest = tokens.shape[-1], self.position.num_embeddings
        if length > longest:
            raise ValueError(f"{length} tokens in a row, but at most {longest}")
        vectors = self.embedding(tokens) + self.position.weight[:length]
        result: Tensor = self.head(self.norm(self.blocks(vectors)))
        return result
