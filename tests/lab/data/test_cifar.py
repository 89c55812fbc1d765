"""CIFAR-10 in both versions, on small files written here."""

import io
import os
import pickle
from typing import ClassVar

import pytest
import torch

from colangevin.errors import DataError
from colangevin.lab.data.cifar import cifar10, read_binary, read_python

numpy = pytest.importorskip("numpy")

ROWS = 4


class Python2Pickler(pickle._Pickler):
    """Writes what Python 2 with numpy 1 wrote: byte strings, and the old name of the module."""

    dispatch: ClassVar[dict] = dict(pickle._Pickler.dispatch)

    def save_text(self, value):
        raw = value.encode("latin1") if isinstance(value, str) else value
        self.write(pickle.BINSTRING + len(raw).to_bytes(4, "little") + raw)
        self.memoize(value)

    def save_global(self, value, name=None):
        module = value.__module__.replace("numpy._core", "numpy.core")
        self.write(pickle.GLOBAL + f"{module}\n{value.__name__}\n".encode())
        self.memoize(value)

    dispatch[str] = dispatch[bytes] = save_text


def python2(value):
    buffer = io.BytesIO()
    Python2Pickler(buffer, protocol=2).dump(value)
    return buffer.getvalue()


def batch(number):
    """Different images and labels for every number."""
    generator = torch.Generator().manual_seed(number)
    images = torch.randint(256, (ROWS, 3072), dtype=torch.uint8, generator=generator)
    return images, torch.randint(10, (ROWS,), generator=generator)


def binary(images, labels):
    return torch.cat([labels.to(torch.uint8)[:, None], images], 1).numpy().tobytes()


def python(images, labels):
    content = {"batch_label": "one of 5", "labels": labels.tolist(), "data": images.numpy()}
    return python2(content | {"filenames": [f"{i}.png" for i in range(len(labels))]})


def write(root, version, batches=(1, 2, 3, 4, 5), test=True):
    folder = root / {"binary": "cifar-10-batches-bin", "python": "cifar-10-batches-py"}[version]
    folder.mkdir()
    ending, encode = {"binary": (".bin", binary), "python": ("", python)}[version]
    for number in batches:
        (folder / f"data_batch_{number}{ending}").write_bytes(encode(*batch(number)))
    if test:
        (folder / f"test_batch{ending}").write_bytes(encode(*batch(0)))
    return folder


@pytest.mark.parametrize("version", ["binary", "python"])
def test_loads_what_was_written(tmp_path, version):
    write(tmp_path, version)
    data = cifar10(tmp_path, verify=False, download=False)
    images, labels = zip(*(batch(number) for number in (1, 2, 3, 4, 5)), strict=True)
    assert torch.equal(data.train_images, torch.cat(images).view(-1, 3, 32, 32))
    assert torch.equal(data.train_labels, torch.cat(labels))
    assert torch.equal(data.test_images, batch(0)[0].view(-1, 3, 32, 32))
    assert torch.equal(data.test_labels, batch(0)[1])
    assert data.train_images.dtype == torch.uint8 and data.train_labels.dtype == torch.int64
    assert data.test_images.is_contiguous()


@pytest.mark.parametrize("version", ["binary", "python"])
def test_some_batches_only(tmp_path, version):
    folder = write(tmp_path, version, batches=(1, 2))
    data = cifar10(tmp_path, batches=(2, 1), verify=False, download=False)
    assert torch.equal(data.train_labels, torch.cat([batch(2)[1], batch(1)[1]]))
    with pytest.raises(DataError, match=r"data_batch_3\S* is missing.*batches=\(1, 2\)") as caught:
        cifar10(tmp_path, verify=False)
    assert str(folder) in str(caught.value) and "MD5" in str(caught.value)
    next(folder.glob("test_batch*")).unlink()
    with pytest.raises(DataError, match=r"test_batch\S* is missing.*MD5") as caught:
        cifar10(tmp_path, batches=(1, 2), verify=False)
    assert "batches=" not in str(caught.value)


