"""Records what the presets of ``cola explore`` show: the recorded runs that open them.

Each preset is trained for its number of steps with three seeds, as the page does, and 50 frames are
kept. Which numbers the texts may claim is checked by the tests, from these records.

    python scripts/explorer_openings.py            # all presets
    python scripts/explorer_openings.py deep       # one of them
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from colangevin.lab.explorer import opening
from colangevin.lab.explorer.presets import PRESETS

FOLDER = Path(opening.__file__).parent / "openings"


def main() -> None:
    """Record, and say what the last frame has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="presets; all if none is given")
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    for name in parser.parse_args().names or PRESETS:
        begin = time.perf_counter()
        content = opening.written(opening.record(name))
        (FOLDER / f"{name}.json.gz").write_bytes(content)
        seconds = time.perf_counter() - begin
        print(f"{name}: {len(content) / 1024:.0f} kB, {seconds:.0f} s")
        for letter, run in opening.read(name)["frames"][-1]["runs"].items():
            print("  ", letter, dict(zip(("loss", "accuracy"), run["scores"][1::2], strict=True)))


if __name__ == "__main__":
    main()
