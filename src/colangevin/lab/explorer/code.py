"""A training as a Python program that uses the library and gives the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from colangevin.lab.explorer.recipes import CHANGE, Recipe, data_call, literal, recipe_of
from colangevin.lab.explorer.spec import METHODS, Spec

if TYPE_CHECKING:
    from colangevin.lab.explorer.runs import Training

ACTIVATIONS = {
    "relu": "nn.ReLU",
    "tanh": "nn.Tanh",
    "sigmoid": "nn.Sigmoid",
    "gelu": "nn.GELU",
    "sine": "Sine",
}
NORM = '''
def bounded_norm(radius):
    """The norm of the whole matrix is at most the radius."""
    return cl.General(lambda weight: weight.square().sum() - radius**2, inequality=True)

'''
SHAPES = '''
def by_shape(groups):
    """Matrices along the polar factor, and vectors, which have none, along Adam's direction."""
    found = []
    for group in groups:
        for direction, vectors in (("polar", False), ("adam", True)):
            pairs = zip(group["names"], group["params"], strict=True)
            own = [(name, p) for name, p in pairs if (p.dim() < 2) == vectors]
            named = {"names": [name for name, _ in own], "params": [p for _, p in own]}
            found += [{**group, **named, "direction": direction}] if own else []
    return found

