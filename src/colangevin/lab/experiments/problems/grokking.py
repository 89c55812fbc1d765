"""Multiplication modulo a prime: rows of bounded norm generalise early, free ones late."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from colangevin.constraints import Sphere
from colangevin.lab import kit
from colangevin.lab.experiments.problems import grokking_findings
from colangevin.lab.experiments.problems.searching import COURSE, Going, Options, jobs_of, search
from colangevin.lab.models import GPT
from colangevin.optimizers import CoLA, constrain_
from colangevin.optimizers.directions import Adam, Direction, Sign

NAME = "grokking"
CHOOSE = "log_steps"
HEAD = 32
"""Numbers of a head of the attention."""
HIDDEN = ("*.attention.*", "*.mlp.*")
"""The matrices whose rows are bounded, by name."""
DIRECTIONS: dict[str, Direction] = {"adam": Adam((0.9, 0.98)), "sign": Sign((0.9, 0.99))}
LAPTOP: dict[str, Any] = {
    "runs": 6,
    "modulus": 97,
    "share": 0.5,
    "width": 64,
    "layers": 2,
    "batch_size": 256,
    "limit": 1_500,
    "every": 25,
    "test_pairs": 1_000,
    "level": 0.95,
    "warm": 10,
}
"""A run ends at the level of test accuracy, or at the limit of steps."""
SCALES: dict[str, dict[str, Any]] = {
    "smoke": LAPTOP
    | {"runs": 1, "modulus": 7, "width": 32, "layers": 1, "batch_size": 12}
    | {"limit": 8, "every": 4, "tried": 2},
    "laptop": LAPTOP,
    "full": LAPTOP | {"width": 128, "batch_size": 512, "limit": 50_000, "test_pairs": 5_000},
}


def pairs_of(name: str, first: list[float], second: list[float]) -> list[Options]:
    """Trials: all pairs of a learning rate and another option."""
    return [{"lr": lr, name: value} for lr in first for value in second]


METHODS: dict[str, dict[str, Any]] = {
    "usual": {
        "label": "AdamW, decay 0.01",
        "direction": "adam",
        "trials": pairs_of("decay", [0.0003, 0.001, 0.003, 0.01], [0.01]),
    },
    "adamw": {
        "label": "AdamW, tuned decay",
        "direction": "adam",
        "trials": pairs_of("decay", [0.001, 0.003], [0.3, 1.0]),
    },
    "lion": {
        "label": "Lion with weight decay",
        "direction": "sign",
        "trials": pairs_of("decay", [0.0003, 0.001], [1.0, 3.0]),
    },
    "adam-start": {
        "label": "Adam, rows begin bounded",
        "direction": "adam",
        "bounded": False,
        "trials": pairs_of("radius", [0.003, 0.01], [0.5, 1.0]),
    },
    "adam-bounded": {
        "label": "Adam, bounded rows",
        "direction": "adam",
        "trials": pairs_of("radius", [0.003, 0.01], [0.5, 1.0]),
    },
    "sign-bounded": {
        "label": "Lion, bounded rows",
        "direction": "sign",
        "trials": pairs_of("radius", [0.001, 0.003], [0.5, 1.0]),
    },
}
"""What differs between methods; radius is of the rows of the hidden matrices. Decay 0.01 is what
torch's AdamW has if nothing is said. All grids lie about what single runs found for each method."""


class Pairs(NamedTuple):
    """Tokens a, b and "=", [pairs, 3], and a·b modulo the prime."""

    tokens: Tensor
    products: Tensor


def draw_pairs(settings: kit.Settings) -> tuple[Pairs, Pairs]:
    """A random part of all pairs to train on, and some of the others to test with.

    Example:
        >>> torch.manual_seed(0)
        <torch._C.Generator object at ...>
        >>> train, test = draw_pairs({"modulus": 5, "share": 0.4, "test_pairs": 100})
        >>> len(train.products), len(test.products)
        (10, 15)
    """
    prime = settings["modulus"]
    numbers = torch.arange(prime)
    first, second = torch.cartesian_prod(numbers, numbers).T
    tokens = torch.stack([first, second, torch.full_like(first, prime)], dim=1)
    whole = Pairs(tokens, first * second % prime)
    count = round(settings["share"] * prime**2)
    order = torch.randperm(prime**2)
    train, test = order[:count], order[count:][: settings["test_pairs"]]
    return tuple(Pairs(whole.tokens[part], whole.products[part]) for part in (train, test))  # type: ignore[return-value]


