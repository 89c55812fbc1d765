"""A small GPT on bytes: which direction, under which constraint, at its own best learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR

from colangevin.constraints import Circle, Constraint, Orthogonal, Sphere
from colangevin.lab import kit
from colangevin.lab.data import Bytes
from colangevin.lab.experiments.text import language_findings
from colangevin.lab.experiments.text.language_findings import SEEDS, SHORTER, SWEEP
from colangevin.lab.models import GPT
from colangevin.optimizers import CoLA, constrain_
from colangevin.optimizers.directions import Adam, Direction, Polar

NAME = "language-model"
DATA = "wikitext-2 bytes"
VOCABULARY = 256
HEAD = 32
"""Numbers of a head of the attention."""
BETAS = (0.9, 0.95)
PARTS = {"attention": "*.attention.*", "mlp": "*.mlp.*"}
"""The hidden matrices, by name."""
GEOMETRIES: dict[str, Constraint | None] = {
    "free": None,
    "norm": Sphere("initial", equality=True, dim=None),
    "rows": Sphere("initial", equality=True),
    "orthogonal": Orthogonal(scale="rms"),
    "bounded": Circle("fan_in", factor=2.0),
}

LAPTOP: dict[str, Any] = {
    "runs": 5,
    "width": 128,
    "layers": 4,
    "context": 64,
    "sequences": 12,
    "steps": 360,
    "points": 6,
    "valid_bytes": 16_384,
    "other_lr": 0.004,
    "extensions": 2,
    "transfer": {"steps": 120, "points": 2, "widths": [64, 256]},
}
TINY = {"width": 32, "layers": 1, "context": 16, "sequences": 2, "steps": 12, "points": 3}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": LAPTOP
    | TINY
    | {"runs": 2, "valid_bytes": 128, "lrs": 3, "extensions": 1}
    | {"transfer": {"steps": 6, "points": 2, "widths": [32, 64]}},
    "laptop": LAPTOP,
    "full": LAPTOP
    | {"layers": 6, "width": 192, "context": 128, "sequences": 32, "steps": 4000, "points": 20}
    | {
        "runs": 5,
        "valid_bytes": 131_072,
        "transfer": {"steps": 1000, "points": 5, "widths": [96, 384]},
    },
}

ELEMENTS = [0.00025, 0.0005, 0.001, 0.002, 0.004]
"""Learning rates of Adam: how far an entry of a weight goes."""
MATRICES = [0.0125, 0.025, 0.05, 0.1, 0.2]
"""Those of polar: the size of a step's singular values."""
ANGLES = [0.01, 0.02, 0.04, 0.08, 0.16]
"""Those of relative polar updates: a step over the norm of the weight."""
SMALL_ANGLES = [0.0025, 0.005, 0.01, 0.02, 0.04]
"""Those of relative updates along Adam."""


def method(
    label: str, direction: str, lrs: Sequence[float], *geometry: str, **others: Any
) -> dict[str, Any]:
    """What differs between methods; one geometry for all, or one of attention and one of the MLP.

    Example:
        >>> method("Adam", "adam", [0.1], "free")["geometry"]
        {'attention': 'free', 'mlp': 'free'}
    """
    own = dict(zip(PARTS, geometry * 2, strict=False))
    return {"label": label, "direction": direction, "lrs": lrs, "geometry": own, **others}