'''
LOOP = """
# The networks of all seeds are one computation (cl.Ensemble) where the method allows it.
runs = {name: Members(network, makers[0], SEEDS) for name, makers in RUNS.items()}
batches = Batches(train_inputs, train_labels, SEEDS, BATCH)
for step in range(STEPS + 1):
    for name, makers in RUNS.items():
        if step and step in makers:
            runs[name].change(makers[step])  # momenta pass to the next optimizer
    if step < STEPS:
        batch = batches.next()
        for members in runs.values():
            members.step(*batch)


def scores(members, inputs, labels):
    logits = members.outputs(inputs)
    cross = functional.binary_cross_entropy_with_logits
    losses = cross(logits, labels.expand_as(logits), reduction="none").mean(dim=1)
    return losses.tolist(), ((logits > 0) == (labels > 0.5)).float().mean(dim=1).tolist()


KEYS = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")
results = {}
for name, members in runs.items():
    train = scores(members, train_inputs, train_labels)
    test = scores(members, test_inputs, test_labels)
    for seed, values in zip(SEEDS, zip(*train, *test)):
        results[name, seed] = dict(zip(KEYS, values))
        numbers = ", ".join(f"{key} {value:.6g}" for key, value in results[name, seed].items())
        print(f"{name}, seed {seed}: {numbers}")
"""


def program(training: Training) -> str:
    """The program of a training, up to the step that it has reached.

    Example:
        >>> from colangevin.lab.explorer.spec import parse
        >>> from colangevin.lab.explorer.runs import Training
        >>> spec = parse({"a": {"method": "sgld"}, "network": {"width": 2}})
        >>> "cl.SGLD(" in program(Training(spec))
        True
    """
    spec = training.start
    stages = {letter: list(_stages(training, letter)) for letter in spec.runs}
    recipes = {
        letter: [(step, recipe_of(run, spec.network["depth"])) for step, run in own]
        for letter, own in stages.items()
    }
    used = [recipe for own in recipes.values() for _, recipe in own]
    parts = [
        _head(spec, used),
        _data(spec),
        _network(spec),
        NORM if any("bounded_norm" in _rules(recipe) for recipe in used) else "",
        SHAPES if any(recipe.parts == "by_shape" for recipe in used) else "",
        *[
            _maker(letter, place, step, recipe, spec.runs[letter]["method"])
            for letter, own in recipes.items()
            for place, (step, recipe) in enumerate(own)
        ],
        _table(spec, recipes, training.steps),
        LOOP,
    ]
    return "".join(parts)


def _stages(training: Training, letter: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The settings of a run, and the steps from which they hold."""
    run = training.start.runs[letter]
    yield 0, run
    for change in training.changes:
        if change["run"] == letter:
            run = {**run, **change["values"]}
            yield change["step"], run


def _head(spec: Spec, used: list[Recipe]) -> str:
    call = data_call(spec.data)
    lines = ['"""A training of cola explore."""', ""]
    if any("math.inf" in recipe.call.text() for recipe in used):
        lines += ["import math", ""]
    lines += [
        "import torch",
        "from torch import nn",
        "from torch.nn import functional",
        "",
        "import colangevin as cl",
    ]
    if call is not None:
        lines.append(f"from colangevin.lab.data import {call.name}")
    lines.append("from colangevin.lab.explorer.members import Batches, Members")
    if spec.network["activation"] == "sine":
        lines.append("from colangevin.lab.explorer.slopes import Sine")
    lines += ["from colangevin.lab.models import mlp", ""]
    lines.append("torch.set_num_threads(1)  # faster for small networks")
    return "\n".join(lines) + "\n\n"


def _data(spec: Spec) -> str:
    call = data_call(spec.data)
    if call is None:
        points = ",\n    ".join(str(list(point)) for point in spec.data["points"])
        return (
            f"points = torch.tensor([\n    {points},\n])\n"
            "test = torch.arange(len(points)) % 4 == 3  # every fourth point\n"
            "test = test if test.any() else ~test\n"
            "train = torch.arange(len(points)) % 4 != 3\n"
            "train_inputs, train_labels = points[train, :2], points[train, 2]\n"
            "test_inputs, test_labels = points[test, :2], points[test, 2]\n\n"
        )
    return (
        f"data = {call.text()}\n"
        f"generator = torch.Generator().manual_seed({spec.data['seed']})\n"
        f"train_inputs, train_labels = data.sample({spec.data['train']}, generator=generator)\n"
        f"test_inputs, test_labels = data.sample({spec.data['test']}, generator=generator)\n"
        "train_labels, test_labels = train_labels.float(), test_labels.float()\n\n"
    )


def _network(spec: Spec) -> str:
    network = spec.network
    hidden = f"[{network['width']}] * {network['depth']}"
    call = f"mlp(2, {hidden}, 1, {ACTIVATIONS[network['activation']]})"
    return f"\ndef network(seed):  # torch's own seed is set\n    return {call}\n\n"


def _rules(recipe: Recipe) -> str:
    rules = [f"{literal(key)}: {call.text()}" for key, call in recipe.rules.items()]
    return "{" + ", ".join(rules) + "}"


def _maker(letter: str, place: int, step: int, recipe: Recipe, method: str) -> str:
    """The function that makes an optimizer."""
    since = f", from step {step:,} on" if place else ""
    lines = [f"\ndef {_name(letter, place)}(model, seed):", f'    """{METHODS[method]}{since}."""']
    first = "model.parameters()"
    if recipe.parts.startswith("cl."):
        first = f"*{recipe.parts}(model)"
    elif recipe.parts == "output":
        groups = ", groups=groups" if recipe.rules else ""
        first = f'cl.partition(model, by="output"{groups})'
    elif recipe.parts == "by_shape":
        first = "by_shape(groups)"
    elif recipe.rules:
        first = "groups"
    if recipe.rules or recipe.parts == "by_shape":
        lines += [
            "    groups = cl.constrain_(",
            "        model,",
            f"        {_rules(recipe)},",
            "    )",
        ]
    seed = {"seed": f"seed + {CHANGE * place}" if place else "seed"} if recipe.seeded else {}
    arguments = [first, *[f"{key}={literal(value)}" for key, value in recipe.call.options.items()]]
    arguments += [f"{key}={value}" for key, value in seed.items()]
    lines += [
        f"    return {recipe.call.name}(",
        *[f"        {each}," for each in arguments],
        "    )",
    ]
    return "\n".join(lines) + "\n\n"


def _name(letter: str, place: int) -> str:
    return f"optimizer_{letter}" + (f"_{place + 1}" if place else "")


def _table(spec: Spec, recipes: dict[str, list[tuple[int, Recipe]]], steps: int) -> str:
    rows = []
    for letter, own in recipes.items():
        makers = ", ".join(f"{step}: {_name(letter, i)}" for i, (step, _) in enumerate(own))
        rows.append(f'    "{letter.upper()}": {{{makers}}},\n')
    batch, seeds = spec.training["batch"], spec.seeds
    return f"\nRUNS = {{\n{''.join(rows)}}}\nSTEPS, BATCH = {steps}, {batch}\nSEEDS = {seeds}\n\n"
