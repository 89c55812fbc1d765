"""Slow biases on the four-turn spiral: the thesis's figures 5.9, 5.10 and 5.11.

One hidden layer of 100 nodes, 1,000 training and 1,000 test points, batches of 5 %; the fast step
is h/k = 0.2, the slow one h = 1, k = 5. The figures' captions leave open whether SGD has momentum,
so both are run. All seeds of a method are trained as one batched network: each has its own data,
initial weights and batches, which are the same for every method. Finished methods are kept in the
results, so the script can be stopped and started again:

    python benchmarks/slow_biases.py --seeds 10 --steps 20000
    python benchmarks/slow_biases.py --seeds 10 --steps 50000 --momenta 0
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import colangevin as cl
from colangevin.lab.data import FOUR_TURNS

RESULTS = Path(__file__).parent / "results"
NODES, POINTS, BATCH = 100, 1_000, 50
PERIOD, FAST, SLOW = 5, 0.2, 1.0


class Layers(nn.Module):
    """One linear layer a seed, with torch's initialisation."""

    def __init__(self, inputs: int, outputs: int, seeds: int) -> None:
        super().__init__()
        layers = []
        for seed in range(seeds):
            torch.manual_seed(1_000 * inputs + seed)
            layers.append(nn.Linear(inputs, outputs))
        self.weight = nn.Parameter(torch.stack([layer.weight.detach().T for layer in layers]))
        self.bias = nn.Parameter(torch.stack([layer.bias.detach()[None] for layer in layers]))

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, inputs, self.weight)


def networks(seeds: int) -> nn.Sequential:
    return nn.Sequential(Layers(2, NODES, seeds), nn.ReLU(), Layers(NODES, 1, seeds))


# --- the methods of the figures ---------------------------------------------------------------

Maker = Callable[[nn.Module, float], torch.optim.Optimizer]


def sgd(model: nn.Module, momentum: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=FAST, momentum=momentum)


def large_bias_steps(model: nn.Module, momentum: float) -> torch.optim.Optimizer:
    rates = cl.biases_slow(model)
    groups = [{"params": rates.fast}, {"params": rates.slow, "lr": SLOW}]
    return torch.optim.SGD(groups, lr=FAST, momentum=momentum)


def frozen_biases(model: nn.Module, momentum: float) -> torch.optim.Optimizer:
    fast, slow = (torch.optim.SGD(p, FAST, momentum) for p in cl.biases_slow(model))
    return cl.Multirate(fast, slow, PERIOD, drift=False)


def multirate(choose: Callable[[nn.Module], Any], drift: bool = True) -> Maker:
    def make(model: nn.Module, momentum: float) -> torch.optim.Optimizer:
        return cl.Multirate.sgd(
            *choose(model), lr=SLOW, momentum=momentum, period=PERIOD, drift=drift
        )

    return make


def output_biases_slow(model: nn.Module) -> cl.Rates:
    return cl.fast_by_name(model, "0.*", "2.weight")


METHODS: dict[str, Maker] = {
    "SGD, h = 0.2": sgd,
    "slow biases (algorithm 5.1)": multirate(cl.biases_slow),
    "slow biases without drift (5.2)": multirate(cl.biases_slow, drift=False),
    "biases with h = 1 at every step": large_bias_steps,
    "biases with h = 0.2 at every 5th step": frozen_biases,
    "slow input biases": multirate(cl.input_biases_slow),
    "slow output biases": multirate(output_biases_slow),
}


# --- training ---------------------------------------------------------------------------------


def sample(seeds: int, offset: int) -> tuple[Tensor, Tensor]:
    generators = [torch.Generator().manual_seed(offset + seed) for seed in range(seeds)]
    pairs = [FOUR_TURNS.sample(POINTS, generator=generator) for generator in generators]
    inputs = torch.stack([x for x, _ in pairs])
    return inputs, torch.stack([y.float()[:, None] for _, y in pairs])


def accuracies(model: nn.Module, inputs: Tensor, labels: Tensor) -> list[float]:
    with torch.no_grad():
        right = (model(inputs) > 0) == (labels > 0.5)
    return [round(float(share), 4) for share in right.float().mean(dim=(1, 2))]


