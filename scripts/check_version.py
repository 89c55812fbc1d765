"""One version everywhere: package, citation, changelog, and the tag of a release.

python scripts/check_version.py [TAG]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = {
    "pyproject.toml": r'^version = "(.+)"$',
    "src/colangevin/__init__.py": r'^__version__ = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "conda/recipe.yaml": r'^  version: "(.+)"$',
}


def versions(root: Path = ROOT) -> dict[str, str]:
    """The version that each file has."""
    found = {}
    for name, pattern in PLACES.items():
        match = re.search(pattern, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        found[name] = match[1] if match else "none"
    return found


def complaints(root: Path = ROOT, tag: str | None = None) -> list[str]:
    """What does not agree; with a tag, the changelog must have a section of the version."""
    found = versions(root)
    version = found["pyproject.toml"]
    wrong = [
        f"{name} has version {own}, not {version}" for name, own in found.items() if own != version
    ]
    if tag is not None:
        if tag != f"v{version}":
            wrong.append(f"the tag {tag} is not v{version}")
        changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
        if f"## [{version}]" not in changelog:
            wrong.append(f"CHANGELOG.md has no section [{version}]")
    return wrong


if __name__ == "__main__":
    found = complaints(tag=sys.argv[1] if len(sys.argv) > 1 else None)
    sys.exit("\n".join(found) or 0)
