"""How many weights are at their bound, on a circle and in a box, when the task changes.

A linear regression with 200 weights gets a new teacher in every task. Half of the teacher's weights
are beyond the bound, and for inputs without correlation the best bounded student is the clipped
teacher. ``python scripts/share_at_bound.py`` prints, after the first and the last task, the share
of weights at their bound and the error of the student over that of the best one, as the mean and
the standard deviation of some seeds.
"""

from __future__ import annotations

import argparse
import statistics

import torch
from torch import Tensor, nn

import colangevin as cl

WEIGHTS, BATCH, RADIUS = 200, 64, 1.0
SPREAD = RADIUS / 0.6745  # so that half of a Gaussian teacher is beyond the bound


def geometries() -> dict[str, cl.Constraint]:
    """Those that are compared, by name."""
    return {"Circle(1)": cl.Circle(RADIUS), "Box(-1, 1)": cl.Box(-RADIUS, RADIUS)}


def student_of(constraint: cl.Constraint, tasks: int, steps: int, seed: int) -> list[Tensor]:
    """For each task the share at the bound, and the excess error of the student."""
    generator = torch.Generator().manual_seed(seed)
    weight = nn.Parameter(torch.zeros(WEIGHTS))
    optimizer = cl.CoLA([weight], lr=0.01, momentum=0.9, constraint=constraint)
    found = []
    for _ in range(tasks):
        teacher = SPREAD * torch.randn(WEIGHTS, generator=generator)
        for _ in range(steps):
            inputs = torch.randn(BATCH, WEIGHTS, generator=generator)
            optimizer.zero_grad()
            (inputs @ (weight - teacher)).square().mean().div(2).backward()
            optimizer.step()
        error = (weight.detach() - teacher).square().sum()
        least = (teacher.clamp(-RADIUS, RADIUS) - teacher).square().sum()
        found.append(torch.stack([torch.tensor(optimizer.violation()[0].at_bound), error / least]))
    return found


def main() -> None:
    """Run all and print a line for each geometry and task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{given.tasks} tasks of {given.steps} steps, {given.seeds} seeds: mean ± deviation")
    for name, constraint in geometries().items():
        runs = [
            student_of(constraint, given.tasks, given.steps, seed) for seed in range(given.seeds)
        ]
        for place, words in ((0, "first"), (-1, "last")):
            share, error = ([float(run[place][column]) for run in runs] for column in (0, 1))
            print(f"{name:10}  {words:5} task: at bound {mean(share)}, error {mean(error)}")


def mean(numbers: list[float]) -> str:
    """Mean and standard deviation, as words."""
    return f"{statistics.mean(numbers):.3f} ± {statistics.stdev(numbers):.3f}"


if __name__ == "__main__":
    main()
