"""Run the benchmark and renew the results in the repository and the page about them."""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from colangevin.lab.bench import bars, plot, presenting
from colangevin.lab.bench.record import Record
from colangevin.lab.bench.sampling_rates import LETTER
from colangevin.lab.bench.works import Sizes
from colangevin.lab.cli.bench_command import run_bench

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DOCS = ROOT / "docs"


def renew(stored: Path, later: Record, whole: bool) -> Record:
    """What is stored, with the works of a later run; a whole run has all but the samplers."""
    before = Record.load(stored) if stored.exists() else None
    if before is None:
        return later
    if not whole:
        found = before.renewed(later)
    elif LETTER in before.works:
        date = before.settings["renewed"][LETTER]
        found = later.renewed(
            replace(
                before,
                machine={**before.machine, "date": date},
                works={LETTER: before.works[LETTER]},
                rows=before.of_work(LETTER),
                bars=[],
                slopes={},
                work_seconds={},
            )
        )
    else:
        return later
    # Laws may come from several runs, so that their bars are those of all rows.
    rest = [bar for bar in found.bars if bar.work != LETTER]
    rest[-1:-1] = [bar for bar in bars.judge(found) if bar.work == LETTER]
    return replace(found, bars=rest)


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
    parser.add_argument(
        "--works", help="letters of works to renew, such as s; the others stay as they are"
    )
    parser.add_argument("--laws", help="of the work s, names of laws to renew, such as circle")
    arguments = parser.parse_args()
    stored = RESULTS / "bench.json"
    if not arguments.page_only:
        # Nothing in the repository changes unless the run comes to its end.
        with tempfile.TemporaryDirectory() as folder:
            reference = ROOT / "tests" / "reference.py"
            complete = not arguments.brief
            works = arguments.works
            sizes = Sizes(laws=tuple(arguments.laws.split(",")) if arguments.laws else ())
            code = run_bench(
                works=works, out=Path(folder), full=complete, reference=reference, sizes=sizes
            )
            if code:
                return code
            RESULTS.mkdir(parents=True, exist_ok=True)
            later = Record.load(Path(folder) / stored.name)
            renew(stored, later, whole=works is None).save(stored)
    record = Record.load(stored)  # with the bars that the run was judged by
    plot.save(record, RESULTS / "bench.png")
    pages = {DOCS / name: page for name, page in presenting.docs_pages(record).items()}
    for path, page in pages.items():
        path.write_text(page, encoding="utf-8")
    for path in (stored, RESULTS / "bench.png", *pages):
        print(f"Wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
