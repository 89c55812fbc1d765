"""The picture of the demo: decision regions and loss curves, one column a method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor, nn

from colangevin.lab.experiments.demo import PAPER_EPOCHS, Data, Settings
from colangevin.lab.experiments.demo_result import Result, epoch_range

CLASS_COLOURS = ("#2166ac", "#d6604d")
REGIONS = LinearSegmentedColormap.from_list("regions", ["#9ecae1", "#f7f7f7", "#fcbba1"])
EXTENT = 1.25
AXIS = torch.linspace(-EXTENT, EXTENT, 240)


def draw(results: Sequence[Result], data: Data, settings: Settings) -> Figure:
    """Draw the decision regions on training and test points, and the loss curves.

    Args:
        results: The trained networks, one column each.
        data: The points that they were trained and tested on.
        settings: What the title states.

    Returns:
        A figure that belongs to no window and needs no display.
    """
    columns = len(results)
    figure = Figure(figsize=(2.9 * columns + 0.6, 10.0))
    figure.set_layout_engine("constrained", h_pad=0.1)
    heights = {"height_ratios": [1.3, 1.3, 1.0]}
    axes = figure.subplots(3, columns, squeeze=False, sharey="row", gridspec_kw=heights)
    for column, result in enumerate(results):
        train_axes, test_axes, loss_axes = axes[:, column]
        probability = _regions(result.network)
        _draw_regions(train_axes, probability)
        _draw_points(train_axes, data.train_inputs, data.train_labels, size=22.0)
        _draw_regions(test_axes, probability)
        _draw_points(test_axes, data.test_inputs, data.test_labels, size=5.0)
        _head(train_axes, result.method.name)
        train_axes.set_title(f"{result.train_accuracy:.1%} right")
        test_axes.set_title(f"{result.test_accuracy:.1%} right")
        _draw_losses(loss_axes, result)
    _label_rows(list(axes[:, 0]), results, data)
    figure.suptitle(
        f"Two-turn spiral, {settings.hidden}-node single hidden layer: "
        f"{epoch_range(results)} epochs (the paper uses {PAPER_EPOCHS:,}), seed {settings.seed}",
        fontsize=15,
    )
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write the figure in the format that the file name asks for."""
    figure.savefig(path, dpi=120)


def _head(axes: Axes, name: str) -> None:
    """Put a name in bold above the title."""
    axes.annotate(
        name,
        (0.5, 1.0),
        xytext=(0, 24),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="center",
        weight="bold",
        size=14,
    )


@torch.no_grad()
def _regions(network: nn.Module) -> Tensor:
    """Evaluate P(class 1) on a square grid; a row is a value of x₂."""
    points = torch.cartesian_prod(AXIS, AXIS).flip(1)
    # In pieces, because all hidden activations at once would take 100 MB.
    outputs = torch.cat([network(piece) for piece in points.split(4096)])
    return outputs.sigmoid().reshape(len(AXIS), len(AXIS))


def _draw_regions(axes: Axes, probability: Tensor) -> None:
    extent = (-EXTENT, EXTENT, -EXTENT, EXTENT)
    axes.imshow(
        probability.numpy(),
        origin="lower",
        extent=extent,
        cmap=REGIONS,
        vmin=0.0,
        vmax=1.0,
        interpolation="bilinear",
    )
    if bool((probability > 0.5).any()) and bool((probability < 0.5).any()):
        grid = AXIS.numpy()
        axes.contour(grid, grid, probability.numpy(), levels=[0.5], colors="black", linewidths=0.8)
    axes.set_xticks([-1, 0, 1])
    axes.set_yticks([-1, 0, 1])


def _draw_points(axes: Axes, inputs: Tensor, labels: Tensor, size: float) -> None:
    edge = 0.4 if size > 10 else 0.0
    for label, colour in enumerate(CLASS_COLOURS):
        x, y = inputs[labels == label].T.numpy()
        axes.scatter(x, y, s=size, color=colour, edgecolors="white", linewidths=edge)


def _draw_losses(axes: Axes, result: Result) -> None:
    curve = result.curve
    axes.plot(curve.epochs, curve.train_loss, color="#636363", linewidth=1.3, label="training")
    axes.plot(curve.epochs, curve.test_loss, color="#b2182b", linewidth=1.8, label="test")
    axes.set_title(f"training {result.train_loss:.3f}, test {result.test_loss:.3f}")
    axes.set_xlabel("epoch")
    axes.grid(alpha=0.3)


def _label_rows(first_column: Sequence[Axes], results: Sequence[Result], data: Data) -> None:
    train_axes, test_axes, loss_axes = first_column
    train_axes.set_ylabel(f"{len(data.train_labels)} training points", size=12)
    test_axes.set_ylabel(f"{len(data.test_labels)} test points", size=12)
    loss_axes.set_ylabel("loss", size=12)
    # One vertical range for every method, and room for the highest curve.
    highest = max(max(r.curve.train_loss + r.curve.test_loss) for r in results)
    loss_axes.set_ylim(0.0, 1.05 * highest)
    loss_axes.legend(loc="upper right", fontsize=9)
