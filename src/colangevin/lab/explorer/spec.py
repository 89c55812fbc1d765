"""What a user can choose: data, network, training and one or two methods, with their ranges.

A :class:`Spec` describes a training completely. The page, the server, the link and the exported
program all start from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from colangevin.lab.explorer.fields import Choice, Field, Flag, Number, Points, parse_section

DATA: dict[str, Field] = {
    "kind": Choice(
        {
            "spiral": "Spirals",
            "trigonometric": "Cosine and sine",
            "circles": "Circles",
            "blobs": "Blobs",
            "noise": "Noise",
            "drawn": "Drawn by you",
        },
        "spiral",
        "Data",
        "Two classes of points in the plane.",
    ),
    "turns": Number(1, 4, 2, "Turns", hint="How often each arm of the spiral goes round."),
    "scale": Number(0.5, 10, 1, "Size", hint="Radius of the data, or length of the curves."),
    "frequency": Number(0.5, 4, 1, "Frequency", hint="Half-periods per unit of length."),
    "blobs": Number(2, 9, 4, "Blobs", integer=True, hint="Clouds on a ring, classes in turn."),
    "noise": Number(0, 0.5, 0.05, "Noise", hint="Standard deviation of each coordinate."),
    "train": Number(4, 1000, 100, "Training points", integer=True, scale="log"),
    "test": Number(4, 2000, 500, "Test points", integer=True, scale="log"),
    "seed": Number(0, 9999, 0, "Data seed", integer=True),
    "points": Points("Drawn points"),
}
NETWORK: dict[str, Field] = {
    "depth": Number(1, 8, 1, "Hidden layers", integer=True),
    "width": Number(1, 500, 500, "Nodes per layer", integer=True, scale="log"),
    "activation": Choice(
        {"relu": "ReLU", "tanh": "tanh", "sigmoid": "sigmoid", "gelu": "GELU", "sine": "sine"},
        "relu",
        "Activation",
    ),
}
TRAINING: dict[str, Field] = {
    "batch": Number(1, 1000, 10, "Batch", integer=True, scale="log", hint="Points per step."),
    "seed": Number(0, 9999, 0, "First seed", integer=True, hint="Of weights, batches and noise."),
    "members": Number(1, 9, 1, "Seeds at once", integer=True),
}
CONSTRAINTS = {
    "none": "free",
    "circle": "circle: every |w| ≤ r",
    "sphere": "max-norm: rows ≤ r",
    "unit": "unit-norm: rows = r",
    "orthogonal": "orthogonal",
    "norm": "whole matrix ≤ r",
}
LAYERS = {"input": "input weights", "hidden": "hidden weights", "output": "output weights"}
METHODS = {
    "sgd": "SGD",
    "sgdm": "SGD with momentum",
    "sgld": "SGLD",
    "langevin": "Langevin",
    "cola": "CoLA",
    "lol": "LOL",
    "adlala": "AdLaLa",
    "dhsgd": "DHSGD",
    "multirate": "Multirate SGD",
}
RUN: dict[str, Field] = {
    "method": Choice(METHODS, "sgd", "Method"),
    "h": Number(1e-4, 2, 0.05, "Step size h", scale="log"),
    "gamma": Number(1e-3, 1e4, 1, "Friction γ", scale="log"),
    "direction": Choice(
        {
            "gradient": "the gradient",
            "sign": "sign of the mean (Lion)",
            "adam": "Adam",
            "polar": "polar (Muon), biases Adam",
        },
        "gradient",
        "Step along",
        "The update that takes the place of the gradient. Only the gradient goes with τ > 0.",
    ),
    "overdamped": Flag(True, "Overdamped (γ = ∞)", "No momentum: Euler–Maruyama steps."),
    "tau": Number(1e-10, 1, 0, "Temperature τ", scale="log", zero=True),
    "tau2": Number(1e-10, 1, 0, "Output temperature τ₂", scale="log", zero=True),
    "momentum": Number(0, 0.99, 0.9, "Momentum μ"),
    "epsilon": Number(1e-4, 1, 0.1, "Coupling ε", scale="log"),
    "sigma": Number(1e-5, 1, 0.01, "Driving noise σ", scale="log", zero=True),
    "scheme": Choice(
        {"OBA": "OBA", "BAOAB": "BAOAB", "ABO": "ABO", "AOAB": "AOAB"}, "OBA", "Langevin word"
    ),
    "contractive": Flag(False, "Contractive", "Output steps of h, not of h²/2."),
    "slow": Choice(
        {"biases": "all biases", "input_biases": "input biases", "first": "all but the output"},
        "biases",
        "Slow part",
    ),
    "period": Number(1, 20, 5, "Period k", integer=True, hint="Slow steps come every k-th step."),
    "decay": Number(1e-7, 0.1, 0, "Weight decay", scale="log", zero=True),
    **{
        name: Choice(CONSTRAINTS, "none", label.capitalize(), "The constraint of these weights.")
        for name, label in LAYERS.items()
    },
    **{
        f"{name}_radius": Number(0.01, 100, 1, f"r of {label}", scale="log")
        for name, label in LAYERS.items()
    },
}
RULES = tuple(name for layer in LAYERS for name in (layer, f"{layer}_radius"))
USED: dict[str, tuple[str, ...]] = {
    "sgd": ("h", "decay"),
    "sgdm": ("h", "momentum", "decay"),
    "sgld": ("h", "tau", "decay", *RULES),
    "langevin": ("h", "gamma", "tau", "scheme", "decay", *RULES),
    "cola": ("h", "direction", "overdamped", "gamma", "tau", "scheme", "decay", *RULES),
    "lol": ("h", "gamma", "tau", "tau2", "decay", *RULES),
    "adlala": ("h", "gamma", "tau", "tau2", "epsilon", "sigma", "decay", *RULES),
    "dhsgd": ("h", "contractive", "decay", *RULES),
    "multirate": ("h", "momentum", "slow", "period", "decay"),
}
"""The settings that each method has."""
LIVE = ("h", "gamma", "tau", "tau2", "momentum", "epsilon", "sigma", "decay", *RULES)
"""The settings that can be changed while a training runs."""

DATA_USES: dict[str, tuple[str, ...]] = {
    "spiral": ("turns", "scale", "noise", "train", "test", "seed"),
    "trigonometric": ("scale", "frequency", "noise", "train", "test", "seed"),
    "circles": ("scale", "noise", "train", "test", "seed"),
    "blobs": ("blobs", "scale", "noise", "train", "test", "seed"),
    "noise": ("scale", "train", "test", "seed"),
    "drawn": ("points",),
}
"""The settings that each kind of data has."""
SECTIONS: dict[str, dict[str, Field]] = {
    "data": DATA,
    "network": NETWORK,
    "training": TRAINING,
    "a": RUN,
    "b": RUN,
}
MOST_STEPS = 2_000_000
"""After so many steps a session pauses for good."""
MOST_WEIGHTS = 500_000
"""Weights of all members of all runs: what one page may keep a processor busy with."""


@dataclass(frozen=True)
class Spec:
    """A training: the sections of a request, complete and checked."""

    data: dict[str, Any]
    network: dict[str, Any]
    training: dict[str, Any]
    a: dict[str, Any]
    b: dict[str, Any] | None = None

    @property
    def runs(self) -> dict[str, dict[str, Any]]:
        """The settings of each run by its letter."""
        return {"a": self.a} if self.b is None else {"a": self.a, "b": self.b}

    @property
    def seeds(self) -> list[int]:
        """One seed per member."""
        first = self.training["seed"]
        return list(range(first, first + self.training["members"]))

    def plain(self) -> dict[str, Any]:
        """The sections as plain values, for JSON."""
        found = asdict(self)
        found["data"]["points"] = [list(point) for point in self.data["points"]]
        return found


def parse(given: Any) -> Spec:
    """Read a request.

    Raises:
        ValueError: naming the setting, the value and what is allowed.

    Example:
        >>> parse({"data": {"turns": 4}, "a": {"method": "adlala"}}).data["turns"]
        4.0
    """
    if not isinstance(given, Mapping):
        raise ValueError("the request must be an object with data, network, training, a and b")
    unknown = [key for key in given if key not in SECTIONS]
    if unknown:
        raise ValueError(f"the request has no section {str(unknown[0])[:40]!r}")
    found = {
        name: parse_section(name, fields, given.get(name, {}))
        for name, fields in SECTIONS.items()
        if name != "b" or given.get("b") is not None
    }
    spec = Spec(**found)
    _check(spec)
    return spec


def _check(spec: Spec) -> None:
    points = spec.data["points"]
    if spec.data["kind"] == "drawn" and len({point[2] for point in points}) < 2:
        raise ValueError("data.points must have points of both classes, 0 and 1")
    for letter, run in spec.runs.items():
        _check_run(letter, run)
    weights = weights_of(spec) * spec.training["members"] * len(spec.runs)
    if weights > MOST_WEIGHTS:
        raise ValueError(
            f"network, members and runs make {weights:,} weights; at most {MOST_WEIGHTS:,} are "
            "allowed: choose fewer nodes, layers or seeds"
        )


def _check_run(letter: str, run: Mapping[str, Any]) -> None:
    if run["method"] == "cola" and run["direction"] != "gradient" and run["tau"] > 0.0:
        raise ValueError(
            f"{letter}.tau must be 0 where {letter}.direction is {run['direction']!r}: only steps "
            "along the gradient go with a temperature"
        )


def weights_of(spec: Spec) -> int:
    """How many weights one network has, biases included.

    Example:
        >>> weights_of(parse({"network": {"depth": 2, "width": 3}}))
        25
    """
    depth, width = spec.network["depth"], spec.network["width"]
    return int(3 * width + (depth - 1) * width * (width + 1) + width + 1)


MOST_CHANGES = 500
"""Changes of settings in one training."""


def parse_changes(spec: Spec, given: Any) -> list[dict[str, Any]]:
    """Read what is to be changed after how many steps, in the order of the steps.

    Raises:
        ValueError: naming what is wrong.

    Example:
        >>> parse_changes(parse({}), [{"step": 10, "run": "a", "values": {"h": 0.1}}])
        [{'step': 10, 'run': 'a', 'values': {'h': 0.1}}]
    """
    if not isinstance(given, list) or len(given) > MOST_CHANGES:
        raise ValueError(f"changes must be a list of at most {MOST_CHANGES}")
    step, found, last = Number(0, MOST_STEPS, 0, "step", integer=True), [], 0
    for index, change in enumerate(given):
        if not isinstance(change, Mapping) or set(change) != {"step", "run", "values"}:
            raise ValueError(f"changes[{index}] must be an object with step, run and values")
        at = int(step.parse(f"changes[{index}].step", change["step"]))
        if at < last:
            raise ValueError(f"changes[{index}].step must not be less than the one before")
        run, values, last = str(change["run"]), change["values"], at
        after = changed(spec, run, values)
        found.append({"step": at, "run": run, "values": {key: after[key] for key in values}})
    return found


def changed(spec: Spec, letter: str, values: Any) -> dict[str, Any]:
    """Check a change of a running method and return its new settings.

    Raises:
        ValueError: if there is no such run, or a setting cannot be changed in mid-training.
    """
    if letter not in spec.runs:
        raise ValueError(f"run must be one of {', '.join(spec.runs)}, got {str(letter)[:40]!r}")
    run = spec.runs[letter]
    fixed = [name for name in values if name not in LIVE] if isinstance(values, Mapping) else []
    if fixed:
        raise ValueError(
            f"{str(fixed[0])[:40]!r} cannot be changed while a training runs: reset it instead"
        )
    new = parse_section(letter, RUN, values, run)
    _check_run(letter, new)
    return new
