"""The documentation site: stage docs/, build with Zensical, check every link of the result.

    python scripts/site.py          # build/site; a warning is an error

Pages in docs/ are also read on the web page of the repository, so they link to files outside of
docs/ (figures of results/, records, the changelog). The site cannot have such links: these files
are copied, and the links changed. The pages of the API reference are made from the public names.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
DOCS, BUILD = ROOT / "docs", ROOT / "build"
STAGED, SITE = BUILD / "docs", BUILD / "site"
PAGES = {ROOT / "README.md": "index.md", ROOT / "CHANGELOG.md": "changelog.md"}
"""Files outside of docs/ that are pages of the site."""
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SHIM = ("https://unpkg.com/iframe-worker/shim", "site/worker.js")
"""What the theme would load for its search from elsewhere, and our own."""
API = {
    "optimizers": "Optimizers, parameter groups, methods and schedules.",
    "constraints": "The geometries.",
    "ensemble": "Many seeds as one computation.",
    "sampling": "Chains and what they have drawn.",
    "diagnostics": "What can be measured of a network and its dynamics.",
    "integrations": "Loops of other frameworks.",
    "lab.data": "Data sets of the experiments.",
    "errors": "Errors and warnings.",
}
"""Parts of the library with public names: one page each."""
FIRST = (
    *("CoLA", "parameter_groups", "constrain_", "Circle", "Sphere", "Orthogonal", "Box", "General"),
    *("Ensemble", "sample", "Trace", "load_trace"),
)
"""What most people come for: at the head of its page, in this order; then by the alphabet."""


# --- staging --------------------------------------------------------------------------------


def stage() -> None:
    """Copy docs/ and all that its pages link to; write the API reference and the notebooks."""
    shutil.rmtree(STAGED, ignore_errors=True)
    shutil.copytree(DOCS, STAGED)
    for page in [*sorted(DOCS.rglob("*.md")), ROOT / "CHANGELOG.md"]:
        staged(page).write_text(relinked(page), encoding="utf-8")
    write_api(STAGED / "api")
    import notebooks  # beside this file; what it needs comes with the extra docs

    for written in notebooks.write(STAGED / "notebooks"):
        with (STAGED / "guides" / f"{written.stem}.md").open("a", encoding="utf-8") as page:
            page.write(f"\n**[Download as a notebook](../notebooks/{written.name})**\n")


def staged(path: Path) -> Path:
    """The place of a file in the site."""
    if path.is_relative_to(DOCS):
        return STAGED / path.relative_to(DOCS)
    if path in PAGES:
        return STAGED / PAGES[path]
    target = STAGED / "files" / path.relative_to(ROOT)
    return target.with_suffix(".txt") if path.suffix == ".md" else target  # .md would be a page


def relinked(page: Path) -> str:
    """The text of a page, with links to files outside of docs/ changed to copies of them."""
    text = page.read_text(encoding="utf-8")
    fences = [(m.start(), m.end()) for m in FENCE.finditer(text)]

    def change(match: re.Match[str]) -> str:
        target, mark, anchor = match[2].partition("#")
        if any(a <= match.start() < b for a, b in fences) or "://" in target or not target:
            return match[0]
        path = (page.parent / target).resolve()
        place = staged(path)
        if not path.is_relative_to(DOCS) and path not in PAGES:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
        return f"{match[1]}{os.path.relpath(place, staged(page).parent)}{mark}{anchor}{match[3]}"

    return LINK.sub(change, text)


# --- the API reference ----------------------------------------------------------------------


def write_api(folder: Path) -> None:
    """One page per part with its public names, and a list of all names."""
    folder.mkdir()
    import colangevin

    index = ["# API reference\n", "Every public name, with signature, example and source.\n"]
    shown: set[str] = set()
    for part, about in API.items():
        names = dict(part_names(part))
        if not names:
            continue
        page = part.rpartition(".")[2]
        lines = [f"# {page.capitalize()}\n", f"{about}\n"]
        index += [
            f"## {page.capitalize()}\n",
            f"{about}\n",
            "| Name | What it is |",
            "| --- | --- |",
        ]
        for shown_as, path in sorted(names.items(), key=lambda item: place(item[0])):
            lines += [f"::: {path}", "    options:", f'      heading: "{shown_as}"', ""]
            index.append(f"| [`{shown_as}`]({page}.md#{path}) | {summary(path)} |")
        index.append("")
        shown |= {name.partition(".")[2] for name in names}
        (folder / f"{page}.md").write_text("\n".join(lines), encoding="utf-8")
    missing = set(colangevin.__all__) - shown
    if missing:
        raise SystemExit(f"names without a page of the API reference: {sorted(missing)}")
    (folder / "index.md").write_text("\n".join(index), encoding="utf-8")


def place(shown_as: str) -> tuple[int, str]:
    """Where a name stands on its page."""
    name = shown_as.rpartition(".")[2]
    return FIRST.index(name) if name in FIRST else len(FIRST), shown_as.lower()


def part_names(part: str) -> Iterator[tuple[str, str]]:
    """Of a part: public names as users write them, and where each is defined."""
    import colangevin

    home = f"colangevin.{part}"
    for name in colangevin.__all__:
        path = defined(getattr(colangevin, name))
        if path.startswith((f"{home}.", f"{home}:")):
            yield f"cl.{name}", path
    module = _module(home)
    if module is None or part in ("optimizers", "constraints", "ensemble", "errors"):
        return  # the rest of these is for the inside
    own = "cl" if part != "lab.data" else "colangevin"
    for name in getattr(module, "__all__", ()):
        thing = getattr(module, name)
        if name not in colangevin.__all__ and (inspect.isclass(thing) or inspect.isfunction(thing)):
            yield f"{own}.{part}.{name}", defined(thing)


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def defined(thing: object) -> str:
    """Where a class or function is defined, as mkdocstrings wants it."""
    return f"{thing.__module__}.{thing.__qualname__}"


def summary(path: str) -> str:
    """The first line of a docstring."""
    module, _, name = path.rpartition(".")
    text = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    return text.partition("\n\n")[0].replace("\n", " ").replace("|", r"\|").replace("``", "`")


# --- checks ---------------------------------------------------------------------------------


def pages_of(nav: list) -> Iterator[str]:
    """The pages that a navigation has."""
    for entry in nav:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from [value] if isinstance(value, str) else pages_of(value)


def check_navigation(nav: list) -> None:
    """Every page is in the navigation, and nothing else is."""
    listed = set(pages_of(nav))
    there = {path.relative_to(STAGED).as_posix() for path in STAGED.rglob("*.md")}
    if listed != there:
        raise SystemExit(
            f"mkdocs.yml: pages without a place in nav: {sorted(there - listed)}; "
            f"places without a page: {sorted(listed - there)}"
        )


class Links(HTMLParser):
    """The links and the anchors of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src") and value and tag != "base":
                self.links.append(value)
            if name == "src" and value and value.startswith(("http:", "https:", "//")):
                self.loaded.append(value)


