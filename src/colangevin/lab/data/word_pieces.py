"""Sentences as numbers of word pieces, as BERT-type networks take them."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

PAD, UNKNOWN, BEGIN, END = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
LONGEST_WORD = 100


class WordPieces:
    """Cuts words into the longest pieces of a vocabulary, from the left; lower case, no accents.

    A piece within a word has ``##`` before it. A word that cannot be cut is ``[UNK]``.

    Args:
        numbers: of every piece; ``[PAD]``, which is 0, ``[UNK]``, ``[CLS]`` and ``[SEP]`` are
            among them.

    Raises:
        ValueError: if one of these is missing.

    Example:
        >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "charm", "##ing", "!"]
        >>> cut = WordPieces({piece: number for number, piece in enumerate(pieces)})
        >>> cut.pieces("Charming, charming!")
        ['charm', '##ing', '[UNK]', 'charm', '##ing', '!']
        >>> cut.encode("charming")
        [2, 4, 5, 3]
    """

    def __init__(self, numbers: Mapping[str, int]) -> None:
        missing = [piece for piece in (PAD, UNKNOWN, BEGIN, END) if piece not in numbers]
        if missing or numbers[PAD] != 0:
            raise ValueError(f"the vocabulary lacks {', '.join(missing) or '[PAD] at 0'}")
        self.numbers = dict(numbers)

    def pieces(self, sentence: str) -> list[str]:
        """The pieces of a sentence."""
        found: list[str] = []
        for word in _words(sentence):
            found += self._cut(word)
        return found

    def encode(self, sentence: str) -> list[int]:
        """The numbers of the pieces, between those of ``[CLS]`` and ``[SEP]``."""
        return [self.numbers[piece] for piece in (BEGIN, *self.pieces(sentence), END)]

    def _cut(self, word: str) -> list[str]:
        found: list[str] = []
        begin = 0
        while begin < len(word) <= LONGEST_WORD:
            mark = "##" if begin else ""
            ends = range(len(word), begin, -1)
            end = next((e for e in ends if mark + word[begin:e] in self.numbers), None)
            if end is None:
                return [UNKNOWN]
            found.append(mark + word[begin:end])
            begin = end
        return found or [UNKNOWN]


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of numbers as one tensor, with 0 after the shorter ones.

    Example:
        >>> padded([[1, 2], [3]])
        tensor([[1, 2],
                [3, 0]])
    """
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])


def _words(sentence: str) -> list[str]:
    """Words, and punctuation marks each for itself, in lower case and without accents."""
    spread = ""
    for letter in unicodedata.normalize("NFD", sentence.lower()):
        kind = unicodedata.category(letter)
        if kind == "Mn" or (kind.startswith("C") and not letter.isspace()):
            continue
        alone = _is_punctuation(letter, kind) or _is_ideograph(letter)
        spread += f" {letter} " if alone else letter
    return spread.split()


def _is_punctuation(letter: str, kind: str) -> bool:
    """As BERT counts it: every character of ASCII that is no letter, digit or blank."""
    ascii_mark = letter.isascii() and not letter.isalnum() and not letter.isspace()
    return ascii_mark or kind.startswith("P")


def _is_ideograph(letter: str) -> bool:
    return "CJK" in unicodedata.name(letter, "") and unicodedata.category(letter) == "Lo"
