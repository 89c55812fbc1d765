"""The site and the package: staged links, the link checker, versions, the page with the circle."""

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import colangevin as cl

ROOT = Path(__file__).parents[1]


def script(name: str):
    spec = importlib.util.spec_from_file_location(
        f"scripts_{name}", ROOT / "scripts" / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_out_of_the_documentation_lead_to_copies(tmp_path, monkeypatch):
    site = script("site")
    monkeypatch.setattr(site, "STAGED", tmp_path)
    text = site.relinked(ROOT / "docs" / "gallery.md")
    assert "](files/results/depth-orthogonal/depth.png)" in text
    assert (tmp_path / "files" / "results" / "depth-orthogonal" / "depth.png").exists()
    assert "](images/demo.png)" in text
    assert "](../" not in text


def test_broken_links_anchors_and_remote_content_are_found(tmp_path):
    page = (
        '<a href="b.html#there">x</a><a href="b.html#gone">x</a><a href="c.html">x</a>'
        '<a href="https://example.org">x</a><script src="https://example.org/x.js"></script>'
    )
    (tmp_path / "a.html").write_text(page)
    (tmp_path / "b.html").write_text('<h1 id="there">b</h1><a href="a.html">x</a>')
    assert script("site").broken_links(tmp_path) == [
        "a.html loads https://example.org/x.js",
        "a.html: b.html#gone",
        "a.html: c.html",
    ]


def test_every_page_of_the_documentation_is_in_the_navigation():
    lines = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2].splitlines()
    listed = {line.partition(" #")[0].split()[-1] for line in lines if ".md" in line}
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert listed - {"api/index.md", "changelog.md"} == there


@pytest.mark.parametrize(
    ("words", "pages"),
    [
        ("non-negative weights", {"constraints.md"}),
        ("clip weights", {"constraints.md"}),
        ("max norm", {"constraints.md", "guides/bound-weights.md"}),
        ("spectral norm", {"constraints.md"}),
        ("thread", {"from-sgd.md"}),
    ],
)
def test_what_people_search_for_is_a_heading_of_the_right_page(words, pages):
    """A search ranks headings before text."""
    docs = ROOT / "docs"
    found = set()
    for path in docs.rglob("*.md"):
        for heading in re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            parts = re.split(r"[-\s]+", words.lower())
            if all(part in heading.lower() for part in parts):
                found.add(path.relative_to(docs).as_posix())
    assert found == pages


def test_the_reference_has_every_public_name():
    site = script("site")
    shown = {name for part in site.API for name, _ in site.part_names(part)}
    assert {f"cl.{name}" for name in cl.__all__} <= shown


def test_the_reference_begins_with_what_most_people_come_for(tmp_path):
    site = script("site")
    site.write_api(tmp_path / "api")
    heads = {
        page: re.findall(r'heading: "cl\.(\w+)"', (tmp_path / "api" / f"{page}.md").read_text())
        for page in ("optimizers", "constraints")
    }
    assert heads["optimizers"][:2] == ["CoLA", "parameter_groups"]
    assert heads["constraints"][:3] == ["Circle", "Sphere", "Orthogonal"]
    others = heads["optimizers"][3:]
    assert others == sorted(others, key=str.lower)


def test_the_conda_recipe_asks_for_what_the_package_asks_for():
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    python = re.search(r'^requires-python = "(.+)"$', project, re.MULTILINE)[1]
    torch_needed = re.search(r'^dependencies = \["torch(.+)"\]$', project, re.MULTILINE)[1]
    assert f"- python {python}\n" in recipe and f"- pytorch {torch_needed}\n" in recipe
    for package in ("typer", "rich"):
        needed = re.search(rf'"{package}(>=[\d.]+)"', project)[1]
        assert f"- {package} {needed}\n" in recipe


def test_one_version_everywhere(tmp_path):
    check = script("check_version")
    assert check.complaints() == []
    for name in [*check.PLACES, "CHANGELOG.md"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / "CITATION.cff").write_text("version: 9.9\n")
    assert len(check.complaints(tmp_path, tag="v8.8")) == 3


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_circle_page_integrates_as_the_library():
    program = """
    const { circle } = require(process.argv[1]);
    const state = circle.start(1);
    const settings = { step: 0.1, friction: 0.7, temperature: 0, radius: 1 };
    for (let i = 0; i < 60; i++) circle.step(state, settings, [0.6, 1.3], () => 0);
    console.log(JSON.stringify(state.theta));
    """
    path = str(ROOT / "docs" / "site" / "circle.js")
    done = subprocess.run(["node", "-e", program, path], capture_output=True, text=True)
    shown = torch.tensor(json.loads(done.stdout), dtype=torch.float64)
    weight = torch.nn.Parameter(torch.tensor([0.9, -0.5], dtype=torch.float64))
    settings = {"step_size": 0.1, "friction": 0.7, "scheme": "BAOAB"}
    optimizer = cl.CoLA([weight], constraint=cl.Circle(1.0), **settings)
    for _ in range(60):
        weight.grad = weight.detach() - torch.tensor([0.6, 1.3], dtype=torch.float64)
        optimizer.step()
    assert torch.allclose(weight.detach(), shown, rtol=0, atol=1e-9), (weight, shown)


def test_the_program_of_the_readme_is_found():
    program, printed = script("try_wheel").ten_lines()
    assert "cl.CoLA" in program and printed == "[True, True, True]\n"
