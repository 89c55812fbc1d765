"""Where the data files are: a directory of yours, or a cache filled from the official addresses.

A data directory has one folder per dataset, with the official file names::

    fashion-mnist/          train-images-idx3-ubyte.gz, ... (or the same without .gz)
    mnist/                  the same four names
    cifar-10-batches-bin/   data_batch_1.bin ... data_batch_5.bin, test_batch.bin
    cifar-10-batches-py/    data_batch_1 ... data_batch_5, test_batch
    ptb/                    ptb.train.txt, ptb.valid.txt, ptb.test.txt
    wikitext-2/             wiki.train.tokens, wiki.valid.tokens, wiki.test.tokens
    uci/                    airfoil.data, concrete.data, energy.data, yacht.data

Name it in a call, or in the environment variable ``COLA_DATA``. What is in neither place is
downloaded once into the cache, which needs ``pip install ".[cli,data]"``.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib
import importlib.util
import os
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO
from urllib.parse import urlsplit

from colangevin.errors import DataError
from colangevin.lab.data.sources import SOURCES, Source

ENVIRONMENT = "COLA_DATA"
LONGEST = 160
"""Characters of the reason why a download failed."""

# A dataset author's host turns away the default name of Python's HTTP libraries.
_HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; colangevin)"}

# Reading a file of 30 MB for its hash takes 50 ms: once a process is enough.
_verified: set[tuple[str, int, int, str]] = set()


def locate(
    dataset: str,
    name: str,
    directory: str | os.PathLike[str] | None = None,
    *,
    verify: bool = True,
    download: bool = True,
) -> Path:
    """Path of a data file: in ``directory``, in ``COLA_DATA``, or in the cache.

    Args:
        dataset: folder name of the dataset, a key of ``SOURCES``.
        name: official file name. A file ``x.gz`` is also found unpacked, as ``x``.
        directory: data directory to look in first.
        verify: compare the file's MD5 with the official one. Turn this off to use files of
            your own in the same format.
        download: fetch a file that is nowhere to be found.

    Returns:
        The path of a file that exists.

    Raises:
        DataError: if the file is missing and cannot be fetched, or has another hash.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as data:
        ...     pathlib.Path(data, "ptb").mkdir()
        ...     _ = pathlib.Path(data, "ptb", "ptb.test.txt").write_text("no it was n't")
        ...     locate("ptb", "ptb.test.txt", data, verify=False).name
        'ptb.test.txt'
    """
    source = _source(dataset, name)
    found = find(dataset, name, directory)
    if found is None:
        return _from_cache(dataset, name, directory, download)
    expected = source.expected(found.name)
    if verify and (measured := _md5(found, expected)) != expected:
        raise DataError(
            f"{found} is damaged, cut short or another file: its MD5 is {measured} over "
            f"{found.stat().st_size} bytes, expected {expected}; replace it with the official "
            f"file ({source.urls(name)[0]})"
        )
    return found


def locate_all(
    dataset: str,
    names: Sequence[str],
    directory: str | os.PathLike[str] | None,
    verify: bool,
    download: bool,
) -> list[Path]:
    """Paths of several files of a dataset; see :func:`locate`."""
    return [locate(dataset, name, directory, verify=verify, download=download) for name in names]


def find(dataset: str, name: str, directory: str | os.PathLike[str] | None = None) -> Path | None:
    """Path of a data file in ``directory`` or ``COLA_DATA``, unverified; ``None`` if not there.

    Args:
        dataset: folder name of the dataset, a key of ``SOURCES``.
        name: official file name. A file ``x.gz`` is also found unpacked, as ``x``.
        directory: data directory to look in first.

    Returns:
        The path, or ``None``.

    Raises:
        DataError: if the dataset or the name is unknown, or a directory does not exist.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as data:
        ...     pathlib.Path(data, "mnist").mkdir()
        ...     pathlib.Path(data, "mnist", "t10k-labels-idx1-ubyte").touch()
        ...     find("mnist", "t10k-labels-idx1-ubyte.gz", data).name
        't10k-labels-idx1-ubyte'
    """
    _source(dataset, name)
    for root in directories(directory):
        for candidate in (root / dataset / name, root / dataset / name.removesuffix(".gz")):
            if candidate.is_file():
                return candidate
    return None


def cache_folder() -> Path | None:
    """Where downloaded files lie, whether it exists or not; ``None`` without the package pooch.

    Example:
        >>> folder = cache_folder()
        >>> folder is None or "colangevin" in str(folder)
        True
    """
    if importlib.util.find_spec("pooch") is None:
        return None
    return Path(importlib.import_module("pooch").os_cache("colangevin"))


def is_there(dataset: str, name: str) -> bool:
    """Whether a data file is in ``COLA_DATA`` or in the cache, unverified.

    Raises:
        DataError: if the dataset or the name is unknown, or ``COLA_DATA`` is no directory.
    """
    folder = cache_folder()
    cached = folder is not None and (folder / dataset / name).is_file()
    return find(dataset, name) is not None or cached


def read(path: str | os.PathLike[str]) -> bytes:
    """The content of a file; of a file ``x.gz``, unpacked.

    Args:
        path: the file.

    Returns:
        Its bytes.

    Raises:
        DataError: if the file cannot be read, or is not a whole gzip file.

    Example:
        >>> import gzip, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "x.gz")
        ...     _ = path.write_bytes(gzip.compress(b"0123"))
        ...     read(path)
        b'0123'
    """
    path = Path(path)
    packed = _read(path)
    if path.suffix != ".gz":
        return packed
    try:
        return gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a whole gzip file: {error}") from error


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file in UTF-8, which must not be empty.

    Raises:
        DataError: if it cannot be read, is not UTF-8, or is empty.
    """
    try:
        text = read(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8: {error}") from error
    if not text:
        raise DataError(f"{path} is empty, expected lines of text")
    return text


def _source(dataset: str, name: str) -> Source:
    if dataset not in SOURCES:
        raise DataError(f"unknown dataset {dataset!r}; known: {', '.join(SOURCES)}")
    if name not in SOURCES[dataset].md5:
        raise DataError(f"{dataset} has no file {name!r}; it has {', '.join(SOURCES[dataset].md5)}")
    return SOURCES[dataset]


def directories(directory: str | os.PathLike[str] | None) -> Iterator[Path]:
    """The user's data directories, lazily: one that is not reached may be wrong.

    Example:
        >>> [path.name for path in directories("/")][:1]
        ['']
    """
    places = (("data directory", directory), (ENVIRONMENT, os.environ.get(ENVIRONMENT)))
    for label, place in places:
        if place:
            path = Path(place).expanduser()
            # A mistyped directory must not turn into a silent download.
            if wrong := _wrong(path):
                raise DataError(f"{label} {path} {wrong}")
            yield path


def _wrong(path: Path) -> str:
    """What speaks against a data directory; nothing if it is one."""
    if os.path.isdir(path):
        return "" if os.access(path, os.R_OK | os.X_OK) else "cannot be read: permission denied"
    return "is a file, not a directory" if os.path.exists(path) else "does not exist"


def places(directory: str | os.PathLike[str] | None = None) -> str:
    """Where data files are looked for, in words.

    Raises:
        DataError: if a directory does not exist.

    Example:
        >>> places("/").startswith("/, COLA_DATA ")
        True
    """
    looked = [str(root) for root in directories(directory)]
    variable = os.environ.get(ENVIRONMENT)
    looked = looked[: len(looked) - bool(variable)]
    looked.append(f"{ENVIRONMENT} ({variable or 'not set'})")
    return ", ".join([*looked, f"the cache ({cache_folder() or 'needs pooch'})"])


def _md5(path: Path, expected: str) -> str:
    """The MD5 of a file, read only once a process as long as the file is good and unchanged."""
    status = path.stat()
    key = (str(path.resolve()), status.st_size, status.st_mtime_ns, expected)
    if key in _verified:
        return expected
    measured = hashlib.md5(_read(path), usedforsecurity=False).hexdigest()
    if measured == expected:
        _verified.add(key)
    return measured


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def missing(
    dataset: str, name: str, directory: str | os.PathLike[str] | None, reason: str
) -> DataError:
    """The error that says what is missing, where it was looked for, and where to put it."""
    source = SOURCES[dataset]
    root = next(directories(directory), Path(f"${ENVIRONMENT}"))
    origin = f"{'in' if source.archive else 'at'} {source.urls(name)[0]}"
    return DataError(
        f"{dataset}/{name} is missing; looked in {places(directory)}. Put it at "
        f"{root / dataset / name}, or let --data or {ENVIRONMENT} name your data directory. It is "
        f"{origin} (MD5 {source.md5[name]}). Not downloaded: {reason}"
    )


def _from_cache(
    dataset: str, name: str, directory: str | os.PathLike[str] | None, download: bool
) -> Path:
    folder = cache_folder()
    if folder is None:
        reason = 'to have it downloaded, run pip install ".[cli,data]" in a clone of colangevin'
        raise missing(dataset, name, directory, reason)
    pooch = importlib.import_module("pooch")
    source = SOURCES[dataset]
    target = folder / dataset / name
    if target.is_file() and _md5(target, source.md5[name]) == source.md5[name]:
        return target
    if not download:
        raise missing(dataset, name, directory, "downloading is switched off")
    reasons = []
    for url in source.urls(name):
        try:
            return _fetch(pooch, url, source, target)
        except (OSError, ValueError, KeyError, tarfile.TarError, zipfile.BadZipFile) as error:
            reasons.append(f"{urlsplit(url).netloc} failed ({_short(error)})")
    raise missing(dataset, name, directory, ", ".join(reasons))


def _short(error: Exception) -> str:
    """The reason alone: errors of connections have all that led to them in their text.

    Example:
        >>> _short(OSError("Pool('x'): Max retries (by E('[Errno 111] Connection refused'))"))
        'Connection refused'
    """
    text = " ".join(str(error).split())
    numbered = re.findall(r"\[Errno -?\d+\] ([^'\")(\]]+)", text)
    if numbered:
        return str(numbered[-1]).strip()
    sentence = text.partition(". ")[0]
    return sentence if len(sentence) <= LONGEST else f"{sentence[:LONGEST]} …"


def _fetch(pooch: ModuleType, url: str, source: Source, target: Path) -> Path:
    """Download one file, or the archive that holds it, into the cache."""
    bar = importlib.util.find_spec("tqdm") is not None
    downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, headers=_HEADERS)
    md5 = source.archive_md5 if source.archive else source.md5[target.name]
    name = source.archive or target.name
    arrived = pooch.retrieve(
        url, known_hash=f"md5:{md5}", fname=name, path=target.parent, downloader=downloader
    )
    if source.archive:
        _unpack(Path(arrived), source)
        # The members are checked by their own hashes from here on.
        Path(arrived).unlink(missing_ok=True)
    if (measured := _md5(target, source.md5[target.name])) != source.md5[target.name]:
        raise ValueError(f"MD5 of {target.name} is {measured}, expected {source.md5[target.name]}")
    return target


def _unpack(archive: Path, source: Source) -> None:
    """Write the archive's data files, and nothing else of it, beside the archive."""
    folder = archive.parent
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            for name in source.md5:
                with zipped.open(f"{folder.name}/{name}") as member:
                    _write(member, folder / name)
        return
    with tarfile.open(archive) as tarred:
        for name in source.md5:
            extracted = tarred.extractfile(f"{folder.name}/{name}")
            if extracted is None:
                raise KeyError(f"{name} in {archive.name} is not a file")
            _write(extracted, folder / name)


def _write(member: IO[bytes], target: Path) -> None:
    # Under another name first, so that an interrupted run leaves no half file in the cache.
    partial = target.with_name(f"{target.name}.{os.getpid()}.part")
    with partial.open("wb") as file:
        shutil.copyfileobj(member, file)
    partial.replace(target)
