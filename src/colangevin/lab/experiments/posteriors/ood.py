"""Do predictions know what they have not seen: Fashion-MNIST against MNIST."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from colangevin.lab import kit
from colangevin.lab.experiments.partitioned.adam import AdamEnsemble
from colangevin.lab.experiments.posteriors import posterior
from colangevin.lab.experiments.posteriors.cold import score
from colangevin.lab.models import mlp
from colangevin.lab.runner import datasets
from colangevin.sampling import scores

NAME = "posterior-ood"
FULL: dict[str, Any] = {
    "runs": 5,
    "hidden": 50,
    "train_points": 2_000,
    "test_points": 2_000,
    "members": 10,
    "chains": 4,
    "descent": 2_000,
    "warmup": 4_000,
    "draws": 200,
    "thin": 20,
    "friction": 2.0,
    "epochs": 30,
    "batch_size": 64,
    "lr": 1e-3,
}
SMOKE = {"runs": 2, "chains": 2, "members": 2, "descent": 20, "warmup": 40, "draws": 4, "thin": 1}
LAPTOP = {"runs": 2, "chains": 2, "train_points": 1_000, "hidden": 20}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {**FULL, **SMOKE, "hidden": 8, "test_points": 30, "epochs": 1},
    "laptop": {**FULL, **LAPTOP, "descent": 800, "warmup": 1_000, "thin": 10},
    "full": FULL,
}
LABELS = {"single": "one network", "ensemble": "deep ensemble", "posterior": "posterior"}
MEASURES = {
    "entropy": "entropy",
    "confidence": "largest probability",
    "information": "mutual information",
}


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One network and deep ensembles in one job; the posterior."""
    trained = kit.Job(NAME, "ensemble", {**settings, "label": LABELS["ensemble"]})
    return [trained, kit.Job(NAME, "posterior", {**settings, "label": LABELS["posterior"]})]


def unknowns(probabilities: Tensor) -> dict[str, Tensor]:
    """Scores that should be large for inputs of another kind.

    Args:
        probabilities: [draws, points, classes].

    Example:
        >>> sure = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])  # two draws that contradict
        >>> found = unknowns(sure)
        >>> [round(float(found[key]), 3) for key in ("entropy", "confidence", "information")]
        [0.693, 0.5, 0.693]
    """
    mean = probabilities.double().mean(dim=0)
    entropy = torch.special.entr(mean).sum(dim=1)
    own = torch.special.entr(probabilities.double()).sum(dim=2).mean(dim=0)
    return {
        "entropy": entropy,
        "confidence": 1.0 - mean.max(dim=1).values,
        "information": entropy - own,
    }


def judged(known: Tensor, unknown: Tensor, labels: Tensor) -> dict[str, Any]:
    """AUROC and FPR95 of the three scores, and the scores of the known points."""
    inside, outside = unknowns(known), unknowns(unknown)
    found: dict[str, Any] = score(known.mean(dim=0), labels)
    for key in MEASURES:
        found[f"auroc_{key}"] = scores.auroc(inside[key], outside[key])
        found[f"fpr95_{key}"] = scores.fpr95(inside[key], outside[key])
    return found


def run(job: kit.Job, log: kit.Log) -> None:
    """Train or sample on Fashion-MNIST; judge on its test images and on those of MNIST."""
    settings = job.settings
    clothes = datasets.LOADERS["fashion-mnist"](log.data)
    digits = datasets.LOADERS["mnist"](log.data)
    count, tests = settings["train_points"], settings["test_points"]
    data = _pixels(clothes.train_images[:count]), clothes.train_labels[:count]
    known, unknown = _pixels(clothes.test_images[:tests]), _pixels(digits.test_images[:tests])
    made = (_sampled if job.name == "posterior" else _trained)(settings, data, log)
    if made is None:
        return
    predict, more = made
    pairs = list(zip(predict(known), predict(unknown), strict=True))
    rows = [judged(*pair, clothes.test_labels[:tests]) for pair in pairs]
    final: dict[str, Any] = {key: [row[key] for row in rows] for key in rows[0]}
    if job.name == "ensemble":
        alone = [judged(a[:1], b[:1], clothes.test_labels[:tests]) for a, b in pairs]
        final["single"] = {key: [row[key] for row in alone] for key in alone[0]}
    log.finish(**final, **more)
    posterior.tidy(log)


def _pixels(images: Tensor) -> Tensor:
    return images.flatten(1).float() / 255


def _sampled(settings: kit.Settings, data: tuple[Tensor, Tensor], log: kit.Log) -> Any:
    steps = settings["descent"] + settings["warmup"] + settings["draws"] * settings["thin"]
    trace = posterior.sampled(
        log,
        "chains",
        steps,
        lambda: mlp(784, [settings["hidden"]], 10),
        functional.cross_entropy,
        data,
        chains=settings["runs"] * settings["chains"],
        descent=settings["descent"],
        warmup=settings["warmup"],
        draws=settings["draws"],
        thin=settings["thin"],
        prior=1.0,
        friction=settings["friction"] / math.sqrt(len(data[1])),
        seed=settings["seed"],
    )
    if trace is None:
        return None

    def predict(inputs: Tensor) -> list[Tensor]:
        found = trace.predict(inputs, lambda out: out.softmax(dim=-1), every=4).samples
        return [own.flatten(0, 1) for own in found.split(settings["chains"])]

    return predict, {"tuning": str(trace.tuning)}


