"""Pictures of the two-turn spiral: decision regions and curves."""

from __future__ import annotations

import numpy as np

from colangevin.lab import kit
from colangevin.lab.experiments.spirals import regions, spiral

LOSS_COLORS = {"train_loss": kit.COLORS[0], "test_loss": kit.COLORS[1]}
CURVES = kit.Curves([spiral.LOSS, spiral.ACCURACY])
"""Figure 2: test loss and accuracy."""


def draw_regions(records: kit.Records) -> kit.Figure | None:
    """Figure 1: the first run's regions, points and losses; one column per method."""
    shown = [
        record
        for record in records.values()
        if record.final.get("picture") and not {"draws", "spheres"} & set(record.settings)
    ]
    if not shown:
        return None
    figure, axes = kit.panels((3.0 * len(shown), 8.4), 3, len(shown), squeeze=False)
    for column, record in enumerate(shown):
        picture = record.final["picture"]
        for row, kind in enumerate(("train", "test")):
            regions.draw(axes[row, column], picture, kind)
        axes[0, column].set_title(record.label)
        bottom = axes[2, column]
        for key, style in (("train_loss", "--"), ("test_loss", "-")):
            values = np.array(record.series(key))[:, :1]
            line = {"color": LOSS_COLORS[key], "linestyle": style}
            kit.band(bottom, record.history["epoch"], values, label=key.replace("_", " "), **line)
        bottom.set(xlabel="epoch", yscale="log")
        bottom.legend()
    for row, label in enumerate(("training points", "test points", "loss")):
        axes[row, 0].set_ylabel(label)
    return figure
