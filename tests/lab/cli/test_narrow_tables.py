"""Tables of results on a terminal."""

import io

import pytest
from rich.console import Console

from colangevin.lab.cli.narrow_tables import terminal_table

COLUMNS = ["method", "test accuracy, %", "test loss", "train accuracy, %", "train loss",
           "largest weight", "violation"]  # fmt: skip
ROWS = [
    ["SGD + WD", *["81.04 ± 5.88 (5 runs)", "0.431 ± 0.094 (5 runs)"] * 2, "2.89", "–"],
    ["C-SGLD", *["100.00 ± 0.00 (5 runs)", "0.502 ± 0.101 (5 runs)"] * 2, "2.28", "4e-07"],
]


def printed(columns, rows, width=80):
    console = Console(width=width, file=io.StringIO())
    console.print(terminal_table(columns, rows, width))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    return lines


def test_a_table_of_results_fits_80_columns():
    lines = printed(COLUMNS, ROWS)
    (row,) = [line for line in lines if "C-SGLD" in line]
    assert row.split() == ["C-SGLD", *["100.00±0.00", "0.502±0.101"] * 2, "2.28", "4e-07"]
    assert lines[-1].strip() == "mean±standard deviation over 5 runs"
    assert not any("…" in line for line in lines)


def test_different_numbers_of_runs_stay_in_the_cells():
    rows = [*ROWS, ["SGLD", "80.1 ± 2.0 (4 runs, 1 diverged)", *ROWS[0][2:]]]
    text = "\n".join(printed(COLUMNS, rows, width=200))
    assert "(5 runs)" in text and "(4 runs, 1 diverged)" in text and "over 5 runs" not in text


def test_a_single_run_has_no_deviation():
    lines = printed(["method", "loss"], [["SGD", "0.43 (1 run)"]])
    assert "0.43" in lines[2] and not any("deviation" in line for line in lines)


@pytest.mark.parametrize("count", [2, 5])
def test_a_table_that_is_too_wide_is_turned(count):
    columns = ["method", *(f"quantity {index}" for index in range(12))]
    rows = [[f"way {row}", *["12345.6"] * 12] for row in range(count)]
    lines = printed(columns, rows)
    assert "".join(lines[0].split()) == "method" + "".join(f"way{row}" for row in range(count))
    assert len([line for line in lines if line.startswith("quantity")]) == 12