def train(make: Maker, momentum: float, seeds: int, steps: int) -> dict[str, Any]:
    inputs, labels = sample(seeds, 0)
    test = sample(seeds, 10_000)
    model = networks(seeds)
    optimizer = make(model, momentum)
    batches = torch.Generator().manual_seed(20_000)
    rows = torch.arange(seeds)[:, None]
    curve: dict[str, list[float]] = {}
    begun = time.perf_counter()
    for step in range(1, steps + 1):
        chosen = torch.randint(POINTS, (seeds, BATCH), generator=batches)
        loss = functional.binary_cross_entropy_with_logits(
            model(inputs[rows, chosen]), labels[rows, chosen], reduction="sum"
        )
        optimizer.zero_grad()
        (loss / BATCH).backward()
        optimizer.step()
        if step % max(1, steps // 20) == 0 or step in (steps // 2, steps):
            curve[str(step)] = accuracies(model, *test)
    return {
        "test_accuracy": curve,
        "train_accuracy": accuracies(model, inputs, labels),
        "seconds": round(time.perf_counter() - begun, 1),
    }


# --- the report -------------------------------------------------------------------------------


def statistics_of(values: list[float]) -> tuple[float, float]:
    tensor = torch.tensor(values, dtype=torch.float64)
    return float(tensor.mean()), float(tensor.std())


def table(record: dict[str, Any]) -> str:
    half, last = str(record["steps"] // 2), str(record["steps"])
    lines = [
        f"| momentum | method | test accuracy, step {half} | step {last} | best | worst |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for run in record["runs"]:
        cells = [
            "{:.1f} ± {:.1f} %".format(*(100 * v for v in statistics_of(run["test_accuracy"][s])))
            for s in (half, last)
        ]
        final = run["test_accuracy"][last]
        cells += [f"{100 * max(final):.1f} %", f"{100 * min(final):.1f} %"]
        lines.append(f"| {run['momentum']} | {run['method']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(record: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    momenta = sorted({run["momentum"] for run in record["runs"]})
    figure, grid = pyplot.subplots(
        1, len(momenta), figsize=(1 + 5 * len(momenta), 4), sharey=True, squeeze=False
    )
    axes = list(grid[0])
    for run in record["runs"]:
        axis = axes[momenta.index(run["momentum"])]
        curve = {int(step): statistics_of(values) for step, values in run["test_accuracy"].items()}
        means = [mean for mean, _ in curve.values()]
        (line,) = axis.plot(list(curve), means, label=run["method"])
        low = [mean - deviation for mean, deviation in curve.values()]
        high = [mean + deviation for mean, deviation in curve.values()]
        axis.fill_between(list(curve), low, high, color=line.get_color(), alpha=0.12, linewidth=0)
    for axis, momentum in zip(axes, momenta, strict=True):
        axis.set(title=f"momentum {momentum}", xlabel="step")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("test accuracy")
    axes[-1].legend(fontsize=7)
    figure.suptitle(f"Four-turn spiral, {record['seeds']} seeds: mean and standard deviation")
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--momenta", type=float, nargs="+", default=[0.0, 0.9])
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"slow_biases_{arguments.steps}.json"
    settings = {"seeds": arguments.seeds, "steps": arguments.steps, "torch": torch.__version__}
    record: dict[str, Any] = {**settings, "runs": []}
    if path.exists():
        saved = json.loads(path.read_text())
        for name, value in settings.items():
            if saved[name] != value:
                had = saved[name]
                raise SystemExit(f"{path} has {name} = {had}, not {value}; name another --out")
        record = saved
    done = {(run["method"], run["momentum"]) for run in record["runs"]}
    for momentum in arguments.momenta:
        for name, make in METHODS.items():
            if (name, momentum) in done:
                continue
            result = train(make, momentum, arguments.seeds, arguments.steps)
            record["runs"].append({"method": name, "momentum": momentum, **result})
            path.write_text(json.dumps(record, indent=1) + "\n")
            print(f"{name}, momentum {momentum}: {result['seconds']} s", flush=True)
    print(table(record))
    draw(record, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
