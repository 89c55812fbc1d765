"""Time steps with another lr in every step, as most schedules have it, against SGD's.

    python benchmarks/scheduled.py            # print the table
    python benchmarks/scheduled.py --write    # and keep it in benchmarks/results/scheduled.json

All contestants of a row take turns in one run, on one thread; each keeps the best of its rounds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import colangevin as cl
from colangevin.lab.bench.timing import best_times

STORED = Path(__file__).resolve().parent / "results" / "scheduled.json"
ROUNDS = 15
SMALL, ROWS = [(32, 32)] * 4, [(256, 256)] * 8
LIMITS = {
    ("four weights of 32 × 32", "free, kernel"): {"SGD": 1.1, "SGD, fused": 2.0},
    ("four weights of 32 × 32", "circle, kernel"): {"SGD": 1.1, "SGD, fused": 2.0},
    ("four weights of 32 × 32", "circle, eager"): {"SGD": 3.5},
    ("four weights of 32 × 32", "orthogonal, kernel"): {"SGD": 2.5},
    ("eight weights of 256 × 256", "sphere, kernel"): {"circle, kernel": 2.0},
    ("784-1000-10, whole training step", "circle, kernel"): {"SGD, fused": 1.05},
    ("794,000 weights", "circle, kernel"): {"SGD, fused": 1.5},
    ("794,000 weights", "circle, eager"): {"SGD, fused": 10.0},
    ("10 million weights", "circle, kernel"): {"SGD, fused": 1.4},
    ("10 million weights", "circle, eager"): {"SGD, fused": 7.0},
}
"""What a row should be at most, as a multiple of another."""


def weights_of(shapes: list[tuple[int, ...]], seed: int = 0) -> list[nn.Parameter]:
    """Weights with gradients."""
    draw = torch.Generator().manual_seed(seed)
    found = [nn.Parameter(0.02 * torch.randn(shape, generator=draw)) for shape in shapes]
    for weight in found:
        weight.grad = 1e-3 * torch.randn(weight.shape, generator=draw)
    return found


def optimizers() -> dict[str, Callable[[Any], torch.optim.Optimizer]]:
    """All with lr 0.1 and momentum 0.9."""
    settings: dict[str, Any] = {"lr": 0.1, "momentum": 0.9}

    def cola(constraint: cl.Constraint | None, fused: bool) -> Callable[[Any], Any]:
        return lambda params: cl.CoLA(params, constraint=constraint, fused=fused, **settings)

    return {
        "SGD": lambda params: torch.optim.SGD(params, foreach=True, **settings),
        "SGD, fused": lambda params: torch.optim.SGD(params, fused=True, **settings),
        "free, kernel": cola(None, True),
        "circle, kernel": cola(cl.Circle(1.0), True),
        "circle, eager": cola(cl.Circle(1.0), False),
        "sphere, kernel": cola(cl.Sphere(1.0, equality=True), True),
        "orthogonal, kernel": cola(cl.Orthogonal(), True),
    }


def scheduled(optimizer: torch.optim.Optimizer, work: Callable[[], object]) -> Callable[[], None]:
    """A step after another lr was written, as a scheduler does it."""
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        work()
        for group in optimizer.param_groups:
            group["lr"] = 0.1 / (1.0 + 1e-4 * count)
        optimizer.step()

    return step


def measure() -> dict[str, dict[str, float]]:
    """Microseconds per step, by work and optimizer."""
    torch.set_num_threads(1)
    makers, found = optimizers(), {}
    large = ["SGD, fused", "free, kernel", "circle, kernel", "circle, eager"]
    for title, shapes, names, repeat in (
        ("four weights of 32 × 32", SMALL, list(makers), 200),
        ("eight weights of 256 × 256", ROWS, ["circle, kernel", "sphere, kernel"], 50),
        ("794,000 weights", [(794_000,)], large, 20),
        ("10 million weights", [(10_000_000,)], large, 2),
    ):
        made = {name: makers[name](weights_of(shapes)) for name in names}
        own = {n: scheduled(o, lambda: None) for n, o in made.items()}
        found[title] = best_times(own, ROUNDS, repeat, first=3)
    steps = {name: _training(makers[name]) for name in ("SGD, fused", "circle, kernel")}
    found["784-1000-10, whole training step"] = best_times(steps, ROUNDS, 20, first=3)
    return {title: {n: 1e6 * t for n, t in row.items()} for title, row in found.items()}


def ratios_of(found: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    """Each step that has a limit next to the one that it is compared with."""
    return [
        {"work": title, "step": name, "of": other, "limit": limit, "ratio": row[name] / row[other]}
        for title, row in found.items()
        for name in row
        for other, limit in LIMITS.get((title, name), {}).items()
    ]


def _training(make: Callable[[Any], torch.optim.Optimizer]) -> Callable[[], None]:
    """Forward, backward and step of a network, on batches of 128."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 10))
    inputs, labels = torch.randn(128, 784), torch.randint(0, 10, (128,))
    optimizer = make(model.parameters())

    def gradients() -> Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), labels)
        loss.backward()
        return loss

    return scheduled(optimizer, gradients)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the results")
    write = parser.parse_args().write
    found = measure()
    ratios = ratios_of(found)
    for title, row in found.items():
        print(title)
        for name, time_of in row.items():
            own = [one for one in ratios if one["work"] == title and one["step"] == name]
            words = [f"{one['ratio']:.2f} of {one['of']} (at most {one['limit']:g})" for one in own]
            print(f"  {name:20} {time_of:10.1f} µs  {', '.join(words)}")
    if write:
        record = {"rounds": ROUNDS, "threads": 1, "torch": torch.__version__}
        record |= {"microseconds": found, "ratios": ratios}
        STORED.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
