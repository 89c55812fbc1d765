"""Measures the explorer in a real browser and writes the table of docs/explorer.md.

It starts ``cola explore`` as a user does, waits for the page and for the first frame, lets a
500-node network train in two runs, and reads frames per second and the server's memory. Start-up
and frames need a quiet machine, memory needs time, so each may be measured by itself:

    python scripts/explorer_measures.py --only cases --write
    python scripts/explorer_measures.py --only speed --write
    python scripts/explorer_measures.py --only memory --minutes 30 --write
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
    view = {"viewport": {"width": 1280, "height": 900}, **options}
    page = chromium.new_context(**view).new_page()
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
        page = opened(chromium, f"{address}#preset=circles&training.members=1")
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
    """Start-up."""
    return {"starts": starts()}


def long_run(minutes: float) -> dict[str, Any]:
    """Memory, once per minute or ten times."""
    return {"minutes": minutes, "rows": run(minutes * 60, min(60.0, minutes * 6))}


CASES = {
    "two runs of one seed, *Overfitting*": "preset=circles&training.members=1",
    "two runs of four seeds, *Overfitting*": "preset=circles&training.members=4",
    "two runs of four seeds, *AdLaLa*": "preset=adlala&training.members=4",
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
                "load": round(os.getloadavg()[0], 1),
            }
            print(title, found[title], flush=True)
            page.context.close()
    return found


def _steps(page: Any) -> int:
    return int(page.evaluate("document.body.dataset.steps"))


def rows_of(record: dict[str, Any]) -> dict[str, str]:
    """The measures of a record in words."""
    found = {}
    for title, case in record.get("cases", {}).items():
        steps = f"{case['steps_per_second']:,} (load {case['load']})"
        found[f"steps per second: {title}"] = steps
        found[f"frames per second: {title}"] = f"{case['frames_per_second']:.1f}"
    if "speed" in record:
        starts = record["speed"]["starts"]
        found["from the command to the page"] = f"{_spread(starts['page'])} s"
        found["from the command to the first frame"] = f"{_spread(starts['first_frame'])} s"
    if "memory" in record:
        slow = record["memory"]
        first, last = slow["rows"][1], slow["rows"][-1]
        minutes = f"{slow['minutes']:g} minutes"
        found[f"memory of the server after 1 and {minutes}"] = (
            f"{first['server_mb']:.0f} MB and {last['server_mb']:.0f} MB"
        )
        found[f"steps of each run in {minutes}"] = f"{last['steps']:,}"
        load = _spread([row["load"] for row in slow["rows"]])
        found[f"load of the machine in these {minutes} (1 per busy processor)"] = load
    return found


def text(record: dict[str, Any]) -> str:
    """The table of the page: before the networks of a run were one ensemble, and now."""
    before, now = rows_of(record["before"]), rows_of(record)
    names = [*now, *[name for name in before if name not in now]]
    lines = ["| Measure | Before | Now |", "| --- | --- | --- |"]
    lines += [f"| {name} | {before.get(name, '–')} | {now.get(name, '–')} |" for name in names]
    return "\n".join(lines)


def _spread(values: list[float], digits: int = 1) -> str:
    middle, low, high = statistics.median(values), min(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def screenshot(path: Path) -> None:
    """The picture of the page, shortly before the recorded run of the first preset ends."""
    with browser() as chromium, explorer() as (address, _, _):
        page = opened(chromium, address, viewport={"width": 1440, "height": 900})
        page.wait_for_function(
            "() => document.getElementById('opening-progress').value > 0.96", timeout=60_000
        )
        page.screenshot(path=path)


def main() -> None:
    """Measure, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--only", choices=["cases", "speed", "memory"], help="measure one of them")
    parser.add_argument("--write", action="store_true", help="write the record and the table")
    parser.add_argument("--screenshot", type=Path, help="only make this picture")
    given = parser.parse_args()
    if given.screenshot:
        return screenshot(given.screenshot)
    record = json.loads(RECORD.read_text())
    measures = {"cases": cases, "speed": speed, "memory": lambda: long_run(given.minutes)}
    for name, measure in measures.items():
        if given.only in (None, name):
            record[name] = measure()
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
