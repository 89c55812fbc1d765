"""What the page shows of a training: numbers and small arrays, ready to be sent."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import colangevin as cl
from colangevin.lab.explorer.building import Points
from colangevin.lab.explorer.members import Member, Members
from colangevin.lab.explorer.runs import Training

GRID, SMALL_GRID = 56, 24
"""Points along a side of the decision region, and of the small ones."""
BINS = 41
MOST_SHOWN = 240
"""Weights on a circle, or singular values, in one picture."""
MOST_NODES = 12
"""Nodes of a layer that the drawn network has."""
BEYOND = 2.0
"""The drawn network shows weights up to so many bounds."""
MEAN = -1
"""In the place of a member: the large picture has the mean prediction of all of them."""
MARGIN = 1.15
DRAWING = 1.5
"""Half the side of the square in which a user draws."""


def packed(values: Tensor) -> str:
    """Numbers between 0 and 1 as bytes, base64.

    Example:
        >>> packed(torch.tensor([0.0, 1.0]))
        'AP8='
    """
    whole = (values.nan_to_num(0.5).clamp(0.0, 1.0) * 255.0).round().to(torch.uint8)
    return base64.b64encode(bytes(whole.flatten().tolist())).decode()


def packed_signed(values: Tensor) -> str:
    """Numbers between −1 and 1 as bytes, base64: 0 is 127.5."""
    return packed((values + 1.0) / 2.0)


def rounded(value: float | None) -> float | None:
    """A number for JSON: six digits; None if it is not finite."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.6g}")


# --- the data -----------------------------------------------------------------------------


def bounds_of(points: Points, drawn: bool = False) -> list[float]:
    """The square that the decision region covers: left, right, bottom, top.

    Where the user draws, it has room around the points and stays where it is.
    """
    if drawn:
        reach = max(
            DRAWING, float(torch.cat([points.train_inputs, points.test_inputs]).abs().max())
        )
        return [-reach, reach, -reach, reach]
    both = torch.cat([points.train_inputs, points.test_inputs])
    low, high = both.amin(dim=0), both.amax(dim=0)
    centre, half = (low + high) / 2.0, float((high - low).max()) / 2.0 * MARGIN or 1.0
    x, y = centre.tolist()
    return [x - half, x + half, y - half, y + half]


def grid_of(bounds: Sequence[float], side: int) -> Tensor:
    """The points of the decision region, row by row from the top: [side · side, 2].

    Example:
        >>> grid_of([0.0, 1.0, 0.0, 1.0], 2)[0]
        tensor([0.2500, 0.7500])
    """
    left, right, bottom, top = bounds
    centres = (torch.arange(side) + 0.5) / side
    x, y = left + (right - left) * centres, top - (top - bottom) * centres
    return torch.stack([x.repeat(side), y.repeat_interleave(side)], dim=1)


def frame(
    training: Training,
    bounds: Sequence[float],
    shown: int,
    layer: str,
    side: int = GRID,
    all_seeds: bool = True,
) -> dict[str, Any]:
    """All that the page shows of all runs.

    Args:
        training: the training.
        bounds: of the decision region.
        shown: the member whose inside is shown, or MEAN: then the inside is that of the first.
        layer: the layer whose geometry is shown.
        side: points along a side of the decision region.
        all_seeds: with the small regions of all members; a page keeps those that it has.
    """
    scales, grid = scales_of(training), grid_of(bounds, side)
    several = all_seeds and len(training.spec.seeds) > 1
    small = grid_of(bounds, SMALL_GRID) if several else None
    found = {}
    for letter, members in training.runs.items():
        found[letter] = {
            "region": large(members, grid, shown),
            "small": [] if small is None else regions(members, small),
            **_inside(training, letter, max(0, shown), layer, scales),
        }
    return found


def first_layer(training: Training) -> str:
    """The first layer that has a constraint in a run; else the input layer."""
    for title in titles_of(training.spec.network["depth"]):
        if any(rule_of(title, run)[0] != "none" for run in training.spec.runs.values()):
            return title
    return "input"


def problem(training: Training) -> dict[str, Any]:
    """What stays the same during a training: points and axes."""
    points = training.points
    bounds = bounds_of(points, training.spec.data["kind"] == "drawn")
    low = torch.tensor([bounds[0], bounds[2]])
    side = bounds[1] - bounds[0]

    def sent(inputs: Tensor, labels: Tensor) -> dict[str, Any]:
        place = ((inputs - low) / side * 4095.0).round().clamp(0, 4095).int()
        return {"places": place.flatten().tolist(), "classes": labels.int().tolist()}

    return {
        "bounds": [rounded(value) for value in bounds],
        "train": sent(points.train_inputs, points.train_labels),
        "test": sent(points.test_inputs, points.test_labels),
        "seeds": training.spec.seeds,
        "layers": titles_of(training.spec.network["depth"]),
        "spec": training.start.plain(),
    }


