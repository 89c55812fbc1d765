"""Section 6.1: the loss along lines of ResNets and VGGs on CIFAR-10, and steps by barrier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from colangevin.diagnostics import LossPath
from colangevin.diagnostics.states import mixed
from colangevin.lab import kit
from colangevin.lab.experiments.images import cifar_orthogonal
from colangevin.lab.experiments.paths.path_findings import by_line
from colangevin.lab.experiments.paths.residual_findings import NAME, claims, table
from colangevin.lab.experiments.paths.residual_plot import figures
from colangevin.lab.experiments.paths.residual_training import (
    BASE,
    Work,
    blocks_of,
    explore,
    names_in,
    network,
    training_of,
)

PAPER: dict[str, Any] = {
    "runs": 10,
    "other_runs": 10,
    "epochs": 100,
    "label_epochs": 200,
    "label_decays": [0.0, 1e-4, 5e-4],
    "start_net": "resnet",
    "start_factor": 1,
    "blocks": [2, 2, 2, 2],
    "deeper_blocks": [3, 4, 6, 3],
    "width": 64,
    "vgg_width": 64,
    "pixels": 32,
    "batches": [1, 2, 3, 4, 5],
    "train_images": 50_000,
    "test_images": 10_000,
    "train_tests": 10_000,
    "path_images": 10_000,
    "batch_size": 128,
    "points": 51,
    "block_points": 51,
    "barriers": "measured",
}
FEW_RUNS = {"runs": 3, "other_runs": 1}
SMALL = {
    **PAPER,
    "epochs": 9,
    "train_images": 4_000,
    "path_images": 500,
    "batch_size": 64,
    "label_epochs": 30,
    "label_decays": [0.0],
    # Without weight decay no small ResNet has a barrier to start from, some VGGs have.
    "start_net": "vgg",
    "blocks": [1, 1, 1, 1],
    "deeper_blocks": [2, 2, 2, 2],
    "width": 8,
    "vgg_width": 8,
    "pixels": 16,
    "batches": [1, 2],
    "test_images": 2_000,
    "block_points": 21,
    "train_tests": 500,
    "barriers": "stated",
}
FULL = {
    **SMALL,
    **FEW_RUNS,
    "epochs": 18,
    "train_images": 10_000,
    "test_images": 4_000,
    "label_epochs": 36,
    "label_decays": PAPER["label_decays"],
    "start_factor": 3,
    "width": 16,
    "vgg_width": 16,
}
APART = (*FEW_RUNS, "start_net", "start_factor")
"""Settings of a scale that make its jobs and are not in their own settings."""
MOBILE_SCALE = {key: value for key, value in SMALL.items() if key not in APART}
TINY = {"width": 2, "vgg_width": 2, "pixels": 8, "epochs": 1, "label_epochs": 1, "points": 11}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": SMALL
    | TINY
    | {"runs": 1, "other_runs": 1, "train_images": 32, "test_images": 32, "path_images": 16}
    | {"batch_size": 16, "block_points": 3, "label_decays": PAPER["label_decays"]},
    "laptop": SMALL
    | {"runs": 1, "other_runs": 1, "epochs": 6, "label_epochs": 12, "train_images": 2_000}
    | {"test_images": 1_000, "path_images": 300, "points": 21, "block_points": 11},
    "full": FULL,
    # Adds its jobs to the records of the full scale: they need published weights.
    "imagenet": FULL | {"scale": "full", "imagenet": MOBILE_SCALE | {"runs": 3, "pixels": 32}},
    "paper": PAPER,
}
LOWER: dict[str, dict[str, Any]] = {
    "h-low-free": {"h": [0.1, 0.01]},
    "h-low-barrier": {"h": [0.01, 0.1], "lines": ["whole", "blocks"]},
    "h-low-all": {"h": 0.01},
    "decay-barrier": {"decay": [5e-4, 0.0]},
    "decay-free": {"decay": [0.0, 5e-4]},
    "decay-none": {"decay": 0.0},
}
"""The rows of table 6.2 after the first; lists are [blocks with barriers, the others]."""
NARROW = {f"narrow-{which}": {"narrow": which} for which in ("free", "one", "two", "all")}
BLOCKS = ("B1", "B2", "B3", "B4")
MOBILE: dict[str, Any] = {"net": "mobilenet", "h": 0.01}
IMAGENET: dict[str, dict[str, dict[str, Any]]] = {
    "imagenet": {
        "mobilenet": MOBILE,
        "mobilenet-imagenet": {
            **MOBILE,
            "start": {"from": "imagenet", "take": "all"},
            "lines": ["whole", "random"],
        },
    },
    "imagenet-resets": {
        f"imagenet-reset-{block.lower()}": {
            **MOBILE,
            "start": {"from": "imagenet", "take": f"not {block}"},
        }
        for block in BLOCKS
    },
}
"""Figures 6.2A and 6.4: a MobileNetV2 from random weights, from those that ImageNet has taught it,
and from these but for one block."""


def parts(settings: kit.Settings) -> dict[str, dict[str, dict[str, Any]]]:
    """Trainings by job: each is ``BASE`` with some changes.

    Example:
        >>> {job: len(own) for job, own in parts(PAPER).items()}["schemes-vgg"]
        11
    """
    everything, blocks = ["whole", "blocks", "parts"], ["whole", "blocks"]
    free: dict[str, Any] = {"decay": 0.0}
    wrong = {"labels": "random", "augmentation": "none", **free}
    labels: dict[str, dict[str, Any]] = {"random-labels": wrong}
    for decay in settings["label_decays"]:
        for taken in ("all", *BLOCKS) if decay == 0.0 else BLOCKS:
            name = f"{taken}-{decay:g}".lower()
            labels[name] = {"decay": decay, "start": {"from": "random-labels", "take": taken}}
    source = {**free, "net": settings["start_net"]}
    start: dict[str, Any] = {"from": "scratch", "take": "barrier"}
    return {
        "schemes-resnet": {"base": {"lines": everything}, **LOWER},
        "fixed-steps": {f"h-{h:g}": {"h": h, "falling": False} for h in (0.1, 0.01, 0.001)},
        "schemes-vgg": {
            name: {"net": "vgg", **own}
            for name, own in {"base": {"lines": blocks}, **LOWER, **NARROW}.items()
        },
        "decays": {f"decay-{decay:g}": {"decay": decay} for decay in (1e-4, 2e-3)},
        "barrier-start": {
            "scratch": source,
            **{
                name: {**source, "start": {**start, "offset": offset}}
                for name, offset in (("before", -0.1), ("at", 0.0), ("after", 0.1))
            },
        },
        "norms": {
            "resnet-plain": {"norm": False},
            "vgg-plain": {"net": "vgg", "norm": False, "h": 0.01},
            "deeper": {"deeper": True, "lines": blocks},
        },
        "data": {
            "less": {"share": 0.2, "lines": blocks},
            "none": {"augmentation": "none", "lines": blocks},
            "less-none": {"share": 0.2, "augmentation": "none", "lines": blocks},
            "brightness": {"augmentation": "brightness", "lines": blocks},
        },
        "resets": {
            "trained": {},
            **{
                f"reset-{block.lower()}": {"start": {"from": "trained", "take": f"not {block}"}}
                for block in BLOCKS
            },
        },
        "random-labels": labels,
    }


NOTE = (
    "The scale paper is the thesis's setting: ResNet-18 and VGG-11 on all of CIFAR-10, 100 "
    "epochs, batches of 128, SGD with momentum 0.9, weight decay 5e-4, h = 0.1 and a tenth of "
    "it after each third, 10 runs. Reduced at full: a ResNet of four blocks (16 to 128 channels) "
    "and a VGG-11 of 16 to 128 channels on 10,000 images of 16 x 16 pixels for 18 epochs, batches "
    "of 64; 3 runs for tables 6.2 and 6.4 and figure 6.8; 9 runs for figure 6.3, those with a "
    "barrier are trained again from it; 1 run for the others; lines from 500 test images. "
    "At laptop: half the channels, 2,000 images, 6 epochs, 1 run of everything, 300 test "
    "images for lines. Blocks with barriers are those that the thesis names "
    "(B2 to B4 of the ResNet, layers 4 to 10 of VGG-11), because reduced networks have few; at "
    "the scale paper they are those whose mean base line has one. Starts from a barrier (figures "
    "6.3 and 6.12, table 6.3) use VGG-11 at every scale but paper: no reduced ResNet without "
    "weight decay has a barrier. Ours, because the text does not state them: less data is 20 %, "
    "large weight decay 2e-3, h = 0.01 and the initial weights of He et al. for the VGG-11 "
    "without batch normalisation (with PyTorch's own it does not learn), random labels without "
    "augmentation for at most twice the epochs. `--scale imagenet` "
    "adds figure 6.2A and the half of figure 6.4 that starts from ImageNet: a MobileNetV2 stands "
    "in for the ResNets, its 17 blocks in four groups, on 4,000 images of 32 pixels for 9 epochs, "
    "batches of 64, h = 0.01, 3 runs; it needs mobilenet_v2-b0353104.pth. B: with barriers, NB: "
    "without"
)
LONG = ("schemes-resnet", "schemes-vgg", "fixed-steps", "barrier-start")
"""Jobs with ``runs``; the others have ``other_runs``."""


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job for each group of trainings that need one another, the most telling first."""
    shared = {key: value for key, value in settings.items() if key not in (*APART, "imagenet")}
    few = min(settings["runs"], settings["other_runs"])
    long = dict.fromkeys(LONG, settings["runs"])
    long["barrier-start"] *= settings["start_factor"]  # only some of them have a barrier
    found = [
        kit.Job(NAME, name, {**shared, "runs": long.get(name, few), "trainings": own})
        for name, own in parts(settings).items()
    ]
    for name, trainings in IMAGENET.items() if "imagenet" in settings else ():
        found.append(
            kit.Job(NAME, name, {**shared, **settings["imagenet"], "trainings": trainings})
        )
    return found


