"""Figures 5.7 and 5.8: random weights asleep regularise a perceptron and a transformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from colangevin.lab import kit
from colangevin.lab.experiments.multirate import multirate
from colangevin.lab.experiments.multirate.multirate import ACCURACY, LOSS
from colangevin.lab.experiments.text import transformer_circle
from colangevin.lab.models import TransformerLM, mlp
from colangevin.optimizers import SubsetMultirate, random_subsets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "multirate-subsets"
DIGITS: dict[str, Any] = {"images": 60_000, "hidden": 500, "batch_size": 128, "epochs": 20}
FEW: dict[str, Any] = {**DIGITS, "images": 1_000, "epochs": 400, "points": 0.05, "runs": 5}
"""So few images, and so many epochs, that SGD overfits."""
TEXT: dict[str, Any] = {"train_tokens": 50_000, "valid_tokens": 10_000, "size": 200}
TEXT |= {"batch_tokens": 128, "epochs": 4, "points": 1}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        "runs": 1,
        "text_runs": 1,
        "digits": {"images": 60, "hidden": 6, "batch_size": 10, "epochs": 3},
        "few": {**FEW, "images": 30, "hidden": 6, "batch_size": 10, "epochs": 40, "runs": 1},
        "text": {**TEXT, "train_tokens": 1_100, "valid_tokens": 520, "size": 8, "epochs": 2},
    },
    "laptop": {
        "runs": 2,
        "text_runs": 1,
        "digits": {**DIGITS, "hidden": 100, "epochs": 10},
        "few": {**FEW, "hidden": 100, "runs": 2},
        "text": {**TEXT, "train_tokens": 20_000, "epochs": 2},
    },
    "full": {"runs": 3, "text_runs": 1, "digits": DIGITS, "text": TEXT},
    # Adds its jobs to the records of the full scale.
    "few": {"scale": "full", "runs": 3, "text_runs": 1, "digits": DIGITS, "few": FEW, "text": TEXT},
}
STEP, PERIOD, DROPPED = 0.1, 5, 0.2
HIDDEN = {"0.weight": 0.8, "2.weight": 0.5}
ASLEEP = {"digits": HIDDEN, "few": HIDDEN, "text": {"encoder.*weight": DROPPED}}
MOMENTUM = 0.9


def with_momentum(methods: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same methods with momentum.

    Example:
        >>> list(with_momentum({"sgd": {"label": "SGD"}}).values())
        [{'label': 'SGD, momentum 0.9', 'momentum': 0.9}]
    """
    return {
        f"{name}-momentum": {
            **own,
            "label": f"{own['label']}, momentum {MOMENTUM:g}",
            "momentum": MOMENTUM,
        }
        for name, own in methods.items()
    }


PLAIN: dict[str, dict[str, Any]] = {
    "multirate": {"label": "multirate", "asleep": True},
    "sgd": {"label": "SGD"},
    "every-step": {"label": "others at zero every step", "asleep": True, "waking": False},
}
METHODS: dict[str, dict[str, dict[str, Any]]] = {
    "digits": PLAIN | with_momentum(PLAIN),
    "few": PLAIN,
    "text": {
        "multirate": {"label": "multirate", "asleep": True},
        "sgd": {"label": "SGD"},
        "dropout": {"label": "SGD, dropout", "dropout": DROPPED},
    },
}
FIGURES = {"digits": "5.7", "few": "5.7, 1,000 images", "text": "5.8"}
VALID = kit.Quantity("valid_loss", "validation loss", digits=3)
NOTE = (
    "Figure 5.7 does not give the width, the batch, k, the epochs or the runs: full has 500 nodes, "
    "batches of 128, k = 5, 20 epochs of all 60,000 images, 3 runs. As in the thesis: h = 0.1, and "
    "weights sleep with probability 0.8 in the input layer and 0.5 in the layer after the hidden "
    "nodes. There SGD does not overfit. `--scale few` adds the first 1,000 images for 400 epochs, "
    "5 runs, where it does. Figure 5.8 is reduced at every scale: full is 4 "
    "epochs of the first 50,000 of Penn Treebank's "
    "929,589 training tokens, loss on 10,000 validation tokens, 1 run. The batch of 128 "
    "is read as tokens, in sequences of 32. The thesis does not give the probabilities there: "
    "weights of the encoder sleep with 0.2 (k = 5), the dropout in the encoder is 0.2, not tuned. "
    "Momentum: section 5.9.3 has 0.9 unless indicated otherwise, the captions name SGD with h "
    "only; figure 5.7 is run without and with it, figure 5.8 without."
)


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """Three methods for digits, without momentum and with it, many and few; and three for text.

    Example:
        >>> [job.name for job in jobs({**SCALES["smoke"], "scale": "smoke", "seed": 0})][:2]
        ['digits-multirate', 'digits-sgd']
    """
    runs = {"digits": settings["runs"], "text": min(settings["runs"], settings["text_runs"])}
    runs["few"] = settings.get("few", {}).get("runs", 0)
    return [
        kit.Job(
            NAME,
            f"{part}-{name}",
            {
                **{key: settings[key] for key in ("scale", "seed")},
                **settings[part],
                "runs": runs[part],
                "part": part,
                **own,
            },
        )
        for part, methods in METHODS.items()
        if part in settings
        for name, own in methods.items()
    ]


def run(job: kit.Job, log: kit.Log) -> None:
    """Train all runs of a method."""
    text = job.settings["part"] == "text"
    multirate.train(text_training(job, log) if text else digits_training(job, log), log)


