"""docs/reproduction.md is what the records in results/ say, and every experiment is on it."""

from dataclasses import replace
from pathlib import Path

import pytest

from colangevin.lab.experiments.registry import EXPERIMENTS
from colangevin.lab.report.reproduction_page import details, page, rules
from colangevin.lab.report.results import read_results, results_of, write_files
from colangevin.lab.runner.records import Records

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGE = ROOT / "docs" / "reproduction.md"


def test_page_is_in_step_with_the_records() -> None:
    if not RESULTS.exists():
        assert not PAGE.exists(), "a page without the records that it was made of"
        return
    results = read_results(RESULTS)
    generated = {PAGE: page(results, RESULTS, PAGE), **details(results, PAGE)}
    command = "cola report results --page docs/reproduction.md"
    for path, text in generated.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} not in step: run {command}"
    folder = PAGE.parent / PAGE.stem
    assert {*folder.iterdir()} == {*generated} - {PAGE}, f"pages without records: run {command}"


UNMEASURED = {name for name in EXPERIMENTS if not (RESULTS / name).is_dir()}
"""Experiments that have no records yet."""


@pytest.mark.skipif(not PAGE.exists(), reason="no page yet")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_on_the_page(name: str) -> None:
    there = f"| [{name}](reproduction/{name}.md) |" in PAGE.read_text(encoding="utf-8")
    assert there is (name not in UNMEASURED)


@pytest.mark.parametrize(
    ("started", "said"),
    [("2026-11-16T23:59:59Z", True), ("2026-11-17T00:00:00Z", False), ("", False)],
)
def test_earlier_noise_is_named_while_a_record_has_it(started: str, said: bool) -> None:
    results = read_results(RESULTS)[0]
    records = [replace(record, started=started) for record in results.records.values()]
    text = rules([results_of(Records(records, results.records.directory))])
    assert ("(#records-with-the-earlier-noise)" in text) is said
    assert ("## Records with the earlier noise" in text) is said


def test_records_and_figures_stay_small() -> None:
    files = [path for path in RESULTS.rglob("*") if path.suffix in (".json", ".png", ".md")]
    assert sum(path.stat().st_size for path in files) < 15e6


def test_pictures_have_few_colours_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    results = next(own for own in read_results(RESULTS) if own.experiment.name == "multirate-text")
    written = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        pictures, _ = write_files(results, tmp_path / name)
        written.append([path.read_bytes() for path in pictures])
        assert {image.open(path).mode for path in pictures} == {"P"}
    assert written[0] == written[1]
