"""Compare two sets of records of one experiment run by run: does a change keep the results?

Runs of the same seed share their data, first weights and batches. The longer records are read at
the last epoch of the shorter ones.

    cola reproduce spiral-classifiers --scale laptop --out /tmp/new
    python scripts/compare_records.py results/spiral-classifiers /tmp/new/spiral-classifiers

It prints a table in Markdown: for each method and quantity the means before and now, the mean
difference of the runs that both have with its standard error, and how far the mean is from that of
all earlier runs. The exit status is 1 if a difference exceeds four standard errors.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from colangevin.lab.claims.wording import markdown_table  # noqa: E402
from colangevin.lab.runner.records import Record, read_records  # noqa: E402

QUANTITIES = {
    "test_accuracy": ("test accuracy, %", 100.0, 2),
    "test_loss": ("test loss", 1.0, 4),
}
LIMIT = 4.0
COLUMNS = (
    "method",
    "quantity",
    "before, same seeds",
    "now",
    "difference, run by run",
    "in standard errors",
    "from all runs before, in standard errors",
)


class Comparison(NamedTuple):
    """A quantity of one method: the runs that both have, and how all earlier ones lie to them."""

    before: float
    now: float
    error: float
    distance_to_all: float

    @property
    def distance(self) -> float:
        """The mean difference in standard errors; 0 if nothing has changed."""
        changed = self.now - self.before
        if not self.error:
            return math.copysign(math.inf, changed) if changed else 0.0
        return changed / self.error


def compare(before: Sequence[float], now: Sequence[float]) -> Comparison:
    """Compare run by run; the first runs of the longer list are those of the shorter.

    Example:
        >>> found = compare([1.0, 2.0, 3.0, 9.0], [1.0, 2.0, 4.0])
        >>> f"{found.now - found.before:.3f} {found.error:.3f} {found.distance:.1f}"
        '0.333 0.333 1.0'
    """
    shared = min(len(before), len(now))
    own, same = list(now[:shared]), list(before[:shared])
    changes = [b - a for a, b in zip(same, own, strict=True)]
    apart = statistics.fmean(now) - statistics.fmean(before)
    scale = math.hypot(_error(now), _error(before))
    means = statistics.fmean(same), statistics.fmean(own)
    return Comparison(*means, _error(changes), apart / scale if scale else 0.0)


def _error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))


def at_epoch(record: Record, key: str, epoch: int) -> list[float]:
    """A number per run at an epoch.

    Raises:
        ValueError: if nothing was measured there.
    """
    epochs = record.history["epoch"]
    if epoch not in epochs:
        raise ValueError(f"{record.job} was not measured at epoch {epoch}, only at {epochs}")
    return record.series(key)[epochs.index(epoch)]


def rows(old: Record, new: Record) -> list[tuple[list[str], float]]:
    """Lines of the table for one method, each with its distance in standard errors."""
    epoch = min(old.history["epoch"][-1], new.history["epoch"][-1])
    found = []
    for key, (label, factor, digits) in QUANTITIES.items():
        before, now = ([factor * x for x in at_epoch(r, key, epoch)] for r in (old, new))
        result = compare(before, now)
        change = f"{result.now - result.before:+.{digits}f} ± {result.error:.{digits}f}"
        numbers = [f"{result.before:.{digits}f}", f"{result.now:.{digits}f}", change]
        distances = [f"{result.distance:+.1f}", f"{result.distance_to_all:+.1f}"]
        line = [str(new.settings.get("label", new.job)), label, *numbers, *distances]
        found.append((line, result.distance))
    return found


def main(given: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", type=Path, help="a folder with records")
    parser.add_argument("now", type=Path, help="a folder with records of the same experiment")
    options = parser.parse_args(given)
    old, new = read_records(options.before), read_records(options.now)
    shared = [job for job in new if job in old]
    if not shared:
        parser.error(f"{options.before} and {options.now} have no job in common")
    found = [row for job in shared for row in rows(old[job], new[job])]
    print(markdown_table(COLUMNS, [line for line, _ in found]), end="")
    return 0 if all(abs(distance) <= LIMIT for _, distance in found) else 1


if __name__ == "__main__":
    sys.exit(main())
