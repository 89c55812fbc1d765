"""What the experiments of chapter 5 have in common: optimizers at two rates, training, claims."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.optimizer import Optimizer

from colangevin.lab import kit
from colangevin.optimizers import Multirate, Rates

FINETUNING: dict[str, dict[str, Any]] = {
    "full": {"label": "full", "fast": "fc", "kind": "sgd"},
    "block": {"label": "last block + fc", "fast": "block", "kind": "frozen"},
    "fc": {"label": "fc only", "fast": "fc", "kind": "frozen"},
    "multirate-fc": {"label": "multirate, fc fast", "fast": "fc", "kind": "multirate"},
    "multirate-block": {
        "label": "multirate, last block + fc fast",
        "fast": "block",
        "kind": "multirate",
    },
}
"""The methods of figures 5.4 and 5.6; ``fast`` names the part that moves at every step."""
PERIOD = 5
PHASES = ("forward", "backward", "update")

ACCURACY = kit.Quantity("test_accuracy", "test accuracy, %", sign=1, factor=100.0)
LOSS = kit.Quantity("test_loss", "test loss", digits=3)


def optimizer(rates: Rates, method: Mapping[str, Any]) -> Optimizer:
    """The optimizer of a method, in the thesis's symbols.

    Args:
        rates: the fast and the slow parameters.
        method: ``kind`` and ``h``, the step of the fast parameters; ``momentum``. Kinds are

            - ``sgd``: all parameters with h;
            - ``two steps``: the slow ones with ``slow_h``, at every step;
            - ``frozen``: the slow ones stay as they are;
            - ``multirate``: algorithm 5.1 with k = ``period``, or 5.2 if ``drift`` is false; the
              slow step is ``slow_h``, k·h if not given.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
        >>> rates = Rates(list(model[1].parameters()), list(model[0].parameters()))
        >>> made = optimizer(rates, {"kind": "multirate", "h": 0.1, "period": 5})
        >>> [group["lr"] for group in made.param_groups]
        [0.1, 0.5]
    """
    kind, h = method["kind"], method["h"]
    momentum, decay = method.get("momentum", 0.0), method.get("weight_decay", 0.0)

    def sgd(parameters: Any, step: float) -> Optimizer:
        return torch.optim.SGD(parameters, step, momentum, weight_decay=decay)

    if kind == "sgd":
        return sgd([*rates.slow, *rates.fast], h)
    if kind == "two steps":
        return sgd([{"params": rates.fast}, {"params": rates.slow, "lr": method["slow_h"]}], h)
    if kind == "frozen":
        for parameter in rates.slow:
            parameter.requires_grad_(False)
        return sgd(rates.fast, h)
    if kind == "multirate":
        period = method["period"]
        slow = sgd(rates.slow, method.get("slow_h", period * h))
        return Multirate(sgd(rates.fast, h), slow, period, drift=method.get("drift", True))
    raise ValueError(f"unknown kind of method {kind!r}")


def classifier_loss(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of a batch."""
    return functional.cross_entropy(model(inputs), labels)


def classified(
    model: nn.Module, batches: Iterable[tuple[Any, Tensor]], name: str = "test"
) -> dict[str, float]:
    """Loss and accuracy over batches.

    Example:
        >>> classified(nn.Identity(), [(torch.eye(2), torch.tensor([0, 0]))])["test_accuracy"]
        0.5
    """
    loss = right = count = 0.0
    for inputs, labels in batches:
        outputs = model(inputs)
        loss += float(functional.cross_entropy(outputs, labels, reduction="sum"))
        right += float((outputs.argmax(dim=1) == labels).sum())
        count += len(labels)
    return {f"{name}_loss": loss / count, f"{name}_accuracy": right / count}


def train(work: kit.training.Training, log: kit.Log) -> None:
    """Train all runs of a job and keep what their steps cost."""
    runs = kit.training.train(work, kit.seeds_of(log.job.settings), log)
    if runs is not None:
        steps = max(1, work.marks[-1])
        log.finish(
            milliseconds=[1e3 * run.seconds / steps for run in runs],
            diverged=kit.training.divergences(runs),
        )


