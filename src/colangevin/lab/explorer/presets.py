"""Settings that tell the stories of the sources, each with what to look for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preset:
    """A training to start from.

    Attributes:
        title: its name on the page.
        question: what the reader may guess before it plays.
        story: what is compared and what to look at, in a few sentences.
        spec: the settings, as in a request.
        steps: how many steps its recorded run has.
        mean: whether the large picture has the mean prediction of all seeds.
        ahead: for scores that the story names, the run that is ahead at the end of the record in
            each of its seeds; "neither" where the seeds differ. The tests check it.
    """

    title: str
    question: str
    story: str
    spec: dict[str, Any]
    steps: int
    ahead: dict[str, str]
    mean: bool = False


FOUR_TURNS = {"kind": "spiral", "turns": 4, "scale": 2, "noise": 0.02, "train": 1000, "test": 1000}
SEEDS = 3
PRESETS: dict[str, Preset] = {
    "depth": Preset(
        "Depth",
        "Eight hidden layers without normalisation: which network learns the spiral?",
        "A is SGD. B has the same step, but its weights between hidden layers stay orthogonal, so "
        "signals keep their size on the way through.",
        {
            "data": {**FOUR_TURNS, "train": 500},
            "network": {"depth": 8, "width": 50},
            "training": {"batch": 25, "members": SEEDS},
            "a": {"method": "sgd", "h": 0.1},
            "b": {"method": "cola", "h": 0.1, "hidden": "orthogonal"},
        },
        20_000,
        {"test_accuracy": "b", "test_loss": "b"},
    ),
    "circles": Preset(
        "Overfitting",
        "500 nodes and only 100 training points: which boundary will be smoother?",
        "SGD (A) fits every point, and its test loss rises. In B each weight moves on a circle: no "
        "input weight exceeds 1, no output weight 5, and noise (τ = 5e-5) keeps it moving, so "
        "single readings scatter.",
        {
            "data": {"kind": "spiral", "turns": 2, "noise": 0.05, "train": 100, "test": 1000},
            "network": {"depth": 1, "width": 500},
            "training": {"batch": 2, "members": SEEDS},
            "a": {"method": "sgd", "h": 0.1},
            "b": {
                "method": "cola",
                "h": 0.1,
                "tau": 5e-5,
                "input": "circle",
                "output": "circle",
                "output_radius": 5,
            },
        },
        100_000,
        {"test_accuracy": "b", "test_loss": "b"},
    ),
    "adlala": Preset(
        "AdLaLa",
        "One hidden layer of 100 nodes, four turns: does it help if friction adapts?",
        "A is SGLD. AdLaLa (B) has a friction ξ that adapts in the hidden layer, and Langevin "
        "dynamics in the output layer. Watch ξ find its value below.",
        {
            "data": FOUR_TURNS,
            "network": {"depth": 1, "width": 100},
            "training": {"batch": 20, "members": SEEDS},
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
        {"test_accuracy": "neither", "test_loss": "b"},
    ),
    "uncertainty": Preset(
        "Uncertainty",
        "Clouds that overlap, 60 points: where should a network be unsure?",
        "A is SGD. B draws from the posterior: Langevin dynamics at τ = 1/N, with a Gaussian prior "
        "as weight decay. The pictures are the mean prediction of eight networks; white is unsure.",
        {
            "data": {"kind": "blobs", "blobs": 4, "noise": 0.5, "train": 60, "test": 1000},
            "network": {"depth": 1, "width": 50, "activation": "tanh"},
            "training": {"batch": 60, "members": 8},
            "a": {"method": "sgd", "h": 0.5},
            "b": {
                "method": "langevin",
                "scheme": "BAOAB",
                "h": 0.2,
                "gamma": 1,
                "tau": 0.0167,
                "decay": 0.0167,
            },
        },
        10_000,
        {"test_accuracy": "b", "test_loss": "b"},
        mean=True,
    ),
    "temperature": Preset(
        "Temperature",
        "The same Langevin dynamics, cold and warm: which one finds the wave?",
        "A is almost at zero temperature; the noise of the batches heats it above τ. B is warmer "
        "and settles at its τ. Then raise τ of B to 0.01 while it runs: too much noise dissolves "
        "the boundary.",
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
            "training": {"batch": 20, "members": SEEDS},
            "a": {"method": "langevin", "scheme": "BAOAB", "h": 0.4, "gamma": 10, "tau": 1e-8},
            "b": {"method": "langevin", "scheme": "BAOAB", "h": 0.4, "gamma": 10, "tau": 1e-5},
        },
        40_000,
        {"test_accuracy": "b", "test_loss": "b"},
    ),
    "biases": Preset(
        "Slow biases",
        "What happens if the biases step only every fifth time?",
        "A is SGD with h = 0.2. In B the weights have the same step, but the biases step only "
        "every fifth time, five times as far.",
        {
            "data": FOUR_TURNS,
            "network": {"depth": 1, "width": 100},
            "training": {"batch": 50, "members": SEEDS},
            "a": {"method": "sgd", "h": 0.2},
            "b": {"method": "multirate", "h": 1.0, "period": 5, "momentum": 0},
        },
        10_000,
        {"test_accuracy": "b", "test_loss": "b"},
    ),
}
