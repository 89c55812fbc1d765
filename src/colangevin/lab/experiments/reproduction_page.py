"""Pages in Markdown: an overview of all claims and verdicts, and one page per experiment."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from colangevin.lab.experiments.experiment import VERDICTS, Claim, Experiment
from colangevin.lab.experiments.registry import EXPERIMENTS
from colangevin.lab.experiments.results import Results, headline
from colangevin.lab.experiments.wording import capital, duration, markdown_table, sentence

INTRODUCTION = """# Reproduction

What the paper and the thesis state, and what this library finds: first all experiments, then one
line per claim. Behind the links are the numbers, pictures and reasons. The pages are written by
`cola report {directory} --page {page}` from the records of the runs, which
`cola reproduce` makes; `cola reproduce list` names the experiments, their scales and times.
Values are means over the runs ± one standard deviation; bands and bars in the pictures are two
standard errors. The wall-clock is that of all jobs of an
experiment, added up; jobs run at once, one per processor.

An ordering is *reproduced* if one method is better by more than two standard errors, and
*reproduced in ordering only* if it is better by less, or in a run at a smaller scale than the
paper's. Methods are compared run by run: runs of the same seed share data, first weights and
batches, as far as the methods allow. If one method has more runs than the other, the means of all
runs must have the same order, too.

A number is *reproduced* if (a) it is within two combined standard deviations, √(ours² + theirs²),
of the paper's, and (b) the methods come in the same order. If the paper gives no standard
deviation, we use ours. Curvatures must agree within a factor of 1.25. If only (b) holds, the number
is *reproduced in ordering only*.

