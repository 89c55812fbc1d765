"""Figure 5.1: two copies of a network at two rates, on images with patches."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from colangevin.lab import kit
from colangevin.lab.data import patches
from colangevin.lab.experiments.images import cifar_orthogonal
from colangevin.lab.experiments.multirate import multirate
from colangevin.lab.experiments.multirate.multirate import ACCURACY
from colangevin.lab.models import WideResNet

FULL: dict[str, Any] = {
    "runs": 1,
    "batches": [1, 2],
    "train_images": 20_000,
    "test_images": 2_000,
    "factor": 4,
    "channels": 16,
    "batch_size": 128,
    "epochs": 60,
}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        **FULL,
        "train_images": 40,
        "test_images": 16,
        "factor": 1,
        "channels": 2,
        "batch_size": 8,
        "epochs": 2,
    },
    "laptop": {
        **FULL,
        "runs": 2,
        "train_images": 5_000,
        "test_images": 1_000,
        "factor": 1,
        "channels": 8,
        "batch_size": 64,
        "epochs": 20,
    },
    "full": FULL,
}
SMALL, LARGE, PERIOD = 0.004, 0.1, 25
OPTIONS: dict[str, Any] = {"momentum": 0.9, "weight_decay": 5e-4}
METHODS: dict[str, dict[str, Any]] = {
    "small": {"label": "small step, h = 0.004", "h": SMALL},
    "large": {"label": "large step, h = 0.1", "h": LARGE},
    "both": {"label": "two copies, merged every 25 steps", "h": [SMALL, LARGE]},
}
SETS = {"clean": patches.CLEAN, "patched": patches.BOTH, "only": patches.ONLY}
CLEAN, PATCHED, ONLY = (
    replace(ACCURACY, key=f"{name}_accuracy", label=f"accuracy {words}, %")
    for name, words in (
        ("clean", "without patches"),
        ("patched", "with patches"),
        ("only", "on patches alone"),
    )
)
NOTE = (
    "Reduced: the thesis has 50,000 images and does not give the width of its WideResNet-16, the "
    "batch or the epochs. Full is a WideResNet-16-4 on 20,000 images, batches of 128, 60 epochs; "
    "laptop a WideResNet-16 with 8, 16 and 32 channels on 5,000 images, batches of 64, 20 epochs "
    "(1,600 steps), 1,000 test images, 2 runs. As in the thesis: the patches, h = 0.004 and 0.1, "
    "momentum 0.9, k = 25. Weight decay is 5e-4. Both copies make a step with every batch; after "
    "each 25 steps weights and statistics of the copies are averaged, and momenta are kept. "
    "The average is what is measured."
)


class Pair(nn.Module):
    """Two copies of a network; in training both answer, in evaluation their average does.

    Args:
        model: the network.

    Example:
        >>> pair = Pair(nn.Linear(2, 1))
        >>> pair(torch.zeros(5, 2)).shape, pair.eval()(torch.zeros(5, 2)).shape
        (torch.Size([2, 5, 1]), torch.Size([5, 1]))
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.first, self.second = model, copy.deepcopy(model)

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs of the copies, (2, n, ...), or of their average, (n, ...)."""
        if self.training:
            return torch.stack([self.first(inputs), self.second(inputs)])
        found: Tensor = functional_call(self.first, self.average(), (inputs,))
        return found

    def average(self) -> dict[str, Tensor]:
        """Means of the copies' weights and statistics; of counts, those of the first."""
        second = self.second.state_dict()
        return {
            name: (tensor + second[name]) / 2 if tensor.is_floating_point() else tensor
            for name, tensor in self.first.state_dict().items()
        }

    def merge(self) -> None:
        """Give both copies the average."""
        merged = self.average()
        self.first.load_state_dict(merged)
        self.second.load_state_dict(merged)