def test_any_version_takes_the_complete_one(tmp_path):
    write(tmp_path, "binary", batches=(1,))
    write(tmp_path, "python")
    data = cifar10(tmp_path, verify=False, download=False)
    assert len(data.train_labels) == 5 * ROWS
    with pytest.raises(DataError, match=r"data_batch_2\.bin is missing"):
        cifar10(tmp_path, version="binary", verify=False)


def test_nothing_there_asks_for_the_binary_version(tmp_path):
    with pytest.raises(DataError, match=r"cifar-10-batches-bin/data_batch_1\.bin is missing"):
        cifar10(tmp_path, download=False)
    with pytest.raises(DataError, match=r"cifar-10-batches-py/data_batch_1 is missing"):
        cifar10(tmp_path, version="python", download=False)


@pytest.mark.parametrize("version", ["binary", "python"])
def test_files_that_are_not_the_official_ones_are_noticed(tmp_path, version):
    write(tmp_path, version)
    with pytest.raises(DataError, match=r"data_batch_1\S* is damaged"):
        cifar10(tmp_path)


@pytest.mark.parametrize("batches", [(), (0,), (1, 6)])
def test_batches_that_do_not_exist(tmp_path, batches):
    with pytest.raises(DataError, match="training batches 1 to 5"):
        cifar10(tmp_path, batches=batches)


def test_unknown_version(tmp_path):
    with pytest.raises(DataError, match="unknown version 'matlab'"):
        cifar10(tmp_path, version="matlab")


@pytest.mark.parametrize("content", [b"", bytes(3072), bytes(3 * 3073 - 1)])
def test_truncated_binary(tmp_path, content):
    path = tmp_path / "x.bin"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"x\.bin has {len(content)} bytes, .* multiple of 3073"):
        read_binary(path)


@pytest.mark.parametrize("version", ["binary", "python"])
def test_label_out_of_range(tmp_path, version):
    images, labels = batch(1)
    labels[2] = 10
    path = tmp_path / "x"
    encode, read = {"binary": (binary, read_binary), "python": (python, read_python)}[version]
    path.write_bytes(encode(images, labels))
    with pytest.raises(DataError, match="x has a label outside 0 to 9"):
        read(path)


@pytest.mark.parametrize("length", [0, 10, 100, 3000, -1])
def test_truncated_python(tmp_path, length):
    path = tmp_path / "x"
    path.write_bytes(python(*batch(1))[:length])
    with pytest.raises(DataError, match="x is not a batch of CIFAR-10's python version"):
        read_python(path)


class Malicious:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    ("function", "argument", "name"),
    [
        (os.system, "touch {}", r"(posix|nt)\.system"),
        (eval, "open({!r}, 'w')", r"__builtin__\.eval"),
        (numpy.fromfile, "{}", r"numpy.*\.fromfile"),
    ],
)
def test_a_doctored_pickle_runs_nothing(tmp_path, function, argument, name):
    trace, path = tmp_path / "trace", tmp_path / "x"
    attack = Malicious(function, argument.format(str(trace)))
    path.write_bytes(pickle.dumps({"data": attack, "labels": [1]}, protocol=2))
    with pytest.raises(DataError, match=rf"x: refused to load {name}"):
        read_python(path)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": numpy.zeros((ROWS, 3071), numpy.uint8)}, r"shape \(4, 3071\), expected"),
        ({"data": numpy.zeros((ROWS, 3072), numpy.float32)}, "type torch.float32"),
        ({"labels": [1]}, "has 1 labels, expected 4"),
        ({"labels": None}, "is not a batch"),
    ],
)
def test_python_batch_of_another_shape(tmp_path, change, message):
    images, labels = batch(1)
    path = tmp_path / "x"
    content = {"data": images.numpy(), "labels": labels.tolist()}
    path.write_bytes(pickle.dumps(content | change, protocol=3))
    with pytest.raises(DataError, match=message):
        read_python(path)
