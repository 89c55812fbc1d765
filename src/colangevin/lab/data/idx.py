"""Fashion-MNIST and MNIST, in the IDX format."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from colangevin.errors import DataError
from colangevin.lab.data import files

_UNSIGNED_BYTE = 0x08
CLASSES = 10


class ImageData(NamedTuple):
    """Images and labels of a classification task, as they come.

    Attributes:
        train_images: ``uint8``, one image an entry of the first dimension.
        train_labels: ``int64``, one class number an image.
        test_images: as ``train_images``.
        test_labels: as ``train_labels``.
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def fashion_mnist(
    directory: str | os.PathLike[str] | None = None, *, verify: bool = True, download: bool = True
) -> ImageData:
    """Fashion-MNIST: 60,000 + 10,000 grey images of 28 x 28 pixels, ten kinds of clothing.

    Args:
        directory: data directory with a folder ``fashion-mnist``; see ``lab.data.files``.
        verify: compare the files' MD5s with the official ones.
        download: fetch files that are nowhere to be found.

    Returns:
        Images of shape (n, 28, 28) and labels of shape (n,).

    Raises:
        DataError: A file is missing or damaged.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as data:  # two blank images take the place of 60,000
        ...     folder = pathlib.Path(data, "fashion-mnist")
        ...     folder.mkdir()
        ...     for part in ("train", "t10k"):
        ...         header = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 28, 0, 0, 0, 28])
        ...         _ = (folder / f"{part}-images-idx3-ubyte").write_bytes(header + bytes(2 * 784))
        ...         header = bytes([0, 0, 8, 1, 0, 0, 0, 2])
        ...         _ = (folder / f"{part}-labels-idx1-ubyte").write_bytes(header + bytes([9, 0]))
        ...     images = fashion_mnist(data, verify=False)
        >>> images.train_images.shape, images.train_labels
        (torch.Size([2, 28, 28]), tensor([9, 0]))
    """
    return _mnist_like("fashion-mnist", directory, verify, download)


def mnist(
    directory: str | os.PathLike[str] | None = None, *, verify: bool = True, download: bool = True
) -> ImageData:
    """MNIST: the ten digits, in a folder ``mnist``; else as :func:`fashion_mnist`."""
    return _mnist_like("mnist", directory, verify, download)


def read_idx(path: str | os.PathLike[str]) -> Tensor:
    """The array of unsigned bytes in an IDX file, packed (``.gz``) or not.

    Args:
        path: the file.

    Returns:
        A ``uint8`` tensor of the shape that the file's header states.

    Raises:
        DataError: if the header is not that of such a file, or the length disagrees with it.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "labels")
        ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3]) + bytes([7, 2, 1]))
        ...     read_idx(path)
        tensor([7, 2, 1], dtype=torch.uint8)
    """
    path = Path(path)
    content = files.read(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _UNSIGNED_BYTE:
        raise DataError(
            f"{path} is not an IDX file of unsigned bytes: it begins with {content[:4].hex(' ')}, "
            "expected 00 00 08 and the number of dimensions"
        )
    begin = 4 + 4 * content[3]
    if len(content) < begin:
        raise DataError(f"{path} ends inside its header, {len(content)} of {begin} bytes")
    shape = [int.from_bytes(content[at : at + 4], "big") for at in range(4, begin, 4)]
    if len(content) - begin != math.prod(shape):
        raise DataError(
            f"{path} has {len(content) - begin} bytes of data, expected {math.prod(shape)} "
            f"for the shape {tuple(shape)} in its header"
        )
    # Through a bytearray: torch warns about memory that it may not write to.
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)[begin:].reshape(shape)


def _mnist_like(
    dataset: str, directory: str | os.PathLike[str] | None, verify: bool, download: bool
) -> ImageData:
    parts: list[Tensor] = []
    for prefix in ("train", "t10k"):
        names = [f"{prefix}-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")]
        paths = files.locate_all(dataset, names, directory, verify, download)
        images, labels = (read_idx(path) for path in paths)
        for path, array, dimensions in zip(paths, (images, labels), (3, 1), strict=True):
            if array.dim() != dimensions:
                raise DataError(f"{path} has {array.dim()} dimensions, expected {dimensions}")
        if len(images) != len(labels):
            raise DataError(f"{paths[1]} has {len(labels)} labels, expected {len(images)}")
        if not len(images):
            raise DataError(f"{paths[0]} has no images")
        if int(labels.max()) >= CLASSES:
            raise DataError(
                f"{paths[1]} has the label {int(labels.max())}, expected 0 to {CLASSES - 1}"
            )
        parts += [images, labels.long()]
    return ImageData(*parts)
