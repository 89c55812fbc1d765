"""Time and memory of steps by direction and geometry, next to torch's AdamW and Muon.

    python benchmarks/directions.py            # print the tables
    python benchmarks/directions.py --write    # and put them into docs/directions.md

The weights are those of a 6-layer transformer of width 256; every step has another lr. All take
turns in one run, on one thread; each keeps the best of its rounds.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.lab.bench.page_words import put
from colangevin.lab.bench.timing import best_times
from colangevin.optimizers.directions.polar import COEFFICIENTS, FLOOR, tangent_polar

PAGE = Path(__file__).resolve().parents[1] / "docs" / "directions.md"
ROUNDS, REPEAT, SLOW = 7, 2, 3
"""Rounds, and calls in each; rounds of what takes long, of one call each."""
WIDTH, LAYERS = 256, 6
DIRECTIONS = ("gradient", "sign", "adam", "polar")
GEOMETRIES: dict[str, cl.Constraint] = {
    "free": cl.Unconstrained(),
    "circle": cl.Circle(1.0),
    "box": cl.Box(-1.0, 1.0),
    "norms of rows at most 1": cl.Sphere(1.0),
    "rows of norm 1": cl.Sphere(1.0, equality=True),
    "norm of the matrix": cl.Sphere("initial", equality=True, dim=None),
    "orthogonal": cl.Orthogonal(),
    "spectral norm at most 1": cl.Spectral(1.0),
    "orthogonal columns of free lengths": cl.DiagonalGram(),
    "simplex": cl.Simplex(),
}
SOLVE = ("orthogonal", "spectral norm at most 1", "orthogonal columns of free lengths", "simplex")
"""Geometries whose steps solve equations or sort."""


def weights() -> list[nn.Parameter]:
    """Matrices with gradients."""
    draw = torch.Generator().manual_seed(0)
    shapes = [*[(WIDTH, WIDTH)] * 4, (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)] * LAYERS
    found = [nn.Parameter(0.02 * torch.randn(shape, generator=draw)) for shape in shapes]
    for weight in found:
        weight.grad = 1e-3 * torch.randn(weight.shape, generator=draw)
    return found


def newton_schulz(matrix: Tensor, steps: int = 5) -> Tensor:
    """The polar factor of a matrix as torch's Muon makes it, in float32."""
    first, second, third = COEFFICIENTS
    found = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    found = found / found.norm().clamp_min(FLOOR)
    for _ in range(steps):
        gram = found @ found.T
        inner = torch.addmm(gram, gram, gram, beta=second, alpha=third)
        found = torch.addmm(found, inner, found, beta=first)
    return found.T if matrix.shape[0] > matrix.shape[1] else found


class Muon32(torch.optim.Optimizer):
    """Muon, one weight after the other as torch's, with products in float32."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Make a step."""
        for group in self.param_groups:
            for weight in group["params"]:
                buffer = self.state[weight].setdefault("buffer", torch.zeros_like(weight))
                buffer.lerp_(weight.grad, 0.05)
                update = newton_schulz(weight.grad.lerp(buffer, 0.95))
                rows, columns = weight.shape
                weight.add_(update, alpha=-group["lr"] * max(1.0, rows / columns) ** 0.5)


def optimizers() -> dict[str, Callable[[Any], torch.optim.Optimizer]]:
    """Peers, and each direction on each geometry."""
    found: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
        "AdamW, fused": lambda own: torch.optim.AdamW(own, lr=0.01, fused=True),
        "AdamW, foreach": lambda own: torch.optim.AdamW(own, lr=0.01, foreach=True),
        "Muon, float32 products": lambda own: Muon32(own, lr=0.01),
    }

    def cola(direction: str, geometry: str) -> Callable[[Any], torch.optim.Optimizer]:
        rule = GEOMETRIES[geometry]
        return lambda own: cl.CoLA(own, lr=0.01, direction=direction, constraint=rule)

    for geometry in GEOMETRIES:
        for direction in DIRECTIONS:
            found[f"{direction}, {geometry}"] = cola(direction, geometry)
    return found


