"""Try the wheel in dist/ as its user would: a new venv, another folder, no source beside it.

    python scripts/try_wheel.py

Installs it with the command line, runs the ten lines of README.md, a short demo and every help.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
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


def main() -> None:
    """Install and try; the first failure ends it."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python, cola = (str(Path(folder, "bin", name)) for name in ("python", "cola"))
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pins = ["-c", str(ROOT / "constraints.txt")]
        subprocess.run([*pip, *pins, f"{wheel}[cli,explore]"], check=True)

        def run(command: list[str]) -> str:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{command} failed:\n{done.stdout}{done.stderr}")
            return done.stdout

        program, printed = ten_lines()
        if run([python, "-c", program]) != printed:
            raise SystemExit("the ten lines of README.md print something else")
        for arguments in COMMANDS:
            run([cola, *arguments])
        if not Path(folder, "out", "demo.png").exists():
            raise SystemExit("the demo wrote no picture")
    print(f"{wheel.name}: installed in a new venv; the ten lines, the demo and every help work")


if __name__ == "__main__":
    sys.exit(main())
