"""Summaries: a row per quantity, and what is wrong with a trace in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Size, Tensor

from colangevin.sampling.diagnosing import EXACT, RHAT, Numbers, diagnose, needed
from colangevin.sampling.tuning import Tuning

HOT = 0.1
"""Deviation of the momenta's temperature that is worth a warning."""
JUMPS = 1.25
"""Order of the energy error in h below which the gradient is not that of the loss; 3 is usual.

A wrong gradient has 1, jumps have ½, kinks 1½."""


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


class Samples(NamedTuple):
    """The draws of a tensor.

    Attributes:
        shape: [chains, draws, ...].
        blocks: makes the pieces [chains, draws, numbers], in order.
    """

    shape: Size
    blocks: Callable[[], Iterable[Tensor]]


class Judged(NamedTuple):
    """How well a tensor is sampled.

    Attributes:
        numbers: how many numbers it has.
        apart: how many of them have an R-hat that is too large.
        few: how many have too small an effective sample size.
        largest: the row of the largest R-hat.
        least: the row of the least effective sample size.
    """

    numbers: int
    apart: int
    few: int
    largest: Row
    least: Row

    @property
    def is_apart(self) -> bool:
        """Whether the chains disagree on one of its numbers."""
        return self.largest.rhat > RHAT


@dataclass(frozen=True)
class Summary:
    """Rows by quantity; ``print`` it.

    Attributes:
        rows: one per number, or of each tensor the worst.
        tuning: of the step size.
        acceptance: of each chain, if steps were tested.
        judged: of every tensor that moves.
        chains: how many.
        constant: tensors whose numbers do not change at all.
        infinite: tensors with draws that are not finite, which have no diagnostics.
        note: what else is to be known.
    """

    rows: list[Row]
    tuning: Tuning
    acceptance: Tensor | None = None
    judged: Mapping[str, Judged] = field(default_factory=dict)
    chains: int = 4
    constant: tuple[str, ...] = ()
    infinite: tuple[str, ...] = ()
    note: str = ""

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
        if self.constant:
            lines.append("constant: " + ", ".join(self.constant))
        if self.infinite:
            lines.append("not finite: " + ", ".join(self.infinite))
        if self.acceptance is not None:
            lines.append("acceptance: " + ", ".join(f"{rate:.2f}" for rate in self.acceptance))
        lines.append(f"step_size={self.tuning.step_size:.4g}, by the {self.tuning.chosen_by}")
        return "\n".join([*lines, *([self.note] if self.note else [])])

    def complaints(self, watched: Sequence[str], thin: int = 1, network: bool = False) -> list[str]:
        """What speaks against the trace.

        Args:
            watched: the quantities by which it is judged.
            thin: of the trace, for advice.
            network: whether it may be one of a network, likewise.
        """
        found = [one for name, one in self.judged.items() if name in watched]
        words = [*self._apart(found, network), *self._few(found, thin)]
        for name in (n for n in self.infinite if n in watched):
            words.append(f"{name} has draws that are not finite, so that nothing is known of it")
        if self.acceptance is not None and float(self.acceptance.min()) < 0.5:
            chain = int(self.acceptance.argmin())
            words.append(
                f"chain {chain} accepts only {float(self.acceptance[chain]):.0%} of its steps: "
                "take a smaller step_size"
            )
        if not self.tuning.settled:
            words.append(f"the warm-up was too short: {self.tuning}")
        return [*words, *self._temperature(), *self._gradient()]

    def _apart(self, found: Sequence[Judged], network: bool) -> list[str]:
        apart = [one for one in found if one.is_apart]
        if not apart:
            return []
        worst = max((one.largest for one in apart), key=lambda row: row.rhat)
        count = max(1, sum(one.apart for one in apart))
        more = ""
        if network and "loss" in self.judged and not self.judged["loss"].is_apart:
            more = (
                ". The loss is well mixed: if hidden units of a network change places, weights "
                'never agree. Then judge by trace.predict(x).rhat(), and give watch="loss"'
            )
        return [
            f"R-hat of {worst.name} is {worst.rhat:.2f}, above {RHAT} ({count} of "
            f"{sum(one.numbers for one in found)} numbers are): the chains have not come together. "
            "Raise warmup and draws; if they stay in different modes, the average over chains is "
            f"of these modes only{more}"
        ]

    def _few(self, found: Sequence[Judged], thin: int) -> list[str]:
        enough = needed(self.chains)
        few = [one for one in found if one.least.ess < enough and not one.is_apart]
        if not few:
            return []
        worst, count = min((one.least for one in few), key=lambda row: row.ess), len(few)
        count = max(count, sum(one.few for one in few))
        more = thin * math.ceil(enough / max(worst.ess, 1.0))
        return [
            f"too few draws: {worst.name} has an effective sample size of {worst.ess:.0f}, below "
            f"{enough} ({count} of {sum(one.numbers for one in found)} numbers are). Raise draws, "
            f"or thin, to about thin={more}, so that the same number of draws spans more steps. If "
            "that is too much, the law is much narrower in some directions than in others: give "
            "inputs or parameters similar scales and little correlation"
        ]

    def _temperature(self) -> list[str]:
        row = next((r for r in self.rows if r.source == "kinetic_ratio"), None)
        if row is None or not math.isfinite(row.mean):
            return []
        if abs(row.mean - 1.0) - 3.0 * row.mcse <= HOT:
            return []
        return [
            f"the momenta have {row.mean:.2f} times the temperature τ: the step or the noise of "
            "mini-batches is too large. Take a smaller step_size, larger batches, or with all data "
            "guard=3.0 (for kinks, as those of ReLU networks) or adjust=True"
        ]

    def _gradient(self) -> list[str]:
        order = self.tuning.order
        if not order < JUMPS:
            return []
        return [
            f"energy errors fall with the step size h as h^{order:.1f} only, not as h³: the "
            "gradient does not belong to the loss. It has jumps (floor, round, a comparison) or a "
            "part without a gradient (detach), and the chains sample another density. Mend the "
            "loss, or take adjust=True, which tests each step by the loss itself"
        ]


