"""Measures the explorer in a real browser and writes the table of docs/explorer.md.

It starts ``cola explore`` as a user does, waits for the page and for the first frame, lets a
500-node network train in two runs, and reads frames per second and the server's memory:

    python scripts/explorer_measures.py --minutes 10 --write
    python scripts/explorer_measures.py --presets
    python scripts/explorer_measures.py --screenshot docs/images/explorer.png

It needs the extras explore and dev, and Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explorer.md"
RECORD = ROOT / "benchmarks" / "results" / "explorer.json"
BEGIN, END = "<!-- measures: begin -->", "<!-- measures: end -->"
STARTS = 3


def memory(process: int) -> float:
    """Resident memory in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


@contextmanager
def explorer() -> Iterator[tuple[str, subprocess.Popen[str], float]]:
    """The server, its address, and when it was started."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "colangevin", "explore", "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield found[0], process, begin
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        chromium = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def opened(chromium: Any, address: str, **options: Any) -> Any:
    """A page that has shown its first frame."""
    page = chromium.new_context(viewport={"width": 1280, "height": 900}, **options).new_page()
    page.goto(address, timeout=120_000)
    page.wait_for_selector("body[data-steps]", timeout=120_000)
    return page


def starts() -> dict[str, list[float]]:
    """Seconds from the command to the page, and to the first frame of the training."""
    page_seconds, frame_seconds = [], []
    with browser() as chromium:
        for _ in range(STARTS):
            with explorer() as (address, _, begin):
                with urllib.request.urlopen(address) as answer:
                    assert b"cola explore" in answer.read()
                page_seconds.append(time.perf_counter() - begin)
                page = opened(chromium, address)
                frame_seconds.append(time.perf_counter() - begin)
                page.close()
    return {"page": page_seconds, "first_frame": frame_seconds}


def long_run(minutes: float) -> dict[str, Any]:
    """Frames per second and memory, once a minute or ten times."""
    every = min(60.0, minutes * 6)
    rows = []
    with browser() as chromium, explorer() as (address, process, _):
        page = opened(chromium, f"{address}#preset=circles")
        page.click("#play")
        begin = time.perf_counter()
        while (passed := time.perf_counter() - begin) < minutes * 60:
            heap = page.evaluate("performance.memory?.usedJSHeapSize / 2 ** 20")
            fps, steps = (
                float(page.evaluate(f"document.body.dataset.{n}")) for n in ("fps", "steps")
            )
            rows.append(
                {
                    "seconds": round(passed),
                    "steps": int(steps),
                    "load": round(os.getloadavg()[0], 1),
                    "frames_per_second": fps,
                    "server_mb": round(memory(process.pid), 1),
                    "page_heap_mb": heap and round(heap, 1),
                }
            )
            print(json.dumps(rows[-1]), flush=True)
            time.sleep(every)
    return {"minutes": minutes, "rows": rows}


def presets() -> None:
    """What each preset shows after its number of steps: seeds 0 to 2, mean."""
    import torch

    from colangevin.lab.explorer.presets import PRESETS
    from colangevin.lab.explorer.readings import scores
    from colangevin.lab.explorer.runs import Training
    from colangevin.lab.explorer.spec import parse

    torch.set_num_threads(1)
    for name, preset in PRESETS.items():
        own = {**preset.spec, "training": {**preset.spec["training"], "members": 3}}
        training = Training(parse(own))
        for part in (4, 2, 1):
            while training.steps < preset.steps // part:
                training.step()
            for letter, members in training.runs.items():
                found = [scores(member, training.points) for member in members]
                print(name, letter, training.steps, found, flush=True)


def text(record: dict[str, Any]) -> str:
    """The table of the page."""
    first, last = record["run"]["rows"][1], record["run"]["rows"][-1]
    fps = [row["frames_per_second"] for row in record["run"]["rows"][1:]]
    page, frame = record["starts"]["page"], record["starts"]["first_frame"]
    minutes = record["run"]["minutes"]
    rows = [
        ("from the command to the page", f"{_spread(page)} s"),
        ("from the command to the first frame", f"{_spread(frame)} s"),
        (
            "load of the machine meanwhile (1 per busy processor)",
            _spread([row["load"] for row in record["run"]["rows"]]),
        ),
        ("frames per second", f"{statistics.median(fps):.1f} ({min(fps):.1f} to {max(fps):.1f})"),
        (
            f"memory of the server after {first['seconds'] / 60:.0f} and {minutes:g} minutes",
            f"{first['server_mb']:.0f} MB and {last['server_mb']:.0f} MB",
        ),
        ("steps in that time, of each run", f"{last['steps']:,}"),
    ]
    lines = ["| Measure | Value |", "| --- | --- |", *[f"| {a} | {b} |" for a, b in rows]]
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def screenshot(path: Path, steps: int) -> None:
    """The picture of the page, after so many steps."""
    with browser() as chromium, explorer() as (address, _, _):
        page = opened(chromium, f"{address}#preset=circles&steps={steps}")
        page.wait_for_function(
            f"() => document.body.dataset.steps === '{steps}'", timeout=600_000, polling=500
        )
        page.click("#story-close")
        page.wait_for_timeout(500)
        page.screenshot(
            path=path, clip={"x": 0, "y": 0, "width": 1280, "height": 1400}, full_page=True
        )


def main() -> None:
    """Measure, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--write", action="store_true", help="write the record and the table")
    parser.add_argument("--presets", action="store_true", help="only train the presets")
    parser.add_argument("--screenshot", type=Path, help="only make this picture")
    parser.add_argument("--steps", type=int, default=3_000, help="of the picture")
    given = parser.parse_args()
    if given.presets:
        return presets()
    if given.screenshot:
        return screenshot(given.screenshot, given.steps)
    record = {"starts": starts(), "run": long_run(given.minutes)}
    print(text(record))
    if given.write:
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
        source = PAGE.read_text(encoding="utf-8")
        before, rest = source.split(BEGIN)
        PAGE.write_text(
            f"{before}{BEGIN}\n{text(record)}\n{END}{rest.split(END)[1]}", encoding="utf-8"
        )
    return None


if __name__ == "__main__":
    main()