def digits_training(job: kit.Job, log: kit.Log) -> kit.training.Training:
    """A perceptron with one hidden layer on MNIST, or on a few of its images."""
    settings = job.settings
    images = kit.LOADERS["mnist"](log.data)
    inputs, labels = [
        (each.flatten(1).float() / 255 if each.dim() > 1 else each)[: settings["images"]]
        for each in (images.train_images, images.train_labels)
    ]
    test = images.test_images.flatten(1).float() / 255, images.test_labels

    def begin() -> kit.training.Parts:
        model = mlp(inputs.shape[1], [settings["hidden"]], 10)
        return kit.training.Parts(model, optimizer(model, settings))

    return kit.training.Training(
        begin=begin,
        loss=lambda model, items: multirate.classifier_loss(model, inputs[items], labels[items]),
        measure=lambda model: multirate.classified(model, [test]),
        items=len(labels),
        batch_size=settings["batch_size"],
        epochs=settings["epochs"],
        points=settings.get("points", 1),
    )


def text_training(job: kit.Job, log: kit.Log) -> kit.training.Training:
    """A transformer on Penn Treebank, with dropout in the encoder or none."""
    settings = job.settings
    corpus = kit.LOADERS["ptb"](log.data)

    def begin() -> kit.training.Parts:
        size, dropout = settings["size"], settings.get("dropout", 0.0)
        model = TransformerLM(len(corpus.vocabulary), size=size, hidden=size, dropout=dropout)
        model.position.dropout.p = 0.0  # the encoder alone has dropout
        return kit.training.Parts(model, optimizer(model, settings))

    return transformer_circle.language_training(settings, corpus, log, begin)


def optimizer(model: nn.Module, settings: kit.Settings) -> Optimizer:
    """SGD, or SGD with sleeping weights.

    Example:
        >>> settings = {"part": "digits", "asleep": True, "waking": False}
        >>> optimizer(mlp(4, [3], 2), settings).period
        1
    """
    momentum = settings.get("momentum", 0.0)
    if not settings.get("asleep"):
        return torch.optim.SGD(model.parameters(), STEP, momentum)
    waking = settings.get("waking", True)
    period = PERIOD if waking else 1
    groups = random_subsets(model, ASLEEP[settings["part"]])
    return SubsetMultirate(groups, STEP, momentum, period=period, waking_step=waking)


def _part(records: kit.Records, part: str, momentum: float) -> list[kit.Record]:
    return [
        record
        for record in records.values()
        if (record.settings["part"], record.settings.get("momentum", 0.0)) == (part, momentum)
    ]


def figures(records: kit.Records) -> dict[str, Figure]:
    """Figures 5.7 and 5.8, as far as their jobs are done."""
    panels = {
        "digits": {"test_accuracy": "test accuracy, %", "train_loss": "training loss"},
        "few": {"test_accuracy": "test accuracy, %", "test_loss": "test loss"},
        "text": {"valid_loss": "validation loss", "train_loss": "training loss"},
    }
    drawn = {}
    for part, quantities in panels.items():
        chosen = [_part(records, part, momentum) for momentum in (0.0, MOMENTUM)]
        if rows := [(quantities, own) for own in chosen if own]:
            drawn[part] = kit.draw_curves(rows)
    return drawn


def table(records: kit.Records) -> kit.Table:
    """What every method ends at, and what a step costs."""
    rows = []
    for job, record in records.items():
        digits = record.settings["part"] != "text"
        rows.append(
            [
                FIGURES[record.settings["part"]],
                record.label,
                ACCURACY.text(record) if digits else "–",
                (LOSS if digits else VALID).text(record),
                records.text(job, "train_loss", 3),
                records.text(job, "milliseconds", 1),
            ]
        )
    columns = ["figure", "method", ACCURACY.label, "test or validation loss", "train loss"]
    return kit.Table([*columns, "processor time of a step, ms"], rows)


def claims(records: kit.Records) -> list[kit.Claim]:
    """What the captions state."""
    found = []
    for part, text in (("digits", "MNIST, "), ("few", "MNIST, 1,000 images, ")):
        pairs = [
            (f"{part}-multirate{end}", f"{part}-{other}{end}")
            for end in ("", "-momentum")
            for other in ("sgd", "every-step")
        ]
        found += multirate.orderings(records, ACCURACY, pairs, text)
    pairs = [("text-multirate", "text-sgd"), ("text-multirate", "text-dropout")]
    return [*found, *multirate.orderings(records, VALID, pairs, "Penn Treebank, ")]


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="random weights asleep as a regulariser: a perceptron and a transformer",
    phrase="random weights asleep",
    source="thesis figures 5.7 and 5.8",
    claimed="""random weights asleep regularise: a higher test accuracy than SGD, a lower
        validation loss than SGD and dropout""",
    ours="""width, batch, k, epochs and runs of figure 5.7; the probabilities of figure 5.8, and
        5 % of its text""",
    settings_stated="""
        width, batch, k of figure 5.7 | not stated | {hidden}, 128, 5
        images, epochs of figure 5.7 | not stated | 60,000, 20; and 1,000, 400
        training tokens of figure 5.8 | 929,589 | {train_tokens}, for 4 epochs
        probabilities in figure 5.8 | not stated | 0.2
        probabilities in figure 5.7 | 0.8 and 0.5 | the same
        momentum | 0.9, or none | 0 and 0.9
        runs | not stated | {runs}
    """,
    reduced={
        "full": "figure 5.8: 4 epochs of 5 % of the text, 1 run",
        "few": "figure 5.8: 4 epochs of 5 % of the text, 1 run",
        "laptop": "figure 5.7: 100 nodes, 10 epochs; figure 5.8: 2 epochs of 2 % of the text",
    },
    own_scale="",
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures=figures,
    table=table,
    claims=claims,
    data=("mnist", "ptb"),
    note=NOTE,
    times={"smoke": "3 s", "laptop": "3 min", "full": "25 min", "few": "35 min"},
)
