"""Curves over epochs: mean over the runs, with two standard errors on either side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from colangevin.lab.claims.comparing import Quantity
from colangevin.lab.runner.records import Record, Records

if TYPE_CHECKING:
    from matplotlib.figure import Figure as _Figure

Figure: TypeAlias = "_Figure"
COLORS = ("#4c72b0", "#dd8452", "#55a868", "#8172b3", "#c44e52", "#937860", "#64b5cd")
STYLES = ("-", "--", "-.", (0, (1, 1.5)), (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
"""Different dashes: curves that lie on one another can be told apart."""


def panels(size: tuple[float, float], *shape: int, **options: Any) -> tuple[Figure, Any]:
    """A figure and its axes, whose room is shared out so that no text is cut.

    Args:
        size: width and height in inches.
        *shape: rows and columns. One row, however long, gives a sequence of panels; nothing gives
            one panel.
        **options: what ``subplots`` takes.

    Example:
        >>> panels((8.0, 3.0), 1, 1)[1].shape, panels((8.0, 3.0), 2, 1, squeeze=False)[1].shape
        ((1,), (2, 1))
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    if shape[:1] == (1,) and "squeeze" not in options:
        return figure, figure.subplots(*shape, squeeze=False, **options)[0]
    return figure, figure.subplots(*shape, **options)


def plain_logarithms(axes: Any) -> None:
    """Make the vertical axis logarithmic, with 2.2 at a tick instead of 2.2 × 10⁰.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> plain_logarithms(axes)
        >>> axes.yaxis.get_major_formatter()(100.0)
        '100'
    """
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            # The one that it is made from says where there is room for a number.
            return f"{x:g}" if super().__call__(x, pos) else ""

    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(Plain(minor_thresholds=(1, 0.5)))
    axes.yaxis.set_minor_formatter(Plain(minor_thresholds=(1, 0.5)))


def shared_legend(figure: Figure, axes: Sequence[Any]) -> None:
    """One legend for all panels that have the same curves, else one per panel.

    Example:
        >>> from matplotlib.figure import Figure
        >>> figure = Figure()
        >>> axes = figure.subplots(1, 2)
        >>> lines = [axis.plot([0, 1], label="loss") for axis in axes]
        >>> shared_legend(figure, axes)
        >>> len(figure.legends), axes[0].get_legend()
        (1, None)
    """
    if len({tuple(axis.get_legend_handles_labels()[1]) for axis in axes}) > 1:
        for axis in axes:
            axis.legend(fontsize="small")
        return
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))


def factor_of(key: str) -> float:
    """What to multiply a quantity with: accuracies are shown in per cent.

    Example:
        >>> factor_of("test_accuracy"), factor_of("test_loss")
        (100.0, 1.0)
    """
    return 100.0 if key.endswith("accuracy") else 1.0


def mean_error(values: Any) -> tuple[Any, Any]:
    """Mean and two standard errors over the last dimension, without runs that diverged.

    Example:
        >>> mean, error = mean_error(np.array([[1.0, 3.0, np.nan], [5.0, np.nan, np.nan]]))
        >>> mean, error
        (array([2., 5.]), array([2., 0.]))
    """
    found = np.ma.masked_invalid(values)
    count = found.count(axis=-1)
    square = np.square(found - found.mean(axis=-1, keepdims=True)).sum(axis=-1)
    error = 2 * np.sqrt(square / np.maximum(count - 1, 1) / np.maximum(count, 1))
    return found.mean(axis=-1).filled(np.nan), np.ma.filled(error, np.nan)


def band(axis: Any, epochs: Sequence[float], values: Any, *, color: Any, **line: Any) -> None:
    """Draw a mean over the runs, and a band of two standard errors on either side of it.

    A logarithmic axis has no place for a band that reaches 0, as one of few runs may: there it
    ends at the lowest and the highest run.

    Args:
        axis: of matplotlib, with its scale set.
        epochs: times.
        values: [times, runs], NaN where a run has diverged.
        color: of line and band.
        **line: what ``plot`` takes.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axis = Figure().subplots()
        >>> axis.set_yscale("log")
        >>> band(axis, [0, 1], [[1.0, 3.0], [0.1, 9.0]], color="black")
        >>> float(axis.dataLim.y0), float(axis.dataLim.y1)
        (0.1, 9.0)
    """
    mean, error = mean_error(values)
    axis.plot(epochs, mean, color=color, **line)
    if np.shape(values)[-1] > 1:
        low, high = mean - error, mean + error
        if axis.get_yscale() == "log":
            runs = np.ma.masked_invalid(values)
            low, high = np.maximum(low, runs.min(axis=-1)), np.minimum(high, runs.max(axis=-1))
        axis.fill_between(epochs, low, high, color=color, alpha=0.2, linewidth=0)


