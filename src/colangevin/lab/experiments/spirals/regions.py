"""What a network of two inputs predicts in a square, kept in a record and drawn."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from colangevin.lab import kit
from colangevin.lab.experiments.spirals.spiral import Points

GRID, EXTENT = 160, 1.2
SHOWN = 500
"""Test points that are kept."""
SIZES = {"train": 8, "test": 3}


def picture(network: nn.Module, points: Points, extent: float = EXTENT) -> dict[str, Any]:
    """What a network with one logit predicts on a grid, and the points of the first run.

    Args:
        network: trained on the first run's points.
        points: of all runs.
        extent: the grid lies in [-extent, extent]².
    """
    axis = torch.linspace(-extent, extent, GRID)
    x, y = torch.meshgrid(axis, axis, indexing="xy")
    with torch.no_grad():
        logits = network(torch.stack([x, y], dim=-1).reshape(-1, 2))
    shades = (logits.sigmoid().reshape(GRID, GRID) * 255).round().to(torch.uint8)
    return {
        "grid": kit.pack(shades),
        "extent": extent,
        "train": kit.pack(points.train_inputs[0]),
        "train_labels": kit.pack(points.train_labels[0].to(torch.uint8)),
        "test": kit.pack(points.test_inputs[0][:SHOWN]),
        "test_labels": kit.pack(points.test_labels[0][:SHOWN].to(torch.uint8)),
    }


def draw(axis: Any, kept: dict[str, Any], kind: str) -> None:
    """Draw a kept picture with its ``"train"`` or ``"test"`` points."""
    side = kept["extent"]
    grid = kit.unpack(kept["grid"]).numpy()
    extent = (-side, side, -side, side)
    axis.imshow(grid, extent=extent, origin="lower", cmap="coolwarm", vmin=0, vmax=255, alpha=0.7)
    points = kit.unpack(kept[kind]).float().numpy()
    labels = kit.unpack(kept[f"{kind}_labels"]).numpy()
    for label, color in ((0, "#1f3b73"), (1, "#7a1420")):
        own = points[labels == label]
        axis.scatter(own[:, 0], own[:, 1], s=SIZES[kind], c=color)
    axis.set(xticks=[], yticks=[], xlim=(-side, side), ylim=(-side, side))