def run(job: kit.Job, log: kit.Log) -> None:
    """Do the trainings of a job one after another, and measure the lines of each."""
    settings = job.settings
    work = Work(settings, cifar_orthogonal.load(settings, log), log.device)
    state = log.load() or {"done": {}, "ends": {}, "run": None}
    seeds, trainings = kit.seeds_of(settings), settings["trainings"]
    sources = {own["start"]["from"] for own in trainings.values() if "start" in own}
    for name, own in trainings.items():
        done = state["done"].setdefault(name, [])
        while len(done) < len(seeds):
            found = _one(work, {**BASE, **own}, state, seeds[len(done)], log)
            if found is None:
                return
            if name in sources:
                state["ends"].setdefault(name, []).append(found["end"])
            done.append({key: value for key, value in found.items() if key != "end"})
            state["run"] = None
    log.finish(
        trainings={name: columns(done) for name, done in state["done"].items()},
        barriers=barriers_of(work, state["done"]),
    )


STATED = ("B2", "B3", "B4", "B4.0", *map(str, range(4, 11)))
"""Blocks of a ResNet and layers of a VGG-11 that have barriers in the thesis (figure 6.16)."""


def barriers_of(work: Work, done: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Blocks with barriers: those that the thesis names, or those of the mean base path."""
    if "base" not in work.settings["trainings"]:
        return []
    options = {**BASE, **work.settings["trainings"]["base"]}
    names = list(blocks_of(network(work.settings, options, ())))
    if work.settings["barriers"] == "stated":
        return [name for name in names if name in STATED]
    first = [one for one in done.get("base", []) if one["paths"]]
    found = []
    for name in names if first else []:
        losses = torch.tensor([one["paths"][name] for one in first]).mean(dim=0)
        if LossPath(torch.linspace(0, 1, len(losses)), losses).shape == "barrier":
            found.append(name)
    return found


def _one(
    work: Work, options: Mapping[str, Any], state: dict[str, Any], seed: int, log: kit.Log
) -> dict[str, Any] | None:
    """One run of one training: what was measured and the last state; None to stop."""
    own = training_of(work, options, barriers_of(work, state["done"]), seed)
    current = kit.training.Run(own, seed)
    random = _copy(current.model)
    start = _first_state(current.model, options["start"], state, log)
    if start is None:  # there is no barrier to start from
        return {"paths": {}, "end": {}}
    current.model.load_state_dict(start)
    curve: list[dict[str, float]] = []
    if state["run"] is not None:
        current.load_state_dict(state["run"]["run"])
        curve = list(state["run"]["curve"])
    if not _train(current, own, curve, state, log):
        return None
    return {
        **curve[-1],
        "epochs": len(curve),
        "curve": {key: [row[key] for row in curve] for key in ("train_loss", "test_accuracy")},
        **explore(work, current, start, options, random),
        "end": _copy(current.model),
    }


def _copy(model: nn.Module) -> dict[str, Any]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def _runs(state: Mapping[str, Any]) -> list[Any]:
    """What is done of the training that is at work: the last one."""
    last: list[Any] = list(state["done"].values())[-1]
    return last


def _first_state(
    model: nn.Module, start: Mapping[str, Any] | None, state: Mapping[str, Any], log: kit.Log
) -> dict[str, Any] | None:
    """The state that a run begins with; None if there is no barrier to start from."""
    own = _copy(model)
    if start is None:
        return own
    source, take = start["from"], start["take"]
    if source == "imagenet":
        return taken(model, kit.LOADERS["mobilenet"](log.data), take)
    index = len(_runs(state))
    end = state["ends"][source][index]
    if take != "barrier":
        return taken(model, end, take)
    alpha = barrier_place(state["done"][source][index]["paths"]["whole"], start["offset"])
    return None if alpha is None else mixed([(1 - alpha, own), (alpha, end)], own, set(own))


def taken(model: nn.Module, source: Mapping[str, Any], take: str) -> dict[str, Any]:
    """A model's state, but for what is taken from another: where both have the same shape.

    Args:
        model: gives the rest.
        source: the other state; its classifier may have other classes.
        take: "all", a block such as "B2", or all but a block: "not B2".

    Example:
        >>> from colangevin.lab.models import MobileNetV2
        >>> model = MobileNetV2(classes=10)
        >>> ones = {name: torch.ones_like(t) for name, t in MobileNetV2().state_dict().items()}
        >>> found = taken(model, ones, "not B4")
        >>> [bool((found[f"features.{n}.conv.0.0.weight"] == 1).all()) for n in (13, 14)]
        [True, False]
    """
    own = _copy(model)
    wanted = names_in(model, take.removeprefix("not "))
    if take.startswith("not "):
        wanted = set(own) - wanted
    return {
        name: source[name] if name in wanted and source[name].shape == value.shape else value
        for name, value in own.items()
    }


def barrier_place(losses: Sequence[float], offset: float) -> float | None:
    """Where on a line its barrier is, plus an offset; None without a barrier.

    Example:
        >>> barrier_place([1.0, 0.5, 0.9, 0.1, 0.0], 0.1), barrier_place([1.0, 0.5, 0.0], 0.1)
        (0.6, None)
    """
    path = LossPath(torch.linspace(0, 1, len(losses)), torch.tensor(losses))
    if path.shape != "barrier":
        return None
    return min(1.0, max(0.0, path.barrier.alpha + offset))


def _train(
    current: kit.training.Run,
    own: kit.training.Training,
    curve: list[dict[str, float]],
    state: dict[str, Any],
    log: kit.Log,
) -> bool:
    """Train epoch by epoch, until random labels are learnt; whether it came to an end."""
    trainings, runs = log.job.settings["trainings"], log.job.settings["runs"]
    before = sum(len(done) for done in state["done"].values())
    while len(curve) < own.epochs:
        while current.step < (len(curve) + 1) * own.steps:
            current.advance()
            share = current.step / (own.epochs * own.steps)
            if not log.advance(
                (before + share) / (len(trainings) * runs),
                lambda: {**state, "run": {"run": current.state_dict(), "curve": curve}},
            ):
                return False
        curve.append(current.measure())
        if own.epochs != log.job.settings["epochs"] and curve[-1]["train_accuracy"] == 1.0:
            break
    return True


def columns(done: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the runs of a training found, by quantity; runs that were not made are left out."""
    made = [one for one in done if "test_accuracy" in one]
    names = [name for name in made[0] if name != "paths"] if made else []
    paths = {
        f"{line}/{index}": LossPath(torch.linspace(0, 1, len(losses)), torch.tensor(losses))
        for line in (made[0]["paths"] if made else {})
        for index, one in enumerate(made)
        if (losses := one["paths"].get(line))
    }
    return {
        **{name: [one[name] for one in made] for name in names},
        "runs_left_out": len(done) - len(made),
        "paths": by_line(paths),
    }


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="the loss along lines of residual networks and VGG-11 on CIFAR-10",
    phrase="loss paths of residual networks",
    source="thesis figures 6.1B to 6.16, 6.18 and 6.19, tables 6.1 to 6.4",
    claimed="""step sizes, weight decay, normalisation and data shape the loss along lines of
        ResNets and VGG-11; blocks without barriers tolerate smaller steps and no decay; many starts
        are worse""",
    ours="""small networks on 10,000 images of 16 pixels for 18 epochs, most rows with one run;
        VGG-11 for starts from a barrier; a MobileNetV2 for starts from ImageNet""",
    settings_stated="""
        networks | ResNet-18, VGG-11 | four blocks of {width} to 128 channels, VGG-11 of
          {vgg_width} to 128
        training images | 50,000 of 32 pixels | {train_images} of {pixels} pixels
        epochs | 100 | {epochs}
        runs | 10 | {runs}
        batch | 128 | {batch_size}
        blocks with barriers | measured | those that the thesis names
    """,
    reduced={
        "full": "16 to 128 channels, 10,000 of 50,000 images of 16 pixels, 18 of 100 epochs",
        "imagenet": "16 to 128 channels, 10,000 of 50,000 images of 16 pixels, "
        "18 of 100 epochs; a MobileNetV2 from ImageNet",
    },
    own_scale="paper",
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures=figures,
    table=table,
    claims=claims,
    data=("cifar-10",),
    note=NOTE,
    times={"smoke": "10 s", "laptop": "3 min", "full": "2 h", "imagenet": "2 h 40 min"},
    gpus=True,
)
