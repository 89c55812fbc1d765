"""What the records of boundary-digits show, and what the thesis states about it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from colangevin import diagnostics
from colangevin.diagnostics.labellers import Spread
from colangevin.lab import kit
from colangevin.lab.experiments.boundaries import certainty as boundary_certainty

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "boundary-digits"
FALLS, RISES = (-1, -1), (1, 1)
"""From the first target to the second, and from there to the third."""
CLEAR = 0.5
"""The least probability that the reference gives to each of the ten digits; the limit is ours."""
ONE_SET = boundary_certainty.ONE_SET
WORDS = {"diverse": "different kinds", **boundary_certainty.KINDS}
KINDS = {
    "A: networks disagree, reference agrees": "A",
    "B: both disagree": "B, disagree",
    "B: both agree": "B, agree",
    "C: networks agree, reference disagrees": "C",
}


class Row(NamedTuple):
    """Tables 6.6 to 6.8 for one group of networks; shares are per cent of all images.

    Attributes:
        wrong: misclassified, per network.
        any_wrong: misclassified by any of them.
        two: on which two networks disagree.
        all: on which not all networks agree.
        shares: of the types A, B and C.
        softmax: the largest probability, by type.
    """

    wrong: Spread
    any_wrong: float
    two: Spread
    all: float
    shares: Mapping[str, float]
    softmax: Mapping[str, Spread]


def row_of(answers: Tensor, reference: Tensor) -> Row:
    """Compare networks with a reference group: people, or other networks.

    Args:
        answers: probabilities (networks, images, classes).
        reference: labels of the reference group, (labellers, images).

    Example:
        >>> import torch
        >>> answers = torch.tensor([[[0.9, 0.1], [0.4, 0.6]], [[0.8, 0.2], [0.7, 0.3]]])
        >>> row = row_of(answers, torch.tensor([[0, 1], [0, 1]]))
        >>> row.all, row.shares["A"], round(row.softmax["A"].mean, 2)
        (50.0, 50.0, 0.65)
    """
    labels = answers.argmax(dim=2)
    wrong, any_wrong = diagnostics.misclassified(labels, reference)
    types = diagnostics.disagreement(labels, reference)
    softmax = diagnostics.maximum_softmax(answers, types.masks)
    return Row(
        _per_cent(wrong),
        100 * any_wrong,
        _per_cent(diagnostics.pairwise_disagreement(labels)),
        100 * float((~diagnostics.agrees(labels)).double().mean()),
        {short: 100 * types.shares[name] for name, short in KINDS.items()},
        {short: softmax[name] for name, short in KINDS.items()},
    )


def _per_cent(spread: Spread) -> Spread:
    return Spread(100 * spread.mean, 100 * spread.deviation, spread.size)


def answers_of(own: Mapping[str, Any]) -> Tensor:
    """Probabilities of a group in a record, which are stored with three digits."""
    found = kit.unpack(own["answers"]).double()
    return found / found.sum(dim=2, keepdim=True)


def reference_of(record: kit.Record) -> Tensor:
    """Labels of the reference group."""
    return kit.unpack(record.final["reference"]["labels"]).long()


def rows_of(record: kit.Record) -> dict[str, dict[str, list[Row]]]:
    """By group and target: one row for different kinds, one per repetition for one kind."""
    reference, found = reference_of(record), {}
    for group, targets in record.final["groups"].items():
        found[group] = {
            target: [
                row_of(part, reference)
                for part in boundary_certainty.repetitions(
                    answers_of(own), group, record.settings["seeds"]
                )
            ]
            for target, own in targets.items()
        }
    return found


def table(records: kit.Records) -> kit.Table:
    """Tables 6.6 to 6.8, and figure 6.21 in numbers."""
    lines = []
    for record in records.values():
        for group, targets in rows_of(record).items():
            for target, rows in targets.items():
                lines.append(_line(record, group, target, rows))
    columns = ["networks", "target, %", "test accuracy, %", "wrong per network, %", "wrong, any, %"]
    columns += ["two disagree, %", "not all agree, %", "type A, %", "type C, %"]
    return kit.Table([*columns, *(f"softmax {kind}" for kind in KINDS.values())], lines)


def _line(record: kit.Record, group: str, target: str, rows: Sequence[Row]) -> list[str]:
    own = record.final["groups"][group][target]
    mean, spread, _ = kit.mean_std(own["accuracy"])
    near = f"{mean:.2f} ± {spread:.2f} ({sum(own['hit'])} of {len(own['hit'])} near)"
    return [
        WORDS[group],
        target,
        near,
        _spread([row.wrong for row in rows]),
        _mean([row.any_wrong for row in rows]),
        _spread([row.two for row in rows]),
        _mean([row.all for row in rows]),
        _mean([row.shares["A"] for row in rows]),
        _mean([row.shares["C"] for row in rows]),
        *(_spread([row.softmax[kind] for row in rows], 2) for kind in KINDS.values()),
    ]


def _spread(spreads: Sequence[Spread], digits: int = 1) -> str:
    """Mean ± deviation over the networks, or over networks and images."""
    some = [one for one in spreads if one.size]
    if not some:
        return "–"
    means = [kit.mean_std([one[place] for one in some])[0] for place in (0, 1)]
    return f"{means[0]:.{digits}f} ± {means[1]:.{digits}f}"


def _mean(values: Sequence[float]) -> str:
    return f"{kit.mean_std(values)[0]:.1f}"


def claims(records: kit.Records) -> list[kit.Claim]:
    """What section 6.2.3 states; the reference group stands in for the people."""
    made = []
    for record in records.values():
        found = rows_of(record)
        diverse = {target: rows[0] for target, rows in found["diverse"].items()}
        made += [*_numbers(diverse), *_types(diverse), *_softmax(diverse)]
        made += [*_kinds(found), *_certainties(record)]
        least = min(record.final["clear"])
        if least < CLEAR:
            why = f"the images are no digits: one has a probability of {least:.2f} only"
            return [claim.incomparable(why) for claim in made]
    return made


def _goes(course: Sequence[float], ways: Sequence[int]) -> bool:
    """Whether every step falls (-1) or rises (1) as stated."""
    steps = itertools.pairwise(course)
    return all(way * (b - a) > 0 for way, (a, b) in zip(ways, steps, strict=False))


def _course(text: str, values: Mapping[str, float], ways: Sequence[int], stated: str) -> kit.Claim:
    """The claim that something falls or rises with the target accuracy, at every step."""
    course = list(values.values())
    ours = ", ".join(f"{value:.1f}" for value in course)
    why = "as stated at every step" if _goes(course, ways) else "not as stated at every step"
    return kit.undecided(text, stated, ours, ONE_SET, why)


def _numbers(diverse: Mapping[str, Row]) -> list[kit.Claim]:
    """Table 6.6, as far as it needs no people."""
    stated = {"97.5": (11.3, 2.9, 28.5), "98": (8.5, 2.3, 21.8), "98.5": (7.4, 1.8, 18.2)}
    pairs = {target: row.two.mean for target, row in diverse.items()}
    made = []
    for target, row in diverse.items():
        if target not in stated or row.wrong.size != 9:
            continue
        mean, deviation, _ = stated[target]
        ours = f"{row.two.mean:.1f} ± {row.two.deviation:.1f}"
        text = f"images on which two of nine networks disagree, at {target} %, %"
        number = kit.Answer(kit.UNDECIDED, ONE_SET)
        made.append(kit.Claim(text, f"{mean} ± {deviation}", ours, number=number))
    text = "two networks disagree: falls with the test accuracy, %"
    made.append(_course(text, pairs, FALLS, "11.3, 8.5, 7.4"))
    every = {target: row.all for target, row in diverse.items()}
    text = "not all networks agree: falls with the test accuracy, %"
    return [*made, _course(text, every, FALLS, "28.5, 21.8, 18.2")]


def _types(diverse: Mapping[str, Row]) -> list[kit.Claim]:
    """Tables 6.6 and 6.7 against the reference."""
    wrong = {target: row.wrong.mean for target, row in diverse.items()}
    across = {target: row.any_wrong for target, row in diverse.items()}
    first = {target: row.shares["A"] for target, row in diverse.items()}
    last = {target: row.shares["C"] for target, row in diverse.items()}
    return [
        _course("misclassified per network: falls, %", wrong, FALLS, "5.9, 4.3, 3.5"),
        _course("misclassified by any network: falls, %", across, FALLS, "15.2, 11.5, 7.3"),
        _course("type A: falls, %", first, FALLS, "15.2, 11.5, 7.3"),
        _course("type C: rises, then falls a little, %", last, (1, -1), "6.1, 9.1, 8.5"),
    ]


def _softmax(diverse: Mapping[str, Row]) -> list[kit.Claim]:
    """Table 6.8."""
    made = []
    for best, other, stated in (
        ("C", "A", "0.97, 0.96, 0.97 > 0.83, 0.85, 0.83"),
        ("B, disagree", "A", "0.87, 0.86, 0.89 > 0.83, 0.85, 0.83"),
    ):
        pairs = [
            (row.softmax[best].mean, row.softmax[other].mean)
            for row in diverse.values()
            if row.softmax[best].size and row.softmax[other].size
        ]
        if pairs:
            ours = "; ".join(f"{a:.2f} and {b:.2f}" for a, b in pairs)
            text = f"largest softmax is higher on type {best} than on type A"
            made.append(kit.undecided(text, stated, ours, ONE_SET))
    return made


def _kinds(found: Mapping[str, Mapping[str, Sequence[Row]]]) -> list[kit.Claim]:
    """Figures 6.21 and 6.23: groups of one kind of network."""
    made = []
    for kind, sign, word in (("A", -1, "falls"), ("C", 1, "rises")):
        means = _shares(found, kind)
        for group, course in means.items():
            text = f"type {kind}, {WORDS[group]}: {word} with the test accuracy, %"
            made.append(_course(text, course, FALLS if sign < 0 else RISES, word))
        if "mlp" in means and len(means) > 1:
            made.append(_perceptrons(means, kind, sign))
    both = _shares(found, "B, disagree")
    if "cnn" in both:
        text = "CNNs and the reference both disagree: falls with the test accuracy, %"
        made.append(_course(text, both["cnn"], FALLS, "falls"))
    return made


def _shares(
    found: Mapping[str, Mapping[str, Sequence[Row]]], kind: str
) -> dict[str, dict[str, float]]:
    """Mean share of a type by group and target, for groups of one kind of network."""
    return {
        group: {t: kit.mean_std([row.shares[kind] for row in rows])[0] for t, rows in own.items()}
        for group, own in found.items()
        if group != "diverse"
    }


def _perceptrons(means: Mapping[str, Mapping[str, float]], kind: str, sign: int) -> kit.Claim:
    """The claim that MLPs have the fewest images of type A, and the most of type C."""
    own, others = means["mlp"], {g: course for g, course in means.items() if g != "mlp"}
    gains = [sign * (own[t] - course[t]) for course in others.values() for t in own]
    right = sum(gain > 0 for gain in gains)
    names = ", ".join(WORDS[group] for group in others)
    text = f"MLPs have the {'fewest' if kind == 'A' else 'most'} images of type {kind}"
    ours = f"in {right} of {len(gains)} comparisons with {names}"
    return kit.undecided(text, "always", ours, ONE_SET)


def _certainties(record: kit.Record) -> list[kit.Claim]:
    """Table 6.9."""
    seeds = record.settings["seeds"]
    kinds = {
        kind: {
            target: boundary_certainty.certainty_of(answers_of(own).argmax(dim=2), seeds)
            for target, own in targets.items()
        }
        for kind, targets in record.final["groups"].items()
        if kind != "diverse"
    }
    return boundary_certainty.claims(kinds, reference_of(record)) if kinds else []


def figures(records: kit.Records) -> dict[str, Figure]:
    """The images (6.20, 6.22), types by accuracy (6.21), the map (6.23), certainty (6.9)."""
    from colangevin.lab.experiments.boundaries import plot as boundary_plot

    record = next(iter(records.values()))
    return {
        "images": boundary_plot.images(record, reference_of(record)),
        "types": boundary_plot.types(rows_of(record)),
        "map": boundary_plot.maps(record, reference_of(record)),
        "certainty": boundary_plot.certainties(record, reference_of(record)),
    }
