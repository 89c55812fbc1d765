"""Tables of the UCI repository, on small files written here."""

import pytest
import torch

from colangevin.errors import DataError
from colangevin.lab.data.regression_tables import UCI_TABLES, uci


def write(folder, name, text):
    (folder / "uci").mkdir(exist_ok=True)
    (folder / "uci" / f"{name}.data").write_text(text)


@pytest.mark.parametrize(("name", "columns"), [(n, c) for n, (_, c) in UCI_TABLES.items()])
def test_the_last_column_is_the_target(tmp_path, name, columns):
    rows = torch.arange(3.0 * columns).double().view(3, columns)
    write(tmp_path, name, "\n".join(" ".join(f"{v:.1f}" for v in row) for row in rows) + "\n\n")
    table = uci(name, tmp_path, verify=False)
    assert torch.equal(table.inputs, rows[:, :-1]) and torch.equal(table.targets, rows[:, -1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 2 3 4 5 6 7\n1 2 3\n", "line 2: expected 7 finite numbers"),
        ("1 2 3 4 5 6 x\n", "line 1: expected numbers"),
        ("1 2 3 4 5 6 nan\n", "line 1: expected 7 finite"),
        ("\n", "no rows"),
    ],
)
def test_damaged_tables_are_named_with_their_line(tmp_path, text, words):
    write(tmp_path, "yacht", text)
    with pytest.raises(DataError, match=words):
        uci("yacht", tmp_path, verify=False)


def test_other_files_and_names_are_refused(tmp_path):
    write(tmp_path, "yacht", "1 2 3 4 5 6 7\n")
    with pytest.raises(DataError, match="damaged, cut short or another file"):
        uci("yacht", tmp_path)
    with pytest.raises(ValueError, match="name must be one of airfoil"):
        uci("wine", tmp_path)
    with pytest.raises(DataError, match=r"uci/energy\.data is missing"):
        uci("energy", tmp_path, download=False)
