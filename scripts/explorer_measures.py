"""Measures the explorer in a real browser and writes the table of docs/explorer.md.

It starts ``cola explore`` as a user does, waits for the page and for the first frame, lets a
500-node network train in two runs, and reads frames per second and the server's memory. Start-up
and frames need a quiet machine, memory needs time, so each may be measured by itself:

    python scripts/explorer_measures.py --only speed --write
    python scripts/explorer_measures.py --only memory --minutes 30 --write
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
SECONDS = 20.0
"""For which frames are counted."""


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


def run(seconds: float, every: float) -> list[dict[str, Any]]:
    """Frames per second and memory of a run, read again and again."""
    rows = []
    with browser() as chromium, explorer() as (address, process, _):
        page = opened(chromium, f"{address}#preset=circles")
        page.click("#play")
        begin = time.perf_counter()
        while (passed := time.perf_counter() - begin) < seconds:
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
    return rows


def speed() -> dict[str, Any]:
    """Start-up, and frames per second over some seconds."""
    return {"starts": starts(), "rows": run(SECONDS, SECONDS / 10)}


def long_run(minutes: float) -> dict[str, Any]:
    """Memory, once per minute or ten times."""
    return {"minutes": minutes, "rows": run(minutes * 60, min(60.0, minutes * 6))}


CASES = {
    "two runs of one seed, *Overfitting and circles*": "preset=circles&training.members=1",
    "two runs of four seeds, *Overfitting and circles*": "preset=circles&training.members=4",
    "two runs of four seeds, *AdLaLa on four turns*": "preset=adlala&training.members=4",
}


def cases(seconds: float = 6.0) -> dict[str, dict[str, float]]:
    """Steps and frames per second of each case, after two seconds of warming up."""
    found = {}
    with browser() as chromium, explorer() as (address, _, _):
        for title, link in CASES.items():
            page = opened(chromium, f"{address}#{link}")
            page.wait_for_selector("body[data-ready=yes]")
            page.evaluate("document.body.dataset.state !== 'playing' && play.click()")
            page.wait_for_timeout(2000)
            readings = [(time.perf_counter(), _steps(page))]
            frames = []
            for _ in range(4):
                page.wait_for_timeout(250 * seconds)
                frames.append(float(page.evaluate("document.body.dataset.fps")))
                readings.append((time.perf_counter(), _steps(page)))
            (begin, first), (end, last) = readings[0], readings[-1]
            found[title] = {
                "steps_per_second": round((last - first) / (end - begin)),
                "frames_per_second": statistics.median(frames),
            }
            print(title, found[title], flush=True)
            page.context.close()
    return found


def _steps(page: Any) -> int:
    return int(page.evaluate("document.body.dataset.steps"))


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
    fast, slow = record["speed"], record["memory"]
    first, last = slow["rows"][1], slow["rows"][-1]
    starts = fast["starts"]
    fps = [row["frames_per_second"] for row in fast["rows"][3:]]  # it counts those of some seconds
    load = [row["load"] for row in slow["rows"]]
    sizes = [row["server_mb"] for row in slow["rows"][1:]]
    rows = [
        ("from the command to the page", f"{_spread(starts['page'])} s"),
        ("from the command to the first frame", f"{_spread(starts['first_frame'])} s"),
        ("frames per second", _spread(fps)),
        (
            f"memory of the server after 1 and {slow['minutes']:g} minutes",
            f"{first['server_mb']:.0f} MB and {last['server_mb']:.0f} MB",
        ),
        ("the same, once per minute", f"{_spread(sizes, 0)} MB"),
        ("steps of each run in these minutes", f"{last['steps']:,}"),
        ("load of the machine in these minutes (1 per busy processor)", _spread(load)),
    ]
    lines = ["| Measure | Value |", "| --- | --- |", *[f"| {a} | {b} |" for a, b in rows]]
    return "\n".join(lines)


def _spread(values: list[float], digits: int = 1) -> str:
    middle, low, high = statistics.median(values), min(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


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
    parser.add_argument("--only", choices=["speed", "memory"], help="measure only one of the two")
    parser.add_argument("--write", action="store_true", help="write the record and the table")
    parser.add_argument("--cases", action="store_true", help="only steps and frames per second")
    parser.add_argument("--presets", action="store_true", help="only train the presets")
    parser.add_argument("--screenshot", type=Path, help="only make this picture")
    parser.add_argument("--steps", type=int, default=3_000, help="of the picture")
    given = parser.parse_args()
    if given.cases:
        cases()
        return None
    if given.presets:
        return presets()
    if given.screenshot:
        return screenshot(given.screenshot, given.steps)
    record = json.loads(RECORD.read_text())
    if given.only != "memory":
        record["speed"] = speed()
    if given.only != "speed":
        record["memory"] = long_run(given.minutes)
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
