"""From settings to calls of the library, as data: one description is carried out and printed.

A :class:`Call` names a function of the library and its arguments. The session carries it out, and
the exported program has it as text. So the two cannot differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CHANGE = 1_000_003
"""Added to the seed of the noise at each change, so that no noise comes twice."""


@dataclass(frozen=True)
class Call:
    """A call of a function of the library.

    Attributes:
        name: of the function, such as "cl.LOL".
        options: its keywords; a value is a number, a string, a flag or another call.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """The call as Python.

        Example:
            >>> Call("cl.Circle", {"radius": 2.0}).text()
            'cl.Circle(radius=2.0)'
        """
        keywords = [f"{key}={literal(value)}" for key, value in self.options.items()]
        return f"{self.name}({', '.join(keywords)})"


def literal(value: Any) -> str:
    """A value as Python source.

    Example:
        >>> print(literal(math.inf), literal("OBA"), literal(("a", "b")))
        math.inf "OBA" ("a", "b")
    """
    if isinstance(value, Call):
        return value.text()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))})"
    return "math.inf" if value == math.inf else repr(value)


@dataclass(frozen=True)
class Recipe:
    """How the optimizer of a run is made.

    Attributes:
        rules: the constraint of each pattern of weights.
        parts: what the method is given: "parameters", "groups" (with constraints), "by_shape" (the
            groups divided into matrices and vectors), "output" (the groups divided into hidden and
            output part) or the name of a division into rates.
        call: the method.
        seeded: whether the method draws noise.
    """

    rules: dict[str | tuple[str, ...], Call]
    parts: str
    call: Call
    seeded: bool = True


def data_call(data: Mapping[str, Any]) -> Call | None:
    """The distribution of the points; None for points that were drawn by hand.

    Example:
        >>> data_call({"kind": "noise", "scale": 1.0}).text()
        'Noise(scale=1.0)'
    """
    names: dict[str, tuple[str, tuple[str, ...]]] = {
        "spiral": ("Spiral", ("turns", "scale", "noise")),
        "trigonometric": ("Trigonometric", ("scale", "frequency", "noise")),
        "circles": ("Circles", ("scale", "noise")),
        "blobs": ("Blobs", ("blobs", "scale", "noise")),
        "noise": ("Noise", ("scale",)),
    }
    if data["kind"] not in names:
        return None
    name, wanted = names[data["kind"]]
    return Call(name, {key: data[key] for key in wanted})


def layer_names(depth: int) -> dict[str, tuple[str, ...]]:
    """The weights of each kind of layer in ``mlp``.

    Example:
        >>> layer_names(2)
        {'input': ('0.weight',), 'hidden': ('2.weight',), 'output': ('4.weight',)}
    """
    hidden = tuple(f"{2 * layer}.weight" for layer in range(1, depth))
    return {"input": ("0.weight",), "hidden": hidden, "output": (f"{2 * depth}.weight",)}


def constraint_call(kind: str, radius: float) -> Call:
    """A constraint by its word on the page.

    Example:
        >>> constraint_call("unit", 2.0).text()
        'cl.Sphere(radius=2.0, equality=True)'
    """
    if kind == "orthogonal":
        return Call("cl.Orthogonal")
    if kind == "circle":
        return Call("cl.Circle", {"radius": radius})
    if kind == "norm":
        return Call("bounded_norm", {"radius": radius})
    return Call("cl.Sphere", {"radius": radius, **({"equality": True} if kind == "unit" else {})})


def rules_of(run: Mapping[str, Any], depth: int) -> dict[str | tuple[str, ...], Call]:
    """The constraints of a run, by pattern."""
    found: dict[str | tuple[str, ...], Call] = {}
    for layer, names in layer_names(depth).items():
        if names and run[layer] != "none":
            pattern = names[0] if len(names) == 1 else names
            found[pattern] = constraint_call(run[layer], run[f"{layer}_radius"])
    return found


def recipe_of(run: Mapping[str, Any], depth: int) -> Recipe:
    """How the optimizer of a run is made from its settings.

    Example:
        >>> from colangevin.lab.explorer.spec import parse
        >>> recipe_of(parse({"a": {"method": "lol"}}).a, depth=1).call.name
        'cl.LOL'
    """
    method, h, decay = run["method"], run["h"], {"weight_decay": run["decay"]}
    if method in ("sgd", "sgdm"):
        momentum = {"momentum": run["momentum"]} if method == "sgdm" else {}
        call = Call("torch.optim.SGD", {"lr": h, **momentum, **decay})
        return Recipe({}, "parameters", call, seeded=False)
    if method == "multirate":
        options = {"lr": h, "momentum": run["momentum"], **decay, "period": run["period"]}
        slow = {
            "biases": "cl.biases_slow",
            "input_biases": "cl.input_biases_slow",
            "first": "cl.last_layers_fast",
        }
        return Recipe({}, slow[run["slow"]], Call("cl.Multirate.sgd", options), seeded=False)
    parts = "output" if method in ("lol", "adlala", "dhsgd") else "groups"
    if method == "cola" and run["direction"] == "polar":
        parts = "by_shape"
    return Recipe(rules_of(run, depth), parts, _langevin(run, {"step_size": h}, decay))


def _langevin(run: Mapping[str, Any], step: dict[str, Any], decay: dict[str, Any]) -> Call:
    heat = {"temperature": run["tau"]}
    if run["method"] == "sgld":
        return Call("cl.SGLD", {**step, **heat, **decay})
    if run["method"] == "dhsgd":
        return Call("cl.DHSGD", {**step, "contractive": run["contractive"], **decay})
    friction = {"friction": run["gamma"]}
    if run["method"] == "lol":
        second = {"overdamped_temperature": run["tau2"]}
        return Call("cl.LOL", {**step, **friction, **heat, **second, **decay})
    if run["method"] == "adlala":
        adaptive = {"coupling": run["epsilon"], "driving_noise": run["sigma"]}
        second = {"langevin_temperature": run["tau2"]}
        return Call("cl.AdLaLa", {**step, **adaptive, **heat, **friction, **second, **decay})
    word = {"scheme": run["scheme"]}
    along = {} if run["direction"] in ("gradient", "polar") else {"direction": run["direction"]}
    if run["method"] == "langevin":
        return Call("cl.Langevin", {**step, **friction, **heat, **word, **decay})
    if run["overdamped"]:
        # Euler–Maruyama: the word says nothing there, and BAOAB would mean another limit.
        return Call("cl.CoLA", {**step, "friction": math.inf, **heat, **along, **decay})
    return Call("cl.CoLA", {**step, **friction, **heat, **word, **along, **decay})
