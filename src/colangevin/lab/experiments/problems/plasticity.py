"""One network, hundreds of tasks: does it still learn? Bounded weights, with noise and without."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from colangevin.constraints import Box, Circle, Constraint
from colangevin.ensemble import Ensemble
from colangevin.lab import kit
from colangevin.lab.experiments.problems import plasticity_findings as findings
from colangevin.lab.experiments.problems.images import Part, read_images
from colangevin.lab.experiments.problems.searching import (
    COURSE,
    Going,
    Options,
    jobs_of,
    search_together,
    sweep_together,
)
from colangevin.lab.models import mlp

NAME = "plasticity"
CHOOSE = "late_accuracy"
LAPTOP: dict[str, Any] = {
    "runs": 5,
    "tasks": 60,
    "images": 5_000,
    "pool": 60_000,
    "hidden": [64, 64],
    "batch_size": 16,
    "look": 8,
    "late": 15,
    "line_tasks": 40,
    "taus": [0.0, 1e-8, 1e-7, 3e-7, 1e-6, 3e-6, 1e-5],
}
"""Accuracy is that on every ``look``-th batch before it is learned from. The first and the last
``late`` tasks are compared. ``taus`` are all trained with all seeds, for ``line_tasks``."""
SCALES: dict[str, dict[str, Any]] = {
    "smoke": LAPTOP
    | {"runs": 2, "tasks": 2, "images": 48, "pool": 200, "hidden": [8, 8], "late": 1, "tried": 2}
    | {"line_tasks": 2, "taus": [0.0, 1e-6]},
    "laptop": LAPTOP,
    "full": LAPTOP | {"tasks": 800, "hidden": [300, 150]},
}
RATES = {"gradient": (0.003, 0.01, 0.03), "adam": (0.0003, 0.001, 0.003)}
MORE = {"gradient": (0.0015, 0.05), "adam": (0.00015, 0.005)}
"""Ends of the learning rates where nothing else is to be chosen."""


def trials(direction: str, **options: Sequence[float]) -> list[Options]:
    """Six: three learning rates, and all combinations of what else there is.

    Example:
        >>> trials("adam", decay=[0.1], noise=[1.0, 2.0])[1]
        {'lr': 0.0003, 'decay': 0.1, 'noise': 2.0}
        >>> len(trials("adam"))
        6
    """
    if not options:
        first, last = (math.log(lr) for lr in MORE[direction])
        return [{"lr": round(math.exp(first + k * (last - first) / 5), 6)} for k in range(6)]
    found: list[Options] = [{"lr": lr} for lr in RATES[direction]]
    for name, values in options.items():
        found = [{**own, name: value} for own in found for value in values]
    return found


def method(label: str, direction: str, kind: str, **options: Sequence[float]) -> dict[str, Any]:
    """What differs between methods; ``kind`` is what keeps the weights small."""
    shown = f"{label}, {'Adam' if direction == 'adam' else 'SGD'}"
    return {"label": shown, "direction": direction, "kind": kind} | {
        "trials": trials(direction, **options)
    }


BOUNDS = (1.0, 2.0)
"""Times 1/√fan_in."""
TAUS = (1e-7, 1e-6)
DECAYS = {"gradient": (3e-4, 1e-3), "adam": (0.03, 0.1)}


def family(direction: str) -> dict[str, dict[str, Any]]:
    """Methods along one direction."""
    decays = DECAYS[direction]
    kinds: list[tuple[str, str, str, dict[str, Sequence[float]]]] = [
        ("free", "free", "", {}),
        ("decay", "weight decay", "decay", {"decay": decays}),
        ("initial", "decay to the first weights", "initial", {"decay": decays}),
        ("shrink", "shrink and perturb", "shrink", {"decay": decays[:1], "noise": (1e-4, 1e-3)}),
        ("clip", "clipped weights", "clip", {"factor": BOUNDS}),
        ("box", "Box, τ = 0", "box", {"factor": BOUNDS}),
        ("circle", "Circle, τ = 0", "circle", {"factor": BOUNDS}),
    ]
    return {
        f"{name}-{direction}": method(label, direction, kind, **options)
        for name, label, kind, options in kinds
    }


METHODS: dict[str, dict[str, Any]] = {
    **family("gradient"),
    **{
        f"{kind}-noise": method(f"{label}, τ > 0", "gradient", kind, factor=(1.0,), tau=TAUS)
        for kind, label in (("box", "Box"), ("circle", "Circle"))
    },
    **family("adam"),
}
LINE = {"lr": 0.01, "factor": 1.0}
"""What the lines over the temperature have in common."""


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per method, with its trials, and a line over the temperature per geometry.

    Example:
        >>> [job.name for job in jobs({**SCALES["smoke"], "seed": 0})][-3:]
        ['circle-adam', 'line-box', 'line-circle']
    """
    common = {key: value for key, value in settings.items() if key not in ("taus", "line_tasks")}
    found = jobs_of(NAME, METHODS, common)
    common.pop("tried", None)
    line = [{**LINE, "tau": tau} for tau in settings["taus"]]
    for kind in ("box", "circle"):
        own = {**METHODS[f"{kind}-noise"], "tasks": settings["line_tasks"], "trials": line}
        found.append(kit.Job(NAME, f"line-{kind}", {**common, **own, "line": True}))
    return found


