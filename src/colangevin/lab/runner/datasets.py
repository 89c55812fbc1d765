"""The datasets that experiments read, checked before hours of work and not in the middle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from colangevin.errors import DataError
from colangevin.lab import data
from colangevin.lab.data import pretrained

LOADERS: dict[str, Callable[[Path | None], Any]] = {
    "fashion-mnist": data.fashion_mnist,
    "mnist": data.mnist,
    "cifar-10": partial(data.cifar10, batches=(1, 2)),  # most need no more
    "cifar-10, all batches": data.cifar10,
    "ptb": data.penn_treebank,
    "wikitext-2": data.wikitext2,
    "wikitext-2 bytes": data.wikitext2_bytes,
    "uci": lambda directory: {name: data.uci(name, directory) for name in data.UCI_TABLES},
    "sst-2": data.sst2,
    "mobilenet": pretrained.mobilenet,
    "minilm": pretrained.minilm,
}


def check(names: Sequence[str], directory: Path | None) -> None:
    """Read datasets once, so that a missing or damaged file is found out.

    Args:
        names: of the datasets, keys of ``LOADERS``.
        directory: the data directory, or None for ``COLA_DATA`` and the cache.

    Raises:
        DataError: if one is missing or damaged.

    Example:
        >>> check([], None)
        >>> check(["fashion-mnist"], Path("/nowhere"))
        Traceback (most recent call last):
        ...
        colangevin.errors.DataError: fashion-mnist: data directory /nowhere does not exist
    """
    for name in names:
        try:
            LOADERS[name](directory)
        except DataError as error:
            text = str(error)
            raise DataError(text if text.startswith(name) else f"{name}: {text}") from None