METHODS: dict[str, dict[str, Any]] = {
    "adam": method("Adam", "adam", ELEMENTS, "free"),
    "adam-norm": method("AdamH", "adam", SMALL_ANGLES, "norm", relative=True, shorter=0.87),
    "polar": method("Muon", "polar", MATRICES, "free"),
    "polar-norm": method("MuonH", "polar", ANGLES, "norm", relative=True),
    "adam-rows": method("Adam, rows of fixed norm", "adam", ELEMENTS, "rows"),
    "polar-rows": method("Muon, rows of fixed norm", "polar", MATRICES, "rows"),
    "adam-bounded": method("Adam, bounded", "adam", ELEMENTS, "bounded"),
    "polar-bounded": method("Muon, bounded", "polar", MATRICES, "bounded"),
    "adam-orthogonal": method("Adam, orthogonal", "adam", ELEMENTS, "orthogonal"),
    "polar-orthogonal": method("Muon, orthogonal", "polar", MATRICES, "orthogonal"),
    "polar-mixed": method(
        "Muon, orthogonal attention, MLP of fixed norm",
        *("polar", ANGLES, "orthogonal", "norm"),
        relative=True,
    ),
    "adam-decay": method("AdamW, decay 0.1", "adam", ELEMENTS, "free", decay=0.1),
}
"""The methods; those on free weights are the controls of the rest."""
TRANSFERRED = ("adam", "adam-norm", "polar", "polar-norm")
NOTE = (
    "Reduced at every scale: the figures of others are those of networks of 124 million weights "
    "and more. "
    "Laptop is a GPT of 0.86 million weights (4 blocks of width 128, heads of 32, pre-norm, no "
    "biases in the hidden matrices) on the bytes of WikiText-2, 360 steps of 12 sequences of 64 "
    "bytes, with the loss on the first 16,384 bytes of the validation part. Only the hidden "
    "matrices (attention and MLP, 0.79 million weights) have the method. Embeddings, head and "
    "normalisations go along Adam with lr 0.004 in all methods. Adam has β = (0.9, 0.95), lr "
    "rises over the first tenth of the steps and then falls to 0 on a line, and gradients are not "
    "clipped. Each method has its own sweep of five lr with one seed. While the best is at an end, "
    "one more is added there, two at most. The best lr then has five new seeds. Methods of the "
    "same seed have the same first weights and batches; orthogonal weights begin at the nearest "
    "orthogonal ones. Seconds are processor time of the steps on one thread of a machine with "
    "other work; in the records of laptop they are those of the first three seeds, as the others "
    "ran on a busier machine. The two slowest methods have three seeds, and all weights orthogonal "
    "along the polar factor four lr. Transfer: the same sweeps with 120 steps at widths 64 and "
    "256, one seed."
)