def run(job: kit.Job, log: kit.Log) -> None:
    """Search among a method's trials and train new seeds, or train all seeds with all trials."""
    settings, images = job.settings, read_pool(job.settings, log.data)

    def train(
        options: Sequence[Options], seeds: Sequence[int], part: str, going: Going
    ) -> list[dict[str, Any]] | None:
        return trained(settings, images, options, seeds, going)

    if settings.get("line"):
        sweep_together(log, train)
    else:
        search_together(log, train, CHOOSE)


def read_pool(settings: kit.Settings, data: Path | None) -> Part:
    """Digits of 14 by 14 pixels, means of four."""
    wanted = {"train_images": settings["pool"], "valid_images": 0, "test_images": 0}
    digits = read_images(wanted, data, "mnist").train
    small = functional.avg_pool2d(digits.inputs.view(-1, 1, 28, 28), 2)
    return Part(small.flatten(1), digits.labels)


def draw_task(images: Part, seeds: Sequence[int], task: int, count: int) -> tuple[Tensor, Tensor]:
    """Images with their pixels in a new order, and their labels, of each seed: [seeds, count, …].

    Example:
        >>> images = Part(torch.arange(6.0).view(2, 3), torch.tensor([0, 1]))
        >>> inputs, labels = draw_task(images, [0, 0, 1], 5, 2)
        >>> inputs.shape, bool((inputs[0] == inputs[1]).all())
        (torch.Size([3, 2, 3]), True)
    """
    inputs, labels = [], []
    for seed in seeds:
        generator = torch.Generator().manual_seed(100_000 * seed + task)
        chosen = torch.randperm(len(images.labels), generator=generator)[:count]
        order = torch.randperm(images.inputs.shape[1], generator=generator)
        inputs.append(images.inputs[chosen][:, order])
        labels.append(images.labels[chosen])
    return torch.stack(inputs), torch.stack(labels)


def make(settings: kit.Settings, options: Sequence[Options], seeds: Sequence[int]) -> Ensemble:
    """Networks with options of their own; those of one seed begin with the same weights.

    Example:
        >>> settings = {"hidden": [8], **METHODS["circle-noise"]}
        >>> own = {"lr": 0.1, "factor": 2.0, "tau": 1e-6}
        >>> make(settings, [own, {**own, "tau": 0.0}], [3, 3])
        Ensemble(2 members, 0 steps)
    """
    direction, kind = settings["direction"], settings["kind"]
    given: dict[str, Any] = {"lr": [own["lr"] for own in options], "direction": direction}
    given["momentum"] = 0.9 if direction == "gradient" else 0.0
    given["temperature"] = [own.get("tau", 0.0) for own in options]
    if kind in ("decay", "shrink"):
        key = "weight_decay" if direction == "gradient" else "decoupled_weight_decay"
        given[key] = [own["decay"] for own in options]

    def begin(place: int) -> nn.Module:
        torch.manual_seed(seeds[place])
        return mlp(196, settings["hidden"], 10, nn.LeakyReLU)

    rules: dict[Any, Any] = {}
    if kind in GEOMETRIES:
        weights = {n: p for n, p in begin(0).named_parameters() if p.dim() == 2}
        for name, weight in weights.items():
            radii = [own["factor"] / math.sqrt(weight.shape[1]) for own in options]
            rules[name] = [GEOMETRIES[kind](radius) for radius in radii]
    return Ensemble(begin, range(len(seeds)), rules, **given)


GEOMETRIES: dict[str, Callable[[float], Constraint]] = {
    "circle": Circle,
    "box": lambda radius: Box(-radius, radius),
}
After: TypeAlias = Callable[[], None]