def make(settings: kit.Settings, options: Options) -> tuple[nn.Module, CoLA]:
    """A network and its optimizer.

    Rows of the hidden matrices begin with the norm that bounds them, or with torch's weights.

    Example:
        >>> settings = {"modulus": 7, "width": 32, "layers": 1, "direction": "sign"}
        >>> _, optimizer = make(settings, {"lr": 1e-3, "radius": 2.0})
        >>> [type(group["constraint"]).__name__ for group in optimizer.param_groups]
        ['Sphere', 'Sphere', 'Unconstrained']
    """
    width = settings["width"]
    model = GPT(
        settings["modulus"] + 1,
        size=width,
        heads=max(1, width // HEAD),
        layers=settings["layers"],
        longest=3,
    )
    radius = options.get("radius")
    rules = {}
    if radius is not None:
        for name, weight in model.named_parameters():
            if ".attention." in name or ".mlp." in name:
                weight.data *= radius / weight.data.norm(dim=1, keepdim=True)
        if settings.get("bounded", True):
            rules = dict.fromkeys(HIDDEN, Sphere(radius))
    optimizer = CoLA(
        constrain_(model, rules),
        lr=options["lr"],
        direction=DIRECTIONS[settings["direction"]],
        decoupled_weight_decay=options.get("decay", 0.0),
    )
    return model, optimizer


def run(job: kit.Job, log: kit.Log) -> None:
    """Search among a method's trials, then train new seeds."""
    settings = job.settings

    def train(options: Options, part: str, going: Going) -> dict[str, float] | None:
        return trained(settings, options, going)

    search(log, train, CHOOSE, sign=-1)


def trained(settings: kit.Settings, options: Options, going: Going) -> dict[str, Any] | None:
    """Train one network up to the level of test accuracy, or to the limit of steps.

    A trial that misses the level is behind all that reach it, and further so the more it misses.
    """
    train, test = draw_pairs(settings)
    model, optimizer = make(settings, options)
    course: list[float] = []
    steps, seconds = settings["limit"], 0.0
    for step in range(1, steps + 1):
        if not going():
            return None
        begun = time.process_time()
        factor = min(1.0, step / settings["warm"])
        for group in optimizer.param_groups:
            group["lr"] = factor * options["lr"]
        chosen = torch.randint(len(train.products), (settings["batch_size"],))
        optimizer.zero_grad()
        outputs = model(train.tokens[chosen])[:, -1]
        loss = functional.cross_entropy(outputs, train.products[chosen])
        loss.backward()
        optimizer.step()
        seconds += time.process_time() - begun
        if step % settings["every"] and step != steps:
            continue
        course.append(accuracy(model, test))
        if course[-1] >= settings["level"]:
            break
    missing = max(0.0, settings["level"] - course[-1])
    return {
        "steps": step,
        "missing": missing,
        CHOOSE: math.log(step) + missing,
        "seconds": seconds,
        "train_accuracy": accuracy(model, train),
        "test_accuracy": course[-1],
        COURSE: course,
    }


@torch.no_grad()
def accuracy(model: nn.Module, pairs: Pairs) -> float:
    """Share of right products."""
    found = model(pairs.tokens)[:, -1].argmax(dim=1)
    return float((found == pairs.products).double().mean())


NOTE = (
    "Laptop is reduced: a GPT of two blocks with width 64 instead of 128, batches of 256 instead "
    "of 512, and at most 1,500 steps instead of as many as it takes. It sees a, b and = and is "
    "asked for a·b modulo 97. Half of the pairs are to train on, and 1,000 of the others tell the "
    "accuracy after every 25 steps; a run ends at 95 %. Only the rows of the hidden matrices "
    "(attention and MLP) are bounded; they begin at the bound. Embeddings, head and normalisations "
    "are free. Adam has β = (0.9, 0.98), Lion (0.9, 0.99), decay is decoupled, and lr rises over "
    "10 steps and then stays. Each method has four trials with one seed, the fastest has six new "
    "seeds. A run that does not get there counts as 1,500 steps. Methods are compared by the sign "
    "test. Seconds are processor time on one thread of a machine with other work."
)
EXPERIMENT = kit.Experiment(
    name=NAME,
    title="multiplication modulo 97: steps until a network generalises",
    phrase="generalising without delay",
    source="Clip to Grok, not the paper",
    claimed="""rows of bounded norm end the delay between memorising and generalising: medians of
        1,200 steps along Adam and 550 along Lion, for 35,040 of AdamW""",
    ours="the smaller network, the limit of steps, trials for all methods",
    settings_stated="""
        width | 128 | {width}
        task | a·b modulo 97, half of the pairs | the same
        steps | until 95 % | at most {limit}
        runs | 200 | {runs}
    """,
    reduced={"laptop": "width 64 of 128, batches of 256, at most 1,500 steps"},
    scales=SCALES,
    jobs=partial(jobs_of, NAME, METHODS),
    run=run,
    figures={"steps": grokking_findings.draw},
    table=grokking_findings.TABLE,
    claims=grokking_findings.CLAIMS,
    note=NOTE,
    times={"smoke": "10 s", "laptop": "15 min", "full": "10 h"},
)
