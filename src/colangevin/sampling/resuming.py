"""Is it the same sampling that goes on? Loss and observables are asked once more.

A function cannot be compared, its values can: those of the last draw are kept, and a run that goes
on must find them again at the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from colangevin.sampling.chains import Chains

Reading: TypeAlias = "dict[str, Any]"
"""``"loss"`` and the observables of all chains by name; ``"batch"``, a checksum, of a loader."""


def compare(last: Reading, readings: Sequence[Reading], chains: Chains, path: Path) -> None:
    """Refuse another loss, or another function under the name of an observable.

    What is random cannot be compared: observables that differ between readings, and the loss of
    a loader whose batch is another one.

    Args:
        last: the reading that was kept.
        readings: what is found at the same weights, several times.
        chains: at these weights.
        path: of the trace, for messages.

    Raises:
        ValueError: naming what differs, with both values.
    """
    now, *others = readings
    epsilon = max(torch.finfo(w.dtype).eps for w in chains.weights.values())
    for name in (key for key in now if key != "batch"):
        if name == "loss" and last.get("batch") != now.get("batch"):
            continue
        size = chains.temperatures if name == "loss" else None
        if any(_apart(now[name], again[name], epsilon, size) for again in others):
            continue
        if name not in last or _apart(last[name], now[name], epsilon, size):
            what = "the loss" if name == "loss" else f"the observable {name.split('/', 1)[1]!r}"
            raise ValueError(
                f"{path} has a trace of another sampling: {what} of its last draw was "
                f"{_words(last.get(name))} and is {_words(now[name])} now, at the same weights. "
                "Take another path, or the same functions and data to continue"
            )


def _apart(one: Tensor, other: Tensor, epsilon: float, size: Tensor | None) -> bool:
    """Whether values differ by more than rounding: √ε of their size.

    Args:
        one: [chains, ...].
        other: likewise.
        epsilon: of the weights' type.
        size: besides their own; None for the largest of all.
    """
    if one.shape != other.shape:
        return True
    first, second = one.double().nan_to_num(), other.double().nan_to_num()
    if size is None:
        size = first.abs().max() if first.numel() else torch.zeros(())
    bound = math.sqrt(epsilon) * (first.abs() + size)
    return bool(((first - second).abs() > bound).any())


def _words(values: Tensor | None) -> str:
    """The first numbers of a tensor."""
    if values is None:
        return "not there"
    numbers = [f"{float(value):.6g}" for value in values.flatten()[:3]]
    return ", ".join(numbers) + (", …" if values.numel() > 3 else "")