def afterwards(settings: kit.Settings, options: Sequence[Options], members: Ensemble) -> After:
    """What rivals do with the weights after every step.

    Clipping knows nothing of the momentum; decay to the first weights is AdamW's with another
    centre; noise has the standard deviation of its option in every step.
    """
    kind = settings["kind"]
    weights = {n: p for n, p in members.parameters.items() if n.endswith("weight")}

    def column(name: str) -> Tensor:
        return torch.tensor([own[name] for own in options]).view(-1, 1, 1)

    def clip() -> None:
        for weight in weights.values():
            wall = column("factor") / math.sqrt(weight.shape[-1])
            weight.clamp_(-wall, wall)

    def go_back() -> None:
        unit = 10.0 if settings["direction"] == "gradient" else 1.0
        for name, weight in weights.items():
            weight.lerp_(first[name], column("lr") * column("decay") * unit)

    def shake() -> None:
        for weight in weights.values():
            weight.add_(column("noise") * torch.randn_like(weight))

    first = {name: weight.detach().clone() for name, weight in weights.items()}
    after = {"clip": clip, "initial": go_back, "shrink": shake}
    return after.get(kind, lambda: None)


def right(outputs: Tensor, labels: Tensor) -> Tensor:
    """Share of right answers."""
    return (outputs.argmax(dim=-1) == labels).float().mean()


def trained(
    settings: kit.Settings,
    images: Part,
    options: Sequence[Options],
    seeds: Sequence[int],
    going: Going,
) -> list[dict[str, Any]] | None:
    """Train networks side by side on one task after another, and measure them."""
    torch.manual_seed(seeds[0])
    members = make(settings, options, seeds)
    after = afterwards(settings, options, members)
    size, courses = settings["batch_size"], []
    for task in range(settings["tasks"]):
        if not going():
            return None
        inputs, labels = draw_task(images, seeds, task, settings["images"])
        found = []
        for place in range(settings["images"] // size):
            batch, answers = (x[:, place * size : (place + 1) * size] for x in (inputs, labels))
            if place % settings["look"] == 0:
                found.append(members.evaluate(right, batch, answers, per_member=True))
            members.step(functional.cross_entropy, batch, answers)
            with torch.no_grad():
                after()
        courses.append(torch.stack(found).mean(dim=0))
    return measured(settings, options, members, torch.stack(courses, dim=1))


def measured(
    settings: kit.Settings, options: Sequence[Options], members: Ensemble, courses: Tensor
) -> list[dict[str, Any]]:
    """Accuracy in the first and in the last tasks, and where the weights of the first layer are."""
    first, late = members.parameters["0.weight"].detach(), settings["late"]
    wall = 1 / math.sqrt(first.shape[-1])
    rows = []
    for own, weight, course in zip(options, first, courses, strict=True):
        factor = own.get("factor", math.inf)
        rows.append(
            {
                "early_accuracy": float(course[:late].mean()),
                CHOOSE: float(course[-late:].mean()),
                "mean_accuracy": float(course.mean()),
                "stuck": float((weight.abs() >= 0.98 * factor * wall).float().mean()),
                "largest": float(weight.abs().max()) / wall,
                COURSE: [round(value, 4) for value in course.tolist()],
            }
        )
    return rows


NOTE = (
    "Laptop is reduced: MNIST of 14 by 14 pixels, a perceptron with two hidden layers of 64 "
    "(leaky ReLU), 60 tasks of 5,000 images in batches of 16 (published: 300 tasks of 50,000, "
    "one image at a time, 300 and 150 nodes). In each task the pixels have a new order. Accuracy "
    "is that on every eighth batch before it is learned from; first and last are means over 15 "
    "tasks. Weights of all layers are bounded, biases are not; bounds are multiples (factor) of "
    "1/√fan_in. Clipping is a clamp after every step, which does not touch the momentum; Box takes "
    "it. Shrink and perturb is weight decay with Gaussian noise in every step. Each method has "
    "six trials with one seed, the one with the most right answers in the last 15 tasks has "
    "five new seeds. Lines over the temperature have lr 0.01, factor 1, 40 tasks and no search. "
    "SGD has momentum 0.9, lr is constant."
)
EXPERIMENT = kit.Experiment(
    name=NAME,
    title="many tasks one after another: does a network still learn?",
    phrase="keeping to learn",
    source="weight clipping (2407.01704), not the paper",
    claimed="""bounded weights keep learning where Adam loses accuracy: last tasks 0.8275 free
        and 0.9081 clipped, first tasks 0.9081 and 0.9003""",
    ours="network, size of images and tasks, batches, all rivals but the free network",
    settings_stated="""
        network | 784-300-150-10 | 196, {hidden}, 10
        tasks, images of each | 300, 50,000 | {tasks}, {images}
        batch | 1 | {batch_size}
        runs | 30 | {runs}
    """,
    reduced={"laptop": "60 of 300 tasks, 5,000 of 50,000 images, 14 by 14 pixels, 64 nodes"},
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures={"tasks": findings.draw, "temperature": findings.draw_line},
    table=findings.table,
    claims=findings.CLAIMS,
    data=("mnist",),
    note=NOTE,
    times={"smoke": "20 s", "laptop": "30 min", "full": "10 h"},
)
