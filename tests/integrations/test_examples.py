"""Every example runs, and prints what its page of the documentation shows.

On a page the command is in a block of ``sh``, and its output in the block of ``text`` after it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SHOWN = re.compile(
    r"^```sh\n([^\n]*examples/\w+\.py[^\n]*)\n```\n+```text\n(.*?)^```$", re.M | re.S
)
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]\d+)?")
SMALL = 1e-5
"""Rounding: it differs between processors."""


def shown() -> Iterator[tuple[str, str]]:
    """The commands on all pages, with their output."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        yield from SHOWN.findall(page.read_text(encoding="utf-8"))


def agree(printed: str, expected: str) -> bool:
    """Whether two texts agree; numbers may differ a little, by the rounding of many steps."""
    if NUMBER.sub("#", printed) != NUMBER.sub("#", expected):
        return False
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(expected), strict=True)
    return all(near(float(a), float(b)) for a, b in pairs)


def near(a: float, b: float) -> bool:
    if max(a, b) < SMALL:
        return True
    whole = a == int(a) and b == int(b)
    return a == b if whole else abs(a - b) <= 0.03 * max(a, b) + 0.002


def arguments(command: str) -> list[str]:
    program, *rest = shlex.split(command)
    launcher = {"python": [], "torchrun": ["-m", "torch.distributed.run"]}[program]
    return [sys.executable, *launcher, *rest]


@pytest.mark.parametrize(
    ("command", "expected"), [pytest.param(*pair, id=pair[0]) for pair in shown()]
)
def test_the_output_is_that_of_the_page(command: str, expected: str) -> None:
    source = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        arguments(command),
        cwd=ROOT,
        env={**os.environ, **threads, "PYTHONPATH": source, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert agree(done.stdout, expected), done.stdout


def test_every_example_is_on_a_page() -> None:
    commands = " ".join(command for command, _ in shown())
    assert [path.name for path in EXAMPLES if f"examples/{path.name}" not in commands] == []
    assert len(EXAMPLES) >= 7


def test_the_comparison_can_fail() -> None:
    assert agree("loss 0.242, step 20, off 1e-07\n", "loss 0.240, step 20, off 3e-08\n")
    assert not agree("loss 0.3\n", "loss 0.2\n")
    assert not agree("step 21\n", "step 20\n")
    assert not agree("the same: False\n", "the same: True\n")
