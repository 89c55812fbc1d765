"""A BERT-type encoder of sentences, and a classifier upon it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn import functional

from colangevin import checks
from colangevin.lab.models.transformer import check_sizes

EPSILON = 1e-12
_NAMES = {
    "embeddings.word_embeddings": "words",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "kinds",
    "embeddings.LayerNorm": "norm",
    "attention.self.": "",
    "attention.output.dense": "attended",
    "attention.output.LayerNorm": "attended_norm",
    "intermediate.dense": "expand",
    "output.dense": "contract",
    "output.LayerNorm": "norm",
    "encoder.layer.": "layers.",
}
"""Names of the published weights, and ours; the first that fit are taken, in this order."""


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each followed by a sum and a normalisation.

    Example:
        >>> import torch
        >>> layer = EncoderLayer(size=8, heads=2, hidden=16, dropout=0.0)
        >>> layer(torch.zeros(3, 8), torch.tensor([[True, True], [True, False]])).shape
        torch.Size([3, 8])
    """

    def __init__(self, size: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))
        self.attended = nn.Linear(size, size)
        self.attended_norm = nn.LayerNorm(size, eps=EPSILON)
        self.expand, self.contract = nn.Linear(size, hidden), nn.Linear(hidden, size)
        self.norm = nn.LayerNorm(size, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Tensor, seen: Tensor) -> Tensor:
        """Map one vector per piece, (pieces, size), to the same shape.

        Only the attention works on sentences that are filled up; what is not there costs no
        product with a weight.

        Args:
            vectors: of the pieces, sentence by sentence.
            seen: (n, length), True where a sentence has a piece.
        """
        parts = [filled(part(vectors), seen) for part in (self.query, self.key, self.value)]
        split = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts]
        dropout = self.dropout.p if self.training else 0.0
        query, key, value = split
        mask = seen[:, None, None, :]
        mixed = functional.scaled_dot_product_attention(query, key, value, mask, dropout)
        attended = self.attended(_pieces(mixed.transpose(1, 2).flatten(-2), seen))
        vectors = self.attended_norm(vectors + self.dropout(attended))
        inner = self.contract(functional.gelu(self.expand(vectors)))
        result: Tensor = self.norm(vectors + self.dropout(inner))
        return result


def filled(vectors: Tensor, seen: Tensor) -> Tensor:
    """Vectors (pieces, size) at their places (n, length, size), zero where there is none.

    Example:
        >>> import torch
        >>> filled(torch.tensor([[1], [2], [3]]), torch.tensor([[1, 1], [1, 0]]).bool()).tolist()
        [[[1], [2]], [[3], [0]]]
    """
    zeros = vectors.new_zeros(seen.numel(), vectors.shape[-1])
    return zeros.index_copy(0, _places(seen), vectors).unflatten(0, seen.shape)


def _pieces(vectors: Tensor, seen: Tensor) -> Tensor:
    """The vectors (pieces, size) of the places (n, length, size) that are seen."""
    return vectors.flatten(0, 1).index_select(0, _places(seen))


def _places(seen: Tensor) -> Tensor:
    return seen.flatten().nonzero().squeeze(1)


class SentenceEncoder(nn.Module):
    """A BERT-type encoder: a vector for every word piece of a sentence.

    Args:
        vocabulary: number of different pieces; number 0 fills up shorter sentences.
        size: length of a vector.
        heads: heads of the self-attention; a divisor of ``size``.
        hidden: nodes of the feed-forward networks.
        layers: number of layers.
        longest: largest number of pieces.
        dropout: probability with which a number is dropped in training.

    Raises:
        ValueError: if a number is not positive, or the heads do not divide the size.

    Example:
        >>> import torch
        >>> encoder = SentenceEncoder(50, size=8, heads=2, hidden=16, layers=2)
        >>> encoder(torch.tensor([[2, 7, 3], [2, 3, 0]])).shape
        torch.Size([2, 3, 8])
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        size: int = 384,
        heads: int = 12,
        hidden: int = 1536,
        layers: int = 6,
        longest: int = 512,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        others = {"vocabulary": vocabulary, "hidden": hidden, "layers": layers}
        check_sizes(size, heads, **others, longest=longest)
        checks.fraction("dropout", dropout)
        self.size = size
        self.words = nn.Embedding(vocabulary, size)
        self.positions = nn.Embedding(longest, size)
        self.kinds = nn.Embedding(2, size)
        self.norm = nn.LayerNorm(size, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(size, heads, hidden, dropout) for _ in range(layers)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Map numbers of pieces (n, length) to vectors (n, length, size), zero at number 0."""
        begun = self.words(tokens) + self.positions.weight[: tokens.shape[1]] + self.kinds.weight[0]
        seen = tokens != 0
        vectors: Tensor = self.dropout(self.norm(_pieces(begun, seen)))
        for layer in self.layers:
            vectors = layer(vectors, seen)
        return filled(vectors, seen)


class SentenceClassifier(nn.Module):
    """A linear layer upon the mean of the vectors of a sentence's pieces.

    Args:
        encoder: the encoder.
        classes: number of outputs.

    Example:
        >>> import torch
        >>> model = SentenceClassifier(SentenceEncoder(50, size=8, heads=2, hidden=16, layers=2))
        >>> model(torch.tensor([[2, 7, 3], [2, 3, 0]])).shape
        torch.Size([2, 2])
    """

    def __init__(self, encoder: SentenceEncoder, classes: int = 2) -> None:
        super().__init__()
        self.encoder = encoder
        self.classifier = nn.Linear(encoder.size, checks.count("classes", classes))

    def forward(self, tokens: Tensor) -> Tensor:
        """Map numbers of pieces (n, length) to logits (n, classes)."""
        pieces = (tokens != 0).sum(dim=1, keepdim=True)
        result: Tensor = self.classifier(self.encoder(tokens).sum(dim=1) / pieces)
        return result


def encoder_of(published: Mapping[str, Tensor], head_size: int = 32) -> SentenceEncoder:
    """An encoder with published weights of a BERT-type network; its sizes are theirs.

    Args:
        published: by the names that ``transformers`` gives them.
        head_size: numbers in a head of the self-attention; 32 in MiniLM, 64 in BERT.

    Raises:
        KeyError, RuntimeError: if weights are missing or do not fit.
    """
    weights = {
        _renamed(name): weight
        for name, weight in published.items()
        if not name.startswith("pooler.") and not name.endswith("position_ids")
    }
    vocabulary, size = weights["words.weight"].shape
    layers = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("layers."))
    encoder = SentenceEncoder(
        vocabulary,
        size=size,
        heads=size // head_size,
        hidden=len(weights["layers.0.expand.weight"]),
        layers=layers,
        longest=len(weights["positions.weight"]),
    )
    encoder.load_state_dict(weights)
    return encoder


def _renamed(name: str) -> str:
    """Our name of a published weight.

    Example:
        >>> _renamed("encoder.layer.3.attention.output.dense.bias")
        'layers.3.attended.bias'
    """
    for theirs, ours in _NAMES.items():
        name = re.sub(rf"(^|(?<=\.)){re.escape(theirs)}", ours, name)
    return name
