"""Run the benchmark and renew the results in the repository and the page about them."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from colangevin.lab.bench import plot, presenting
from colangevin.lab.bench.record import Record
from colangevin.lab.cli.bench_command import run_bench

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--brief",
        action="store_true",
        help="five minutes: fewer steps where they are slow, no slow peers",
    )
    parser.add_argument(
        "--page-only",
        action="store_true",
        help="no new figures: draw and describe the stored ones again",
    )
    arguments = parser.parse_args()
    stored = RESULTS / "bench.json"
    if not arguments.page_only:
        # Nothing in the repository changes unless the run comes to its end.
        with tempfile.TemporaryDirectory() as folder:
            reference = ROOT / "tests" / "reference.py"
            complete = not arguments.brief
            code = run_bench(out=Path(folder), complete=complete, reference=reference)
            if code:
                return code
            RESULTS.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(folder) / stored.name, stored)
    record = Record.load(stored)  # with the bars that the run was judged by
    plot.save(record, RESULTS / "bench.png")
    page = presenting.markdown(record, picture=presenting.DOCS_PICTURE, json=presenting.DOCS_JSON)
    PAGE.write_text(page, encoding="utf-8")
    for path in (stored, RESULTS / "bench.png", PAGE):
        print(f"Wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
