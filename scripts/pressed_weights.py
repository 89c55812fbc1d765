"""Weights that are pressed against their bound for 100 epochs: does their slack stay alive?

Fashion-MNIST at the paper's setting, as ``cola reproduce fashion-circle`` has it: circles of radius
0.05 and 0.1 on a 784-1000-10 network, h = 0.3, γ = 1. A slack that becomes denormal freezes its
weight, because the kick is proportional to the slack; the angle φ therefore keeps √eps away from
±π/2, so that |ξ| = r|cos φ| ≥ √eps·r.

    python scripts/pressed_weights.py --data /path/to/data
    python scripts/pressed_weights.py --methods c-cola-ud-oba --epochs 1 --out /tmp/record.json

The record counts small slacks of both layers, and compares loss and accuracy at the last epoch with
the record of the experiment at the same epoch, if there is one. A method that is done is not done
again; one that was stopped goes on where it was. The exit status is 1 if a slack is below √eps·r/2.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from colangevin import Ensemble  # noqa: E402
from colangevin.lab.experiments.images import fashion_circle as fashion  # noqa: E402
from colangevin.lab.machine import circumstances  # noqa: E402

RECORD = ROOT / "benchmarks" / "results" / "pressed_weights.json"
BEFORE = ROOT / "results" / fashion.NAME
METHODS = ("c-cola-ud-oba", "c-cola-ud")
LAYERS = ("0.weight", "2.weight")
QUANTITIES = ("test_loss", "test_accuracy", "train_loss", "train_accuracy")
SAVE_SECONDS = 30.0


def count_small(slack: Tensor, radius: float) -> dict[str, Any]:
    """How many slacks are too small to grow again, at the smallest allowed, or small.

    Example:
        >>> found = count_small(torch.tensor([1e-40, 0.5, 1e-4]), 1.0)
        >>> found["denormal"], found["below_half_of_the_floor"], found["below_a_thousandth"]
        (1, 2, 2)
    """
    size, kind = slack.abs(), torch.finfo(slack.dtype)
    floor = math.sqrt(kind.eps) * radius
    return {
        "weights": size.numel(),
        "denormal": int((size < kind.tiny).sum()),
        "below_half_of_the_floor": int((size < floor / 2).sum()),
        "at_the_floor": int((size <= floor * 1.01).sum()),
        "below_a_thousandth": int((size < radius * 1e-3).sum()),
        "smallest_in_radii": float(size.min()) / radius,
    }


def settings_of(method: str, options: argparse.Namespace) -> dict[str, Any]:
    """The settings of the experiment at its full scale, with some of them replaced."""
    own = {"epochs": options.epochs, "runs": 1, "hidden": options.hidden}
    shorter = {"train_images": options.train_images, "test_images": options.test_images}
    return {**fashion.PAPER, **fashion.METHODS[method], **own, **shorter}


def train(method: str, settings: dict[str, Any], images: fashion.Images, work: Path) -> Ensemble:
    """Train the network of seed 0, from a checkpoint if there is one."""
    ensemble = fashion.make(settings, [0])
    checkpoint = work / f"{method}-{settings['hidden']}-{settings['train_images']}.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        if saved["epochs"] <= settings["epochs"]:
            ensemble.load_state_dict(saved)
    inputs, last = fashion.pixels(images.train_inputs), time.perf_counter()
    while ensemble.epochs < settings["epochs"]:
        loss = ensemble.epoch(
            functional.cross_entropy,
            inputs,
            images.train_labels,
            batch_size=settings["batch_size"],
        )
        done = ensemble.epochs == settings["epochs"]
        if done or time.perf_counter() - last > SAVE_SECONDS:
            save(checkpoint, ensemble.state_dict())
            last = time.perf_counter()
            print(f"{method}: epoch {ensemble.epochs}, training loss {float(loss):.4f}", flush=True)
    return ensemble


def save(path: Path, content: dict[str, Any]) -> None:
    """Write so that a kill leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    torch.save(content, draft)
    draft.replace(path)


