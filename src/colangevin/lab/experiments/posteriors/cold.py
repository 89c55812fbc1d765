"""Cold posteriors: predictions averaged over a posterior at temperatures around the Bayes one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from colangevin.constraints import Circle
from colangevin.lab import kit
from colangevin.lab.data import TWO_TURNS
from colangevin.lab.experiments.posteriors import posterior
from colangevin.lab.models import mlp
from colangevin.lab.runner import datasets
from colangevin.sampling import rhat, scores

NAME = "posterior-cold"
FACTORS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""T: the temperature is T times that of the Bayes posterior."""
PROBLEMS: dict[str, dict[str, Any]] = {
    "spiral": {
        "inputs": 2,
        "classes": 2,
        "hidden": 100,
        "radii": [1.0, 5.0],
        "train_points": 100,
        "longer": 5,
    },
    "fashion": {
        "inputs": 784,
        "classes": 10,
        "hidden": 20,
        "radii": [0.2, 1.0],
        "train_points": 1_000,
        "longer": 1,
    },
}
PRIORS = {"gaussian": "Gaussian prior", "circle": "circles"}
FULL: dict[str, Any] = {
    "runs": 4,
    "chains": 4,
    "factors": FACTORS,
    "descent": 2_000,
    "warmup": 4_000,
    "draws": 200,
    "thin": 40,
    "friction": 2.0,
    "test_points": 2_000,
}
SMOKE = {"runs": 2, "chains": 1, "descent": 20, "warmup": 40, "draws": 4, "thin": 1}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {**FULL, **SMOKE, "factors": (0.1, 1.0), "test_points": 50},
    "laptop": {**FULL, "runs": 2, "chains": 1, "descent": 800, "warmup": 1_000, "thin": 10},
    "full": FULL,
}


