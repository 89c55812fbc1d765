"""The formulas as they are printed, from a file of the user's checkout, as contestants.

The installed package does not contain them: they are the oracle of the test suite.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from colangevin.lab.bench.contestant import Contestant, Setting, Unavailable, Weight

NEEDED = ("run_word", "circle_pieces", "circle_slack", "orthogonal_pieces", "to_tall")
ITERATIONS = 10


def load(path: Path) -> ModuleType:
    """Import the file of the literal formulas.

    Raises:
        ValueError: if it cannot be imported or is another file.
    """
    if not path.is_file():
        raise ValueError(f"reference: there is no file {path}")
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)  # the file imports its neighbour
    try:
        spec = importlib.util.spec_from_file_location("colangevin_bench_reference", path)
        if spec is None or spec.loader is None:
            raise ImportError("it is no Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"reference: cannot import {path}: {error}") from error
    finally:
        sys.path.remove(folder)
    missing = [name for name in NEEDED if not hasattr(module, name)]
    if missing:
        raise ValueError(f"reference: {path} has no {', '.join(missing)}")
    return module


def printed(setting: Setting) -> Contestant:
    """OBA at temperature 0 by the printed formulas, one weight after the other."""
    reference: Any = setting.reference
    if reference is None:
        raise Unavailable("not run: --reference names the file of the formulas")
    step_size = math.sqrt(setting.lr)
    friction = -math.log(setting.momentum) / step_size
    systems = [
        _system(reference, weight, initial)
        for weight, initial in zip(setting.weights, setting.initial, strict=True)
    ]
    states = [state for _, state in systems]
    gradients = [torch.zeros_like(initial) for initial in setting.initial]

    @torch.no_grad()
    def step() -> None:
        for index, (pieces, _) in enumerate(systems):
            gradient = gradients[index]
            if setting.weights[index].kind == "orthogonal":
                gradient = reference.to_tall(gradient.flatten(1))
            states[index] = reference.run_word(
                "OBA", pieces, states[index], lambda _, g=gradient: g, step_size, friction
            )

    def violation() -> float:
        return max(
            _violation(pieces, weight, state)
            for (pieces, _), weight, state in zip(systems, setting.weights, states, strict=True)
        )

    return Contestant(
        step=step,
        gradients=gradients,
        parameters=setting.parameters,
        state_bytes=lambda: sum(4 * t.numel() for state in states for t in state[1:]),
        values=lambda: [
            _value(weight, state) for weight, state in zip(setting.weights, states, strict=True)
        ],
        violation=violation,
        constrained=True,
    )


def _system(reference: Any, weight: Weight, initial: Tensor) -> tuple[Any, tuple[Tensor, ...]]:
    """The pieces of a weight, and its state at rest."""
    if weight.kind == "orthogonal":
        position = reference.to_tall(initial.flatten(1)).clone()
        pieces = reference.orthogonal_pieces(ITERATIONS)
        return pieces, (position, torch.zeros_like(position))
    if weight.kind == "circle":
        parts = [initial.clone(), reference.circle_slack(initial, weight.radius)]
        pieces = reference.circle_pieces(weight.radius)
    else:
        parts = [initial.clone()]
        pieces = reference.unconstrained_pieces()
    return pieces, (*parts, *(torch.zeros_like(part) for part in parts))


def _value(weight: Weight, state: tuple[Tensor, ...]) -> Tensor:
    """The weight in its own shape; a wide one is kept as its transpose."""
    wide = weight.kind == "orthogonal" and weight.shape[0] < weight.matrix[0]
    return (state[0].mT if wide else state[0]).reshape(weight.shape)


def _violation(pieces: Any, weight: Weight, state: tuple[Tensor, ...]) -> float:
    """Largest residual in double precision, relative to the square of a radius."""
    residual = pieces.residual(tuple(tensor.double() for tensor in state))
    unit = weight.radius**2 if weight.kind == "circle" else 1.0
    return float(residual.abs().max()) / unit if residual.numel() else 0.0
