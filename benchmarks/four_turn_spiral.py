"""Partitioned Langevin methods beside SGD, SGLD and Adam on the four-turn spiral.

The settings of the thesis's figure 3.10: one hidden layer of 100 nodes, 1,000 training points,
1,000 test points, batches of 2 %, 20,000 steps; the methods are those of ``METHODS``, each with
its grid. For a given seed all methods see the same data, initial weights and batches. Each
finished run is written to the results at once, so that the script can be stopped and started
again:

    python benchmarks/four_turn_spiral.py --seeds 5
    python benchmarks/four_turn_spiral.py --table
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

import colangevin as cl
from colangevin.data.spirals import FOUR_TURNS
from colangevin.models.mlp import mlp

RESULTS = Path(__file__).parent / "results" / "four_turn_spiral.json"
STEPS, POINTS, BATCH, NODES = 20_000, 1_000, 20, 100
CHECKPOINTS = (1_000, 5_000, 10_000, 15_000, 20_000)
Settings = dict[str, float]
Maker = Callable[[nn.Module, Settings], torch.optim.Optimizer]


def adlala(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    return cl.AdLaLa(
        cl.partition(model, by="output"),
        s["h"],
        coupling=s["coupling"],
        driving_noise=s["noise"],
        temperature=s["temperature"],
        friction=s["friction"],
    )


def lol(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    return cl.LOL(cl.partition(model, by="output"), s["h"], s["friction"], s["temperature"])


def sgd(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=s["h"])


def sgld(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    return cl.SGLD(model.parameters(), s["h"], noise=s["noise"])


def adam(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=s["h"])


ADLALA = {"h": 0.25, "temperature": 1e-4, "friction": 0.1, "noise": 0.01, "coupling": 0.05}
METHODS: dict[
    str, tuple[Callable[[nn.Module, Settings], torch.optim.Optimizer], list[Settings]]
] = {
    "AdLaLa": (adlala, [ADLALA]),
    "LOL": (lol, [{"h": h, "friction": 0.01, "temperature": 1e-3} for h in (0.1, 0.25)]),
    "SGD": (sgd, [{"h": h} for h in (0.05, 0.1, 0.2, 0.5)]),
    "SGLD": (sgld, [{"h": 0.1, "noise": noise} for noise in (0.005, 0.01, 0.05, 0.1)]),
    "Adam": (adam, [{"h": h} for h in (0.001, 0.005, 0.01, 0.05)]),
}
INITIALISATIONS = ("pytorch", "gaussian 0.01")


def initialise(model: nn.Module, initialisation: str) -> None:
    """Keep torch's uniform weights, or draw all of them from a Gaussian of deviation 0.01."""
    if initialisation == "gaussian 0.01":
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.01)


def evaluate(model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[float, float]:
    with torch.no_grad():
        logits = model(inputs).squeeze(1)
    accuracy = ((logits > 0) == (labels > 0.5)).double().mean()
    return float(accuracy), float(cross_entropy(logits, labels))


def train(method: str, settings: Settings, initialisation: str, seed: int) -> dict[str, Any]:
    """One run; the generator of the data and of the batches is the same for every method."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    inputs, labels = FOUR_TURNS.sample(POINTS, generator=generator)
    test_inputs, test_labels = FOUR_TURNS.sample(POINTS, generator=generator)
    targets, test_targets = labels.float(), test_labels.float()
    model = mlp(2, [NODES], 1)
    initialise(model, initialisation)
    optimizer = METHODS[method][0](model, settings)
    history = []
    begun = time.perf_counter()
    for step in range(1, STEPS + 1):
        batch = torch.randperm(POINTS, generator=generator)[:BATCH]
        optimizer.zero_grad()
        cross_entropy(model(inputs[batch]).squeeze(1), targets[batch]).backward()
        optimizer.step()
        if step in CHECKPOINTS:
            accuracy, loss = evaluate(model, test_inputs, test_targets)
            history.append({"step": step, "test_accuracy": accuracy, "test_loss": loss})
    accuracy, loss = evaluate(model, inputs, targets)
    return {
        "method": method,
        "settings": settings,
        "initialisation": initialisation,
        "seed": seed,
        "history": history,
        "train_accuracy": accuracy,
        "train_loss": loss,
        "seconds": round(time.perf_counter() - begun, 1),
    }


def key(record: dict[str, Any]) -> str:
    return json.dumps([record[name] for name in ("method", "settings", "initialisation", "seed")])


def wanted(seeds: int) -> Iterator[dict[str, Any]]:
    for initialisation in INITIALISATIONS:
        for seed in range(seeds):
            for method, (_, grid) in METHODS.items():
                for settings in grid:
                    yield {
                        "method": method,
                        "settings": settings,
                        "initialisation": initialisation,
                        "seed": seed,
                    }


def load() -> list[dict[str, Any]]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else []


def save(records: list[dict[str, Any]]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    temporary = RESULTS.with_suffix(".part")
    lines = ",\n".join(json.dumps(record) for record in records)
    temporary.write_text(f"[\n{lines}\n]\n")
    temporary.replace(RESULTS)


def table(records: list[dict[str, Any]]) -> None:
    """Mean and standard deviation of the last test accuracy over the seeds."""
    rows: dict[tuple[str, str, str], list[float]] = {}
    for record in records:
        settings = ", ".join(f"{name} {value:g}" for name, value in record["settings"].items())
        row = (record["initialisation"], record["method"], settings)
        rows.setdefault(row, []).append(100 * record["history"][-1]["test_accuracy"])
    print("| initialisation | method | settings | test accuracy, % | seeds |")
    print("|-|-|-|-|-|")
    for (initialisation, method, settings), values in rows.items():
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        mean = statistics.fmean(values)
        cells = (initialisation, method, settings, f"{mean:.1f} ± {spread:.1f}", str(len(values)))
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--table", action="store_true", help="print what there is and stop")
    arguments = parser.parse_args()
    records = load()
    done = {key(record) for record in records}
    torch.set_num_threads(1)
    for run in wanted(0 if arguments.table else arguments.seeds):
        if key(run) not in done:
            records.append(train(**run))
            save(records)
    table(records)


if __name__ == "__main__":
    main()
