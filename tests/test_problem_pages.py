"""The guides say what the records of experiments on problems say."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location(
    "problem_pages", ROOT / "scripts" / "problem_pages.py"
)
pages = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(pages)


@pytest.mark.parametrize("name", pages.PAGES)
def test_guides_are_in_step_with_the_records(name):
    text = (ROOT / "docs" / "guides" / pages.PAGES[name]).read_text(encoding="utf-8")
    begin, end = (f"<!-- {name}: {word} -->\n" for word in ("begin", "end"))
    said = text.split(begin)[1].split(end)[0]
    assert said == pages.section(name, ROOT / "results"), "run scripts/problem_pages.py"


def test_a_guide_without_records_says_how_to_measure(tmp_path):
    assert "cola reproduce lipschitz" in pages.section("lipschitz", tmp_path)
