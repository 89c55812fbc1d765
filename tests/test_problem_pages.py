"""The guides say what the records of experiments on problems say."""

import importlib.util
import sys
from pathlib import Path

import pytest

from colangevin.lab.runner.records import Record

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location(
    "problem_pages", ROOT / "scripts" / "problem_pages.py"
)
pages = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = pages
SPEC.loader.exec_module(pages)


def between(page, name):
    text = page.read_text(encoding="utf-8")
    begin, end = (f"<!-- {name}: {word} -->\n" for word in ("begin", "end"))
    return text.split(begin)[1].split(end)[0]


@pytest.mark.parametrize(
    ("page", "make"),
    [
        (pages.CHOOSE, pages.choices),
        (pages.GALLERY, pages.gallery),
        (pages.README, pages.readme),
    ],
)
def test_choose_and_gallery_are_in_step_with_the_records(page, make):
    assert between(page, "problems") == make(ROOT / "results"), "run scripts/problem_pages.py"


@pytest.mark.parametrize("name", pages.PAGES)
def test_guides_are_in_step_with_the_records(name):
    said = between(pages.GUIDES / pages.PAGES[name], name)
    assert said == pages.section(name, ROOT / "results"), "run scripts/problem_pages.py"


def test_a_guide_without_records_says_how_to_measure(tmp_path):
    assert "cola reproduce lipschitz" in pages.section("lipschitz", tmp_path)


def test_a_row_of_the_readme_has_the_strongest_rival_and_the_verdict(tmp_path):
    (problem,) = [own for own in pages.PROBLEMS if own.experiment == "quantisation"]
    numbers = {"mlp-circle": 0.8, **dict.fromkeys(problem.rivals, 0.5), problem.rivals[2]: 0.7}
    assert problem.short(tmp_path) == [] and problem.evidence(tmp_path) == "not measured yet"
    folder = tmp_path / "quantisation"
    folder.mkdir()
    for place, (name, value) in enumerate(numbers.items()):
        values = [value + 0.001 * seed for seed in range(5)]
        final = {"best_2": values, "test_accuracy": values}
        own = Record("quantisation", name, place, {"label": name}, final=final, complete=True)
        (folder / f"{name}.json").write_text(own.to_json())
    cells = problem.short(tmp_path)
    assert cells[1] == f"right with 2 bits, %: 70.2 ± 0.2 ({problem.rivals[2]})"
    assert cells[2].startswith("80.2 ± 0.2 (") and cells[4] == "yes (n = 5)"
    assert cells[3] == "in float, %: 70.2 ± 0.2 → 80.2 ± 0.2"
    (folder / f"{problem.rivals[0]}.json").unlink()  # a comparison needs all rivals
    assert problem.short(tmp_path) == []
