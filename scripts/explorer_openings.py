"""Records what the presets of ``cola explore`` show: the recorded runs that open them.

Each preset is trained for its number of steps with three seeds, as the page does, and 50 frames are
kept. Which numbers the texts may claim is checked by the tests, from these records.

    python scripts/explorer_openings.py            # all presets
    python scripts/explorer_openings.py deep       # one of them
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import torch

from colangevin.lab.explorer import opening
from colangevin.lab.explorer.presets import PRESETS

FOLDER = Path(opening.__file__).parent / "openings"


PAGE = Path(__file__).parents[1] / "docs" / "explorer.md"
BEGIN, END = "<!-- openings: begin -->", "<!-- openings: end -->"


def table() -> str:
    """What the records have at their ends: means over the seeds, A against B."""
    lines = [
        "| Preset | Steps | Test accuracy, % | Test loss | Ahead with each seed |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, preset in PRESETS.items():
        last = opening.read(name)["frames"][-1]
        runs = [last["runs"][letter]["scores"] for letter in "ab"]
        accuracy, loss = ([statistics.mean(run[place]) for run in runs] for place in (3, 1))
        leads = {score.removeprefix("test_"): own.upper() for score, own in preset.ahead.items()}
        words = ", ".join(
            f"{score}: {'neither' if o == 'NEITHER' else o}" for score, o in leads.items()
        )
        lines.append(
            f"| {preset.title} | {preset.steps:,} | "
            f"{100 * accuracy[0]:.1f} against {100 * accuracy[1]:.1f} | "
            f"{loss[0]:.3f} against {loss[1]:.3f} | {words} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Record, say what the last frame has, and write the table of the page."""
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
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
