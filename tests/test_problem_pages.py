"""The guides say what the records of experiments on problems say."""

import importlib.util
import sys
from pathlib import Path

import pytest

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
    ("page", "make"), [(pages.CHOOSE, pages.choices), (pages.GALLERY, pages.gallery)]
)
def test_choose_and_gallery_are_in_step_with_the_records(page, make):
    assert between(page, "problems") == make(ROOT / "results"), "run scripts/problem_pages.py"


@pytest.mark.parametrize("name", pages.PAGES)
def test_guides_are_in_step_with_the_records(name):
    said = between(pages.GUIDES / pages.PAGES[name], name)
    assert said == pages.section(name, ROOT / "results"), "run scripts/problem_pages.py"


def test_a_guide_without_records_says_how_to_measure(tmp_path):
    assert "cola reproduce lipschitz" in pages.section("lipschitz", tmp_path)