def step_of(optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """A step after another lr was written, as a scheduler does it."""
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        for group in optimizer.param_groups:
            group["lr"] = 0.01 / (1.0 + 1e-4 * count)
        optimizer.step()

    return step


def milliseconds(
    steps: Mapping[str, Callable[[], object]], rounds: int, repeat: int
) -> dict[str, float]:
    """Per call: the best of all rounds."""
    return {name: 1e3 * best for name, best in best_times(steps, rounds, repeat).items()}


def is_slow(name: str) -> bool:
    """Whether a step makes polar factors, solves equations or sorts."""
    return name.startswith(("Muon", "polar")) or name.partition(", ")[2] in SOLVE


def bytes_of(optimizer: torch.optim.Optimizer, numbers: int) -> float:
    """Bytes of state per weight."""
    tensors = [v for entry in optimizer.state.values() for v in entry.values()]
    return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, Tensor)) / numbers


def dual_ascent(weight: Tensor, slope: Tensor, rounds: int = 100) -> Tensor:
    """Manifold Muon as published: Λ by dual ascent, each round with a Newton–Schulz iteration."""
    dual = -0.25 * (weight.T @ slope + slope.T @ weight)
    found = slope
    for k in range(rounds):
        found = newton_schulz(slope + 2.0 * weight @ dual)
        dual = dual - 0.1 * (1.0 - k / rounds) * (weight.T @ found + found.T @ weight)
    return found


def tangents() -> list[str]:
    """Rows about the tangent polar factor."""
    rows = ["| Weight | dual ascent, 100 rounds | here | tangency |", "| --- | ---: | ---: | --- |"]
    for shape in ((3072, 128), (128, 64), (64, 10)):
        torch.manual_seed(0)
        weight = torch.linalg.qr(torch.randn(shape))[0]
        slope = torch.randn(shape)
        slope = slope / slope.norm()
        here, there = tangent_polar(weight[None], slope[None])[0], dual_ascent(weight, slope)
        errors = [float((weight.T @ a + a.T @ weight).abs().max()) for a in (there, here)]
        times = milliseconds(
            {
                "there": lambda w=weight, g=slope: dual_ascent(w, g),  # type: ignore[misc]
                "here": lambda w=weight, g=slope: tangent_polar(w[None], g[None]),  # type: ignore[misc]
            },
            ROUNDS,
            1,
        )
        name = f"{shape[0]} × {shape[1]}"
        ratio = f"{times['here']:.1f} ms, {times['there'] / times['here']:.0f} times faster"
        words = f"{errors[0]:.0e} there, {errors[1]:.0e} here"
        rows.append(f"| {name} | {times['there']:.1f} ms | {ratio} | {words} |")
    return rows


def table() -> str:
    """Both tables."""
    torch.set_num_threads(1)
    made = {name: make(weights()) for name, make in optimizers().items()}
    numbers = sum(weight.numel() for weight in weights())
    steps = {name: step_of(own) for name, own in made.items()}
    fast = {name: step for name, step in steps.items() if not is_slow(name)}
    slow = {name: step for name, step in steps.items() if is_slow(name)}
    times = milliseconds(fast, ROUNDS, REPEAT) | milliseconds(slow, SLOW, 1)
    fused, muon = times["AdamW, fused"], times["Muon, float32 products"]
    rows = [
        f"{numbers / 1e6:.1f} million weights in {len(weights())} matrices of a 6-layer "
        f"transformer of width {WIDTH}, float32, one thread, another lr in every step, "
        f"best of {ROUNDS} rounds, of {SLOW} for slow steps (`python "
        f"benchmarks/directions.py`). Before the run {os.getloadavg()[0]:.1f} other programs "
        f"wanted the {os.cpu_count()} processors:",
        "",
        "| Optimizer | ms per step | of fused AdamW | of Muon | bytes of state per weight |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, value in ((name, times[name]) for name in made):
        ratios = f"{value / fused:.2f} | {value / muon:.2f}"
        rows.append(f"| {name} | {value:.1f} | {ratios} | {bytes_of(made[name], numbers):.0f} |")
    return "\n".join([*rows, "", *tangents()]) + "\n"


def main() -> int:
    """Measure, print, and maybe keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    arguments = parser.parse_args()
    found = table()
    print(found)
    if arguments.write:
        put(PAGE, "costs", found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
