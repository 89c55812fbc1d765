"""``cola doctor``: what is there, what is missing, and what to do about it."""

import importlib.util

import pytest
import torch
from typer.testing import CliRunner

import colangevin
from colangevin.lab.cli import doctor_command
from colangevin.lab.cli.main import app
from colangevin.lab.data.sources import SOURCES
from colangevin.native import building


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    monkeypatch.delenv("COLA_DATA", raising=False)


def doctor() -> dict[str, list[str]]:
    """The lines of the report by section."""
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0, result.output
    sections: dict[str, list[str]] = {}
    for line in result.stdout.splitlines():
        if not line.startswith("  "):
            lines = sections.setdefault(line, [])
        else:
            lines.append(line.strip())
    return sections


def test_versions_machine_compilers_caches_and_data_are_named():
    found = doctor()
    assert found["Versions"][0].startswith(f"colangevin: {colangevin.__version__} in ")
    assert f"torch: {torch.__version__}" in found["Versions"]
    assert f"threads of torch: {torch.get_num_threads()}" in found["Machine"]
    assert any(line.startswith("devices: cpu") for line in found["Machine"])
    assert found["Compiled steps"][0].startswith("C compiler: ")
    assert len(found["Caches"]) == 2
    looked, *data = found["Data"]
    assert looked.startswith("looked in: COLA_DATA (not set), the cache (")
    assert looked.endswith("COLA_DATA names a data directory of yours")
    assert [line.partition(":")[0] for line in data] == list(SOURCES)


def test_what_is_missing_comes_with_a_remedy(monkeypatch):
    def nobody():
        raise building.BuildError("no C compiler was found")

    spec = importlib.util.find_spec
    absent = {"geoopt", "pooch"}
    monkeypatch.setattr(building, "find_compiler", nobody)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name in absent else spec(name, *a)
    )
    found = doctor()
    assert "C compiler: install gcc or clang, for fast steps" in found["Missing"]
    assert 'geoopt: pip install "colangevin[bench]"' in found["Missing"]
    assert "geoopt: not installed" in found["Versions"]
    assert "downloaded data: needs pooch" in found["Caches"]


def test_kernels_that_are_off_are_said(monkeypatch):
    monkeypatch.setenv("COLANGEVIN_NATIVE", "0")
    assert sum("turned off by COLANGEVIN_NATIVE=0" in line for line in doctor()["Missing"]) == 2


def test_data_are_found_where_they_are(monkeypatch, tmp_path):
    folder = tmp_path / "ptb"
    folder.mkdir()
    for name in SOURCES["ptb"].md5:
        (folder / name).touch()
    monkeypatch.setenv("COLA_DATA", str(tmp_path))
    assert "ptb: found" in doctor()["Data"]
    (folder / "ptb.test.txt").unlink()
    assert "ptb: 2 of 3 files" in doctor()["Data"]
    monkeypatch.setenv("COLA_DATA", str(tmp_path / "nowhere"))
    assert any("nowhere does not exist" in line for line in doctor()["Missing"])


def test_a_report_without_holes_says_so(monkeypatch):
    monkeypatch.setattr(doctor_command, "_sections", lambda: iter([("Data", [])]))
    assert list(doctor()) == ["Data", "Nothing is missing."]