def broken_links(site: Path) -> list[str]:
    """Links of the built site that lead to no file or no anchor, or load from elsewhere."""
    pages = {p.resolve(): Links(p.read_text(encoding="utf-8")) for p in site.rglob("*.html")}
    broken = [f"{page.name} loads {link}" for page, own in pages.items() for link in own.loaded]
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or page.name == "404.html":
                continue  # other sites are not asked
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            there = target.exists()
            if not there or (anchor and target in pages and anchor not in pages[target].anchors):
                broken.append(f"{page.relative_to(site.resolve())}: {link}")
    return broken


# --- the site -------------------------------------------------------------------------------


def keep_local(site: Path) -> None:
    """Let the pages load nothing from elsewhere: the search works without a network."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        own = os.path.relpath(site / SHIM[1], page.parent)
        page.write_text(text.replace(SHIM[0], own), encoding="utf-8")


def write_llms(nav: list, about_all: str) -> None:
    """llms.txt: the pages in order with what they are, for programs that read; and their text."""
    title = re.compile(r"^# (.+)$", re.MULTILINE)
    lines = ["# colangevin\n", f"> {about_all}\n", "## Pages\n"]
    for page in pages_of(nav):
        source = STAGED / page
        text = source.read_text(encoding="utf-8")
        heading = title.search(text)
        name = heading[1] if heading else page
        after = text[heading.end() :] if heading else text
        prose = [part for part in after.split("\n\n") if part.strip() and part.strip()[0].isalnum()]
        about = " ".join(prose[0].split()) if prose else ""
        lines.append(f"- [{name}]({page}): {about[:200]}".rstrip(": "))
        target = SITE / page
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    (SITE / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def with_api(text: str) -> str:
    """The configuration with the staged pages of the API reference in the navigation."""
    names = [part.rpartition(".")[2] for part in API]
    own = [f"api/{name}.md" for name in names if (STAGED / "api" / f"{name}.md").exists()]
    return re.sub(r"^( *- )api/index\.md.*$", _under(own), text, flags=re.MULTILINE)


def _under(pages: list[str]) -> str:
    return "\n".join(rf"\g<1>{page}" for page in ["api/index.md", *pages])


def build(text: str) -> None:
    """Run Zensical; its warnings are errors."""
    shutil.rmtree(SITE, ignore_errors=True)
    file = ROOT / "mkdocs.build.yml"  # beside mkdocs.yml, whose paths are relative to it
    file.write_text(text, encoding="utf-8")
    try:
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
        if subprocess.run([*command, "--config-file", file.name], cwd=ROOT).returncode:
            raise SystemExit("the site has warnings, which are errors: see above")
    finally:
        file.unlink()


def main() -> None:
    """Stage, build, check."""
    import yaml  # comes with the extra docs

    stage()
    text = with_api((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    configuration = yaml.safe_load(text)
    check_navigation(configuration["nav"])
    build(text)
    write_llms(configuration["nav"], configuration["site_description"])
    keep_local(SITE)
    broken = broken_links(SITE)
    if broken:
        raise SystemExit("broken links:\n  " + "\n  ".join(broken))
    count = len(list(SITE.rglob("*.html")))
    print(f"{SITE.relative_to(ROOT)}: {count} pages, every link leads somewhere")


if __name__ == "__main__":
    main()
