"""Figure 5.6 and tables 5.1 to 5.3: an encoder of six layers, fine-tuned on SST-2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.lab import kit
from colangevin.lab.data.pretrained import Minilm
from colangevin.lab.data.word_pieces import padded
from colangevin.lab.experiments.multirate import multirate
from colangevin.lab.experiments.multirate.text_findings import CLAIMS, figures, table
from colangevin.lab.models.encoder import SentenceClassifier, encoder_of
from colangevin.optimizers import fast_by_name

NAME = "multirate-text"
FULL: dict[str, Any] = {
    "runs": 10,
    "sentences": 67_349,
    "test_sentences": 872,
    "longest": 128,
    "batch_size": 16,
    "epochs": 1,
    "points": 4,
    "h": 1e-4,
    "momentum": 0.9,
    "rounds": 4,
}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        **FULL,
        "runs": 1,
        "sentences": 16,
        "test_sentences": 4,
        "batch_size": 4,
        "points": 1,
        "h": 1e-2,
        "rounds": 1,
    },
    "laptop": {
        **FULL,
        "runs": 3,
        "sentences": 2_560,
        "longest": 16,
        "points": 1,
        "h": 3e-3,
        "rounds": 2,
    },
    # As in the thesis the product of step and steps is 0.42.
    "long": {
        **FULL,
        "runs": 3,
        "sentences": 16_000,
        "longest": 16,
        "points": 2,
        "h": 4.2e-4,
        "rounds": 2,
    },
    "full": FULL,
}
ABLATIONS: dict[str, dict[str, Any]] = {
    "no-drift": {"drift": False},
    "same-step": {"same_step": True},
    "k3": {"period": 3},
    "k10": {"period": 10},
}
WORDS = {"no-drift": "without drift", "same-step": "h_S = h_F", "k3": "k = 3", "k10": "k = 10"}


def methods() -> dict[str, dict[str, Any]]:
    """The methods of figure 5.6, and those of the tables.

    Example:
        >>> len(methods())
        13
    """
    found = dict(multirate.FINETUNING)
    for fast in ("multirate-fc", "multirate-block"):
        for name, own in ABLATIONS.items():
            base = multirate.FINETUNING[fast]
            found[f"{fast}-{name}"] = {**base, **own, "label": f"{base['label']}, {WORDS[name]}"}
    return found


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per method, and one that measures the time of a step.

    Example:
        >>> [job.name for job in jobs({**SCALES["smoke"], "seed": 0})][-2:]
        ['multirate-block-k10', 'time']
    """
    timing = kit.Job(
        NAME, "time", {**settings, "runs": 1, "part": "time", "label": "time of a step"}
    )
    return [
        *(
            kit.Job(NAME, name, {**settings, "part": "text", **own})
            for name, own in methods().items()
        ),
        timing,
    ]


def begin(published: Minilm, settings: kit.Settings) -> kit.training.Parts:
    """The pretrained encoder with a new classifier, and its optimizer."""
    model = SentenceClassifier(encoder_of(published.weights))
    last = len(model.encoder.layers) - 1
    block = [f"encoder.layers.{last}.*"] if settings["fast"] == "block" else []
    rates = fast_by_name(model, "classifier.*", *block)
    h, period = settings["h"], settings.get("period", multirate.PERIOD)
    method = {
        "kind": settings["kind"],
        "h": h,
        "period": period,
        "momentum": settings["momentum"],
        "drift": settings.get("drift", True),
        "slow_h": h if settings.get("same_step") else period * h,
    }
    return kit.training.Parts(model, multirate.optimizer(rates, method))


def encoded(
    published: Minilm, sentences: Sequence[str], labels: Tensor, count: int, longest: int
) -> tuple[Tensor, Tensor]:
    """The first sentences that have no more than ``longest`` pieces, with their labels."""
    rows, chosen = [], []
    for place, sentence in enumerate(sentences):
        pieces = published.pieces.encode(sentence)
        if len(pieces) <= longest:
            rows.append(pieces)
            chosen.append(place)
        if len(rows) == count:
            break
    return padded(rows), labels[chosen]


def trimmed(tokens: Tensor) -> Tensor:
    """Rows without the columns in which all are filled up.

    Example:
        >>> trimmed(torch.tensor([[1, 2, 0], [3, 0, 0]]))
        tensor([[1, 2],
                [3, 0]])
    """
    return tokens[:, : int((tokens != 0).sum(dim=1).max())]


