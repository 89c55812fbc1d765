"""What comes of the records on weights of few bits: pictures, table and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from colangevin.lab import kit
from colangevin.lab.experiments.problems import searching

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = (8, 4, 3, 2)
KINDS = {
    "tensor_max": (False, False),
    "row_max": (True, False),
    "tensor_error": (False, True),
    "row_error": (True, True),
}
"""Kinds of scales: whether each row has its own, and whether it is that of the least error."""
OURS = "circle"
"""The method for which the claims are made, named before anything was run."""
RIVALS = ("sgd", "adam", "decay", "adam-decay", "penalty")
"""Methods without a hard bound."""
NETWORKS = {"mlp": "perceptron", "cnn": "convolutional network"}


def percent(key: str, label: str) -> kit.Quantity:
    """A share of images."""
    return kit.Quantity(key, f"{label}, %", 1, 100.0, 1)


FLOAT = percent("test_accuracy", "float")
BEST = percent("best_2", "2 bits, scales chosen")
NAIVE = percent("tensor_max_2", "2 bits, a tensor's largest weight")
SHOWN = [
    FLOAT,
    *(percent(f"row_error_{bits}", f"{bits} bits, rows, least error") for bits in BITS),
    percent("tensor_error_2", "2 bits, tensor, least error"),
    NAIVE,
    BEST,
]


def draw(records: kit.Records) -> Figure:
    """Accuracy against the number of bits, with careful scales and with plain ones."""
    networks = [one for one in NETWORKS if records.named(f"{one}-*")]
    size = (10.4, 1.4 + 3.4 * len(networks))
    figure, axes = kit.panels(size, len(networks), 2, sharey="row", sharex=True, squeeze=False)
    titles = {"row_error": "a scale of least error for each row", "tensor_max": "largest weight"}
    for line, network in zip(axes, networks, strict=True):
        for axis, (kind, title) in zip(line, titles.items(), strict=True):
            for place, record in enumerate(records.named(f"{network}-*")):
                values = [100 * np.array(record.values(f"{kind}_{bits}")) for bits in BITS]
                style = {"color": kit.COLORS[place % 7], "linestyle": kit.STYLES[place % 6]}
                kit.band(axis, range(4), np.array(values), label=record.label, marker="o", **style)
            axis.set(title=f"{NETWORKS[network]}: {title}", xticks=range(4), xticklabels=BITS)
            axis.grid(alpha=0.3)
        line[0].set_ylabel("right answers, %")
    for axis in axes[-1]:
        axis.set_xlabel("bits of a weight")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    kit.say_bands(figure)
    return figure


TABLE: list[kit.Column | kit.Quantity] = [
    kit.Column("network", "network"),
    kit.METHOD,
    searching.CHOSEN,
    *SHOWN,
    kit.Quantity("outlier", "largest weight over standard deviation", -1, digits=1),
    kit.Quantity("seconds", "processor time of a training, s", -1, digits=1),
]
EACH = {"network": tuple(NETWORKS)}
# What is bounded by clipping is compared by itself: the bound, and how it is held, are two things.
STRONGEST = kit.Of(tuple(f"{{network}}-{name}" for name in RIVALS), strongest=True)


def ahead(quantity: kit.Quantity, *over: str | kit.Of) -> kit.Ahead:
    """Of both networks."""
    text = f"{{network}}: {quantity.label}"
    return kit.Ahead(quantity, f"{{network}}-{OURS}", over=over, text=text, each=EACH)


CLAIMS: list[Callable[[kit.Records], list[kit.Claim]]] = [
    ahead(BEST, STRONGEST),
    ahead(BEST, "{network}-sgd"),
    ahead(BEST, "{network}-clip"),
    ahead(BEST, "{network}-box"),
    ahead(NAIVE, STRONGEST),
    ahead(percent("row_error_4", "4 bits, rows, least error"), STRONGEST),
    ahead(FLOAT, STRONGEST),
]