# --- one run ------------------------------------------------------------------------------


def scores(members: Members, points: Points) -> list[list[float | None]]:
    """Training loss, test loss, training accuracy and test accuracy of each member."""
    losses, shares = [], []
    pairs = (
        (points.train_inputs, points.train_labels),
        (points.test_inputs, points.test_labels),
    )
    for inputs, labels in pairs:
        logits = members.outputs(inputs)
        cross = functional.binary_cross_entropy_with_logits
        losses.append(cross(logits, labels.expand_as(logits), reduction="none").mean(dim=1))
        shares.append(((logits > 0) == (labels > 0.5)).float().mean(dim=1))
    table = torch.stack([*losses, *shares], dim=1)
    return [[rounded(value) for value in row] for row in table.tolist()]


def titles_of(depth: int) -> list[str]:
    """Names for readers of the weights of a network.

    Example:
        >>> titles_of(2)
        ['input', 'hidden 1', 'output']
    """
    return ["input", *(f"hidden {i}" for i in range(1, depth)), "output"]


def weights_of(member: Member) -> dict[str, Tensor]:
    """The weights of each layer by a name for readers."""
    names = [name for name in member.named if name.endswith("weight")]
    pairs = zip(titles_of(len(names) - 1), names, strict=True)
    return {title: member.named[name].detach() for title, name in pairs}


def rule_of(title: str, run: Mapping[str, Any]) -> tuple[str, float]:
    """Constraint and radius of a layer in a run."""
    role = title.split()[0]
    if run["method"] in ("sgd", "sgdm", "multirate"):
        return "none", 1.0
    return run[role], run[f"{role}_radius"]


def histogram(weight: Tensor, bound: float | None) -> dict[str, Any]:
    """How the weights are spread, with the bound if there is one."""
    largest = float(weight.abs().max())
    reach = max(largest, bound or 0.0, 1e-6) * 1.05
    if not math.isfinite(reach):
        return {"counts": packed(torch.zeros(BINS)), "reach": None, "bound": rounded(bound)}
    counts = torch.histc(weight, BINS, -reach, reach)
    share = counts / counts.max().clamp(min=1.0)
    return {"counts": packed(share), "reach": rounded(reach), "bound": rounded(bound)}


def layers(member: Member, run: Mapping[str, Any]) -> dict[str, Any]:
    """The histogram of every layer."""
    found = {}
    for title, weight in weights_of(member).items():
        kind, _ = rule_of(title, run)
        found[title] = {"kind": kind, **histogram(weight, bound_of(title, run))}
    return found


def bound_of(title: str, run: Mapping[str, Any]) -> float | None:
    """The bound of single weights in a layer, if a constraint gives one."""
    kind, radius = rule_of(title, run)
    return {"none": None, "orthogonal": 1.0}.get(kind, radius)


def scales_of(training: Training) -> dict[str, float]:
    """For each layer the weight that the drawn network shows as full: a bound of one of the runs.

    Both runs have one scale. Without a bound it is the largest weight now.
    """
    found = {}
    firsts = {letter: weights_of(own[0]) for letter, own in training.runs.items()}
    for title in titles_of(training.spec.network["depth"]):
        rules = [rule_of(title, run) for run in training.spec.runs.values()]
        known = [radius for kind, radius in rules if kind == "circle"]
        largest = max(float(own[title].abs().max()) for own in firsts.values())
        found[title] = min(known) if known else largest if math.isfinite(largest) else 1.0
    return found


def drawn_network(member: Member, scales: Mapping[str, float]) -> list[dict[str, Any]]:
    """Some weights of each layer, in units of its scale: what the drawn network's lines are.

    Of wide layers it has the nodes in even distances.
    """
    found = []
    for title, weight in weights_of(member).items():
        rows, columns = (_chosen(count) for count in weight.shape)
        part = weight[rows][:, columns] / (max(scales[title], 1e-12) * BEYOND)
        found.append(
            {
                "rows": len(rows),
                "columns": len(columns),
                "of": list(weight.shape),
                "values": packed_signed(part.clamp(-1.0, 1.0)),
            }
        )
    return found


