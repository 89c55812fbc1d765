"""Pages in Markdown: an overview of all claims and verdicts, and one page per experiment."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from colangevin.lab.claims.wording import duration, markdown_table, sentence
from colangevin.lab.experiments.registry import EXPERIMENTS
from colangevin.lab.report.changed_readings import readings
from colangevin.lab.report.results import OWN, Results, headline, verdict_counts
from colangevin.lab.report.results import found as results_found
from colangevin.lab.report.verdict_totals import learnt, totals_picture
from colangevin.lab.runner.experiment import NO, YES, Answer, Claim

INTRODUCTION = """# Reproduction

What the paper and the thesis state, and what this library finds. Behind each name are the numbers,
pictures, settings and reasons; [how a claim is judged]({folder}/{rules}) has
the rules of the verdicts, and [what was read otherwise at first]({folder}/{readings}) what has
changed, and why.
`cola report {directory} --page {page}` writes these pages from the records of the runs, which
`cola reproduce` makes; `cola reproduce list` names the experiments, their scales and times.
"""
RULES = """# How a claim is judged

A claim states a number, an order of methods (or another effect), or both. Each has a verdict.

- **Number**: *yes* if |ours − stated| is at most the half width of Student's 95 % interval of our
  mean plus half a unit of the last printed digit; else *no*. The error of the source, which it
  seldom states, is not in it. A *no* can come from a single run of the source.
- **Order**: a two-sided test at 5 %. Runs of the same seed share data, first weights and batches;
  they are compared one by one (paired t). Methods with other seeds, or with other numbers of runs,
  are compared by Welch's t, whose degrees of freedom are rounded down. Where a run diverged, where
  a distribution has no mean, and for shares of runs there is an exact sign test, which needs six
  runs for a p below 0.05; a shape is taken as that of most runs. Claimed and found:
  *yes*. The opposite found: *no*. A claim against several methods needs all of them for a *yes*;
  one that is clearly the other way is a *no*, with p times their number.
- **Undecided**: a difference within the error, or fewer than five runs. Results without chance,
  such as eigenvalues, need no runs; the verdict says so.
- **Not comparable**: a number at a reduced scale; methods of which none has learnt anything;
  a number that a few points make.
- Words such as *rises*, *near* or *similar* need a bound of ours; the page says what it was taken
  as.

Behind every *yes* and *no* is the test, with the number of runs n and p. With {tests} verdicts of
a test some are chance: at 5 % up to {chance:.0f} would be decided without an effect.

**Scale** is *paper* where every setting that the source states is its own; what it leaves open is
ours and named on the page. Anything else is *reduced*, and the line says by how much.
Values are means over the runs ± one standard deviation; bands and bars in the pictures are two
standard errors. The wall-clock is that of all jobs of an experiment, added up; jobs run at once,
one per processor.

[Coverage of the sources](../coverage.md) lists what of them is covered, partial and missing.
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
[spiral-classifiers](spiral-classifiers.md) after 2,000 epochs: run by run for the 10 seeds that
both have, and with all 100 runs. Runs of the same seed have the same data, first weights and
batches as before. Differences are means ± one standard error. None exceeds 1.1 standard errors.
After all 10,000 epochs, C-SGD has 84.51 ± 4.08 % in the earlier record; the record of τ = 0 in
[spiral-temperature](spiral-temperature.md), the same method with the new noise, has 84.44 ± 3.83 %.

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

CLAIM_COLUMNS = ["what", "source", "ours", "number", "order", "why"]
PICTURE = "totals.svg"
RULES_PAGE, READINGS_PAGE = "how-a-claim-is-judged.md", "readings.md"
ROOM = 60
"""Letters of what is stated, and of each method that is beside it."""


def page(found: Sequence[Results], directory: Path, target: Path) -> str:
    """Write the overview. An experiment without records has a row that says so.

    Args:
        found: the results, of :func:`colangevin.lab.report.results.read_results`.
        directory: where they were read.
        target: where the page will be: its details are in a folder of its name beside it.
    """
    by_name = {results.experiment.name: results for results in found}
    folder = Path(os.path.relpath(target.parent, directory.parent)).as_posix()
    shown = target.name if folder == "." else f"{folder}/{target.name}"
    parts = [
        INTRODUCTION.format(
            directory=directory.name,
            page=shown,
            folder=target.stem,
            rules=RULES_PAGE,
            readings=READINGS_PAGE,
        )
    ]
    parts += [f"![verdicts by theme]({target.stem}/{PICTURE})\n", learnt(found)]
    return "\n".join([*parts, _summary(by_name, target.stem)])


def rules(found: Sequence[Results]) -> str:
    """The page of rules, and of what else counts for all records."""
    tested = sum("p " in a.by for own in found for claim in own.claims for a in claim.answers)
    parts = [RULES.format(tests=tested, chance=0.05 * tested)]
    earlier = any(_has_old_noise(results) for results in found)
    return "\n".join([*parts, OLD_NOISE_BELOW, OLD_NOISE] if earlier else parts)


def _has_old_noise(results: Results) -> bool:
    return any("" < record.started < NEW_NOISE for record in results.records.values())


