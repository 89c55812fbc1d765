"""docs/reproduction.md is what the records in results/ say, and every experiment is on it."""

from pathlib import Path

import pytest

from colangevin.lab.experiments.registry import EXPERIMENTS
from colangevin.lab.experiments.reproduction_page import page
from colangevin.lab.experiments.results import read_results

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGE = ROOT / "docs" / "reproduction.md"


def test_page_is_in_step_with_the_records() -> None:
    if not RESULTS.exists():
        assert not PAGE.exists(), "a page without the records that it was made of"
        return
    generated = page(read_results(RESULTS), RESULTS, PAGE)
    command = "cola report results --page docs/reproduction.md"
    assert PAGE.read_text(encoding="utf-8") == generated, f"not in step: run {command}"


@pytest.mark.skipif(not PAGE.exists(), reason="no page yet")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_on_the_page(name: str) -> None:
    assert f"## {name}\n" in PAGE.read_text(encoding="utf-8")


def test_records_and_figures_stay_small() -> None:
    files = [path for path in RESULTS.rglob("*") if path.suffix in (".json", ".png", ".md")]
    assert sum(path.stat().st_size for path in files) < 10e6