def _chosen(count: int) -> list[int]:
    """Which nodes are drawn.

    Example:
        >>> _chosen(3), len(_chosen(500))
        ([0, 1, 2], 12)
    """
    shown = min(count, MOST_NODES)
    return [i * count // shown for i in range(shown)]


def slack_of(
    member: Member, weight: Tensor, squares: Tensor, radius: float, angular: bool
) -> Tensor:
    """ξ of a constraint, or its size where the optimizer has not made it yet."""
    parameter = next(p for p in member.model.parameters() if p.data_ptr() == weight.data_ptr())
    slack = member.optimizer.state.get(parameter, {}).get("slack")
    if isinstance(slack, Tensor) and slack.numel() == squares.numel():
        kept = slack.detach().flatten()
        return radius * kept.cos() if angular else kept  # a circle keeps the angle
    return (radius**2 - squares).clamp(min=0.0).sqrt().flatten()


def geometry(member: Member, run: Mapping[str, Any], title: str) -> dict[str, Any]:
    """A layer on its constraint: points on the circle, or singular values."""
    weight = weights_of(member)[title]
    kind, radius = rule_of(title, run)
    if not bool(weight.isfinite().all()):
        return {"kind": kind, "picture": "none"}
    if kind in ("circle", "sphere", "unit", "norm"):
        return {"kind": kind, "picture": "circle", **_on_circle(member, weight, kind, radius)}
    values = torch.linalg.svdvals(weight)
    top = float(values.max())
    shown = values[:: max(1, math.ceil(len(values) / MOST_SHOWN))]
    return {
        "kind": kind,
        "picture": "singular",
        "values": packed(shown / max(top, 1e-12)),
        "largest": rounded(top),
        "smallest": rounded(float(values.min())),
    }


def _on_circle(member: Member, weight: Tensor, kind: str, radius: float) -> dict[str, Any]:
    if kind == "circle":
        across = weight.flatten()
    elif kind == "norm":
        across = weight.norm().reshape(1)
    else:
        across = weight.norm(dim=1)
    slack = torch.zeros_like(across)
    if kind != "unit":
        slack = slack_of(member, weight, across.square(), radius, kind == "circle")
    every = max(1, math.ceil(len(across) / MOST_SHOWN))
    pair = torch.stack([across[::every], slack[::every]]) / radius
    return {"values": packed_signed(pair.clamp(-1.0, 1.0)), "radius": rounded(radius)}


def groups(member: Member) -> list[dict[str, Any]]:
    """Temperature, friction variable and violation of each parameter group."""
    optimizer = member.optimizer
    if not isinstance(optimizer, cl.CoLA):
        return []
    readings = zip(
        optimizer.param_groups,
        cl.kinetic_temperature(optimizer),
        cl.friction_variable(optimizer),
        optimizer.violation(),
        strict=True,
    )
    return [
        {
            "name": _group_name(group, index),
            "kinetic": rounded(kinetic),
            "target": rounded(float(group["temperature"])),
            "friction": rounded(friction),
            "violation": rounded(violation.residual),
        }
        for index, (group, kinetic, friction, violation) in enumerate(readings)
    ]


def _group_name(group: Mapping[str, Any], index: int) -> str:
    return str(group.get("name", f"group {index + 1}" if index else "all parameters"))


# --- frames -------------------------------------------------------------------------------


def large(members: Members, grid: Tensor, shown: int) -> str:
    """The large picture."""
    if shown != MEAN:
        return regions(members, grid, shown)[0]
    return packed(members.outputs(grid).sigmoid().mean(dim=0))


def regions(members: Members, grid: Tensor, index: int | None = None) -> list[str]:
    """The probability of class 1 over the plane, of all members or of one."""
    return [packed(own) for own in members.outputs(grid, index).sigmoid()]


def _inside(
    training: Training, letter: str, shown: int, layer: str, scales: Mapping[str, float]
) -> dict[str, Any]:
    """Numbers of all members of a run, and the inside of the one that is shown."""
    members, run = training.runs[letter], training.spec.runs[letter]
    member = members[shown]
    found = scores(members, training.points)
    return {
        "scores": [list(column) for column in zip(*found, strict=True)],
        "layers": layers(member, run),
        "network": drawn_network(member, scales),
        "geometry": geometry(member, run, layer),
        "groups": groups(member),
        "stopped": members.stopped,
        "alone": members.alone,
        "settings": {key: value for key, value in run.items() if key != "method"},
    }