def run(job: kit.Job, log: kit.Log) -> None:
    """Train all runs of a method, or measure the time of a step of every method."""
    settings = job.settings
    published, data = kit.LOADERS["minilm"](log.data), kit.LOADERS["sst-2"](log.data)
    tokens, labels = encoded(
        published, data.train, data.train_labels, settings["sentences"], settings["longest"]
    )
    if settings["part"] == "time":
        _measure_time(published, trimmed(tokens[: settings["batch_size"]]), labels, log)
        return
    test = encoded(
        published, data.dev, data.dev_labels, settings["test_sentences"], FULL["longest"]
    )
    order = (test[0] != 0).sum(dim=1).argsort()  # sentences of one length need no filling
    parts = [(trimmed(test[0][part]), test[1][part]) for part in order.split(50)]
    work = kit.training.Training(
        begin=lambda: begin(published, settings),
        loss=lambda model, items: multirate.classifier_loss(
            model, trimmed(tokens[items]), labels[items]
        ),
        measure=lambda model: multirate.classified(model, parts),
        items=len(labels),
        batch_size=settings["batch_size"],
        epochs=settings["epochs"],
        points=settings["points"],
    )
    multirate.train(work, log)


def _measure_time(published: Minilm, tokens: Tensor, labels: Tensor, log: kit.Log) -> None:
    settings = log.job.settings
    timed = {name: own for name, own in methods().items() if _has_own_time(name)}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        parts = {name: begin(published, {**settings, **own}) for name, own in timed.items()}
        found = multirate.time_steps(
            parts,
            lambda model: multirate.classifier_loss(model, tokens, labels[: len(tokens)]),
            settings["rounds"],
            steps=30,
        )
    log.finish(times=found)


def _has_own_time(name: str) -> bool:
    """Without drift, or with the same step, a step costs the same."""
    return not name.endswith(("no-drift", "same-step"))


NOTE = (
    "The encoder is all-MiniLM-L6-v2 (six layers of 384 numbers) with the mean over the word "
    "pieces and a new linear layer; the thesis has DistilBERT (six layers of 768). As in the "
    "thesis: k = 5, momentum 0.9, batches of 16, no weight decay. Full is one epoch of all 67,349 "
    "sentences with h/k = 1e-4, 10 runs. Laptop is one epoch of the first 2,560 phrases of at most "
    "16 word pieces, 160 steps, 3 runs; so short a training needs a larger step than the thesis's "
    "h/k = 1e-4; 0.003 is the best of 0.001, 0.003, 0.01 and 0.03 for full fine-tuning (1 run, "
    "seed 99, 80 steps), on 300 of the development part's 872 sentences. "
    "`--scale long` is one epoch of the first 16,000 such phrases, 1,000 steps, 3 runs, with the "
    "step 0.00042: step times steps is 0.42, as in the thesis's epoch of 4,210 steps."
)
EXPERIMENT = kit.Experiment(
    name=NAME,
    title="an encoder of sentences fine-tuned at two rates on SST-2",
    phrase="fine-tuning a text encoder",
    source="thesis figure 5.6, tables 5.1–5.3",
    claimed="""fine-tuning an encoder at two rates loses no accuracy, takes less time, and drift, k
        = 5 and a larger slow step each help""",
    ours="""MiniLM for DistilBERT, 16,000 short phrases for 1,000 steps; h chosen so that steps
        times h is that of the thesis""",
    settings_stated="""
        encoder | DistilBERT, six layers of 768 | MiniLM, six layers of 384
        sentences | 67,349 | {sentences}, of at most {longest} word pieces
        steps | 4,210 | 1,000
        h/k | 1e-4 | 4.2e-4
        k, momentum, batch | 5, 0.9, 16 | 5, {momentum}, {batch_size}
        runs | 10 | {runs}
    """,
    reduced={
        "laptop": "MiniLM for DistilBERT, 2,560 of 67,349 sentences, 160 of 4,210 steps",
        "long": "MiniLM for DistilBERT, 16,000 short of 67,349 sentences, 1,000 of 4,210 steps",
        "full": "MiniLM for DistilBERT",
    },
    own_scale="",
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures=figures,
    table=table,
    claims=CLAIMS,
    data=("sst-2", "minilm"),
    note=NOTE,
    times={"smoke": "10 s", "laptop": "15 min", "long": "45 min", "full": "4 days"},
)
