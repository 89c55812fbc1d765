"""Options of steps on Fashion-MNIST: test accuracies of a small network over seeds.

    COLA_DATA=data python benchmarks/fashion.py tangent            # print a table
    COLA_DATA=data python benchmarks/fashion.py rounding --write   # and put it into its page

Every row is the mean of 5 seeds and its standard deviation, at the end of a training whose length
was fixed before. Seeds have their own first weights and orders of the data. One thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.lab.bench.page_words import put
from colangevin.lab.data.idx import fashion_mnist

DOCS = Path(__file__).resolve().parents[1] / "docs"
SEEDS = range(5)
HIDDEN, BATCH, TESTED = 64, 50, 2_000
Data = tuple[Tensor, Tensor, Tensor, Tensor]
loss = nn.functional.cross_entropy


def images(count: int) -> Data:
    """The first training images, and test images, with their labels."""
    found = fashion_mnist()
    pixels = found.train_images[:count], found.test_images[:TESTED]
    flat = [own.float().flatten(1) for own in pixels]
    mean, deviation = flat[0].mean(), flat[0].std()
    train, test = ((own - mean) / deviation for own in flat)
    labels = found.train_labels[:count].long(), found.test_labels[:TESTED].long()
    return train, labels[0], test, labels[1]


class Network(nn.Module):
    """784-64-10 without biases; products are in float32 whatever the weights are."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        layers = nn.Linear(784, HIDDEN, bias=False), nn.Linear(HIDDEN, 10, bias=False)
        self.first, self.second = (nn.Parameter(own.weight.detach().to(dtype)) for own in layers)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits."""
        hidden = torch.relu(nn.functional.linear(inputs, self.first.float()))
        return nn.functional.linear(hidden, self.second.float())


def alone(
    data: Data, make: Callable[[nn.Module, int], Any], epochs: int, dtype: Any = torch.float32
) -> Tensor:
    """Test accuracies in percent of the seeds, one after the other."""
    found = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = Network(dtype)
        optimizer = make(model, seed)
        for _ in range(epochs):
            for rows in torch.randperm(len(data[0])).split(BATCH):
                optimizer.zero_grad()
                loss(model(data[0][rows]), data[1][rows]).backward()
                optimizer.step()
        with torch.no_grad():
            found.append(100.0 * (model(data[2]).argmax(1) == data[3]).double().mean())
    return torch.stack(found)


def together(
    data: Data, rules: Any, epochs: int, dtype: Any = torch.float32, **options: Any
) -> Tensor:
    """Test accuracies in percent of the seeds, as one computation."""
    ensemble = cl.Ensemble(lambda: Network(dtype), list(SEEDS), rules, **options)
    for _ in range(epochs):
        ensemble.epoch(loss, data[0], data[1], batch_size=BATCH)
    right = ensemble.evaluate(lambda y, t: (y.argmax(1) == t).float().mean(), data[2], data[3])
    return 100.0 * right.double()


def shown(found: Tensor) -> str:
    """Mean ± standard deviation."""
    return f"{found.mean():.2f} ± {found.std():.2f}"


# --- tables -----------------------------------------------------------------------------------


def tangent() -> list[str]:
    """Updates as they are, and projected onto the tangent space."""
    data, epochs = images(5_000), 3
    rules: dict[str, dict[str, cl.Constraint]] = {
        "rows of norm 1": {"*": cl.Sphere(1.0, equality=True)},
        "norm of the matrix": {"*": cl.Sphere("initial", equality=True, dim=None)},
        "orthogonal": {"*": cl.Orthogonal()},
    }
    rows = [
        "| Constraint | lr | ambient | tangent | difference of a seed |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, rule in rules.items():
        for lr in (0.01, 0.03, 0.1):
            both = [
                together(data, rule, epochs, lr=lr, direction=cl.Adam(relative=True, tangent=own))
                for own in (False, True)
            ]
            gap = both[1] - both[0]
            error = gap.std() / len(gap) ** 0.5
            words = f"{shown(both[0])} | {shown(both[1])} | {gap.mean():+.2f} ± {error:.2f}"
            rows.append(f"| {name} | {lr} | {words} |")
    return [
        "Fashion-MNIST, 5,000 images, 784-64-10, `cl.Adam(relative=True)`, 3 epochs of batches "
        "of 50, accuracy in % on 2,000 test images, mean ± standard deviation of 5 seeds; last, "
        "the mean difference of a seed ± its standard error "
        "(`python benchmarks/fashion.py tangent`):",
        "",
        *rows,
    ]


def rounding() -> list[str]:
    """bfloat16 weights in three ways, and float32."""
    data, epochs, half = images(5_000), 3, torch.bfloat16

    def plain(lr: float, dtype: Any) -> Tensor:
        return alone(data, lambda m, _: torch.optim.SGD(m.parameters(), lr=lr), epochs, dtype)

    def cola(lr: float, rounding: str, dtype: Any) -> Tensor:
        return alone(
            data,
            lambda m, seed: cl.CoLA(m.parameters(), lr=lr, rounding=rounding, seed=seed),
            epochs,
            dtype,
        )

    rates = (0.001, 0.01)
    columns: dict[str, Callable[[float], Tensor]] = {
        "float32": lambda lr: cola(lr, "nearest", torch.float32),
        'bfloat16, `"nearest"`: a float32 copy': lambda lr: cola(lr, "nearest", half),
        'bfloat16, `"stochastic"`: no copy': lambda lr: cola(lr, "stochastic", half),
        "bfloat16, to the nearest, no copy (`torch.optim.SGD`)": lambda lr: plain(lr, half),
    }
    rows = [
        "| Weights | " + " | ".join(f"lr {lr}" for lr in rates) + " |",
        "| --- | " + " | ".join("---:" for _ in rates) + " |",
    ]
    for name, run in columns.items():
        rows.append(f"| {name} | " + " | ".join(shown(run(lr)) for lr in rates) + " |")
    return [
        "Fashion-MNIST, 5,000 images, 784-64-10, SGD without momentum, 3 epochs of batches of "
        "50, accuracy in % on 2,000 test images, mean ± standard deviation of 5 seeds "
        "(`python benchmarks/fashion.py rounding`):",
        "",
        *rows,
    ]


def radius() -> list[str]:
    """A radius that the training finds, next to radii that are searched, and to none."""
    data, epochs = images(5_000), 4
    step: dict[str, Any] = {"lr": 0.05, "momentum": 0.9}

    def searched(rule: Callable[[float], cl.Constraint], factors: Sequence[float]) -> str:
        found = {factor: together(data, {"*": rule(factor)}, epochs, **step) for factor in factors}
        return ", ".join(f"{factor:g}: {shown(own)}" for factor, own in found.items())

    def learned(rule: cl.Constraint) -> str:
        def make(model: nn.Module, seed: int) -> cl.CoLA:
            return cl.CoLA(cl.parameter_groups(model, {"*": rule}), seed=seed, **step)

        return shown(alone(data, make, epochs))

    rows = ["| Weights | Test accuracy, % |", "| --- | --- |"]
    rows.append(f"| free | {shown(together(data, {}, epochs, **step))} |")
    circles = searched(lambda f: cl.Circle("fan_in", factor=f), (0.5, 1.0, 2.0, 4.0, 8.0))
    rows.append(f'| `Circle("fan_in", factor)` | {circles} |')
    spheres = searched(lambda f: cl.Sphere("initial", dim=None, factor=f), (1.0, 1.5, 2.0, 3.0))
    rows.append(f'| `Sphere("initial", dim=None, factor)` | {spheres} |')
    for interval in (10, 40):
        words = f'("inflection", interval={interval}'
        found = learned(cl.Circle("inflection", interval=interval))
        rows.append(f"| `Circle{words})` | {found} |")
        found = learned(cl.Sphere("inflection", interval=interval, dim=None))
        rows.append(f"| `Sphere{words}, dim=None)` | {found} |")
    return [
        "Fashion-MNIST, 5,000 images, 784-64-10, lr 0.05, momentum 0.9, 4 epochs of batches of "
        "50 (400 steps), accuracy in % on 2,000 test images, mean ± standard deviation of 5 seeds "
        "(`python benchmarks/fashion.py radius`):",
        "",
        *rows,
    ]


TABLES: dict[str, tuple[Callable[[], Sequence[str]], str]] = {
    "tangent": (tangent, "directions.md"),
    "radius": (radius, "constraints.md"),
    "rounding": (rounding, "half-precision.md"),
}


def main() -> int:
    """Measure, print, and maybe keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--write", action="store_true", help="put the table into its page")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    make, page = TABLES[arguments.table]
    found = "\n".join(make()) + "\n"
    print(found)
    if arguments.write:
        put(DOCS / page, arguments.table, found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
