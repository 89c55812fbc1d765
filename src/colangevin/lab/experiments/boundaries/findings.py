"""What the records of boundary-digits show, and what the thesis states about it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

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


def sets_of(record: kit.Record) -> list[kit.Record]:
    """A record for each generator's set of images, with what the networks said about them."""
    count, final = record.settings.get("sets", 1), record.final
    groups = {
        group: {t: kit.unpack(own["answers"]).chunk(count, dim=1) for t, own in targets.items()}
        for group, targets in final["groups"].items()
    }
    labels = reference_of(record).chunk(count, dim=1)
    return [
        replace(
            record,
            final={
                "groups": {
                    g: {t: {"answers": kit.pack(parts[place])} for t, parts in own.items()}
                    for g, own in groups.items()
                },
                "reference": {"labels": kit.pack(labels[place])},
            },
        )
        for place in range(count)
    ]


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
    """What section 6.2.3 states; the reference group stands in for the people.

    The sets of images are the sample: each has a generator of its own.
    """
    made = []
    for record in records.values():
        sets = [rows_of(one) for one in sets_of(record)]
        diverse = [{target: rows[0] for target, rows in one["diverse"].items()} for one in sets]
        made += [*_numbers(diverse), *_types(diverse), *_softmax(diverse)]
        made += [*_kinds(sets), *_certainties(record)]
        least = min(record.final["clear"])
        if least < CLEAR:
            why = f"the images are no digits: one has a probability of {least:.2f} only"
            return [claim.incomparable(why) for claim in made]
    return made


def judged(text: str, stated: str, ours: str, gains: Sequence[Sequence[float]]) -> kit.Claim:
    """A claim by differences that have to be above 0, each with a number for every set of images.

    Example:
        >>> str(judged("x", "falls", "2, 1", [[1.0, 1.1, 0.9, 1.2, 1.0]]).order)
        'yes (paired t, n = 5, p = 3.4e-05)'
    """
    if len(gains[0]) == 1:
        way = "as" if all(one[0] > 0 for one in gains) else "not as"
        return kit.undecided(text, stated, ours, ONE_SET, f"{way} stated at every step")
    leads = [kit.of_pairs(one) for one in gains]
    weak = ";".join(lead.text(1) for lead in leads if not lead.clear)
    why = f"steps that are not clear:{weak}" if weak else ""
    return kit.Claim(text, stated, ours, order=kit.answer(leads), why=why)


def _course(
    text: str, values: Mapping[str, Sequence[float]], ways: Sequence[int], stated: str
) -> kit.Claim:
    """The claim that something falls or rises with the target accuracy, at every step."""
    ours = ", ".join(f"{kit.mean_std(own)[0]:.1f}" for own in values.values())
    steps = zip(itertools.pairwise(values.values()), ways, strict=False)
    gains = [[way * (b - a) for a, b in zip(*pair, strict=True)] for pair, way in steps]
    return judged(text, stated, ours, gains)


def _each(
    sets: Sequence[Mapping[str, Row]], read: Callable[[Row], float]
) -> dict[str, list[float]]:
    """A number for each target and set."""
    return {target: [read(one[target]) for one in sets] for target in sets[0]}


def _numbers(diverse: Sequence[Mapping[str, Row]]) -> list[kit.Claim]:
    """Table 6.6, as far as it needs no people."""
    stated = {"97.5": "11.3 ± 2.9", "98": "8.5 ± 2.3", "98.5": "7.4 ± 1.8"}
    pairs, made = _each(diverse, lambda row: row.two.mean), []
    for target, values in pairs.items():
        if target in stated and diverse[0][target].wrong.size == 9:
            text = f"images on which two of nine networks disagree, at {target} %, %"
            ours, error = kit.Measured("", values), ONE_SET if len(values) == 1 else ""
            made.append(kit.number(text, stated[target], ours, digits=1, error=error))
    text = "two networks disagree: falls with the test accuracy, %"
    made.append(_course(text, pairs, FALLS, "11.3, 8.5, 7.4"))
    every = _each(diverse, lambda row: row.all)
    text = "not all networks agree: falls with the test accuracy, %"
    return [*made, _course(text, every, FALLS, "28.5, 21.8, 18.2")]


