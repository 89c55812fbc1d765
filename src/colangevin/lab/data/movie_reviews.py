"""SST-2: sentences of film reviews, and whether they praise."""

from __future__ import annotations

import os
from typing import NamedTuple

import torch
from torch import Tensor

from colangevin.errors import DataError
from colangevin.lab.data import files

HEADER = "sentence\tlabel"


class Sentences(NamedTuple):
    """Sentences with labels, 1 for praise and 0 for blame, in two parts.

    Attributes:
        train: sentences and phrases to learn from.
        train_labels: ``int64``.
        dev: sentences to judge by: the labels of the official test part are not public.
        dev_labels: ``int64``.
    """

    train: list[str]
    train_labels: Tensor
    dev: list[str]
    dev_labels: Tensor


def sst2(
    directory: str | os.PathLike[str] | None = None, *, verify: bool = True, download: bool = True
) -> Sentences:
    r"""The Stanford Sentiment Treebank with two classes, as in GLUE: 67,349 + 872 sentences.

    The arguments are those of :func:`files.locate`; the folder is ``SST-2``.

    Raises:
        DataError: a file is missing, empty or damaged.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as data:  # a sentence takes the place of reviews
        ...     pathlib.Path(data, "SST-2").mkdir()
        ...     for part in ("train", "dev"):
        ...         path = pathlib.Path(data, "SST-2", f"{part}.tsv")
        ...         _ = path.write_text("sentence\tlabel\na charming journey \t1\n")
        ...     sst2(data, verify=False).dev
        ['a charming journey']
    """
    paths = files.locate_all("SST-2", ["train.tsv", "dev.tsv"], directory, verify, download)
    train, dev = map(read_sentences, paths)
    return Sentences(*train, *dev)


def read_sentences(path: str | os.PathLike[str]) -> tuple[list[str], Tensor]:
    r"""Sentences and labels of one file: a header, then a sentence, a tab and 0 or 1 in each line.

    Raises:
        DataError: naming the file and the line that is different.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "a.tsv")
        ...     _ = path.write_text("sentence\tlabel\nbleak \t0\n")
        ...     read_sentences(path)
        (['bleak'], tensor([0]))
    """
    header, *lines = files.read_text(path).removesuffix("\n").split("\n")
    if header.rstrip("\r") != HEADER or not lines:
        raise DataError(f"{path} must begin with {HEADER!r} and have sentences, got {header!r:.80}")
    sentences, labels = [], []
    for number, line in enumerate(lines, start=2):
        sentence, _, label = line.rstrip("\r").rpartition("\t")
        if label not in ("0", "1") or not sentence.strip():
            raise DataError(f"{path}, line {number}: no sentence with 0 or 1 ({line!r:.80})")
        sentences.append(sentence.strip())
        labels.append(int(label))
    return sentences, torch.tensor(labels)
