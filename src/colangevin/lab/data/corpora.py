"""Penn Treebank and WikiText-2: vocabulary, token numbers, and batches for language models.

The preparation is that of PyTorch's word language model example: words are what stands between
blanks, every line (an empty one too) ends with ``<eos>``, and the vocabulary counts the words of
all three parts in the order of their first appearance.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from colangevin import checks
from colangevin.errors import DataError
from colangevin.lab.data import files

END_OF_LINE = "<eos>"
PARTS = ("train", "valid", "test")
WIKI = [f"wiki.{part}.tokens" for part in PARTS]


class Vocabulary:
    """Words and their numbers, in the order of first appearance.

    Attributes:
        words: the words; a word's place is its number.
        numbers: the number of every word.

    Example:
        >>> vocabulary = Vocabulary()
        >>> vocabulary.add(["to", "be", "or", "not", "to", "be"])
        [0, 1, 2, 3, 0, 1]
        >>> len(vocabulary), vocabulary.decode([3, 0, 1])
        (4, ['not', 'to', 'be'])
    """

    def __init__(self) -> None:
        self.words: list[str] = []
        self.numbers: dict[str, int] = {}

    def __len__(self) -> int:
        """How many different words there are."""
        return len(self.words)

    def add(self, words: Iterable[str]) -> list[int]:
        """The numbers of ``words``; a word that is new gets the next number."""
        found = []
        for word in words:
            number = self.numbers.setdefault(word, len(self.words))
            if number == len(self.words):
                self.words.append(word)
            found.append(number)
        return found

    def decode(self, numbers: Iterable[int] | Tensor) -> list[str]:
        """The words that ``numbers`` stand for."""
        return [self.words[int(number)] for number in numbers]


class Corpus(NamedTuple):
    """A text in three parts, as token numbers (``int64``, one dimension).

    Attributes:
        vocabulary: what the numbers mean.
        train: to learn from.
        valid: to choose hyperparameters by.
        test: to judge by.
    """

    vocabulary: Vocabulary
    train: Tensor
    valid: Tensor
    test: Tensor


def penn_treebank(
    directory: str | os.PathLike[str] | None = None, *, verify: bool = True, download: bool = True
) -> Corpus:
    """Penn Treebank as prepared by Mikolov: 929,589 training tokens, 10,000 words.

    The arguments are those of :func:`files.locate`; the folder is ``ptb``.

    Raises:
        DataError: a file is missing, empty or damaged.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as data:  # a line takes the place of a newspaper
        ...     pathlib.Path(data, "ptb").mkdir()
        ...     for part in ("train", "valid", "test"):
        ...         _ = pathlib.Path(data, "ptb", f"ptb.{part}.txt").write_text(f"the {part} part")
        ...     corpus = penn_treebank(data, verify=False)
        >>> corpus.valid, corpus.vocabulary.decode(corpus.valid)
        (tensor([0, 4, 2, 3]), ['the', 'valid', 'part', '<eos>'])
    """
    names = [f"ptb.{part}.txt" for part in PARTS]
    return read_corpus(*files.locate_all("ptb", names, directory, verify, download))


def wikitext2(
    directory: str | os.PathLike[str] | None = None, *, verify: bool = True, download: bool = True
) -> Corpus:
    r"""WikiText-2: 2,088,628 training tokens of Wikipedia articles, 33,278 words.

    The arguments are those of :func:`files.locate`; the folder is ``wikitext-2``.

    Raises:
        DataError: a file is missing, empty or damaged.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as data:  # a title takes the place of the articles
        ...     folder = pathlib.Path(data, "wikitext-2")
        ...     folder.mkdir()
        ...     for part in ("train", "valid", "test"):
        ...         _ = (folder / f"wiki.{part}.tokens").write_text(" = Valkyria = \n \n")
        ...     corpus = wikitext2(data, verify=False)
        >>> corpus.train
        tensor([0, 1, 0, 2, 2])
    """
    return read_corpus(*files.locate_all("wikitext-2", WIKI, directory, verify, download))


class Bytes(NamedTuple):
    """A text in three parts, as its bytes (``uint8``, one dimension)."""

    train: Tensor
    valid: Tensor
    test: Tensor


def wikitext2_bytes(
    directory: str | os.PathLike[str] | None = None, *, verify: bool = True, download: bool = True
) -> Bytes:
    """The bytes of WikiText-2's three files: 10,797,148 to train on.

    Arguments, folder and errors are those of :func:`wikitext2`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as data:  # a word takes the place of the articles
        ...     folder = pathlib.Path(data, "wikitext-2")
        ...     folder.mkdir()
        ...     for part in ("train", "valid", "test"):
        ...         _ = (folder / f"wiki.{part}.tokens").write_text("abc")
        ...     wikitext2_bytes(data, verify=False).valid
        tensor([97, 98, 99], dtype=torch.uint8)
    """
    parts = []
    for path in files.locate_all("wikitext-2", WIKI, directory, verify, download):
        content = files.read(path)
        if not content:
            raise DataError(f"{path} is empty, expected lines of text")
        parts.append(torch.frombuffer(bytearray(content), dtype=torch.uint8))
    return Bytes(*parts)


def read_corpus(
    train: str | os.PathLike[str], valid: str | os.PathLike[str], test: str | os.PathLike[str]
) -> Corpus:
    r"""Any text in three files, in UTF-8.

    Args:
        train: file to learn from.
        valid: file to choose hyperparameters by.
        test: file to judge by.

    Returns:
        The three parts and their common vocabulary.

    Raises:
        DataError: A file cannot be read, is empty, or is not UTF-8.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "text")
        ...     _ = path.write_text("be or not\nnot be")
        ...     read_corpus(path, path, path).test
        tensor([0, 1, 2, 3, 2, 0, 3])
    """
    vocabulary = Vocabulary()
    parts = [_tokens(path, vocabulary) for path in (train, valid, test)]
    return Corpus(vocabulary, *parts)


def batchify(tokens: Tensor, batch_size: int) -> Tensor:
    """Cut a text into ``batch_size`` stretches that run beside each other, as columns.

    Args:
        tokens: token numbers, one dimension.
        batch_size: number of columns.

    Returns:
        A tensor (length, batch_size); the few tokens that do not fill a row are left out.

    Raises:
        ValueError: if there are fewer tokens than columns, or the size is not positive.

    Example:
        >>> batchify(torch.arange(7), 2)
        tensor([[0, 3],
                [1, 4],
                [2, 5]])
    """
    if not 1 <= batch_size <= len(tokens):
        raise ValueError(f"batch_size must be 1 to {len(tokens)}, got {batch_size}")
    length = len(tokens) // batch_size
    return tokens[: length * batch_size].view(batch_size, length).t().contiguous()


def windows(columns: Tensor, length: int = 35) -> Iterator[tuple[Tensor, Tensor]]:
    """Walk down the columns of a batchified text: inputs, and the tokens that follow them.

    Args:
        columns: what ``batchify`` returns.
        length: number of rows a step; the last step may have fewer.

    Yields:
        Inputs (rows, batch_size), and targets (rows * batch_size,), the inputs' successors.

    Example:
        >>> inputs, targets = next(windows(batchify(torch.arange(7), 2), length=2))
        >>> inputs, targets
        (tensor([[0, 3],
                [1, 4]]), tensor([1, 4, 2, 5]))
    """
    checks.count("length", length)
    for begin in range(0, len(columns) - 1, length):
        rows = min(length, len(columns) - 1 - begin)
        yield columns[begin : begin + rows], columns[begin + 1 : begin + 1 + rows].reshape(-1)


def _tokens(path: str | os.PathLike[str], vocabulary: Vocabulary) -> Tensor:
    numbers: list[int] = []
    # Not splitlines(), which would also break lines at rarer separators inside a sentence.
    for line in files.read_text(path).removesuffix("\n").split("\n"):
        numbers += vocabulary.add([*line.split(), END_OF_LINE])
    return torch.tensor(numbers, dtype=torch.int64)