class MergingSGD(torch.optim.SGD):
    """SGD with a step for each copy of a pair, which merges them every ``period`` steps.

    Args:
        pair: the copies.
        steps: step of the first and of the second copy.
        period: k.
        **options: of SGD.

    Example:
        >>> pair = Pair(nn.Linear(1, 1, bias=False))
        >>> optimizer = MergingSGD(pair, (0.0, 1.0), period=1)
        >>> begun = pair.first.weight.item()
        >>> pair(torch.ones(1, 1)).sum().backward()
        >>> optimizer.step()
        >>> [round(copy.weight.item() - begun, 3) for copy in (pair.first, pair.second)]
        [-0.5, -0.5]
    """

    def __init__(self, pair: Pair, steps: Any, period: int, **options: Any) -> None:
        first, second = [
            {"params": list(part.parameters()), "lr": lr, "done": 0}
            for part, lr in zip((pair.first, pair.second), steps, strict=True)
        ]
        super().__init__([first, second], **options)
        self._pair, self._period = pair, period

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Make a step of both copies; merge them if it is time."""
        loss = super().step(closure)
        for group in self.param_groups:
            group["done"] += 1  # a part of the state dict
        if self.param_groups[0]["done"] % self._period == 0:
            self._pair.merge()
        return loss


def begin(settings: kit.Settings) -> kit.training.Parts:
    """A network, or a pair, with its optimizer."""
    model = WideResNet(settings["factor"], channels=settings["channels"])
    h = settings["h"]
    if not isinstance(h, list):
        return kit.training.Parts(model, torch.optim.SGD(model.parameters(), h, **OPTIONS))
    pair = Pair(model)
    return kit.training.Parts(pair, MergingSGD(pair, h, PERIOD, **OPTIONS))


def batch_loss(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy; of a pair the sum of both, so that each copy has its own gradient."""
    outputs = model(inputs)
    if outputs.dim() == 2:
        return nn.functional.cross_entropy(outputs, labels)
    return torch.stack([nn.functional.cross_entropy(each, labels) for each in outputs]).sum()


def run(job: kit.Job, log: kit.Log) -> None:
    """Train all runs of a method; patches, kinds and signs are the same for all of them."""
    settings = job.settings
    images = cifar_orthogonal.load(settings, log)
    generator = torch.Generator().manual_seed(settings["seed"])
    drawn = patches.draw_patches(generator)
    kinds = patches.draw_kinds(len(images.train_labels), generator)
    plain = cifar_orthogonal.prepared(images.train_images)
    inputs = drawn.put(plain, images.train_labels, kinds, generator)
    tests = {}
    for name, kind in SETS.items():
        plain = cifar_orthogonal.prepared(images.test_images)
        all_of_it = torch.full((len(plain),), kind)
        found = drawn.put(plain, images.test_labels, all_of_it, generator)
        tests[name] = list(zip(found.split(250), images.test_labels.split(250), strict=True))

    def measure(model: nn.Module) -> dict[str, float]:
        return {
            key: value
            for name, parts in tests.items()
            for key, value in multirate.classified(model, parts, name).items()
        }

    work = kit.training.Training(
        begin=lambda: begin(settings),
        loss=lambda model, items: batch_loss(model, inputs[items], images.train_labels[items]),
        measure=measure,
        items=len(images.train_labels),
        batch_size=settings["batch_size"],
        epochs=settings["epochs"],
    )
    multirate.train(work, log)


def on_patches(records: kit.Records) -> list[kit.Claim]:
    """What the caption states of patches; nothing of those that no method has learnt."""
    stated = multirate.ordered(ONLY, [("small", "large"), ("both", "large")])
    found = [claim for one in stated for claim in one(records)]
    means = [kit.mean_std(ONLY.of(own).values)[0] for own in records.values()]
    best = max(filter(math.isfinite, means), default=0.0)
    if best > 100.0 * kit.CHANCE:
        return found
    why = f"no method has learnt the patches: at most {best:.1f} % on patches alone"
    return [claim.incomparable(why) for claim in found]


TIME = kit.Quantity("milliseconds", "processor time of a step, ms", digits=0)
EXPERIMENT = kit.Experiment(
    name="multirate-patches",
    title="two copies of a wide ResNet at two rates, on CIFAR-10 with patches",
    phrase="a ResNet at two rates",
    source="thesis figure 5.1",
    claimed="""two copies of a network at two rates learn both the images and the patches on them;
        one rate learns only one of them""",
    ours="a narrow network on 5,000 images for 20 epochs, in which no method learnt the patches",
    settings_stated="""
        training images | 50,000 | {train_images}
        network | WideResNet-16, width not stated | WideResNet-16 with {channels}, 16 and 32
          channels
        epochs, batch | not stated | {epochs}, {batch_size}
        h, momentum, k | 0.004 and 0.1, 0.9, 25 | the same
        runs | not stated | {runs}
    """,
    reduced={
        "laptop": "5,000 of 50,000 images, 8 to 32 channels, 20 epochs",
        "full": "20,000 of 50,000 images",
    },
    own_scale="",
    scales=SCALES,
    jobs=METHODS,
    run=run,
    figures={"accuracies": kit.Curves([CLEAN, PATCHED, ONLY])},
    table=[kit.METHOD, CLEAN, PATCHED, ONLY, TIME],
    claims=[*multirate.ordered(CLEAN, [("large", "small"), ("both", "small")]), on_patches],
    data=("cifar-10",),
    note=NOTE,
    times={"smoke": "3 s", "laptop": "20 min", "full": "2 days"},
)
