"""Penn Treebank and WikiText-2, on small files written here."""

import pytest
import torch

from colangevin.errors import DataError
from colangevin.lab.data.corpora import (
    Vocabulary,
    batchify,
    penn_treebank,
    read_corpus,
    wikitext2,
    wikitext2_bytes,
    windows,
)

PARTS = {"train": " a b \n\n b c\n", "valid": "d a\n", "test": "a e"}
LOADERS = [
    (penn_treebank, "ptb", "ptb.{}.txt"),
    (wikitext2, "wikitext-2", "wiki.{}.tokens"),
]


def write(root, folder, pattern):
    (root / folder).mkdir()
    for part, text in PARTS.items():
        (root / folder / pattern.format(part)).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(("load", "folder", "pattern"), LOADERS)
def test_loads_what_was_written(tmp_path, load, folder, pattern):
    write(tmp_path, folder, pattern)
    corpus = load(tmp_path, verify=False)
    assert corpus.vocabulary.words == ["a", "b", "<eos>", "c", "d", "e"]
    # An empty line is a line: it has its <eos>.
    assert corpus.train.tolist() == [0, 1, 2, 2, 1, 3, 2]
    assert corpus.valid.tolist() == [4, 0, 2]
    assert corpus.test.tolist() == [0, 5, 2]
    assert corpus.train.dtype == torch.int64


def test_bytes_are_those_of_the_files(tmp_path):
    write(tmp_path, "wikitext-2", "wiki.{}.tokens")
    text = wikitext2_bytes(tmp_path, verify=False)
    assert [bytes(part.tolist()).decode() for part in text] == list(PARTS.values())
    with pytest.raises(DataError, match=r"wiki\.train\.tokens is damaged"):
        wikitext2_bytes(tmp_path)
    (tmp_path / "wikitext-2" / "wiki.test.tokens").write_bytes(b"")
    with pytest.raises(DataError, match="empty"):
        wikitext2_bytes(tmp_path, verify=False)


@pytest.mark.parametrize(("load", "folder", "pattern"), LOADERS)
def test_missing_and_unofficial_files_are_named(tmp_path, load, folder, pattern):
    write(tmp_path, folder, pattern)
    with pytest.raises(DataError, match=rf"{pattern.format('train')} is damaged"):
        load(tmp_path)
    (tmp_path / folder / pattern.format("valid")).unlink()
    with pytest.raises(DataError, match=rf"{folder}/{pattern.format('valid')} is missing"):
        load(tmp_path, verify=False, download=False)


def test_lines_end_at_newlines_only(tmp_path):
    path = tmp_path / "text"
    # A line separator of Unicode, and the line end of Windows.
    path.write_bytes("a\u2028b\r\nc\n".encode())
    corpus = read_corpus(path, path, path)
    assert corpus.vocabulary.decode(corpus.train) == ["a", "b", "<eos>", "c", "<eos>"]


def test_words_beyond_ascii(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("戦場 Senjō".encode())
    assert read_corpus(path, path, path).vocabulary.words == ["戦場", "Senjō", "<eos>"]


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "is empty"), (b"a \xff b", "is not text in UTF-8")]
)
def test_no_text(tmp_path, content, message):
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"text {message}"):
        read_corpus(path, path, path)


def test_vocabulary_keeps_numbers():
    vocabulary = Vocabulary()
    assert vocabulary.add(["x", "y", "x"]) == [0, 1, 0]
    assert vocabulary.add(["z", "y"]) == [2, 1]
    assert len(vocabulary) == 3
    assert vocabulary.decode(torch.tensor([2, 0])) == ["z", "x"]
    assert vocabulary.numbers == {"x": 0, "y": 1, "z": 2}


@pytest.mark.parametrize(("count", "size"), [(26, 4), (12, 3), (5, 5), (9, 1)])
def test_columns_are_consecutive_stretches(count, size):
    columns = batchify(torch.arange(count), size)
    length = count // size
    assert columns.shape == (length, size)
    assert columns.is_contiguous()
    for column in range(size):
        assert columns[:, column].tolist() == list(range(column * length, (column + 1) * length))


@pytest.mark.parametrize("size", [0, -1, 4])
def test_batchify_refuses(size):
    with pytest.raises(ValueError, match=f"batch_size must be 1 to 3, got {size}"):
        batchify(torch.arange(3), size)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 100])
def test_windows_predict_every_token_but_the_first_row_once(length):
    columns = batchify(torch.arange(22), 3)
    steps = list(windows(columns, length))
    assert torch.equal(torch.cat([inputs for inputs, _ in steps]), columns[:-1])
    assert torch.equal(torch.cat([targets for _, targets in steps]), columns[1:].flatten())
    assert all(len(inputs) == length for inputs, _ in steps[:-1])
    for inputs, targets in steps:
        assert torch.equal(targets.view_as(inputs), inputs + 1)


def test_windows_refuse_no_length():
    with pytest.raises(ValueError, match="length must be at least 1"):
        next(windows(torch.zeros(3, 3), 0))
