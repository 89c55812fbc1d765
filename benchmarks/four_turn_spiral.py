"""Partitioned Langevin methods beside SGD, SGLD and Adam on the four-turn spiral.

The settings of the thesis's figure 3.10: one hidden layer of 100 nodes, 1,000 training points,
1,000 test points, batches of 2 %, 20,000 steps; the methods are those of ``METHODS``, each with
its grid. For a given seed all methods see the same data, initial weights and batches.

The networks of several seeds are trained as one batch, which changes nothing for methods that
treat each weight by itself; AdLaLa, whose friction belongs to one network, trains them one by
one. What is finished is written to the results at once, so that the script can be stopped and
started again:

    python benchmarks/four_turn_spiral.py --seeds 10
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
from colangevin.lab.data.spirals import FOUR_TURNS
from colangevin.lab.models import mlp

RESULTS = Path(__file__).parent / "results" / "four_turn_spiral.json"
STEPS, POINTS, BATCH, NODES = 20_000, 1_000, 20, 100
CHECKPOINTS = (1_000, 5_000, 10_000, 15_000, 20_000)
Settings = dict[str, float]
Maker = Callable[[nn.Module, Settings], torch.optim.Optimizer]


class Networks(nn.Module):
    """Perceptrons with one hidden layer, trained side by side without knowing of each other."""

    def __init__(self, members: list[nn.Sequential]) -> None:
        super().__init__()
        self.hidden = nn.ParameterDict(_stacked(members, 0))
        self.output = nn.ParameterDict(_stacked(members, 2))

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of shape [networks, points] for inputs of shape [networks, points, 2]."""
        hidden = torch.baddbmm(self.hidden["bias"], inputs, self.hidden["weight"].mT).relu()
        return torch.baddbmm(self.output["bias"], hidden, self.output["weight"].mT).squeeze(2)


def _stacked(members: list[nn.Sequential], layer: int) -> dict[str, nn.Parameter]:
    weights = torch.stack([member[layer].weight.detach() for member in members])
    biases = torch.stack([member[layer].bias.detach() for member in members])
    return {"weight": nn.Parameter(weights), "bias": nn.Parameter(biases.unsqueeze(1))}


def parts(model: nn.Module) -> list[dict[str, Any]]:
    return cl.partition(model, hidden="hidden.*", output="output.*")


def adlala(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    return cl.AdLaLa(
        parts(model),
        s["h"],
        coupling=s["coupling"],
        driving_noise=s["noise"],
        temperature=s["temperature"],
        friction=s["friction"],
    )


def lol(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    return cl.LOL(parts(model), s["h"], s["friction"], s["temperature"])


def sgd(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=s["h"], momentum=s.get("momentum", 0.0))


def sgld(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    return cl.SGLD(model.parameters(), s["h"], noise=s["noise"])


def adam(model: nn.Module, s: Settings) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=s["h"])


ADLALA = {"h": 0.25, "temperature": 1e-4, "friction": 0.1, "noise": 0.01, "coupling": 0.05}
MOMENTA = [(0.0625, 0.975), (0.01, 0.9), (0.05, 0.9), (0.1, 0.9)]
"""The first is AdLaLa's h² and e^(−γh): its step without noise and without adaptation."""
SGLDS = [(0.1, 0.005), (0.1, 0.01), (0.1, 0.05), (0.1, 0.1), (0.5, 0.01), (1.0, 0.01)]
METHODS: dict[str, tuple[Maker, list[Settings]]] = {
    "AdLaLa": (adlala, [ADLALA]),
    "LOL": (lol, [{"h": h, "friction": 0.01, "temperature": 1e-3} for h in (0.1, 0.25)]),
    "SGD": (sgd, [{"h": h} for h in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)]),
    "SGD with momentum": (sgd, [{"h": h, "momentum": momentum} for h, momentum in MOMENTA]),
    "SGLD": (sgld, [{"h": h, "noise": noise} for h, noise in SGLDS]),
    "Adam": (adam, [{"h": h} for h in (0.001, 0.005, 0.01, 0.05)]),
}
THESIS: dict[str, Settings] = {
    "AdLaLa": ADLALA,
    "LOL": {"h": 0.25, "friction": 0.01, "temperature": 1e-3},
    "SGD": {"h": 0.2},
    "SGLD": {"h": 0.1, "noise": 0.01},
    "Adam": {"h": 0.005},
}
"""The thesis's settings of its other spirals, which run with its Gaussian weights as well."""
GRIDS = {
    "pytorch": {method: grid for method, (_, grid) in METHODS.items()},
    "gaussian 0.01": {method: [settings] for method, settings in THESIS.items()},
}


def initial(initialisation: str, seed: int) -> nn.Sequential:
    """A network with torch's uniform weights, or all of them Gaussian of deviation 0.01."""
    torch.manual_seed(seed)
    model = mlp(2, [NODES], 1)
    if initialisation == "gaussian 0.01":
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.01)
    return model


