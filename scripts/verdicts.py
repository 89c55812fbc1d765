"""Recompute all verdicts on the sources' claims from the records, and print them.

    python scripts/verdicts.py [results] [--all]

prints one line per experiment and the totals; with ``--all`` every claim with its test.
"""

from __future__ import annotations

import sys
from pathlib import Path

from colangevin.lab.report.results import Results, read_results, verdict_counts
from colangevin.lab.report.verdict_totals import KINDS, totals

RESULTS = Path(__file__).parents[1] / "results"


def lines(results: Results, every: bool) -> list[str]:
    """One line for an experiment, and with ``every`` one for each of its claims."""
    answers = {kind: [getattr(claim, kind) for claim in results.claims] for kind in KINDS}
    counted = [f"{kind}: {verdict_counts(answers[kind]) or '-'}" for kind in KINDS]
    found = [f"{results.experiment.name} ({'reduced' if results.reduction else 'paper'})"]
    found[0] += f"  {'; '.join(counted)}"
    for claim in results.claims if every else ():
        told = "; ".join(f"{k}: {getattr(claim, k)}" for k in KINDS if getattr(claim, k))
        found.append(f"    {claim.text} | {claim.source} | {claim.ours} | {told}")
    return found


def main(arguments: list[str]) -> int:
    """Print the verdicts of a directory of records."""
    paths = [word for word in arguments if word != "--all"]
    found = read_results(Path(paths[0]) if paths else RESULTS)
    for results in found:
        print("\n".join(lines(results, "--all" in arguments)))
    for kind, word in KINDS.items():
        counts = totals(found, kind)
        print(f"{word}: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
