"""Which scale orthogonal weights need behind ReLU and tanh, by depth: 1 or √2?

    python benchmarks/orthogonal_depth.py --data FOLDER            # measure what is missing
    python benchmarks/orthogonal_depth.py --data FOLDER --write    # and put the table into the page

Fashion-MNIST, 6,000 training images, MLPs of width 64 with PyTorch's first weights and biases; the
weights between hidden layers are orthogonal, the first and the last are free. Every cell is trained
with each learning rate and 5 seeds at once; the rate is chosen by the mean accuracy on 2,000 other
training images, and the test images are counted with this rate. All cells are kept in
results/orthogonal_depth.json; a cell that is there is not trained again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.lab.bench.page_words import put
from colangevin.lab.data import fashion_mnist
from colangevin.lab.models import mlp

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "guides" / "deep-networks.md"
RECORD = ROOT / "benchmarks" / "results" / "orthogonal_depth.json"
TRAIN, CHOICE, BATCH, EPOCHS, WIDTH, SEEDS = 6000, 2000, 100, 5, 64, 5
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}
DEPTHS = (5, 10, 20, 30)
SCALES: dict[str, float | None] = {"free": None, "1": 1.0, "√2": math.sqrt(2.0)}
RATES = {
    "gradient": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3),
    "adam": (0.0001, 0.0003, 0.001, 0.003, 0.01),
}
"""SGD with momentum 0.9, and Adam's direction without momentum of the dynamics."""
Data = tuple[tuple[Tensor, Tensor], ...]


def load(folder: str | None) -> Data:
    """Images to train on, to choose with, and to test with; pixels with mean 0 and variance 1."""
    found = fashion_mnist(folder)
    pixels = found.train_images[:TRAIN].float()
    mean, deviation = pixels.mean(), pixels.std()

    def rows(images: Tensor) -> Tensor:
        return ((images.float() - mean) / deviation).flatten(1)

    ends = TRAIN, TRAIN + CHOICE
    return (
        (rows(found.train_images[: ends[0]]), found.train_labels[: ends[0]]),
        (rows(found.train_images[ends[0] : ends[1]]), found.train_labels[ends[0] : ends[1]]),
        (rows(found.test_images), found.test_labels),
    )


def accuracies(ensemble: cl.Ensemble, points: tuple[Tensor, Tensor]) -> list[float]:
    """Per cent by member; 10, which is chance, for one that has diverged."""
    found = [10.0] * SEEDS
    images, labels = points
    rates = ensemble.evaluate(
        lambda y, t: (y.argmax(dim=1) == t).double().mean(), images, labels, batch_size=1000
    )
    for member, rate in zip(ensemble.active, rates.tolist(), strict=True):
        found[member] = round(100.0 * rate, 2)
    return found


def train(data: Data, activation: str, depth: int, scale: str, way: str, lr: float) -> Any:
    """One cell with one learning rate: accuracies of all seeds."""
    size = SCALES[scale]
    rules: dict[Any, Any] = {"0.weight": None, f"{2 * depth}.weight": None}
    if size is not None:
        rules["*.weight"] = cl.Orthogonal(scale=size)
    ensemble = cl.Ensemble(
        lambda: mlp(784, [WIDTH] * depth, 10, ACTIVATIONS[activation]),
        range(SEEDS),
        rules if size is not None else {},
        lr=lr,
        momentum=0.9 if way == "gradient" else 0.0,
        direction=way,
        compile=False,
    )
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a rate that is too large is part of the sweep
        for _ in range(EPOCHS):
            ensemble.epoch(nn.functional.cross_entropy, *data[0], batch_size=BATCH)
    return {
        "choice": accuracies(ensemble, data[1]),
        "test": accuracies(ensemble, data[2]),
        "fallbacks": ensemble.fallbacks,
        "seconds": round(time.perf_counter() - begin, 1),
    }


def measure(data: Data, chosen: list[str], record: dict[str, Any]) -> None:
    """Train what is not in the record yet."""
    torch.set_num_threads(1)
    for activation, way, depth, scale in itertools.product(chosen, RATES, DEPTHS, SCALES):
        for lr in RATES[way]:
            key = f"{activation} {way} {depth} {scale} {lr}"
            if key not in record:
                record[key] = train(data, activation, depth, scale, way, lr)
                print(key, record[key], flush=True)
                RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def cell_of(record: dict[str, Any], activation: str, way: str, depth: int, scale: str) -> Any:
    """The learning rate that was best on the images to choose with, and its test accuracies."""
    keys = {lr: f"{activation} {way} {depth} {scale} {lr}" for lr in RATES[way]}
    best = max(keys, key=lambda lr: statistics.mean(record[keys[lr]]["choice"]))
    return best, record[keys[best]]["test"]


def table(record: dict[str, Any]) -> str:
    """Test accuracies at the chosen rates, and the difference of the two scales."""
    rows = [
        f"{TRAIN:,} training images, {EPOCHS} epochs, batches of {BATCH}, width {WIDTH}, "
        f"{SEEDS} seeds, test accuracy in % (mean ± standard deviation, chosen lr; the difference "
        "with its standard error; `python benchmarks/orthogonal_depth.py`):",
        "",
        "| Activation | Direction | Hidden layers | free | scale 1 | scale √2 | √2 less 1 |",
        "| --- | --- | ---: | --- | --- | --- | --- |",
    ]
    for activation, way, depth in itertools.product(ACTIVATIONS, RATES, DEPTHS):
        cells, tests = [activation, way, str(depth)], {}
        for scale in SCALES:
            lr, tests[scale] = cell_of(record, activation, way, depth, scale)
            mean, spread = statistics.mean(tests[scale]), statistics.stdev(tests[scale])
            cells.append(f"{mean:.1f} ± {spread:.1f} ({lr})")
        gaps = [one - other for one, other in zip(tests["√2"], tests["1"], strict=True)]
        error = statistics.stdev(gaps) / math.sqrt(len(gaps))
        rows.append(
            "| " + " | ".join([*cells, f"{statistics.mean(gaps):+.1f} ± {error:.1f}"]) + " |"
        )
    return "\n".join(rows) + "\n"


def main() -> int:
    """Measure, print, and maybe keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="a folder with fashion-mnist; else COLA_DATA")
    parser.add_argument("--activation", choices=tuple(ACTIVATIONS), help="only this one")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    arguments = parser.parse_args()
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    chosen = [arguments.activation] if arguments.activation else list(ACTIVATIONS)
    measure(load(arguments.data), chosen, record)
    if arguments.activation is None or arguments.write:
        print(table(record))
    if arguments.write:
        put(PAGE, "scales", table(record))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