def evaluate(model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[list[float], list[float]]:
    """Accuracies and losses of the networks."""
    with torch.no_grad():
        logits = model(inputs)
    accuracy = ((logits > 0) == (labels > 0.5)).double().mean(dim=1)
    losses = cross_entropy(logits, labels, reduction="none").mean(dim=1)
    return accuracy.tolist(), losses.tolist()


def sample(generators: list[torch.Generator]) -> tuple[Tensor, Tensor]:
    drawn = [FOUR_TURNS.sample(POINTS, generator=generator) for generator in generators]
    return torch.stack([x for x, _ in drawn]), torch.stack([y for _, y in drawn]).float()


def train(
    method: str, settings: Settings, initialisation: str, seeds: list[int]
) -> list[dict[str, Any]]:
    """Train one network a seed, side by side."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    (inputs, labels), (test_inputs, test_labels) = sample(generators), sample(generators)
    model = Networks([initial(initialisation, seed) for seed in seeds])
    optimizer = METHODS[method][0](model, settings)
    rows = torch.arange(len(seeds)).unsqueeze(1)
    history: list[list[dict[str, float]]] = [[] for _ in seeds]
    begun = time.process_time()
    for step in range(1, STEPS + 1):
        batch = torch.stack([torch.randperm(POINTS, generator=g)[:BATCH] for g in generators])
        optimizer.zero_grad()
        logits = model(inputs[rows, batch])
        # A mean over each network's batch, and a sum over networks.
        (cross_entropy(logits, labels[rows, batch]) * len(seeds)).backward()
        optimizer.step()
        if step in CHECKPOINTS:
            results = evaluate(model, test_inputs, test_labels)
            for own, accuracy, loss in zip(history, *results, strict=True):
                own.append({"step": step, "test_accuracy": accuracy, "test_loss": round(loss, 5)})
    seconds = round((time.process_time() - begun) / len(seeds), 1)
    ends = zip(seeds, history, *evaluate(model, inputs, labels), strict=True)
    return [
        {
            "method": method,
            "settings": settings,
            "initialisation": initialisation,
            "seed": seed,
            "history": own,
            "train_accuracy": accuracy,
            "train_loss": round(loss, 5),
            "processor_seconds": seconds,
        }
        for seed, own, accuracy, loss in ends
    ]


def key(record: dict[str, Any]) -> str:
    return json.dumps([record[name] for name in ("method", "settings", "initialisation", "seed")])


def wanted(seeds: int) -> Iterator[dict[str, Any]]:
    for initialisation, methods in GRIDS.items():
        for method, grid in methods.items():
            alone = method == "AdLaLa"
            batches = [[seed] for seed in range(seeds)] if alone else [list(range(seeds))]
            for settings in grid:
                for batch in batches:
                    yield {
                        "method": method,
                        "settings": settings,
                        "initialisation": initialisation,
                        "seeds": batch,
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
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--table", action="store_true", help="print what there is and stop")
    arguments = parser.parse_args()
    records = load()
    done = {key(record) for record in records}
    torch.set_num_threads(1)
    for run in [] if arguments.table else wanted(arguments.seeds):
        left = [seed for seed in run["seeds"] if key({**run, "seed": seed}) not in done]
        if left:
            records += train(**{**run, "seeds": left})
            save(records)
    table(records)


if __name__ == "__main__":
    main()
