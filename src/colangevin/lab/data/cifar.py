"""CIFAR-10, from the binary or the python version of the official archive."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from colangevin.errors import DataError
from colangevin.lab.data import files
from colangevin.lab.data.idx import ImageData

CLASSES = 10
_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32
_FOLDERS = {"binary": "cifar-10-batches-bin", "python": "cifar-10-batches-py"}
_ENDINGS = {"binary": ".bin", "python": ""}


def cifar10(
    directory: str | os.PathLike[str] | None = None,
    *,
    batches: Sequence[int] = (1, 2, 3, 4, 5),
    version: str = "any",
    verify: bool = True,
    download: bool = True,
) -> ImageData:
    """CIFAR-10: 50,000 + 10,000 colour images of 32 x 32 pixels in ten classes.

    Args:
        directory: data directory with a folder ``cifar-10-batches-bin`` or
            ``cifar-10-batches-py``; see ``colangevin.lab.data.files``.
        batches: which of the five training batches of 10,000 images to read, in this order.
        version: ``"binary"``, ``"python"``, or ``"any"`` for the one that is there.
        verify: compare the files' MD5s with the official ones.
        download: fetch the archive if no batch is to be found.

    Returns:
        Images of shape (n, 3, 32, 32) and labels of shape (n,).

    Raises:
        DataError: A file is missing or damaged. Batches are not fetched for a folder that has
            some of them: the error names the first one missing.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as data:  # one image takes the place of 10,000
        ...     folder = pathlib.Path(data, "cifar-10-batches-bin")
        ...     folder.mkdir()
        ...     for name in ("data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"):
        ...         _ = (folder / name).write_bytes(bytes([6]) + bytes(3072))
        ...     images = cifar10(data, batches=(1, 2), verify=False)
        >>> images.train_images.shape, images.test_labels
        (torch.Size([2, 3, 32, 32]), tensor([6]))
    """
    if not batches or not set(batches) <= {1, 2, 3, 4, 5}:
        raise DataError(f"CIFAR-10 has the training batches 1 to 5, not {tuple(batches)}")
    if version not in ("any", *_FOLDERS):
        raise DataError(f"unknown version {version!r} of CIFAR-10: binary, python or any")
    stems = [f"data_batch_{number}" for number in batches] + ["test_batch"]
    kind = _available(stems, directory, list(_FOLDERS) if version == "any" else [version])
    reader = read_binary if kind == "binary" else read_python
    names = [stem + _ENDINGS[kind] for stem in stems]
    paths = files.locate_all(_FOLDERS[kind], names, directory, verify, download)
    parts = [reader(path) for path in paths]
    images, labels = (torch.cat(side) for side in zip(*parts[:-1], strict=True))
    return ImageData(images, labels, *parts[-1])


def read_binary(path: str | os.PathLike[str]) -> tuple[Tensor, Tensor]:
    """Images and labels of one batch of the binary version.

    Args:
        path: the file: for every image its label, one byte, and its 3 x 32 x 32 bytes.

    Returns:
        ``uint8`` images of shape (n, 3, 32, 32) and ``int64`` labels of shape (n,).

    Raises:
        DataError: if the length is not a whole number of images, or a label is not 0 to 9.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "batch.bin")
        ...     _ = path.write_bytes(bytes([6]) + bytes(3072))
        ...     images, labels = read_binary(path)
        >>> images.shape, labels
        (torch.Size([1, 3, 32, 32]), tensor([6]))
    """
    content = files.read(path)
    count, rest = divmod(len(content), 1 + _PIXELS)
    if rest or not count:
        raise DataError(
            f"{path} has {len(content)} bytes, expected a multiple of {1 + _PIXELS}: cut short?"
        )
    # Through a bytearray: torch warns about memory that it may not write to.
    records = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(count, 1 + _PIXELS)
    return _checked(path, records[:, 1:], records[:, 0].long())


def read_python(path: str | os.PathLike[str]) -> tuple[Tensor, Tensor]:
    """Images and labels of one batch of the python version.

    The file is a pickle. Nothing but plain containers and arrays is let through, so that a
    doctored file cannot run code.

    Args:
        path: the file: a dictionary with ``data``, an array (n, 3072), and ``labels``, a list.

    Returns:
        ``uint8`` images of shape (n, 3, 32, 32) and ``int64`` labels of shape (n,).

    Raises:
        DataError: if the file is not such a pickle.

    Example:
        >>> import numpy, pathlib, pickle, tempfile
        >>> batch = {"data": numpy.zeros((2, 3072), numpy.uint8), "labels": [6, 9]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "batch")
        ...     _ = path.write_bytes(pickle.dumps(batch, protocol=3))
        ...     images, labels = read_python(path)
        >>> images.shape, labels
        (torch.Size([2, 3, 32, 32]), tensor([6, 9]))
    """
    content = files.read(path)
    try:
        # Python 2 wrote the official files: numpy asks for latin1 to read such arrays.
        batch = _ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()
        images = torch.from_numpy(batch["data"])
        labels = torch.tensor(batch["labels"], dtype=torch.int64)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except ImportError:
        raise  # numpy, which the file does not lack
    except Exception as error:  # a damaged pickle can fail in any way
        raise DataError(
            f"{path} is not a batch of CIFAR-10's python version, or cut short: {error!r}"
        ) from error
    return _checked(path, images, labels)


class _ArrayUnpickler(pickle.Unpickler):
    """Builds numpy arrays, and no other objects."""

    def find_class(self, module: str, name: str) -> Any:
        import numpy

        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            # The module's name differs between numpy 1 and 2; an array knows the function.
            return numpy.empty(0).__reduce__()[0]
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(numpy, name)
        raise DataError(f"refused to load {module}.{name} from a data file")


def _checked(path: str | os.PathLike[str], images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    if images.dtype != torch.uint8 or images.shape[1:] != (_PIXELS,):
        raise DataError(
            f"{path} has data of type {images.dtype} and shape {tuple(images.shape)}, "
            f"expected torch.uint8 and (n, {_PIXELS})"
        )
    if labels.shape != images.shape[:1]:
        raise DataError(f"{path} has {labels.numel()} labels, expected {len(images)}")
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < CLASSES:
        raise DataError(f"{path} has a label outside 0 to {CLASSES - 1}")
    return images.reshape(-1, *_SHAPE).contiguous(), labels


def _available(
    stems: Sequence[str], directory: str | os.PathLike[str] | None, kinds: Sequence[str]
) -> str:
    """The version whose files are all there; the first one, to be fetched, if there are none."""
    incomplete: list[tuple[str, str, Path]] = []
    for kind in kinds:
        names = [stem + _ENDINGS[kind] for stem in stems]
        paths = [files.find(_FOLDERS[kind], name, directory) for name in names]
        if None not in paths:
            return kind
        first_missing = names[paths.index(None)]
        others = [path for path in paths if path is not None]
        incomplete += [(_FOLDERS[kind], first_missing, path) for path in others[:1]]
    if incomplete:
        folder, name, other = incomplete[0]
        reason = f"other batches are there ({other})"
        if not name.startswith("test"):
            reason += ", and batches=(1, 2) would read some of them only"
        raise files.missing(folder, name, directory, reason)
    return kinds[0]
