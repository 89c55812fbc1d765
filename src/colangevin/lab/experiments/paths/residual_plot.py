"""Pictures of residual-paths: lines of whole networks, of blocks and of parts of a block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from colangevin.lab import kit
from colangevin.lab.experiments.partitioned.plot import bars
from colangevin.lab.experiments.paths.path_findings import draw_lines
from colangevin.lab.experiments.paths.residual_findings import (
    ACCURACY,
    NETS,
    is_block,
    line,
    title,
    trainings,
)

PANELS: dict[str, list[tuple[str, list[str]]]] = {
    "decay-and-steps": [
        (
            "weight decay (figure 6.7)",
            [
                "schemes-resnet/decay-none",
                "decays/decay-0.0001",
                "schemes-resnet/base",
                "decays/decay-0.002",
            ],
        ),
        ("fixed h (figure 6.8)", [f"fixed-steps/h-{h}" for h in ("0.1", "0.01", "0.001")]),
    ],
    "starts": [
        (
            "random labels (figures 6.2B and 6.5)",
            [
                "schemes-resnet/decay-none",
                *(f"random-labels/{b}-0" for b in ("all", "b1", "b2", "b3", "b4")),
            ],
        ),
        (
            "a start on the line (figures 6.3 and 6.12)",
            [f"barrier-start/{name}" for name in ("scratch", "before", "at", "after")],
        ),
        ("one block random (figure 6.4)", [f"resets/reset-b{n}" for n in (1, 2, 3, 4)]),
    ],
    "random-blocks": [
        (
            f"one block from random labels, WD {decay} (figure 6.13)",
            [scratch, *(f"random-labels/b{n}-{decay}" for n in (1, 2, 3, 4))],
        )
        for decay, scratch in (
            ("0.0001", "decays/decay-0.0001"),
            ("0.0005", "schemes-resnet/base"),
        )
    ],
    "norms": [
        ("ResNet, batch normalisation", ["schemes-resnet/base", "norms/resnet-plain"]),
        ("VGG-11, batch normalisation (6.19)", ["schemes-vgg/base", "norms/vgg-plain"]),
    ],
}
"""Figures of whole lines: for each panel its title and trainings."""
BLOCK_PANELS: dict[str, dict[str, str]] = {
    "blocks": {
        "schemes-resnet/base": "ResNet, h0 = 0.1 (figures 6.1B and 6.9)",
        "schemes-resnet/h-low-barrier": "ResNet, h0 = 0.01 for B (6.9)",
        "schemes-vgg/base": "VGG-11, h0 = 0.1 (6.16)",
        "schemes-vgg/h-low-barrier": "VGG-11, h0 = 0.01 for B (6.16)",
    },
    "data": {
        "data/less": "20 % of the images (6.6)",
        "data/none": "no augmentation (6.6)",
        "data/less-none": "both (6.14)",
        "data/brightness": "more augmentation (6.15)",
        "norms/deeper": "deeper ResNet (6.10)",
    },
}


def figures(records: kit.Records) -> dict[str, kit.Figure]:
    """Lines of whole networks and of blocks, the parts of a block, and accuracies by scheme."""
    found = trainings(records)
    drawn: dict[str, kit.Figure] = {}
    for name, panels in PANELS.items():
        chosen = [
            (text, {title(found[key]): line(found[key]) for key in keys if key in found})
            for text, keys in panels
        ]
        # One line alone compares nothing: the job that the panel is about has no record yet.
        _add(drawn, name, [(text, own) for text, own in chosen if len(own) > 1])
    _add(drawn, "imagenet", _imagenet(found))
    for name, titles in BLOCK_PANELS.items():
        blocks = [
            (text, {n: own for n, own in _lines(found, key) if n == "whole" or is_block(n)})
            for key, text in titles.items()
            if key in found
        ]
        _add(drawn, name, blocks)
    if "schemes-resnet/base" in found:
        own = _lines(found, "schemes-resnet/base")
        kinds = {n: p for n, p in own if n == "B3" or (n != "whole" and not is_block(n))}
        _add(drawn, "parts", [("parts of the third block (figure 6.18)", kinds)])
    schemes = _schemes(found)
    return drawn | ({"schemes": schemes} if schemes else {})


def _lines(found: kit.Records, key: str) -> list[tuple[str, Any]]:
    return list(found[key].final["paths"].items())


def _imagenet(found: kit.Records) -> list[tuple[str, dict[str, Any]]]:
    """Figure 6.2A: the lines of both starts, and the one from random weights to the better end.

    Beside it the lines of figure 6.4, which start from ImageNet but for one block.
    """
    keys = [f"imagenet/{name}" for name in ("mobilenet", "mobilenet-imagenet")]
    if not all(key in found for key in keys):
        return []
    own = {found[key].label: line(found[key]) for key in keys}
    own["from random weights to the end of the latter"] = line(found[keys[1]], "random")
    resets = [f"imagenet-resets/imagenet-reset-b{n}" for n in (1, 2, 3, 4)]
    parts = {found[key].label: line(found[key]) for key in resets if key in found}
    panels = [("a start from ImageNet (figure 6.2A)", own)]
    return panels + ([("one block random (figure 6.4)", parts)] if parts else [])


def _add(drawn: dict[str, kit.Figure], name: str, panels: Sequence[tuple[str, Any]]) -> None:

    if not panels:
        return
    columns = min(3, len(panels)) if len(panels) != 4 else 2
    rows = math.ceil(len(panels) / columns)
    size = max(6.0, 5.0 * columns), 3.9 * rows
    figure, grid = kit.panels(size, rows, columns, squeeze=False)
    axes = grid.flatten()
    for axis, (text, paths) in zip(axes, panels, strict=False):
        draw_lines(axis, {n: own for n, own in paths.items() if own["losses"]})
        axis.set_title(text, fontsize="medium")
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    kit.say_bands(figure)
    drawn[name] = figure


def _schemes(found: kit.Records) -> kit.Figure | None:
    """Test accuracies of tables 6.2 and 6.4."""
    jobs = [job for job in NETS if f"{job}/base" in found]
    if not jobs:
        return None
    figure, axes = kit.panels((6.0 * len(jobs), 4.6), 1, len(jobs))
    for axis, job in zip(axes, jobs, strict=True):
        measured = [ACCURACY.of(own) for own in found.named(f"{job}/*")]
        bars(axis, [m.label for m in measured], [m.values for m in measured], "test accuracy, %")
        low = min(min(m.values) for m in measured)
        axis.set_ylim(bottom=max(0.0, math.floor(low / 5 - 1) * 5))
        axis.set_title(NETS[job])
    kit.say_bands(figure)
    return figure