def result(ensemble: Ensemble, settings: dict[str, Any], images: fashion.Images) -> dict[str, Any]:
    """Small slacks of both layers, losses, accuracies, and the verdict."""
    state = ensemble.state_dict()["state"]
    slacks = {
        name: count_small(radius * state[name]["slack"].cos(), radius)
        for name, radius in zip(LAYERS, settings["radii"], strict=True)
    }
    measured = {name: float(v) for name, v in fashion.measure(ensemble, images).items()}
    alive = all(counts["below_half_of_the_floor"] == 0 for counts in slacks.values())
    bounded = all(
        float(ensemble.member(0).get_parameter(name).detach().abs().max()) <= radius
        for name, radius in zip(LAYERS, settings["radii"], strict=True)
    )
    return {
        "epochs": ensemble.epochs,
        "steps": ensemble.steps,
        "slacks": slacks,
        "measured": measured,
        "slacks_alive": alive,
        "weights_bounded": bounded,
        "passed": alive and bounded,
    }


def compare(method: str, found: dict[str, Any], directory: Path) -> dict[str, Any] | None:
    """Each quantity beside those of the earlier runs at the same epoch.

    The distance is in standard deviations of one more run from the mean of the others:
    s√(1 + 1/n).
    """
    path = directory / f"{method}.json"
    history = json.loads(path.read_text(encoding="utf-8"))["history"] if path.exists() else {}
    if found["epochs"] not in history.get("epoch", []):
        return None
    row, beside = history["epoch"].index(found["epochs"]), {}
    for name in QUANTITIES:
        runs, now = history[name][row], found["measured"][name]
        mean, spread = statistics.fmean(runs), statistics.stdev(runs)
        beside[name] = {
            "now": now,
            "runs_before": runs,
            "distance": (now - mean) / (spread * math.sqrt(1 + 1 / len(runs))),
            "between_smallest_and_largest": min(runs) <= now <= max(runs),
        }
    return beside


def describe(method: str, found: dict[str, Any]) -> str:
    """Some lines of a result."""
    lines = [f"{method}: {'passed' if found['passed'] else 'FAILED'}, {found['epochs']} epochs"]
    for name, counts in found["slacks"].items():
        shares = ", ".join(
            f"{words} {counts[key]} ({counts[key] / counts['weights']:.3%})"
            for key, words in (
                ("denormal", "denormal"),
                ("below_half_of_the_floor", "below √eps·r/2"),
                ("at_the_floor", "at √eps·r"),
                ("below_a_thousandth", "below r/1000"),
            )
        )
        lines.append(f"  {name}, {counts['weights']} slacks: {shares}")
    for name, beside in (found["before"] or {}).items():
        lines.append(
            f"  {name} {beside['now']:.4f}; before {min(beside['runs_before']):.4f} to "
            f"{max(beside['runs_before']):.4f}, {beside['distance']:+.1f} standard deviations"
        )
    return "\n".join(lines)


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--methods", default=",".join(METHODS), help="with commas between them")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--hidden", type=int, default=fashion.PAPER["hidden"])
    for name in ("train_images", "test_images"):
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=int, default=fashion.PAPER[name])
    parser.add_argument("--data", type=Path, help="the folder with fashion-mnist")
    parser.add_argument("--before", type=Path, default=BEFORE, help="the records to compare with")
    parser.add_argument("--out", type=Path, default=RECORD, help="the record, a JSON file")
    parser.add_argument("--work", type=Path, default=ROOT / "out" / "pressed-weights")
    options = parser.parse_args(given)
    unknown = sorted(set(options.methods.split(",")) - set(METHODS))
    if unknown:
        parser.error(f"--methods: unknown {', '.join(unknown)}; there are {', '.join(METHODS)}")
    return options


def main(given: Sequence[str] | None = None) -> int:
    """Train, count, compare, and write the record."""
    options = arguments(given)
    torch.set_num_threads(1)
    record: dict[str, Any] = {}
    if options.out.exists():
        record = json.loads(options.out.read_text(encoding="utf-8"))
    for method in options.methods.split(","):
        settings = settings_of(method, options)
        if record.get(method, {}).get("settings") != settings:
            began = time.perf_counter()
            images = fashion.read_images(settings, options.data)
            found = result(train(method, settings, images, options.work), settings, images)
            found["before"] = compare(method, found, options.before)
            found["seconds"] = round(time.perf_counter() - began, 1)
            found["circumstances"] = circumstances(torch.device("cpu"), ["colangevin"])
            record[method] = {"settings": settings, "seed": 0, **found}
            options.out.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(record, indent=1, ensure_ascii=False)
            options.out.write_text(text + "\n", encoding="utf-8")
        print(describe(method, record[method]), flush=True)
    return 0 if all(record[name]["passed"] for name in options.methods.split(",")) else 1


if __name__ == "__main__":
    sys.exit(main())