class Stretch(NamedTuple):
    """Runs of one lr that go from mark to mark together."""

    part: str
    width: int
    lr: float
    steps: int
    seeds: Sequence[int]

    @property
    def key(self) -> tuple[str, int, float]:
        """By which its rows of the history are known."""
        return self.part, self.width, self.lr


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per method: its sweep, then its seeds; then one per method for its transfer.

    Example:
        >>> [job.name for job in jobs({**SCALES["smoke"], "seed": 0})][-2:]
        ['transfer-polar', 'transfer-polar-norm']
    """
    shared = ("transfer", "lrs")
    common = {key: value for key, value in settings.items() if key not in shared}
    found = []
    for name, own in METHODS.items():
        lrs = own["lrs"][: settings.get("lrs")]
        found.append(
            kit.Job(NAME, name, {**common, **own, "lrs": lrs, "widths": [settings["width"]]})
        )
    for name in TRANSFERRED:
        own = {key: value for key, value in METHODS[name].items() if key != "shorter"}
        own |= {**settings["transfer"], "lrs": own["lrs"][: settings.get("lrs")]}
        found.append(
            kit.Job(NAME, f"transfer-{name}", {**common, **own, "runs": 0, "extensions": 0})
        )
    return found


def run(job: kit.Job, log: kit.Log) -> None:
    """Sweep the lr of a method at each width; then train new seeds with the best."""
    settings = job.settings
    text: Bytes = kit.LOADERS[DATA](log.data)
    log.load()
    while (stretch := upcoming(settings, log.record.history)) is not None:
        if not train(settings, text, stretch, log):
            return
    log.finish(**language_findings.outcome(log.record))


def upcoming(settings: kit.Settings, history: Mapping[str, list[Any]]) -> Stretch | None:
    """What is to be trained next; None where everything is.

    A stretch is done once its last step is in the history.

    Example:
        >>> settings = {"lrs": [0.1, 0.2], "widths": [8], "steps": 5, "runs": 2, "seed": 0}
        >>> upcoming(settings | {"extensions": 0}, {})
        Stretch(part='sweep', width=8, lr=0.1, steps=5, seeds=[500])
    """
    sweep_seeds = [1000 * settings["seed"] + kit.RUNS]
    steps = settings["steps"]
    for width in settings["widths"]:
        losses = language_findings.swept(history, width, steps)
        lr = next_lr(settings["lrs"], losses, settings["extensions"])
        if lr is not None:
            return Stretch(SWEEP, width, lr, steps, sweep_seeds)
    seeds = list(kit.seeds_of(settings))
    best = language_findings.best(losses)
    parts = {SEEDS: steps}
    if "shorter" in settings:
        parts[SHORTER] = round(settings["shorter"] * steps)
    for part, length in parts.items() if seeds else ():
        if not language_findings.is_there(history, part, length):
            return Stretch(part, settings["widths"][-1], best, length, seeds)
    return None


def next_lr(planned: Sequence[float], losses: Mapping[float, float], more: int) -> float | None:
    """The lr to try next: those planned, then beyond the end where the best one is.

    Args:
        planned: in rising order.
        losses: of those that were tried; NaN for one that diverged.
        more: how many may be added.

    Example:
        >>> next_lr([0.1, 0.2], {0.1: 3.0}, 2)
        0.2
        >>> next_lr([0.1, 0.2], {0.1: 3.0, 0.2: 2.0}, 2)
        0.4
        >>> next_lr([0.1, 0.2], {0.1: 3.0, 0.2: 2.0, 0.4: math.nan}, 2) is None
        True
    """
    for lr in planned:
        if lr not in losses:
            return lr
    if len(losses) >= len(planned) + more:
        return None
    factor = planned[1] / planned[0]
    chosen = language_findings.best(losses)
    if chosen == max(losses):
        return float(f"{chosen * factor:.6g}")
    return float(f"{chosen / factor:.6g}") if chosen == min(losses) else None


def train(settings: kit.Settings, text: Bytes, stretch: Stretch, log: kit.Log) -> bool:
    """Train the runs of a stretch, from where the checkpoint is; return whether they are done."""
    work = language_training(settings, text, stretch, log.device)
    runs = [kit.training.Run(work, seed) for seed in stretch.seeds]
    saved = log.loaded
    if saved is not None and tuple(saved["stretch"]) == stretch.key:
        for run, own in zip(runs, saved["runs"], strict=True):
            run.load_state_dict(own)

    def state() -> dict[str, Any]:
        return {"stretch": list(stretch.key), "runs": [run.state_dict() for run in runs]}

    measured = len(language_findings.rows_of(log.record.history, *stretch.key))
    count = settings["points"]
    for mark in [round(stretch.steps * (i + 1) / count) for i in range(measured, count)]:
        for run in runs:
            while run.step < mark:
                run.advance()
                if not log.advance(_share(settings, log), state):
                    return False
        found = [run.measure() for run in runs]
        numbers = {name: [own[name] for own in found] for name in found[0]}
        seconds = [run.seconds for run in runs]
        key = dict(zip(("part", "width", "lr"), stretch.key, strict=True))
        log.append(**key, step=mark, **numbers, seconds=seconds)
    return True


def _share(settings: kit.Settings, log: kit.Log) -> float:
    """Roughly which share of the job is done, if no lr is added."""
    runs = len(settings["lrs"]) * len(settings["widths"]) + settings["runs"]
    seeds = [len(losses) for losses in log.record.history.get("valid_loss", [])]
    return sum(seeds) / (runs * settings["points"])


def language_training(
    settings: kit.Settings, text: Bytes, stretch: Stretch, device: torch.device | None = None
) -> kit.training.Training:
    """The training of one lr: an epoch is a step, so the lr follows its schedule step by step."""
    context, train = settings["context"], text.train.to(device)
    places = torch.arange(context + 1, device=device)
    valid = text.valid[: settings["valid_bytes"]].to(device)
    valid = valid[: len(valid) // (context + 1) * (context + 1)].view(-1, context + 1)

    def loss(model: nn.Module, items: Tensor) -> Tensor:
        first = torch.randint(len(train) - context, (settings["sequences"], 1))
        return sequence_loss(model, train[first.to(device) + places])

    return kit.training.Training(
        begin=lambda: begin(settings, stretch, device),
        loss=loss,
        measure=lambda model: {"valid_loss": mean_loss(model, valid)},
        items=1,
        batch_size=1,
        epochs=stretch.steps,
        shuffle=False,
    )


def begin(
    settings: kit.Settings, stretch: Stretch, device: torch.device | None = None
) -> kit.training.Parts:
    """A network, its optimizer, and the schedule of the lr.

    Example:
        >>> stretch = Stretch("sweep", 32, 0.1, 10, [0])
        >>> parts = begin({**SCALES["smoke"], **METHODS["polar-mixed"]}, stretch)
        >>> [(str(group["constraint"])[:10], group["lr"]) for group in parts.optimizer.param_groups]
        [('Orthogonal', 0.1), ('Sphere(rad', 0.1), ('Unconstrai', 0.004)]
    """
    width, longest = stretch.width, settings["context"]
    layers, heads = settings["layers"], width // HEAD
    model = GPT(VOCABULARY, size=width, heads=heads, layers=layers, longest=longest).to(device)
    rules = {PARTS[part]: GEOMETRIES[name] for part, name in settings["geometry"].items()}
    *hidden, others = constrain_(model, rules)
    for group in hidden:
        group |= {"lr": stretch.lr, "direction": direction(settings)}
        group["decoupled_weight_decay"] = settings.get("decay", 0.0)
    others |= {"lr": settings["other_lr"], "direction": Adam(BETAS)}
    optimizer = CoLA([*hidden, others], lr=stretch.lr)
    return kit.training.Parts(model, optimizer, LambdaLR(optimizer, schedule(stretch.steps)))


def direction(settings: kit.Settings) -> Direction:
    """What the hidden matrices go along.

    Example:
        >>> direction(METHODS["adam-norm"])
        Adam(betas=(0.9, 0.95), eps=1e-08, relative=True, tangent=False)
    """
    relative = settings.get("relative", False)
    return (
        Adam(BETAS, relative=relative)
        if settings["direction"] == "adam"
        else Polar(relative=relative)
    )


def schedule(steps: int) -> Callable[[int], float]:
    """Up to 1 over the first tenth of the steps, then down to 0 on a line.

    Example:
        >>> [round(schedule(20)(step), 2) for step in (0, 1, 2, 11, 19)]
        [0.5, 1.0, 1.0, 0.5, 0.06]
    """
    warm = max(1, steps // 10)
    return lambda step: min((step + 1) / warm, max(0.0, (steps - step) / (steps - warm)))


def sequence_loss(model: nn.Module, sequences: Tensor) -> Tensor:
    """Mean cross entropy, in nats, of each byte of a sequence but its first.

    Example:
        >>> model = GPT(VOCABULARY, size=32, heads=1, layers=1, longest=8)
        >>> round(float(sequence_loss(model, torch.zeros(2, 9, dtype=torch.uint8))), 2)  # log 256
        5.55
    """
    numbers = sequences.long()
    logits: Tensor = model(numbers[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), numbers[:, 1:].flatten())


def mean_loss(model: nn.Module, sequences: Tensor) -> float:
    """The loss of many sequences, a few at a time."""
    parts = sequences.split(64)
    return math.fsum(float(sequence_loss(model, p)) * len(p) for p in parts) / len(sequences)


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="a small GPT on bytes: directions and constraints, each at its own best learning rate",
    phrase="constraints on a GPT",
    source="figures of the field for Hyperball, Muon and manifold Muon, not of the paper",
    claimed="""with weights of fixed norm Adam needs 13 % fewer steps and Muon as many as without;
        orthogonal weights lower the loss of GPT-2 small a little; the best lr of Adam moves with
        the width, that of the others stays""",
    ours="the network, the text, its bytes, the steps and the grids of lr",
    settings_stated="""
        parameters | 124 million | about 1 million
        steps | 3,250 to 50,000 | {steps}
        runs | not stated | {runs}
        text | FineWeb | bytes of WikiText-2
    """,
    reduced={
        "laptop": "about 1 of 124 million parameters, bytes of WikiText-2",
        "full": "about 1 of 124 million parameters, bytes of WikiText-2",
    },
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures=language_findings.figures,
    table=language_findings.table,
    claims=language_findings.claims,
    data=(DATA,),
    note=NOTE,
    times={"smoke": "20 s", "laptop": "2 h", "full": "a week"},
    gpus=True,
)
