"""Try the wheel in dist/ as its user would: a new venv, another folder, no source beside it.

    python scripts/try_wheel.py

Installs it with the command line, runs the ten lines of README.md, a short demo, every help and the
explorer. There is no C compiler meanwhile: the kernels must be those of the wheel.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = (
    ["--version"],
    ["doctor"],
    *([name, "--help"] for name in ("demo", "bench", "reproduce", "report", "explore")),
    ["demo", "--epochs", "2"],
)


def ten_lines() -> tuple[str, str]:
    """The first program of README.md, and what it prints."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    match = re.search(r"```python\n(.+?)```\s+```text\n(.+?)```", text, re.DOTALL)
    if match is None:
        raise SystemExit("README.md has no program with its output")
    return match[1], match[2]


KERNELS = """
import torch, colangevin as cl
weights = [torch.nn.Parameter(torch.rand(64, 64)) for _ in range(2)]
groups = [
    {"params": weights[:1], "constraint": cl.Circle(2.0)},
    {"params": weights[1:], "constraint": cl.Orthogonal()},
]
optimizer = cl.CoLA(groups, lr=0.1, momentum=0.9, temperature=1e-4, fused=True)
for weight in weights:
    weight.grad = torch.ones_like(weight)
optimizer.step()
"""
START_UP = 3.0
"""Seconds that the explorer may take until its page is there."""


def check_explorer(cola: str, folder: str, environment: dict[str, str]) -> float:
    """Start the explorer, read its page, and end it; returns the seconds until the page."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [cola, "explore", "--port", "0", "--no-browser"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        if found is None:
            raise SystemExit("cola explore names no address")
        with urllib.request.urlopen(found[0], timeout=30) as answer:
            page = answer.read()
        seconds = time.perf_counter() - begin
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
    if b"cola explore" not in page:
        raise SystemExit("cola explore answers with another page")
    return seconds


def main() -> None:
    """Install and try; the first failure ends it."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python, cola = (str(Path(folder, "bin", name)) for name in ("python", "cola"))
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pins = ["-c", str(ROOT / "constraints.txt")]
        subprocess.run([*pip, *pins, f"{wheel}[cli,explore]"], check=True)

        caches = Path(folder, "caches")
        environment = {**os.environ, "COLANGEVIN_CACHE": str(caches), "CC": "/bin/false"}

        def run(command: list[str]) -> str:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True
            )
            if done.returncode:
                raise SystemExit(f"{command} failed:\n{done.stdout}{done.stderr}")
            return done.stdout

        program, printed = ten_lines()
        if run([python, "-c", program]) != printed:
            raise SystemExit("the ten lines of README.md print something else")
        run([python, "-W", "error", "-c", KERNELS])
        if compiled := [path.name for path in caches.rglob("*.so")]:
            raise SystemExit(f"the kernels were compiled, not taken from the wheel: {compiled}")
        for arguments in COMMANDS:
            run([cola, *arguments])
        if not Path(folder, "out", "demo.png").exists():
            raise SystemExit("the demo wrote no picture")
        seconds = min(check_explorer(cola, folder, environment) for _ in range(3))
        busy = os.getloadavg()[0] > (os.cpu_count() or 1)  # then the time says nothing
        if seconds > START_UP and not busy:
            raise SystemExit(f"the page of cola explore took {seconds:.1f} s, not {START_UP:g}")
    print(
        f"{wheel.name}: installed in a new venv; the ten lines, the kernels, the demo and every "
        f"help work, and the page of the explorer is there after {seconds:.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
