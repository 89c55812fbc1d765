"""Summaries: a row per quantity, and what is wrong with a trace in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from colangevin.sampling import convergence
from colangevin.sampling.tuning import Tuning

WORST = 1.05
"""R-hat above which chains should run longer."""
FEWEST = 100
"""Effective draws below which an average says little."""
HOT = 0.1
"""Deviation of the momenta's temperature that is worth a warning."""


class Row(NamedTuple):
    """A number, or the worst of a tensor's numbers.

    Attributes:
        name: of the quantity, with its index; or of the tensor, with how many it stands for.
        mean: over all draws.
        std: likewise.
        mcse: Monte Carlo standard error of the mean.
        ess: effective sample size.
        rhat: 1 means agreement of the chains.
        source: the name of the tensor.
    """

    name: str
    mean: float
    std: float
    mcse: float
    ess: float
    rhat: float
    source: str


@dataclass(frozen=True)
class Summary:
    """Rows by quantity; ``print`` it.

    Attributes:
        rows: one per quantity.
        tuning: of the step size.
        acceptance: of each chain, if steps were tested.
        constant: tensors whose numbers do not change at all.
    """

    rows: list[Row]
    tuning: Tuning
    acceptance: Tensor | None = None
    constant: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = ("", "mean", "sd", "mcse", "ess", "R-hat")
        table: list[tuple[str, ...]] = [head]
        for row in self.rows:
            numbers = [f"{value:.4g}" for value in (row.mean, row.std, row.mcse)]
            table.append((row.name, *numbers, f"{row.ess:.0f}", f"{row.rhat:.3f}"))
        widths = [max(len(line[i]) for line in table) for i in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in table
        ]
        if self.acceptance is not None:
            lines.append("acceptance: " + ", ".join(f"{rate:.2f}" for rate in self.acceptance))
        return "\n".join([*lines, str(self.tuning)])

    def complaints(self, watched: Sequence[str]) -> list[str]:
        """What speaks against the trace, judged by these quantities."""
        rows = [row for row in self.rows if row.source in watched]
        found = []
        bad = [row for row in rows if row.rhat > WORST]
        if bad:
            worst = max(bad, key=lambda row: row.rhat)
            found.append(
                f"R-hat of {worst.name} is {worst.rhat:.2f}, above {WORST}: the chains have not "
                "come together. Raise warmup and draws; if they stay in different modes, the "
                "average over chains is of these modes only"
            )
        few = [row for row in rows if row.ess < FEWEST and not row.rhat > WORST]
        if few:
            worst = min(few, key=lambda row: row.ess)
            found.append(
                f"too few draws: {worst.name} has an effective sample size of {worst.ess:.0f}, "
                f"below {FEWEST}. Raise draws, or thin so that the same number of draws spans more "
                "steps"
            )
        if self.acceptance is not None and float(self.acceptance.min()) < 0.5:
            chain = int(self.acceptance.argmin())
            found.append(
                f"chain {chain} accepts only {float(self.acceptance[chain]):.0%} of its steps: "
                "take a smaller step_size"
            )
        if not self.tuning.settled:
            found.append(f"the warm-up was too short: {self.tuning}")
        return found + self._temperature()

    def _temperature(self) -> list[str]:
        row = next((r for r in self.rows if r.source == "kinetic_ratio"), None)
        if row is None or not math.isfinite(row.mean):
            return []
        if abs(row.mean - 1.0) - 3.0 * row.mcse <= HOT:
            return []
        return [
            f"the momenta have {row.mean:.2f} times the temperature τ: the step or the noise of "
            "mini-batches is too large. Take a smaller step_size, larger batches, or adjust=True "
            "with all data"
        ]


def summarise(
    values: Mapping[str, Tensor], tuning: Tuning, acceptance: Tensor | None, most: int
) -> Summary:
    """Make a summary of [chains, draws, ...] by name.

    Example:
        >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
        <torch...
        >>> found = summarise({"w": torch.randn(4, 100, 2)}, Tuning(0.1), None, 50)
        >>> [row.name for row in found.rows]
        ['w[0]', 'w[1]']
    """
    rows: list[Row] = []
    constant = []
    for name, samples in values.items():
        moving = samples.double()
        if samples.shape[1] < 4 or not bool(moving.isfinite().all()):
            continue
        if bool((moving == moving[:1, :1]).all()):
            constant.append(name)
            continue
        rows += _rows(name, moving, most)
    return Summary(rows, tuning, acceptance, tuple(constant))


def _rows(name: str, samples: Tensor, most: int) -> list[Row]:
    shape = samples.shape[2:]
    flat = samples.flatten(2) if shape else samples.unsqueeze(2)
    means, deviations = flat.mean(dim=(0, 1)), flat.flatten(0, 1).std(dim=0)
    errors, sizes = convergence.mcse(flat), convergence.ess(flat)
    hats = convergence.rhat(flat)
    table = torch.stack([means, deviations, errors, sizes, hats], dim=1)
    columns: list[list[float]] = table.tolist()
    if len(columns) > most:
        worst = int(torch.nan_to_num(hats, -1.0).argmax())
        least = float(torch.nan_to_num(sizes, math.inf).min())
        mean, std, error, _, hat = columns[worst]
        label = f"{name} (worst of {len(columns)})"
        return [Row(label, mean, std, error, least, hat, name)]
    if not shape:
        return [_row(name, columns[0], name)]
    labels = [
        f"{name}[{', '.join(map(str, place))}]"
        for place in torch.cartesian_prod(*(torch.arange(n) for n in shape))
        .view(-1, len(shape))
        .tolist()
    ]
    return [_row(label, column, name) for label, column in zip(labels, columns, strict=True)]


def _row(label: str, column: Sequence[float], source: str) -> Row:
    mean, std, error, size, hat = column
    return Row(label, mean, std, error, size, hat, source)