def _types(diverse: Sequence[Mapping[str, Row]]) -> list[kit.Claim]:
    """Tables 6.6 and 6.7 against the reference."""
    wrong = _each(diverse, lambda row: row.wrong.mean)
    across = _each(diverse, lambda row: row.any_wrong)
    first = _each(diverse, lambda row: row.shares["A"])
    last = _each(diverse, lambda row: row.shares["C"])
    return [
        _course("misclassified per network: falls, %", wrong, FALLS, "5.9, 4.3, 3.5"),
        _course("misclassified by any network: falls, %", across, FALLS, "15.2, 11.5, 7.3"),
        _course("type A: falls, %", first, FALLS, "15.2, 11.5, 7.3"),
        _course("type C: rises, then falls a little, %", last, (1, -1), "6.1, 9.1, 8.5"),
    ]


def _softmax(diverse: Sequence[Mapping[str, Row]]) -> list[kit.Claim]:
    """Table 6.8."""
    made = []
    for best, other, stated in (
        ("C", "A", "0.97, 0.96, 0.97 > 0.83, 0.85, 0.83"),
        ("B, disagree", "A", "0.87, 0.86, 0.89 > 0.83, 0.85, 0.83"),
    ):
        pairs = [
            [
                (row.softmax[best].mean, row.softmax[other].mean)
                for row in one.values()
                if row.softmax[best].size and row.softmax[other].size
            ]
            for one in diverse
        ]
        if all(pairs):
            gains = [kit.mean_std([a - b for a, b in own])[0] for own in pairs]
            means = [kit.mean_std([own[k] for one in pairs for own in one])[0] for k in (0, 1)]
            text = f"largest softmax is higher on type {best} than on type A"
            made.append(judged(text, stated, f"{means[0]:.2f} and {means[1]:.2f}", [gains]))
    return made


Kinds: TypeAlias = Sequence[Mapping[str, Mapping[str, Sequence[Row]]]]
"""For each set of images the rows by group and target."""


def _kinds(sets: Kinds) -> list[kit.Claim]:
    """Figures 6.21 and 6.23: groups of one kind of network."""
    made = []
    for kind, sign, word in (("A", -1, "falls"), ("C", 1, "rises")):
        means = _shares(sets, kind)
        for group, course in means.items():
            text = f"type {kind}, {WORDS[group]}: {word} with the test accuracy, %"
            made.append(_course(text, course, FALLS if sign < 0 else RISES, word))
        if "mlp" in means and len(means) > 1:
            made.append(_perceptrons(means, kind, sign))
    both = _shares(sets, "B, disagree")
    if "cnn" in both:
        text = "CNNs and the reference both disagree: falls with the test accuracy, %"
        made.append(_course(text, both["cnn"], FALLS, "falls"))
    return made


def _shares(sets: Kinds, kind: str) -> dict[str, dict[str, list[float]]]:
    """Mean share of a type by group, target and set, for groups of one kind of network."""
    return {
        group: {
            t: [kit.mean_std([row.shares[kind] for row in one[group][t]])[0] for one in sets]
            for t in targets
        }
        for group, targets in sets[0].items()
        if group != "diverse"
    }


def _perceptrons(
    means: Mapping[str, Mapping[str, Sequence[float]]], kind: str, sign: int
) -> kit.Claim:
    """The claim that MLPs have the fewest images of type A, and the most of type C."""
    average = {
        group: [kit.mean_std(own)[0] for own in zip(*course.values(), strict=True)]
        for group, course in means.items()
    }
    own = average.pop("mlp")
    gains = [[sign * (a - b) for a, b in zip(own, o, strict=True)] for o in average.values()]
    shown = {"mlp": own, **average}
    ours = "; ".join(f"{WORDS[group]} {kit.mean_std(v)[0]:.1f}" for group, v in shown.items())
    text = f"MLPs have the {'fewest' if kind == 'A' else 'most'} images of type {kind}, %"
    return judged(text, "always", ours, gains)


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
    several = record.settings.get("sets", 1) > 1
    return boundary_certainty.claims(kinds, reference_of(record), several) if kinds else []


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
