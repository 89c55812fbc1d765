"""Unconstrained and at temperature 0, CoLA is torch.optim.SGD."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

import colangevin as cl
from optimizer_cases import backward, network

STEPS = 200
LR = 0.05

SCHEDULES: dict[str, Callable[[torch.optim.Optimizer], lr_scheduler.LRScheduler] | None] = {
    "constant": None,
    "StepLR": lambda o: lr_scheduler.StepLR(o, step_size=30, gamma=0.5),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=STEPS),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, max_lr=2 * LR, total_steps=STEPS),
}


def largest_difference(
    ours: torch.optim.Optimizer,
    our_model: nn.Module,
    theirs: torch.optim.Optimizer,
    their_model: nn.Module,
    schedule: Callable[[torch.optim.Optimizer], lr_scheduler.LRScheduler] | None,
    before_step: Callable[[nn.Module, int], None] = lambda model, step: None,
    steps: int = STEPS,
) -> float:
    """The largest difference of any weight in any step."""
    schedulers = [] if schedule is None else [schedule(ours), schedule(theirs)]
    worst = 0.0
    for step in range(steps):
        for model, optimizer in ((our_model, ours), (their_model, theirs)):
            backward(model, step)
            before_step(model, step)
            optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
        pairs = zip(our_model.parameters(), their_model.parameters(), strict=True)
        worst = max(worst, *(float((p - q).detach().abs().max()) for p, q in pairs))
    return worst


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_follows_sgd_step_for_step(momentum: float, weight_decay: float, schedule: str) -> None:
    ours, theirs = network(), network()
    difference = largest_difference(
        cl.CoLA(ours.parameters(), lr=LR, momentum=momentum, weight_decay=weight_decay),
        ours,
        torch.optim.SGD(theirs.parameters(), lr=LR, momentum=momentum, weight_decay=weight_decay),
        theirs,
        SCHEDULES[schedule],
    )
    start = network()
    pairs = zip(ours.parameters(), start.parameters(), strict=True)
    moved = max(float((p - q).detach().abs().max()) for p, q in pairs)
    assert moved > 0.1  # there was something to compare
    assert difference <= 1e-12


# Without friction a network is chaotic: rounding grows tenfold every few dozen steps.
@pytest.mark.parametrize(("friction", "steps"), [(0.0, 20), (0.7, STEPS), (3.0, STEPS)])
def test_in_the_units_of_the_paper(friction: float, steps: int) -> None:
    step_size = 0.2
    ours, theirs = network(), network()
    sgd = torch.optim.SGD(
        theirs.parameters(), lr=step_size**2, momentum=math.exp(-friction * step_size)
    )
    optimizer = cl.CoLA(ours.parameters(), step_size=step_size, friction=friction)
    assert largest_difference(optimizer, ours, sgd, theirs, None, steps=steps) <= 1e-12


def test_groups_with_rates_of_their_own() -> None:
    def groups(model: nn.Sequential) -> list[dict[str, object]]:
        return [
            {"params": model[0].parameters(), "lr": 0.02, "momentum": 0.5},
            {"params": model[2].parameters(), "weight_decay": 0.1},
            {"params": model[4].parameters()},
        ]

    ours, theirs = network(), network()
    difference = largest_difference(
        cl.CoLA(groups(ours), lr=LR, momentum=0.9),
        ours,
        torch.optim.SGD(groups(theirs), lr=LR, momentum=0.9),
        theirs,
        SCHEDULES["OneCycleLR"],
    )
    assert difference <= 1e-12


def test_when_gradients_come_and_go() -> None:
    def drop(model: nn.Module, step: int) -> None:
        for index, parameter in enumerate(model.parameters()):
            if (step + index) % 3 == 0 or (index == 1 and step < 20):
                parameter.grad = None

    ours, theirs = network(), network()
    difference = largest_difference(
        cl.CoLA(ours.parameters(), lr=LR, momentum=0.9),
        ours,
        torch.optim.SGD(theirs.parameters(), lr=LR, momentum=0.9),
        theirs,
        None,
        drop,
    )
    assert difference <= 1e-12


def test_other_schemes_are_not_sgd() -> None:
    ours, theirs = network(), network()
    difference = largest_difference(
        cl.CoLA(ours.parameters(), lr=LR, momentum=0.9, scheme="BAOAB"),
        ours,
        torch.optim.SGD(theirs.parameters(), lr=LR, momentum=0.9),
        theirs,
        None,
    )
    assert difference > 1e-4