def say_bands(figure: Figure) -> None:
    """Write above a figure what its curves, bands and bars are."""
    text = "mean over the runs; bands and bars: two standard errors"
    if any(axis.get_yscale() == "log" and axis.collections for axis in figure.axes):
        narrow = figure.get_figwidth() < 8  # inches that the sentence needs
        text += "," + ("\n" if narrow else " ")
        text += "on logarithmic axes at most to the lowest and the highest run"
    figure.suptitle(text, fontsize="small", color="gray")


@dataclass(frozen=True)
class Curves:
    """Quantities over the epochs or steps: a row of panels for each group of jobs, a curve a job.

    Attributes:
        panels: what is drawn, a quantity for each panel of a row.
        rows: titles, and names or patterns of jobs.
        lines: times to mark.
        logarithmic: whether the panels of what has no 0 or 100 % are logarithmic.
        first: how many of the first measurements are left out, such as the untrained network.

    Example:
        >>> history = {"epoch": [1, 2], "loss": [[1.0, 1.2], [0.5, 0.7]]}
        >>> record = Record("a", "sgd", 0, {"label": "SGD"}, history=history)
        >>> curves = Curves([Quantity("loss", "test loss")])
        >>> len(curves(Records([record])).axes), curves(Records([]))
        (1, None)
    """

    panels: Sequence[Quantity]
    rows: Mapping[str, Sequence[str]] = field(default_factory=lambda: {"": ("*",)})
    lines: Sequence[float] = ()
    logarithmic: bool = False
    first: int = 0

    def __call__(self, records: Records) -> Figure | None:
        """The figure; None if no job of any row has a record."""
        found = {title: records.named(*jobs) for title, jobs in self.rows.items()}
        shown = {title: own for title, own in found.items() if own}
        if not shown:
            return None
        width, height = len(self.panels), len(shown)
        size = max(6.0, 4.6 * width), 3.7 * height
        figure, axes = panels(size, height, width, squeeze=False)
        for line, (title, own) in zip(axes, shown.items(), strict=True):
            for axis, quantity in zip(line, self.panels, strict=True):
                self._panel(axis, quantity, own)
                axis.set_title(title)
            if len(own) > MANY:
                shared_legend(figure, line)
        say_bands(figure)
        return figure

    def _panel(self, axis: Any, quantity: Quantity, records: Sequence[Record]) -> None:
        if self.logarithmic and not quantity.key.endswith("accuracy"):
            axis.set_yscale("log")
        for index, record in enumerate(records):
            axis.set(xlabel="step" if "step" in record.history else "epoch", ylabel=quantity.label)
            _curve(axis, record, quantity, index, self.first)
        for line in self.lines:
            axis.axvline(line, color="black", linestyle=":", linewidth=1)
        axis.grid(alpha=0.3)
        if len(records) <= MANY:
            axis.legend(fontsize="small")


MANY = 5
"""From more curves on, panels have one legend below all of them."""


def _curve(axis: Any, record: Record, quantity: Quantity, index: int, first: int) -> None:
    times = (record.history.get("step") or record.history["epoch"])[first:]
    style = {
        "color": COLORS[index % len(COLORS)],
        "linestyle": STYLES[index % len(STYLES)],
        "label": record.label,
        "marker": "o" if len(times) < 25 else "",
        "markersize": 3,
    }
    band(axis, times, quantity.factor * np.array(record.series(quantity.key)[first:]), **style)


def draw_curves(
    rows: Sequence[tuple[Mapping[str, str], Sequence[Record]]],
    *,
    titles: Sequence[str] = (),
    lines: Sequence[float] = (),
) -> Figure:
    """Draw panels of curves, one curve per record.

    Args:
        rows: for each row of panels, their quantities with labels, and the records.
        titles: of the rows.
        lines: epochs to mark.

    Example:
        >>> history = {"epoch": [1, 2], "loss": [[1.0, 1.2], [0.5, 0.7]]}
        >>> record = Record("a", "sgd", 0, {"label": "SGD"}, history=history)
        >>> len(draw_curves([({"loss": "test loss"}, [record])]).axes)
        1
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    width = max(len(panels) for panels, _ in rows)
    figure = Figure(figsize=(max(6.0, 4.2 * width), 3.6 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), width, squeeze=False)
    for row, (panels, records) in enumerate(rows):
        for axis, (key, label) in zip(axes[row], panels.items(), strict=True):
            for color, style, record in zip(COLORS, STYLES, records, strict=False):
                _drawn(axis, record, key, color, style)
            for line in lines:
                axis.axvline(line, color="black", linestyle=":", linewidth=1)
            axis.set(xlabel="epoch", ylabel=label)
            if row < len(titles):
                axis.set_title(titles[row])
            axis.grid(alpha=0.3)
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.legend()
    say_bands(figure)
    return figure


def _drawn(axis: Any, record: Record, key: str, color: str, style: Any) -> None:
    epochs, label = record.history["epoch"], record.label
    values = factor_of(key) * np.array(record.series(key))
    mark = {"marker": "o" if len(epochs) < 25 else "", "markersize": 3}
    band(axis, epochs, values, color=color, label=label, linestyle=style, **mark)
