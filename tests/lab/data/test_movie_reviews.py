"""SST-2 and word pieces, on small files written here."""

import pytest

from colangevin.errors import DataError
from colangevin.lab.data.movie_reviews import read_sentences, sst2
from colangevin.lab.data.word_pieces import WordPieces, padded

GOOD = "sentence\tlabel\na charming journey \t1\nunflinchingly bleak\t0\n"


def write(root, train=GOOD, dev="sentence\tlabel\r\nso so \t0\r\n"):
    (root / "SST-2").mkdir()
    for part, text in (("train", train), ("dev", dev)):
        (root / "SST-2" / f"{part}.tsv").write_bytes(text.encode())


def test_loads_what_was_written(tmp_path):
    write(tmp_path)
    found = sst2(tmp_path, verify=False)
    assert found.train == ["a charming journey", "unflinchingly bleak"]
    assert found.train_labels.tolist() == [1, 0]
    assert (found.dev, found.dev_labels.tolist()) == (["so so"], [0])


def test_other_files_than_the_official_ones_are_refused(tmp_path):
    write(tmp_path)
    with pytest.raises(DataError, match=r"train\.tsv is damaged"):
        sst2(tmp_path)
    (tmp_path / "SST-2" / "dev.tsv").unlink()
    with pytest.raises(DataError, match=r"SST-2/dev\.tsv is missing"):
        sst2(tmp_path, verify=False, download=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty, expected lines of text"),
        ("sentence\tlabel\n", "and have sentences"),
        ("sentence\tlabel", "and have sentences"),
        ("index\tsentence\n0\tx\n", "must begin with"),
        ("sentence\tlabel\ngood\t1\nbad\t2\n", "line 3: no sentence with 0 or 1"),
        ("sentence\tlabel\ngood 1\n", "line 2: no sentence"),
        ("sentence\tlabel\n \t1\n", "line 2: no sentence"),
    ],
)
def test_damaged_files_are_named_with_the_line(tmp_path, text, message):
    path = tmp_path / "a.tsv"
    path.write_text(text)
    with pytest.raises(DataError, match=rf"a\.tsv.*{message}"):
        read_sentences(path)


def test_no_utf8(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"sentence\tlabel\n\xff\t1\n")
    with pytest.raises(DataError, match="not text in UTF-8"):
        read_sentences(path)


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cafe", "un", "##aff", "##able", "##a", "!", "日"]


def test_the_longest_pieces_from_the_left():
    cut = WordPieces({piece: number for number, piece in enumerate(PIECES)})
    assert cut.pieces("Unaffable CAFÉ!!") == ["un", "##aff", "##able", "cafe", "!", "!"]
    # A word with one part that is unknown is unknown as a whole; ideographs stand alone.
    assert cut.pieces("unaffix una 日日 \u200bcafe") == ["[UNK]", "un", "##a", "日", "日", "cafe"]
    assert cut.pieces("un" + 60 * "aa") == ["[UNK]"]
    assert cut.encode("") == [2, 3]


def test_a_vocabulary_without_its_marks_is_refused():
    with pytest.raises(ValueError, match=r"lacks \[CLS\], \[SEP\]"):
        WordPieces({"[PAD]": 0, "[UNK]": 1})
    with pytest.raises(ValueError, match=r"\[PAD\] at 0"):
        WordPieces({piece: 9 - number for number, piece in enumerate(PIECES)})


def test_padding():
    assert padded([[1], [2, 3]]).tolist() == [[1, 0], [2, 3]]
