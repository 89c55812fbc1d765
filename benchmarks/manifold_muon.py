"""Manifold Muon on CIFAR-10: the direction "polar" under ``Orthogonal`` beside the published rule.

    python benchmarks/manifold_muon.py            # print the table
    python benchmarks/manifold_muon.py --write    # and put it into docs/directions.md

The task is that of "Modular Manifolds" (Thinking Machines, 2025): an MLP 3072-128-64-10 without
biases, all weights orthogonal, batches of 1,024, 5 epochs, the learning rate from 0.1 down to 0 in
a line. Both rules start from the same weights, without momentum, and see the same batches.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.lab.bench.page_words import put
from colangevin.lab.data import cifar10
from colangevin.optimizers.directions.polar import tangent_polar

PAGE = Path(__file__).resolve().parents[1] / "docs" / "directions.md"
EPOCHS, BATCH, RATE, SEEDS = 5, 1024, 0.1, 3
MEANS = (0.49139968, 0.48215827, 0.44653124)
DEVIATIONS = (0.24703233, 0.24348505, 0.26158768)
EXPRESS = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
    (1.8750014808534479, -1.2500016453999487, 0.3750001645474248),
    (1.875, -1.25, 0.375),
)
"""The polynomials of Polar Express (arXiv 2505.16932), of which the last one is repeated."""


class Scores(NamedTuple):
    """What one training has come to."""

    test: float
    train: float
    milliseconds: float
    tangency: float
    residual: float


def polar_express(matrix: Tensor, steps: int = 10) -> Tensor:
    """The polar factor by Polar Express, in float32 (published: in bfloat16)."""
    if matrix.shape[0] > matrix.shape[1]:
        return polar_express(matrix.mT, steps).mT
    found = matrix / (1.01 * matrix.norm())
    for step in range(steps):
        first, second, third = EXPRESS[min(step, len(EXPRESS) - 1)]
        if step < len(EXPRESS) - 1:  # the published factor of safety
            first, second, third = first / 1.01, second / 1.01**3, third / 1.01**5
        gram = found @ found.mT
        found = first * found + (second * gram + third * gram @ gram) @ found
    return found.nan_to_num()


def dual_ascent(weight: Tensor, slope: Tensor, rounds: int = 100, rate: float = 0.01) -> Tensor:
    """A of the published rule, for a weight with at least as many rows as columns."""
    dual = -0.25 * (weight.mT @ slope + slope.mT @ weight)
    found = slope
    for k in range(rounds):
        found = polar_express(slope + 2.0 * weight @ dual)
        off = weight.mT @ found + found.mT @ weight
        if off.norm() / math.sqrt(off.numel()) < 1e-6:
            break
        dual = dual - rate * (1.0 - k / rounds) * off
    return found


class Published(torch.optim.Optimizer):
    """W ← msign(W − lr·A), with A by dual ascent; it keeps the A of each weight for the reader."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})
        self.updates: list[Tensor] = []

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Make a step."""
        self.updates = []
        for group in self.param_groups:
            for weight in group["params"]:
                wide = weight.shape[0] < weight.shape[1]
                place, slope = (t.mT if wide else t for t in (weight, weight.grad))
                update = dual_ascent(place, slope)
                moved = polar_express(place - group["lr"] * update)
                weight.copy_(moved.mT if wide else moved)
                self.updates.append(update)


def tall(matrix: Tensor) -> Tensor:
    """A matrix with at least as many rows as columns."""
    return matrix.mT if matrix.shape[0] < matrix.shape[1] else matrix


def worst_tangency(places: list[Tensor], updates: list[Tensor]) -> float:
    """The largest entry of WᵀA + AᵀW."""
    pairs = zip(places, updates, strict=True)
    return max(float((w.mT @ a + a.mT @ w).abs().max()) for w, a in pairs)


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """In per cent."""
    with torch.no_grad():
        return 100.0 * float((model(images).argmax(dim=1) == labels).double().mean())


def train(data: tuple[Tensor, ...], seed: int, ours: bool, epochs: int) -> Scores:
    """One training with one of the two rules."""
    images, labels, test_images, test_labels = data
    torch.manual_seed(seed)
    shapes = [nn.Linear(3072, 128, bias=False), nn.ReLU(), nn.Linear(128, 64, bias=False)]
    model = nn.Sequential(*shapes, nn.ReLU(), nn.Linear(64, 10, bias=False))
    cl.constrain_(model, {"*": cl.Orthogonal()})
    rule = cl.Polar(momentum=0.0, nesterov=False)
    optimizer: Any = Published(model.parameters(), lr=RATE)
    if ours:
        optimizer = cl.CoLA(model.parameters(), lr=RATE, constraint=cl.Orthogonal(), direction=rule)
    steps = epochs * math.ceil(len(images) / BATCH)
    step, seconds, tangency = 0, [], 0.0
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(BATCH):
            optimizer.param_groups[0]["lr"] = RATE * (1.0 - step / steps)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            places = [tall(w.detach()).clone() for w in model.parameters()]
            begin = time.perf_counter()
            optimizer.step()
            seconds.append(time.perf_counter() - begin)
            if ours:  # what the step went along, once more
                slopes = [tall(w.grad) for w in model.parameters() if w.grad is not None]
                pairs = zip(places, slopes, strict=True)
                updates = [tangent_polar(w[None], g[None])[0] for w, g in pairs]
            else:
                updates = optimizer.updates
            tangency = max(tangency, worst_tangency(places, updates))
            step += 1
    finals = [tall(w.detach()).double() for w in model.parameters()]
    residual = max(float((w.mT @ w - torch.eye(w.shape[1])).abs().max()) for w in finals)
    scores = accuracy(model, test_images, test_labels), accuracy(model, images, labels)
    return Scores(*scores, 1e3 * statistics.median(seconds), tangency, residual)


def load(batches: int) -> tuple[Tensor, ...]:
    """Images as rows of normalised pixels, with labels."""
    found = cifar10(batches=range(1, batches + 1))
    mean, deviation = (torch.tensor(own).view(1, 3, 1, 1) for own in (MEANS, DEVIATIONS))

    def rows(images: Tensor) -> Tensor:
        return ((images / 255.0 - mean) / deviation).flatten(1)

    return rows(found.train_images), found.train_labels, rows(found.test_images), found.test_labels


def spread(values: list[float], digits: int) -> str:
    """Mean ± standard deviation."""
    return f"{statistics.mean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f}"


def row_of(name: str, own: list[Scores], to: float) -> str:
    """A row of the table."""
    tests, trains, times, tangencies, residuals = (list(c) for c in zip(*own, strict=True))
    cells = [
        name,
        f"{spread(tests, 2)} %",
        f"{spread(trains, 2)} %",
        f"{statistics.mean(times):.1f} ms",
        f"{statistics.mean(times) / to:.3f}",
        f"{max(tangencies):.0e}",
        f"{max(residuals):.0e}",
    ]
    return "| " + " | ".join(cells) + " |"


def table(batches: int, epochs: int, seeds: int) -> str:
    """Both rules, seed by seed in turns."""
    torch.set_num_threads(1)
    data = load(batches)
    found: dict[bool, list[Scores]] = {False: [], True: []}
    for seed in range(seeds):
        for ours in (False, True):
            scores = train(data, seed, ours, epochs)
            found[ours].append(scores)
            print(seed, "here" if ours else "published", scores, flush=True)
    pairs = zip(found[True], found[False], strict=True)
    gaps = [here.test - there.test for here, there in pairs]
    error = statistics.stdev(gaps) / math.sqrt(seeds)
    to = statistics.mean(own.milliseconds for own in found[False])
    heads = "Rule | test accuracy | training accuracy | optimizer, per step | of the first"
    return "\n".join(
        [
            f"{len(data[0]):,} training images, {epochs} epochs, seeds 0 to {seeds - 1} (mean ± "
            "standard deviation), float32, one thread, the median step, the worst tangency "
            "|WᵀA + AᵀW| of all steps, the worst |WᵀW − I| at the end (`python "
            "benchmarks/manifold_muon.py`):",
            "",
            f"| {heads} | tangency | \\|WᵀW − I\\| |",
            "| --- | --- | --- | ---: | ---: | ---: | ---: |",
            row_of("dual ascent, at most 100 rounds", found[False], to),
            row_of("`direction=cl.Polar(momentum=0.0, nesterov=False)`", found[True], to),
            "",
            f"Here minus there, seed by seed: {statistics.mean(gaps):+.2f} ± {error:.2f} points of "
            "test accuracy (standard error).",
        ]
    )


def main() -> int:
    """Measure, print, and maybe keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--batches", type=int, default=2, help="of CIFAR-10's five, from the first")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    arguments = parser.parse_args()
    found = table(arguments.batches, arguments.epochs, arguments.seeds) + "\n"
    print(found)
    if arguments.write:
        put(PAGE, "manifold muon", found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