class Points(NamedTuple):
    """Inputs and classes to train and to test on."""

    inputs: Tensor
    labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per problem and prior, with all temperatures in it."""
    found = []
    for problem, own in PROBLEMS.items():
        for prior, label in PRIORS.items():
            named = {"problem": problem, "prior": prior, "label": f"{problem}, {label}"}
            found.append(kit.Job(NAME, f"{problem}-{prior}", {**settings, **own, **named}))
    return found


def points_of(settings: kit.Settings, directory: Path | None) -> Points:
    """The data of a problem."""
    count, tests = settings["train_points"], settings["test_points"]
    if settings["problem"] == "spiral":
        generator = torch.Generator().manual_seed(settings["seed"])
        inputs, labels = TWO_TURNS.sample(count + tests, generator=generator)
        labels = labels.long()
        return Points(inputs[:count], labels[:count], inputs[count:], labels[count:])
    images = datasets.LOADERS["fashion-mnist"](directory)
    return Points(
        images.train_images[:count].flatten(1).float() / 255,
        images.train_labels[:count],
        images.test_images[:tests].flatten(1).float() / 255,
        images.test_labels[:tests],
    )


def arguments(settings: kit.Settings, points: int) -> dict[str, Any]:
    """The arguments of a sampling: weights on circles, or free; the rest has a Gaussian prior."""
    names = ("0.weight", "2.weight")
    rules = dict(zip(names, map(Circle, settings["radii"]), strict=True))
    return {
        "rules": rules if settings["prior"] == "circle" else None,
        "prior": 1.0,
        "descent": settings["descent"],
        "warmup": settings["longer"] * settings["warmup"],
        "draws": settings["draws"],
        "thin": settings["longer"] * settings["thin"],
        "friction": settings["friction"] / math.sqrt(points),
        "seed": settings["seed"],
    }


def run(job: kit.Job, log: kit.Log) -> None:
    """Sample at all temperatures at once, one chain per temperature and run, and score."""
    settings = job.settings
    points = points_of(settings, log.data)
    size = settings["runs"] * settings["chains"]
    factors = [factor for factor in settings["factors"] for _ in range(size)]
    own = arguments(settings, len(points.labels))
    trace = posterior.sampled(
        log,
        "ladder",
        settings["descent"] + own["warmup"] + own["draws"] * own["thin"],
        lambda: mlp(settings["inputs"], [settings["hidden"]], settings["classes"]),
        functional.cross_entropy,
        (points.inputs, points.labels),
        chains=len(factors),
        temperature_factor=factors,
        **own,
    )
    if trace is None:
        return
    softmaxes = trace.predict(points.test_inputs, lambda out: out.softmax(dim=-1)).samples
    losses = trace["loss"].split(size)
    for factor, mine, loss in zip(settings["factors"], softmaxes.split(size), losses, strict=True):
        rows = [
            score(part.mean(dim=(0, 1)), points.test_labels)
            for part in mine.split(settings["chains"])
        ]
        log.append(
            factor=factor,
            **{key: [row[key] for row in rows] for key in rows[0]},
            train_loss=[float(part.mean()) for part in loss.split(settings["chains"])],
            rhat=float(rhat(loss)) if size > 1 else None,
        )
    log.finish(step_size=trace.tuning.step_size, tuning=str(trace.tuning))
    posterior.tidy(log)


def score(probabilities: Tensor, labels: Tensor) -> dict[str, float]:
    """Negative log-likelihood, accuracy and calibration error of mean probabilities.

    Example:
        >>> score(torch.tensor([[0.25, 0.75]]), torch.tensor([1]))["accuracy"]
        1.0
    """
    right = (probabilities.argmax(dim=1) == labels).double().mean()
    return {
        "nll": scores.categorical_nll(probabilities, labels),
        "accuracy": float(right),
        "ece": scores.ece(probabilities, labels),
    }


def figures(records: kit.Records) -> dict[str, kit.Figure]:
    """Test NLL and accuracy over T, for each problem."""
    problems = list(dict.fromkeys(r.settings["problem"] for r in records.values()))
    figure, axes = kit.panels((4.2 * len(problems), 6.0), 2, len(problems), squeeze=False)
    labels = {"nll": "test NLL", "accuracy": "test accuracy, %"}
    for column, problem in enumerate(problems):
        own = [r for r in records.values() if r.settings["problem"] == problem]
        for row, (key, label) in enumerate(labels.items()):
            axis = axes[row, column]
            scale = 100.0 if key == "accuracy" else 1.0
            for color, record in zip(kit.COLORS, own, strict=False):
                values = [[scale * v for v in entry] for entry in record.series(key)]
                name = PRIORS[record.settings["prior"]]
                kit.band(
                    axis, record.history["factor"], values, color=color, label=name, marker="o"
                )
            axis.axvline(1.0, color="gray", linewidth=1)
            axis.set(xscale="log", xlabel="T (1: Bayes)", ylabel=label)
            axis.grid(alpha=0.3)
        axes[0, column].set(title=problem)
    axes[0, 0].legend(fontsize="small")
    return {"temperature": figure}


def _means(record: kit.Record, key: str) -> list[float]:
    return [kit.mean_std(entry)[0] for entry in record.series(key)]


def best(record: kit.Record) -> float:
    """T with the lowest test NLL.

    Example:
        >>> history = {"factor": [0.1, 1.0], "nll": [[0.3, 0.5], [0.2, 0.9]]}
        >>> best(kit.Record("a", "b", 0, {}, history=history))
        0.1
    """
    values = _means(record, "nll")
    return float(record.history["factor"][values.index(min(values))])


def table(records: kit.Records) -> kit.Table:
    """NLL, accuracy and calibration error at T = 1 and at the best T."""
    rows = []
    for record in records.values():
        factors = [float(f) for f in record.history["factor"]]
        for factor in sorted({best(record), 1.0} & {*factors}):
            place = factors.index(factor)
            cells = [f"{kit.mean_std(record.series(key)[place])[0]:.3f}" for key in ("nll", "ece")]
            right = 100.0 * kit.mean_std(record.series("accuracy")[place])[0]
            hat = record.history["rhat"][place]
            known = "" if hat is None else f"{hat:.2f}"
            name = record.label
            rows.append([name, f"{factor:g}", cells[0], f"{right:.1f}", cells[1], known])
    columns = ["problem and prior", "T", "test NLL", "test accuracy, %", "calibration error"]
    return kit.Table([*columns, "R-hat of the loss"], rows)


def claims(records: kit.Records) -> list[kit.Claim]:
    """Whether a posterior colder than the Bayes one predicts better."""
    return [_cold(record) for record in records.values() if 1.0 in record.history["factor"]]


def _cold(record: kit.Record) -> kit.Claim:
    factors, series = [float(f) for f in record.history["factor"]], record.series("nll")
    bayes, coldest = series[factors.index(1.0)], series[factors.index(best(record))]
    gain = kit.of_pairs([b - c for b, c in zip(bayes, coldest, strict=True)])
    ours = f"best T = {best(record):g}, lower by {gain.by:.3f} than at T = 1 ({gain.runs} runs)"
    text = f"test NLL at T < 1 and at T = 1, {record.settings['label']}"
    return kit.Claim(text, "lower at T < 1", ours, order=kit.answer([gain]))


def _note(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="predictions of posteriors at temperatures around the Bayes one",
    phrase="colder and warmer posteriors",
    source="thesis sections 1.3.4 and 3.8, on the cold-posterior effect",
    claimed="posteriors colder than the Bayes one predict better (the cold-posterior effect)",
    ours="all settings: the sources state the effect, not these problems",
    settings_stated="""
        problems | none | 100 points of a spiral, 1,000 images of Fashion-MNIST
        networks | none | one hidden layer of {hidden} nodes
        runs, chains | none | {runs}, {chains}
    """,
    reduced={
        "laptop": "the sources have no setting; half the runs, a quarter of the chains, short ones"
    },
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures=figures,
    table=table,
    claims=claims,
    data=("fashion-mnist",),
    note=(
        f"T is {_note(FACTORS)}. One hidden layer: 100 nodes and 100 training points of the "
        "two-turn spiral, 20 nodes and 1,000 training images of Fashion-MNIST; 2,000 test points. "
        "All data in each step. The prior is standard normal, or uniform on circles with a "
        "standard normal prior of the biases. The sources state the effect, not these problems"
    ),
    times={"smoke": "10 s", "laptop": "6 min", "full": "2 h"},
)
