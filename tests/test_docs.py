"""The documentation runs: every python block, every printed output, every link.

The blocks of a page share a namespace. A ``text`` block right after a ``python`` block is what
that block prints.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def examples(page: Path) -> list[tuple[int, str, str | None]]:
    """Of each block: the lines before it, its code, and its output if the page shows it."""
    source = page.read_text(encoding="utf-8")
    fences = list(FENCE.finditer(source))
    found = []
    for index, fence in enumerate(fences):
        if fence[1] != "python":
            continue
        shown = None
        for following in fences[index + 1 : index + 2]:
            adjacent = not source[fence.end() : following.start()].strip()
            shown = following[2] if adjacent and following[1] == "text" else None
        found.append((source.count("\n", 0, fence.start(2)), fence[2], shown))
    return found


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The headings of a page, as they appear in links."""
    plain = (re.sub(r"[^\w\s-]", "", heading).lower() for heading in HEADING.findall(prose(page)))
    return {heading.replace(" ", "-") for heading in plain}


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small tensors on busy processors: a second thread costs far more than it saves."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_run(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__docs__"}
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        torch.manual_seed(0)
        warnings.simplefilter("error")
        for line, code, shown in examples(page):
            # Blank lines in front let a traceback name the line of the page.
            compiled = compile("\n" * line + code, str(page), "exec")
            output = StringIO()
            with redirect_stdout(output):
                exec(compiled, namespace)
            assert shown is None or output.getvalue() == shown, f"{page}, line {line}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(path), f"{link}: there is no such heading"


def test_the_extraction_finds_blocks_and_their_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n```sh\nls\n```\n\n"
        "```python\nprint(2)\n```\n\nWords.\n\n```text\n3\n```\n",
        encoding="utf-8",
    )
    assert examples(page) == [(3, "print(1)\n", "1\n"), (15, "print(2)\n", None)]
    assert anchors(page) == {"a"}
