"""Settings that tell the stories of the sources, each with what to look for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preset:
    """A training to start from.

    Attributes:
        title: its name on the page.
        story: what to look for, in a few sentences.
        spec: the settings, as in a request.
        steps: how many steps it takes until the effect is clear.
    """

    title: str
    story: str
    spec: dict[str, Any]
    steps: int


FOUR_TURNS = {"kind": "spiral", "turns": 4, "scale": 2, "noise": 0.02, "train": 1000, "test": 1000}
PRESETS: dict[str, Preset] = {
    "circles": Preset(
        "Overfitting and circles",
        "Both networks have 500 nodes and only 100 training points. SGD (A) goes on to fit every "
        "point, and its test loss rises. B has the same step, but each weight moves on a circle: "
        "no input weight can exceed 1 and no output weight 5, and a little noise (τ = 5e-5) keeps "
        "it moving. Its boundary stays smooth and its test loss low.",
        {
            "data": {"kind": "spiral", "turns": 2, "noise": 0.05, "train": 100, "test": 1000},
            "network": {"depth": 1, "width": 500},
            "training": {"batch": 2},
            "a": {"method": "sgd", "h": 0.2},
            "b": {
                "method": "cola",
                "h": 0.2,
                "tau": 5e-5,
                "input": "circle",
                "output": "circle",
                "output_radius": 5,
            },
        },
        40_000,
    ),
    "depth": Preset(
        "Depth and orthogonality",
        "Six hidden layers without normalisation, on the four-turn spiral. SGD (A) hardly leaves "
        "the start. In B the weights between hidden layers stay orthogonal: all their singular "
        "values are 1, so signals keep their size on the way through. Choose a hidden layer "
        "under 'On the constraint' to compare the singular values.",
        {
            "data": {**FOUR_TURNS, "train": 500},
            "network": {"depth": 6, "width": 100},
            "training": {"batch": 25},
            "a": {"method": "sgd", "h": 0.1},
            "b": {"method": "cola", "h": 0.1, "hidden": "orthogonal"},
        },
        10_000,
    ),
    "temperature": Preset(
        "Temperature",
        "Langevin dynamics on a cosine against a sine. A is almost at zero temperature. Its "
        "kinetic temperature lies above τ, because the noise of the batches heats it. B is warmer "
        "and settles at its τ. After some 20,000 steps B is ahead. Then raise τ of B to 0.01 while "
        "it runs: where the noise is too strong, the boundary dissolves.",
        {
            "data": {
                "kind": "trigonometric",
                "scale": 3,
                "frequency": 2,
                "noise": 0.02,
                "train": 1000,
                "test": 1000,
            },
            "network": {"depth": 1, "width": 500},
            "training": {"batch": 20},
            "a": {"method": "langevin", "scheme": "BAOAB", "h": 0.4, "gamma": 10, "tau": 1e-8},
            "b": {"method": "langevin", "scheme": "BAOAB", "h": 0.4, "gamma": 10, "tau": 1e-5},
        },
        40_000,
    ),
    "adlala": Preset(
        "AdLaLa on four turns",
        "One hidden layer of 100 nodes on the four-turn spiral. SGLD (A) learns it slowly. AdLaLa "
        "(B) has a thermostat with a friction that adapts in the hidden layer, and Langevin "
        "dynamics in the output layer. Watch the friction variable ξ find its value.",
        {
            "data": FOUR_TURNS,
            "network": {"depth": 1, "width": 100},
            "training": {"batch": 20},
            "a": {"method": "sgld", "h": 0.25, "tau": 5e-5},
            "b": {
                "method": "adlala",
                "h": 0.25,
                "gamma": 0.1,
                "tau": 1e-4,
                "tau2": 1e-4,
                "epsilon": 0.05,
            },
        },
        20_000,
    ),
    "biases": Preset(
        "Slow biases",
        "Two time scales. A is SGD with h = 0.2. In B the weights move with the same step, but "
        "the biases get a gradient only in every fifth step, and then a step that is five times "
        "as large.",
        {
            "data": FOUR_TURNS,
            "network": {"depth": 1, "width": 100},
            "training": {"batch": 50},
            "a": {"method": "sgd", "h": 0.2},
            "b": {"method": "multirate", "h": 1.0, "period": 5, "momentum": 0},
        },
        40_000,
    ),
}