def _summary(found: dict[str, Results], folder: str) -> str:
    """One row per experiment: a number or an order that was decided, and how all were."""
    rows = []
    for name, experiment in EXPERIMENTS.items():
        results = found.get(name)
        if results is None:
            rows.append([name, experiment.phrase, "not run yet", "", "", "", ""])
            continue
        scale = "reduced" if results.reduction else OWN
        scale += ", **not complete**" if results.missing else ""
        about = [f"[{name}]({folder}/{name}.md)", experiment.phrase, scale]
        rows.append([*about, *_first(results.claims), *_both(results)])
    columns = ["experiment", "what", "scale", "for example: stated", "found", "numbers", "orders"]
    return markdown_table(columns, rows)


def _first(claims: Sequence[Claim]) -> list[str]:
    """What is stated and what was found, of the first claim that is decided, or else of the first.

    Example:
        >>> ours, order = "A 3 ± 1 (9 runs); B 2 ± 1 (9 runs); C 1", Answer("yes", "paired t")
        >>> _first([Claim("accuracy, %", "A > B", ours, order=order)])
        ['accuracy, %: A > B', 'A 3 ± 1; B 2 ± 1; …']
    """
    decided = [claim for claim in claims if any(a.verdict in (YES, NO) for a in claim.answers)]
    if not claims:
        return ["", ""]
    claim = [*decided, *claims][0]
    repeated = claim.source in claim.text and set(claim.source) & set("<>")
    text = claim.text if repeated else f"{claim.text}: {claim.source}"
    values = [re.sub(r" \(\d+ runs?\)", "", value) for value in claim.ours.split("; ")]
    shown = [textwrap.shorten(value, ROOM, placeholder=" …") for value in values[:2]]
    more = ["…"] if len(values) > len(shown) else []
    return [textwrap.shorten(text, 2 * ROOM, placeholder=" …"), "; ".join([*shown, *more])]


def _both(results: Results) -> list[str]:
    """Counted verdicts on numbers, and on orders."""
    kinds = [[getattr(c, kind) for c in results.claims] for kind in ("number", "order")]
    return [verdict_counts(answers) or "–" for answers in kinds]


def details(found: Sequence[Results], target: Path) -> dict[Path, str]:
    """The page of each experiment: pictures, table, and claims with their numbers and reasons.

    Args:
        found: the results.
        target: where the overview will be.

    Returns:
        Texts by path, in a folder of the overview's name beside it; the rules and the picture too.
    """
    folder = target.parent / target.stem
    pages = {folder / f"{own.experiment.name}.md": _detail(own, target) for own in found}
    pages[folder / READINGS_PAGE] = readings(found, target.name)
    return {**pages, folder / PICTURE: totals_picture(found), folder / RULES_PAGE: rules(found)}


def _answers(claim: Claim) -> tuple[Answer | None, Answer | None]:
    return claim.number, claim.order


def _detail(results: Results, target: Path) -> str:
    experiment, records = results.experiment, results.records
    folder = target.parent / target.stem
    back = f"Back to the [overview](../{target.name})."
    lines = [f"# {experiment.name}\n", *(f"{line}\n" for line in _head(results))]
    lines.append(f"{sentence(experiment.title)} {headline(results)} {back}\n")
    lines += settings_table(results)
    lines.append(f"```sh\n{results.command}\n```\n")
    if results.missing:
        lines.append(f"**Not complete**: {', '.join(results.missing)}.\n")
    lines.append("; ".join(machines(results)) + f". Wall-clock {duration(records.seconds)}.\n")
    lines += [f"{picture}\n" for picture in _pictures(results, folder)]
    if results.table.rows:
        lines.append(markdown_table(results.table.columns, results.table.rows))
    if results.claims:
        rows = [
            [c.text, c.source, c.ours, *(str(a) if a else "–" for a in _answers(c)), c.why]
            for c in results.claims
        ]
        lines.append(markdown_table(CLAIM_COLUMNS, rows))
    return "\n".join([*lines, f"{sentence(experiment.note)}\n"] if experiment.note else lines)


def _head(results: Results) -> list[str]:
    """Three lines: what is claimed, what was found, what is ours."""
    own = results.experiment
    words = {"Claimed": own.claimed, "Found": results_found(results), "Ours": own.ours}
    return [f"**{word}.** {sentence(text)}" for word, text in words.items() if text]


def settings_table(results: Results) -> list[str]:
    """Settings as stated and as run; those of the records stand in the place of their names."""
    values = _Values(results)
    rows = [
        [what, stated, ours.format_map(values)]
        for what, stated, ours in results.experiment.settings_rows
    ]
    return [markdown_table(["setting", "stated", "ours"], rows)] if rows else []


class _Values(dict[str, str]):
    """The values that a setting has in the records, as text."""

    def __init__(self, results: Results) -> None:
        super().__init__()
        self._settings = [record.settings for record in results.records.values()]

    def __missing__(self, key: str) -> str:
        found = [own[key] for own in self._settings if key in own]
        if not found:
            raise KeyError(f"no record has the setting {key!r}")
        return ", ".join(dict.fromkeys(f"{v:,}" if type(v) is int else str(v) for v in found))


def machines(results: Results) -> list[str]:
    """Name the versions and the machines that the records come from, each once.

    Example:
        >>> from colangevin.lab.runner.records import Record, Records
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