[Coverage of the sources](coverage.md) lists what of them is covered, partial and missing.
"""

NEW_NOISE = "2026-11-17"
OLD_NOISE_BELOW = """Some records have an earlier noise, see
[records with the earlier noise](#records-with-the-earlier-noise).
"""
OLD_NOISE = """## Records with the earlier noise

On 17 November 2026 the noise became a pure function of seed, parameter and step, and the slack of a
circle got a smallest value. Records on this page that were started before have the earlier noise.
To see whether this changes results, the two-turn spiral was repeated at the laptop scale: 10 runs,
2,000 epochs, seed 0. The table compares it with the committed records of
[spiral-classifiers](#spiral-classifiers) after 2,000 epochs: run by run for the 10 seeds that both
have, and with all 100 runs. Runs of the same seed have the same data, first weights and batches as
before. Differences are means ± one standard error. None exceeds 1.1 standard errors.

```sh
cola reproduce spiral-classifiers --scale laptop --seed 0 --out /tmp/new
python scripts/compare_records.py results/spiral-classifiers /tmp/new/spiral-classifiers
```

| method | quantity | before, same seeds | now | difference, run by run | in standard errors \
| from all runs before, in standard errors |
| --- | --- | --- | --- | --- | --- | --- |
| SGD | test accuracy, % | 85.32 | 85.35 | +0.03 ± 0.04 | +0.7 | -0.3 |
| SGD | test loss | 0.5550 | 0.5573 | +0.0023 ± 0.0021 | +1.1 | -0.3 |
| SGD + WD | test accuracy, % | 84.68 | 84.59 | -0.09 ± 0.10 | -0.9 | -0.5 |
| SGD + WD | test loss | 0.4711 | 0.4720 | +0.0009 ± 0.0013 | +0.7 | -0.4 |
| C-SGD | test accuracy, % | 82.48 | 82.54 | +0.05 ± 0.14 | +0.4 | -0.7 |
| C-SGD | test loss | 0.4707 | 0.4699 | -0.0008 ± 0.0011 | -0.7 | +0.1 |
| SGLD | test accuracy, % | 87.04 | 87.29 | +0.25 ± 0.31 | +0.8 | -0.3 |
| SGLD | test loss | 0.4696 | 0.4731 | +0.0034 ± 0.0172 | +0.2 | -0.3 |
| C-SGLD | test accuracy, % | 85.04 | 85.18 | +0.14 ± 0.22 | +0.6 | -0.2 |
| C-SGLD | test loss | 0.4424 | 0.4467 | +0.0043 ± 0.0075 | +0.6 | +0.3 |
"""
"""Measured once, by the commands it names; it goes when all records have been made anew."""

CLAIM_COLUMNS = ["what", "paper", "ours", "scale", "wall-clock", "verdict", "why"]


def page(found: Sequence[Results], directory: Path, target: Path) -> str:
    """Write the overview, with every registered experiment: one without records is said to be so.

    Args:
        found: the results, of :func:`colangevin.lab.experiments.results.read_results`.
        directory: where they were read.
        target: where the page will be: its details are in a folder of its name beside it.
    """
    by_name = {results.experiment.name: results for results in found}
    folder = Path(os.path.relpath(target.parent, directory.parent)).as_posix()
    shown = target.name if folder == "." else f"{folder}/{target.name}"
    parts = [INTRODUCTION.format(directory=directory.name, page=shown)]
    earlier = any(_has_old_noise(results) for results in found)
    parts += [OLD_NOISE_BELOW, _summary(by_name)] if earlier else [_summary(by_name)]
    for name, experiment in EXPERIMENTS.items():
        if name in by_name:
            parts.append(_brief(by_name[name], target))
        else:
            parts.append(_not_run(experiment))
    return "\n".join([*parts, OLD_NOISE] if earlier else parts)


def _has_old_noise(results: Results) -> bool:
    return any("" < record.started < NEW_NOISE for record in results.records.values())


def _summary(found: dict[str, Results]) -> str:
    rows = []
    for name, experiment in EXPERIMENTS.items():
        results = found.get(name)
        link = f"[{name}](#{name})"
        if results is None:
            rows.append([link, experiment.title, experiment.source, "", "", "not run yet"])
            continue
        clock = duration(results.records.seconds)
        verdicts = verdict_counts(results)
        rows.append([link, experiment.title, experiment.source, results.scale, clock, verdicts])
    return markdown_table(["experiment", "what", "source", "scale", "wall-clock", "verdicts"], rows)


def verdict_counts(results: Results) -> str:
    """Count the verdicts, such as ``3 reproduced, 1 not reproduced``."""
    counts = Counter(claim.verdict for claim in results.claims)
    text = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    return text or "no claims"


def _not_run(experiment: Experiment) -> str:
    note = sentence(experiment.note)
    return (
        f"## {experiment.name}\n\n{sentence(experiment.title)} {capital(experiment.source)}: not "
        f"run yet. {note}".rstrip()
        + "\n"
    )


def details(found: Sequence[Results], target: Path) -> dict[Path, str]:
    """The page of each experiment: pictures, table, and claims with their numbers and reasons.

    Args:
        found: the results.
        target: where the overview will be.

    Returns:
        Texts by path, in a folder of the overview's name beside it.
    """
    folder = target.parent / target.stem
    return {folder / f"{results.experiment.name}.md": _detail(results, target) for results in found}


def _brief(results: Results, target: Path) -> str:
    """An experiment on the overview: one line per claim."""
    experiment = results.experiment
    link = f"{target.stem}/{experiment.name}.md"
    lines = [
        f"## {experiment.name}\n",
        f"{sentence(experiment.title)} {capital(experiment.source)}, scale {results.scale}. "
        f"[Numbers, pictures and reasons]({link}).\n",
    ]
    if results.missing:
        lines.append(f"**Not complete**: {', '.join(results.missing)}.\n")
    if results.claims:
        rows = [[claim.text, _stated(claim), claim.verdict] for claim in results.claims]
        lines.append(markdown_table(["what", "paper", "verdict"], rows))
    return "\n".join(lines)


def _stated(claim: Claim) -> str:
    """What the paper states, at a glance; a long list of methods ends early.

    Example:
        >>> _stated(Claim("accuracy of A, %", "97", "97.1", "reproduced"))
        '97'
        >>> _stated(Claim("accuracy, %: A > B", "A > B", "A 3; B 2", "reproduced"))
        'as stated'
    """
    if claim.paper in claim.text and set(claim.paper) & set("<>"):
        return "as stated"  # an ordering that the claim's own words have
    return textwrap.shorten(claim.paper, 80, placeholder=" …")


def _detail(results: Results, target: Path) -> str:
    experiment, records = results.experiment, results.records
    folder = target.parent / target.stem
    clock = duration(records.seconds)
    lines = [
        f"# {experiment.name}\n",
        f"{sentence(experiment.title)} {headline(results)} Back to the "
        f"[overview](../{target.name}#{experiment.name}).\n",
    ]
    lines.append(f"```sh\n{results.command}\n```\n")
    if results.missing:
        lines.append(f"**Not complete**: {', '.join(results.missing)}.\n")
    lines.append("; ".join(machines(results)) + f". Wall-clock {clock}.\n")
    lines += [f"{picture}\n" for picture in _pictures(results, folder)]
    if results.table.rows:
        lines.append(markdown_table(results.table.columns, results.table.rows))
    if results.claims:
        rows = [
            [claim.text, claim.paper, claim.ours, results.scale, clock, claim.verdict, claim.why]
            for claim in results.claims
        ]
        lines.append(markdown_table(CLAIM_COLUMNS, rows))
    return "\n".join(lines)


def machines(results: Results) -> list[str]:
    """Name the versions and the machines that the records come from, each once.

    Example:
        >>> from colangevin.lab.experiments.records import Record, Records
        >>> versions = {"colangevin": "0.1", "torch": "2.6", "python": "3.12", "threads": 1}
        >>> machines(Results(None, Records([Record("a", "b", 0, {}, versions)])))
        ['colangevin 0.1, torch 2.6, python 3.12, 1 thread per job']
    """
    lines = []
    for record in results.records.values():
        versions = dict(record.versions)
        threads = versions.pop("threads", None)
        place = [str(versions.pop(key)) for key in ("system", "cpu") if key in versions]
        words = [f"{key} {value}" for key, value in versions.items()] + place
        if threads is not None:
            words.append(f"{threads} thread{'' if threads == 1 else 's'} per job")
        lines.append(", ".join(words))
    return list(dict.fromkeys(lines))


def _pictures(results: Results, folder: Path) -> list[str]:
    """Markdown of the pictures that lie with the records."""
    directory = results.records.directory
    if directory is None:
        return []
    links = []
    for path in sorted(directory.glob("*.png")):
        link = Path(os.path.relpath(path, folder)).as_posix()
        links.append(f"![{results.experiment.name}: {path.stem.replace('-', ' ')}]({link})")
    return links
