"""``python -m colangevin``: the same program as ``cola``."""

from __future__ import annotations

from colangevin.lab.cli.main import run

if __name__ == "__main__":
    run()
