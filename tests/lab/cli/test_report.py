"""``cola report``: figures, tables, HTML and the page, from records alone."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

import walks
from colangevin.lab.cli.main import app
from colangevin.lab.experiments import registry
from colangevin.lab.report.reproduction_page import page
from colangevin.lab.report.results import read_results
from colangevin.lab.runner.running import reproduce

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def registered():
    with walks.alone():
        yield


@pytest.fixture
def out(tmp_path):
    """Records, and nothing else."""
    reproduce(walks.WALKS, "laptop", out=tmp_path, jobs=1)
    assert {path.suffix for path in (tmp_path / "walks").iterdir()} == {".json"}
    return tmp_path


def invoke(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)], env={"COLUMNS": "200"})


class Page(HTMLParser):
    """Tags with their attributes, and the text, of an HTML page."""

    VOID = ("meta", "img", "br", "link")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def edit(path: Path, **changes) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, **changes}), encoding="utf-8")


@pytest.mark.parametrize("below", ["", "walks"])
def test_everything_is_drawn_from_the_records(out, below):
    result = invoke(out / below)
    assert result.exit_code == 0, result.output
    picture = out / "walks" / "where-they-went.png"
    assert picture.read_bytes().startswith(PNG_SIGNATURE)
    table = (out / "walks" / "table.md").read_text(encoding="utf-8")
    assert table.startswith("| walk | \\|distance\\| |\n| --- | --- |\n| wide | ")
    report = out / below / "report.html"
    for path in (picture, report):
        assert f"Wrote {path}" in result.stdout


def test_drawing_again_gives_the_same_bytes(out):
    def written():
        assert invoke(out).exit_code == 0
        return {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    assert written() == written()


def test_html_stands_alone_and_says_everything(out):
    assert invoke(out).exit_code == 0
    text = (out / "report.html").read_text(encoding="utf-8")
    found = Page(text)
    for tag, attributes in found.tags:
        assert tag not in ("script", "link", "iframe", "object")
        for name in ("src", "href"):
            value = attributes.get(name) or ""
            assert value == "" or value.startswith(("data:image/png;base64,", "#")), value
    assert "://" not in text.split("base64,")[0]
    assert "@import" not in text
    assert "url(" not in text
    assert "prefers-color-scheme: dark" in text
    for words in (
        "walks: random walks",
        "Figure 0. Scale: reduced (4 of 90 walks), 4 runs, seed 0.",
        "The paper walks further.",
        "Claimed. The narrow walk is shorter.",
        "Found. Numbers: 1 not comparable. Orders: 1 no. Not so: narrow | wide (narrow < wide).",
        "Ours. The generator.",
        "cola reproduce walks --scale laptop --seed 0",
        "distance <wide>",
        "no & reason",
        "no (reversed: paired t, n = 5, p = 0.01)",
        "not comparable (reduced: 4 of 90 walks)",
        "steps = 200",
        "torch ",
        "Wall-clock",
    ):
        assert words in found.text
    assert [tag for tag, _ in found.tags].count("img") == 1
    assert "Not complete" not in found.text


def test_incomplete_and_missing_jobs_are_marked(out):
    edit(out / "walks" / "narrow.json", complete=False, final={})
    (out / "walks" / "middle.json").unlink()
    result = invoke(out, "--page", out / "page.md")
    assert result.exit_code == 0, result.output
    assert "Not complete: narrow, middle." in result.stdout
    found = Page((out / "report.html").read_text(encoding="utf-8"))
    assert "Not complete: narrow, middle." in found.text
    assert "NOT COMPLETE" in found.text
    detail = out / "page" / "walks.md"
    assert "**Not complete**: narrow, middle." in detail.read_text(encoding="utf-8")
    assert "reduced, **not complete** |" in (out / "page.md").read_text(encoding="utf-8")
    assert "narrow" not in (out / "walks" / "table.md").read_text(encoding="utf-8")


def test_records_without_a_complete_job_make_a_report(out):
    for job in ("wide", "narrow", "middle"):
        edit(out / "walks" / f"{job}.json", complete=False, final={})
    result = invoke(out, "--page", out / "page.md")
    assert result.exit_code == 0, result.output
    assert "Not complete" in (out / "report.html").read_text(encoding="utf-8")


def test_page_has_every_experiment_with_claims_and_pictures(out, tmp_path):
    registry.EXPERIMENTS["runs"] = replace(walks.WALKS, name="runs", source="table 9")
    target = tmp_path / "docs" / "page.md"
    result = invoke(out, "--page", target)
    assert result.exit_code == 0, result.output
    overview = target.read_text(encoding="utf-8")
    (row,) = [line for line in overview.splitlines() if line.startswith("| runs |")]
    assert "not run yet" in row
    assert "(page/walks.md)" in overview
    (row,) = [line for line in overview.splitlines() if "(page/walks.md)" in line]
    assert "| 1 not comparable | 1 no |" in row and "| reduced |" in row
    assert "page/totals.svg" in overview
    assert page(read_results(out), out, target) == overview
    detail = target.parent / "page" / "walks.md"
    text = detail.read_text(encoding="utf-8")
    assert "Figure 0. Scale: reduced (4 of 90 walks), 4 runs, seed 0." in text
    head = [line for line in text.splitlines() if line.startswith("**")]
    assert [line.split()[0] for line in head] == ["**Claimed.**", "**Found.**", "**Ours.**"]
    assert "| steps | many | 200 steps |" in text
    totals = (target.parent / "page" / "totals.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(totals).tag.endswith("svg")
    assert "(../page.md)" in text
    assert "cola reproduce walks --scale laptop --seed 0\n" in text
    claim = (
        r"\| distance &lt;wide> \| 1 \\\| 2 \| .* ± .* \(4 runs\) \| not comparable \(reduced: .*\|"
    )
    assert re.search(claim, text)
    (link,) = re.findall(r"!\[.*\]\((.*)\)", text)
    assert (detail.parent / link).resolve() == (out / "walks" / "where-they-went.png").resolve()


def test_a_smoke_run_gives_no_verdict(tmp_path):
    reproduce(walks.WALKS, "smoke", out=tmp_path, jobs=1)
    result = invoke(tmp_path, "--page", tmp_path / "page.md")
    assert result.exit_code == 0, result.output
    assert "too little to judge" in result.stdout
    for text in (result.stdout, (tmp_path / "report.html").read_text(encoding="utf-8")):
        assert "reversed" not in text.split("<body>")[-1]
    assert "| 1 not comparable | 1 not comparable |" in (tmp_path / "page.md").read_text(
        encoding="utf-8"
    )


def test_several_experiments_make_one_report(out):
    def jobs(settings):
        return [replace(job, experiment="runs") for job in walks.jobs(settings)]

    other = replace(walks.WALKS, name="runs", jobs=jobs)
    registry.EXPERIMENTS["runs"] = other
    reproduce(other, "laptop", out=out, jobs=1)
    (out / "bench.json").write_text("{}")  # what another command wrote
    result = invoke(out)
    assert result.exit_code == 0, result.output
    found = Page((out / "report.html").read_text(encoding="utf-8"))
    assert {"walks", "runs"} <= {attributes.get("id") for _, attributes in found.tags}
    assert [tag for tag, _ in found.tags].count("img") == 2


def assert_one_line_error(result, *words: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("cola report: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr


def test_damaged_record_is_named_and_nothing_is_written(out):
    path = out / "walks" / "narrow.json"
    path.write_text(path.read_text()[:100])
    assert_one_line_error(invoke(out), str(path), "damaged")
    assert {path.suffix for path in (out / "walks").iterdir()} == {".json"}


def test_record_that_is_nested_too_deeply_is_named(out):
    path = out / "walks" / "narrow.json"
    path.write_text("[" * 200_000)
    assert_one_line_error(invoke(out), str(path), "damaged")


def test_record_without_what_the_table_needs_is_named(out):
    """Whole as JSON, but not as a record of this experiment."""
    edit(out / "walks" / "narrow.json", final={})
    assert_one_line_error(invoke(out), str(out / "walks"), "damaged")


def test_record_of_an_unknown_experiment_is_refused(out):
    for path in (out / "walks").iterdir():
        edit(path, experiment="swims")
    assert_one_line_error(invoke(out / "walks"), "unknown experiment 'swims'")


def test_mixed_records_are_refused(out):
    edit(out / "walks" / "wide.json", experiment="swims")
    assert_one_line_error(invoke(out / "walks"), "wide.json", "swims")


def test_directory_without_records_is_refused(tmp_path):
    assert_one_line_error(invoke(tmp_path), f"{tmp_path} holds no records")


def test_directory_that_is_not_there_is_refused(tmp_path):
    assert_one_line_error(invoke(tmp_path / "no"), f"{tmp_path / 'no'} is not a directory")


def test_page_that_cannot_be_written_is_refused(out):
    assert_one_line_error(invoke(out, "--page", out / "walks"), f"cannot write to {out / 'walks'}")