def _trained(settings: kit.Settings, data: tuple[Tensor, Tensor], log: kit.Log) -> Any:
    """Deep ensembles, one per run; seconds of work, so that they begin anew after a stop."""
    first = 1000 * kit.seeds_of(settings)[0]
    seeds = range(first, first + settings["runs"] * settings["members"])
    ensemble = AdamEnsemble(lambda: mlp(784, [settings["hidden"]], 10), seeds, lr=settings["lr"])
    while ensemble.epochs < settings["epochs"]:
        ensemble.epoch(functional.cross_entropy, *data, batch_size=settings["batch_size"])
        if not log.keep_going(0.999 * ensemble.epochs / settings["epochs"]):
            log.save({})
            return None

    def predict(inputs: Tensor) -> list[Tensor]:
        members = [ensemble.member(index) for index in ensemble.active]
        found = posterior.members_outputs(members, inputs).softmax(dim=-1)
        return list(found.split(settings["members"]))

    return predict, {}


def _rows(records: kit.Records) -> dict[str, Any]:
    """Final values by method."""
    found: dict[str, Any] = {}
    if "ensemble" in records:
        found = {
            "single": records["ensemble"].final["single"],
            "ensemble": records["ensemble"].final,
        }
    if "posterior" in records:
        found["posterior"] = records["posterior"].final
    return found


def figures(records: kit.Records) -> dict[str, kit.Figure]:
    """AUROC and FPR95 by score and method."""
    figure, axes = kit.panels((9.0, 3.4), 1, 2)
    for axis, kind, label in zip(axes, ("auroc", "fpr95"), ("AUROC", "FPR95"), strict=True):
        for place, (method, final) in enumerate(_rows(records).items()):
            for spot, key in enumerate(MEASURES):
                if method == "single" and key == "information":
                    continue  # of one network it is zero
                values = final[f"{kind}_{key}"]
                name = LABELS[method] if spot == 0 else None
                x = [spot + 0.2 * (place - 1)] * len(values)
                axis.plot(x, values, "o", color=kit.COLORS[place], label=name)
        axis.set(ylabel=label, xticks=range(len(MEASURES)))
        axis.set_xticklabels([label.replace(" ", "\n") for label in MEASURES.values()])
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize="small")
    return {"unknown": figure}


def table(records: kit.Records) -> kit.Table:
    """Scores on Fashion-MNIST, and how well MNIST is told apart."""
    rows = []
    for method, final in _rows(records).items():
        right = [100.0 * value for value in final["accuracy"]]
        cells = [kit.summary(right, 1), kit.summary(final["nll"], 3), kit.summary(final["ece"], 3)]
        for key in MEASURES:
            none = method == "single" and key == "information"
            cells.append("" if none else kit.summary(final[f"auroc_{key}"], 3))
        cells.append(kit.summary(final["fpr95_entropy"], 3))
        rows.append([LABELS[method], *cells])
    named = [f"AUROC, {label}" for label in MEASURES.values()]
    columns = ["method", "test accuracy, %", "test NLL", "calibration error", *named]
    return kit.Table([*columns, "FPR95, entropy"], rows)


SCORE = kit.Quantity("", "", digits=3)
EXPECTED = {"nll": "test NLL", "ece": "calibration error", "auroc_entropy": "AUROC of the entropy"}
EXPERIMENT = kit.Experiment(
    name=NAME,
    title="one network, a deep ensemble and a posterior on Fashion-MNIST, judged on MNIST too",
    phrase="unknown images",
    source="an expectation of the field, not of the paper",
    claimed="""a posterior is better calibrated than a network or a deep ensemble, and tells unknown
        images better apart""",
    ours="""everything: this is an expectation of the field; the posterior takes more time than the
        ensemble""",
    settings_stated="""
        network | none | one hidden layer of {hidden} nodes
        training images | none | {train_points}
        runs, chains | none | {runs}, {chains}
    """,
    reduced={"laptop": "no source; 2 of 5 runs, 20 of 50 nodes, half the images"},
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures=figures,
    table=table,
    claims=[
        kit.Ahead(
            replace(SCORE, key=key, label=what, sign=1 if key.startswith("auroc") else -1),
            kit.Of("posterior", label=LABELS["posterior"]),
            [
                kit.Of("ensemble", replace(SCORE, key=f"single/{key}"), LABELS["single"]),
                kit.Of("ensemble", label=LABELS["ensemble"]),
            ],
        )
        for key, what in EXPECTED.items()
    ],
    data=("fashion-mnist", "mnist"),
    note="""One hidden layer; training images are the first of the official ones. The posterior has
        a standard normal prior and all data in each step; deep ensembles have 10 members, trained
        by Adam. Not of the same cost: the posterior takes more""",
    times={"smoke": "10 s", "laptop": "5 min", "full": "2 h"},
)
