"""Notebooks from the guides: each `python` block is a cell, and all cells have been run.

    python scripts/notebooks.py build/docs/notebooks

`make docs` calls it; every guide then offers its notebook for download. A cell that fails is an
error. The first cell says what to install.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GUIDES = ROOT / "docs" / "guides"
INSTALL = "# Needs colangevin: `pip install .` in a clone of its repository.\n\n"
SECONDS = 600
"""What a cell may take."""
LINK = re.compile(r"!?\[([^\]]*)\]\((?![a-z]+:)[^)]*\)")
"""Links and pictures of the site, which a notebook does not have: their words stay."""

PRINTED = re.compile(r"(^```python\n.*?^```\n)\n```text\n.*?^```\n", re.MULTILINE | re.DOTALL)
"""A cell and what it prints, which the notebook shows by itself."""


def notebook(page: Path) -> str:
    """A guide as a notebook that has been run, as JSON.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell fails.
    """
    import jupytext
    import nbformat
    from nbclient import NotebookClient
    from traitlets.config import Config

    text = PRINTED.sub(r"\1", LINK.sub(r"\1", page.read_text(encoding="utf-8")))
    found = jupytext.reads(INSTALL + text, fmt="md")
    found.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    within = Config({"ConnectionFileMixin": {"transport": "ipc"}} if os.name == "posix" else {})
    NotebookClient(found, timeout=SECONDS, kernel_name="python3", config=within).execute()
    written: str = nbformat.writes(found)
    return written


def write(folder: Path, guides: Path = GUIDES) -> list[Path]:
    """Write the notebook of every guide; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for page in sorted(guides.glob("*.md")):
        written.append(folder / f"{page.stem}.ipynb")
        written[-1].write_text(notebook(page), encoding="utf-8")
    return written


if __name__ == "__main__":
    for path in write(Path(sys.argv[1])):
        print(path)