def time_steps(
    parts: Mapping[str, kit.training.Parts],
    loss: Callable[[nn.Module], Tensor],
    rounds: int,
    steps: int = PERIOD,
) -> dict[str, list[float]]:
    """Processor time of a training step, the methods taking turns.

    Args:
        parts: a network and its optimizer for each method.
        loss: of a network, on the same batch every time.
        rounds: how often every method has its turn; one more goes before, which does not count.
        steps: in a turn; a multiple of every period.

    Returns:
        For each method the milliseconds of forward pass, backward pass and update, means over
        the steps of its best turn.

    Example:
        >>> model = nn.Linear(3, 2)
        >>> parts = {"sgd": kit.training.Parts(model, torch.optim.SGD(model.parameters()))}
        >>> len(time_steps(parts, lambda model: model(torch.ones(4, 3)).sum(), 2)["sgd"])
        3
    """
    turns: dict[str, list[Tensor]] = {name: [] for name in parts}
    for _ in range(rounds + 1):
        for name, (model, own, _) in parts.items():
            marks = torch.tensor([_timed_step(model, own, loss) for _ in range(steps)])
            turns[name].append(1e3 * marks.diff(dim=1).mean(dim=0))
    return {
        name: min(found[1:], key=lambda turn: float(turn.sum())).tolist()
        for name, found in turns.items()
    }


def _timed_step(
    model: nn.Module, own: Optimizer, loss: Callable[[nn.Module], Tensor]
) -> list[float]:
    """The processor's clock before a step and after each of its phases, from the first on."""
    own.zero_grad()
    first = time.process_time()
    value = loss(model)
    marks = [0.0, time.process_time() - first]
    value.backward()
    marks.append(time.process_time() - first)
    own.step()
    return [*marks, time.process_time() - first]


def trained(records: kit.Records) -> dict[str, kit.Record]:
    """The records of jobs that train; the others measure time."""
    return {job: record for job, record in records.items() if record.settings["part"] != "time"}


def times(records: kit.Records) -> dict[str, list[float]]:
    """Milliseconds of the phases of a step by method, if they were measured."""
    found: dict[str, list[float]] = records["time"].final["times"] if "time" in records else {}
    return found


def share(records: kit.Records, method: str, of: str = "full") -> float:
    """The time of a method's step as a share of another's; NaN if it was not measured."""
    found = times(records)
    if method not in found or of not in found:
        return math.nan
    return sum(found[method]) / sum(found[of])


def draw_times(records: kit.Records, labels: Mapping[str, str]) -> kit.Figure:
    """Bars: the phases of a step, one bar per method."""
    found = times(records)
    figure, axis = kit.panels((max(6.0, 0.9 * len(found)), 4.2))
    below = [0.0] * len(found)
    for place, (phase, color) in enumerate(zip(PHASES, kit.COLORS, strict=False)):
        heights = [phases[place] for phases in found.values()]
        axis.bar(range(len(found)), heights, bottom=below, label=phase, color=color)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    names = [labels.get(name, name) for name in found]
    axis.set_xticks(range(len(found)), names, rotation=30, ha="right", fontsize="small")
    axis.set(ylabel="processor time of a step, ms")
    axis.grid(alpha=0.3, axis="y")
    axis.legend()
    return figure


ONE_TIME = "the best of a few rounds, one number"


def faster(records: kit.Records, method: str, label: str, stated: str) -> list[kit.Claim]:
    """The claim that a step takes less time than full fine-tuning."""
    found = share(records, method)
    if math.isnan(found):
        return []
    text = f"processor time of a step, {label}, as a share of full fine-tuning"
    return [kit.undecided(text, stated, f"{found:.2f}", ONE_TIME)]


def ordered(
    quantity: kit.Quantity, pairs: Sequence[tuple[str, str]], text: str = ""
) -> list[kit.Stated]:
    """One job is better than another.

    Args:
        quantity: what is compared.
        pairs: of jobs, the better one first.
        text: what to say before the name of the quantity.
    """
    said = f"{text}{quantity.label}: {{source}}"
    return [kit.Ahead(quantity, best, [other], text=said) for best, other in pairs]


def orderings(
    records: kit.Records, quantity: kit.Quantity, stated: Sequence[tuple[str, str]], text: str = ""
) -> list[kit.Claim]:
    """The claims that one job is better than another, of those that are done.

    Args:
        records: of an experiment.
        quantity: what is compared.
        stated: pairs of jobs, the better one first.
        text: what to say before the name of the quantity.
    """
    found = []
    for best, other in stated:
        if best in records and other in records:
            claim = quantity.ahead(records[best], records[other])
            found.append(replace(claim, text=f"{text}{claim.text}: {claim.source}"))
    return found
