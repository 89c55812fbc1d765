"""Fashion-MNIST and MNIST, on small files written here."""

import gzip

import pytest
import torch

from colangevin.errors import DataError
from colangevin.lab.data.idx import fashion_mnist, mnist, read_idx

GENERATOR = torch.Generator().manual_seed(1)
LOADERS = [(fashion_mnist, "fashion-mnist"), (mnist, "mnist")]


def idx(tensor, magic=b"\0\0\x08"):
    header = magic + bytes([tensor.dim()])
    header += b"".join(size.to_bytes(4, "big") for size in tensor.shape)
    return header + bytes(tensor.flatten().tolist())


def random(*shape, high=256):
    return torch.randint(high, shape, dtype=torch.uint8, generator=GENERATOR)


@pytest.fixture
def dataset(tmp_path):
    """Writes the four files of a dataset and returns what they hold."""

    def write(folder, packed=True, **replaced):
        arrays = {
            "train-images-idx3": random(300, 5, 4),
            "train-labels-idx1": random(300, high=10),
            "t10k-images-idx3": random(3, 5, 4),
            "t10k-labels-idx1": random(3, high=10),
        }
        arrays.update({name.replace("_", "-"): array for name, array in replaced.items()})
        (tmp_path / folder).mkdir()
        for name, array in arrays.items():
            content = idx(array)
            path = tmp_path / folder / f"{name}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(content) if packed else content)
        return list(arrays.values())

    return write


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("load", "folder"), LOADERS)
def test_loads_what_was_written(dataset, tmp_path, load, folder, packed):
    written = dataset(folder, packed)
    data = load(tmp_path, verify=False)
    for got, want in zip(data, written, strict=True):
        assert torch.equal(got, want.to(got.dtype))
    assert data.train_images.dtype == data.test_images.dtype == torch.uint8
    assert data.train_labels.dtype == data.test_labels.dtype == torch.int64
    assert data.train_images.shape == (300, 5, 4) and data.test_labels.shape == (3,)


@pytest.mark.parametrize(("load", "folder"), LOADERS)
def test_files_that_are_not_the_official_ones_are_noticed(dataset, tmp_path, load, folder):
    dataset(folder)
    with pytest.raises(DataError, match=rf"{folder}/train-images-idx3-ubyte\.gz is damaged"):
        load(tmp_path)


@pytest.mark.parametrize(("load", "folder"), LOADERS)
def test_missing_file_is_named(dataset, tmp_path, load, folder):
    dataset(folder)
    (tmp_path / folder / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match=rf"{folder}/t10k-labels-idx1-ubyte\.gz is missing"):
        load(tmp_path, verify=False, download=False)


@pytest.mark.parametrize("cut", [1, 7, 60])
def test_truncated_array(tmp_path, cut):
    path = tmp_path / "images"
    content = idx(random(3, 5, 4))
    path.write_bytes(content[:-cut])
    with pytest.raises(DataError, match=f"images has {60 - cut} bytes of data, expected 60"):
        read_idx(path)


def test_array_that_is_too_long(tmp_path):
    path = tmp_path / "images"
    path.write_bytes(idx(random(3, 5, 4)) + b"\0")
    with pytest.raises(DataError, match="61 bytes of data, expected 60"):
        read_idx(path)


def test_header_cut_short(tmp_path):
    path = tmp_path / "images"
    path.write_bytes(idx(random(3, 5, 4))[:11])
    with pytest.raises(DataError, match="ends inside its header, 11 of 16 bytes"):
        read_idx(path)


@pytest.mark.parametrize("content", [b"", b"\0\0\x08", b"\0\0\x0d\x01", b"\x1f\x8b\x08\x01aaaa"])
def test_other_headers_are_refused(tmp_path, content):
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(DataError, match="is not an IDX file of unsigned bytes"):
        read_idx(path)


def test_damaged_gzip(tmp_path):
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(idx(random(3, 5, 4)))[:-10])
    with pytest.raises(DataError, match="not a whole gzip file"):
        read_idx(path)


def test_labels_and_images_must_agree(dataset, tmp_path):
    dataset("mnist", t10k_labels_idx1=random(4))
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz has 4 labels, expected 3"):
        mnist(tmp_path, verify=False)


def test_labels_in_the_place_of_images(dataset, tmp_path):
    dataset("mnist", train_images_idx3=random(300))
    with pytest.raises(DataError, match=r"train-images-.* has 1 dimensions, expected 3"):
        mnist(tmp_path, verify=False)


def test_result_may_be_written_to(tmp_path, recwarn):
    path = tmp_path / "labels"
    path.write_bytes(idx(random(3)))
    read_idx(path).fill_(1)
    assert not recwarn.list


def test_labels_of_no_class_and_files_without_images_are_noticed(dataset, tmp_path):
    dataset("mnist", t10k_labels_idx1=torch.tensor([1, 200, 3], dtype=torch.uint8))
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz has the label 200"):
        mnist(tmp_path, verify=False)
    empty = {"train_images_idx3": random(0, 5, 4), "train_labels_idx1": random(0, high=10)}
    dataset("fashion-mnist", **empty)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz has no images"):
        fashion_mnist(tmp_path, verify=False)