def summarise(
    values: Mapping[str, Samples],
    tuning: Tuning,
    acceptance: Tensor | None,
    most: int,
    note: str = "",
) -> Summary:
    """Make a summary of draws by name.

    Args:
        values: the draws.
        tuning: of the step size.
        acceptance: of each chain, if steps were tested.
        most: rows up to which each number has its own; else each tensor has one.
        note: what else is to be known.

    Example:
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> draws = torch.randn(4, 100, 2)
        >>> found = summarise({"w": Samples(draws.shape, lambda: [draws])}, Tuning(0.1), None, 50)
        >>> [row.name for row in found.rows]
        ['w[0]', 'w[1]']
    """
    rows: list[Row] = []
    judged: dict[str, Judged] = {}
    constant, infinite, chains = [], [], 4
    each = sum(math.prod(samples.shape[2:]) for samples in values.values()) <= most
    exact = each or sum(math.prod(samples.shape) for samples in values.values()) <= EXACT
    for name, samples in values.items():
        chains = samples.shape[0]
        if samples.shape[1] < 4 or not math.prod(samples.shape):
            continue
        found = diagnose(samples.blocks(), exact)
        if not found.finite:
            infinite.append(name)
        elif found.constant == found.total:
            constant.append(name)
        else:
            all_rows = _rows(name, samples.shape[2:], found)
            judged[name] = _judged(all_rows, found)
            rows += all_rows if each else [_worst(judged[name])]
    return Summary(rows, tuning, acceptance, judged, chains, tuple(constant), tuple(infinite), note)


def _rows(name: str, shape: Sequence[int], found: Numbers) -> list[Row]:
    rows = []
    for place, column in zip(found.places.tolist(), found.table.tolist(), strict=True):
        mean, std, error, size, hat = column
        rows.append(Row(_label(name, shape, place), mean, std, error, size, hat, name))
    return rows


def _label(name: str, shape: Sequence[int], place: int) -> str:
    """The name of a number of a tensor.

    Example:
        >>> _label("w", (2, 3), 4)
        'w[1, 1]'
    """
    if not shape:
        return name
    index = []
    for size in reversed(shape):
        place, own = divmod(place, size)
        index.append(own)
    return f"{name}[{', '.join(map(str, reversed(index)))}]"


def _judged(rows: Sequence[Row], found: Numbers) -> Judged:
    largest = max(rows, key=lambda row: 0.0 if math.isnan(row.rhat) else row.rhat)
    least = min(rows, key=lambda row: math.inf if math.isnan(row.ess) else row.ess)
    return Judged(found.total, found.apart, found.few, largest, least)


def _worst(judged: Judged) -> Row:
    """The row that stands for a tensor: one of its numbers."""
    row = judged.largest if judged.largest.rhat > RHAT else judged.least
    several = f" (worst of {judged.numbers})" if judged.numbers > 1 else ""
    return row._replace(name=row.name + several)
