"""Figures 5.4 and 5.12: fine-tuning at two rates, and slow biases of a ResNet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from colangevin.lab import kit
from colangevin.lab.data import augment
from colangevin.lab.data.idx import ImageData
from colangevin.lab.experiments.images import cifar_orthogonal
from colangevin.lab.experiments.multirate import multirate
from colangevin.lab.experiments.multirate.multirate import (
    ACCURACY,
    FINETUNING,
    LOSS,
    times,
    trained,
)
from colangevin.lab.models import MobileNetV2, resnet
from colangevin.optimizers import Rates, fast_by_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "multirate-images"
MOMENTUM = 0.9
FINETUNE: dict[str, Any] = {"train_images": 20_000, "test_images": 10_000, "epochs": 10}
FINETUNE |= {"pixels": 64, "batch_size": 32, "h": 0.001, "batches": [1, 2], "points": 1}
BIASES: dict[str, Any] = {"train_images": 20_000, "test_images": 10_000, "epochs": 50}
BIASES |= {"blocks": [3, 4, 6, 3], "width": 64, "batch_size": 128, "batches": [1, 2]}
LITTLE = {"train_images": 16, "test_images": 8, "batch_size": 8, "epochs": 1}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        "runs": 1,
        "rounds": 1,
        "finetune": {**FINETUNE, **LITTLE, "pixels": 32},
        "long": {**FINETUNE, **LITTLE, "pixels": 32},
        "biases": {**BIASES, **LITTLE, "blocks": [1, 1], "width": 4},
    },
    "laptop": {
        "runs": 3,
        "rounds": 4,
        "finetune": {**FINETUNE, "train_images": 2_000, "test_images": 500, "epochs": 2},
        "long": {**FINETUNE, "train_images": 4_000, "test_images": 500, "epochs": 8, "pixels": 32},
        "biases": {
            **BIASES,
            "train_images": 5_000,
            "test_images": 2_000,
            "epochs": 6,
            "blocks": [1, 1, 1],
            "width": 8,
        },
    },
    "full": {
        "runs": 20,
        "rounds": 8,
        "finetune": FINETUNE,
        "long": {**FINETUNE, "epochs": 20, "pixels": 32},
        "biases": BIASES,
    },
}
FAST = {"fc": ["classifier.*"], "block": ["classifier.*", "features.17.*", "features.18.*"]}
SLOW_BIASES = {"kind": "multirate", "h": 0.1, "period": 10}
SGD = {"kind": "sgd", "h": 0.1}
FIGURES = {"finetune": "5.4", "long": "5.4, longer, 32 pixels", "biases": "5.12"}
LONG = ("full", "multirate-fc")
NOTE = (
    "Figure 5.4: a MobileNetV2 with ImageNet's weights (its jobs need mobilenet_v2-b0353104.pth) "
    "stands in for the ResNet-34; the last block "
    "is its last residual block with the convolution after it. As in the thesis: h/k = 0.001, "
    "k = 5, momentum 0.9, no weight decay, no schedule. Figure 5.12: k = 10, h = 1 for the slow "
    "biases of the last layer, 0.1 for all else, batches of 128, momentum 0.9. Full has the first "
    "20,000 images, 20 runs, and a ResNet-34 for figure 5.12. Laptop is reduced: 2,000 images of "
    "64 pixels, 2 epochs of batches of 32 (126 steps), 500 test images, 3 runs; a longer training "
    "of 1,000 steps at 32 pixels, 1 run; and for figure 5.12 a ResNet of three blocks (8, 16, 32 "
    "channels), 5,000 images, 6 epochs, 2,000 test images, 3 runs."
)


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """Fine-tuning, two longer ones, slow biases with augmentation and without, and the time.

    Example:
        >>> [job.name for job in jobs({**SCALES["smoke"], "scale": "smoke", "seed": 0})][:2]
        ['finetune-full', 'finetune-block']
    """
    shared = {key: settings[key] for key in ("scale", "seed", "runs")}

    def made(part: str, name: str, own: dict[str, Any]) -> kit.Job:
        return kit.Job(NAME, f"{part}-{name}", {**shared, **settings[part], "part": part, **own})

    found = [made("finetune", name, own) for name, own in FINETUNING.items()]
    for augmented in (True, False):
        word = "augmented" if augmented else "plain"
        for name, label, method in (("sgd", "SGD", SGD), ("slow", "slow biases", SLOW_BIASES)):
            own: dict[str, Any] = {
                "augmented": augmented,
                "method": method,
                "label": f"{label}, {word}",
            }
            found.append(made("biases", f"{name}-{word}", own))
    found += [made("long", name, {**FINETUNING[name], "runs": 1}) for name in LONG]
    timing = {**shared, **settings["finetune"], "rounds": settings["rounds"], "runs": 1}
    return [*found, kit.Job(NAME, "time", {**timing, "part": "time", "label": "time of a step"})]


def pretrained(weights: dict[str, Tensor], settings: kit.Settings) -> kit.training.Parts:
    """The pretrained network with a new classifier, and its optimizer."""
    model = MobileNetV2()
    model.load_state_dict(weights)
    model.classifier[1] = nn.Linear(1280, 10)
    method = {"kind": settings["kind"], "h": settings["h"], "period": multirate.PERIOD}
    rates = fast_by_name(model, *FAST[settings["fast"]])
    return kit.training.Parts(model, multirate.optimizer(rates, {**method, "momentum": MOMENTUM}))


def with_slow_biases(settings: kit.Settings) -> kit.training.Parts:
    """A ResNet whose last biases are the slow part."""
    model = resnet(settings["blocks"], settings["width"])
    bias = model.head.bias
    rates = Rates([p for p in model.parameters() if p is not bias], [bias])
    method = {**settings["method"], "momentum": MOMENTUM}
    return kit.training.Parts(model, multirate.optimizer(rates, method))


def scaled(images: Tensor, pixels: int) -> Tensor:
    """Images of another size, with ImageNet's mean and deviation.

    Example:
        >>> scaled(torch.zeros(1, 3, 32, 32, dtype=torch.uint8), 64).shape
        torch.Size([1, 3, 64, 64])
    """
    if images.shape[-1] != pixels:
        images = functional.interpolate(images.float() / 255, size=(pixels,) * 2, mode="bilinear")
    return augment.normalise(images, augment.IMAGENET_MEAN, augment.IMAGENET_STD)


def run(job: kit.Job, log: kit.Log) -> None:
    """Train all runs of a job, or measure the time of a step of every method."""
    part = job.settings["part"]
    if part == "time":
        _measure_time(log)
        return
    images = cifar_orthogonal.load(job.settings, log)
    work = biases_training if part == "biases" else finetuning
    multirate.train(work(images, log), log)


def finetuning(images: ImageData, log: kit.Log) -> kit.training.Training:
    """MobileNetV2 on images of another size, mirrored at random."""
    settings, weights = log.job.settings, kit.LOADERS["mobilenet"](log.data)
    pixels = settings["pixels"]
    test = list(zip(images.test_images.split(100), images.test_labels.split(100), strict=True))

    def loss(model: nn.Module, items: Tensor) -> Tensor:
        batch = scaled(augment.random_flip(images.train_images[items]), pixels)
        return multirate.classifier_loss(model, batch, images.train_labels[items])

    return _training(
        log,
        images,
        begin=lambda: pretrained(weights, settings),
        loss=loss,
        measure=lambda model: multirate.classified(
            model, ((scaled(part, pixels), labels) for part, labels in test)
        ),
    )


def biases_training(images: ImageData, log: kit.Log) -> kit.training.Training:
    """A ResNet from scratch, with augmented images or without."""
    settings = log.job.settings

    def loss(model: nn.Module, items: Tensor) -> Tensor:
        return cifar_orthogonal.batch_loss(model, images, items, settings["augmented"])

    return _training(
        log,
        images,
        begin=lambda: with_slow_biases(settings),
        loss=loss,
        measure=lambda model: cifar_orthogonal.measure(model, images),
    )


def _training(log: kit.Log, images: ImageData, **own: Any) -> kit.training.Training:
    settings = log.job.settings
    return kit.training.Training(
        items=len(images.train_labels),
        batch_size=settings["batch_size"],
        epochs=settings["epochs"],
        **own,
    )


def _measure_time(log: kit.Log) -> None:
    settings, weights = log.job.settings, kit.LOADERS["mobilenet"](log.data)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        batch = torch.randn(settings["batch_size"], 3, settings["pixels"], settings["pixels"])
        labels = torch.randint(10, (len(batch),))
        parts = {name: pretrained(weights, {**settings, **own}) for name, own in FINETUNING.items()}
        found = multirate.time_steps(
            parts,
            lambda model: multirate.classifier_loss(model, batch, labels),
            settings["rounds"],
        )
    log.finish(times=found, predicted=predicted(MobileNetV2()))


def predicted(model: nn.Module) -> float:
    """How much cheaper (5.6) has the backward passes, kL / (L + k - 1) with the last layer fast.

    Example:
        >>> round(predicted(MobileNetV2()), 2)
        4.65
    """
    count = sum(isinstance(module, (nn.Conv2d, nn.Linear)) for module in model.modules())
    return multirate.PERIOD * count / (count + multirate.PERIOD - 1)


def _part(records: kit.Records, part: str) -> list[kit.Record]:
    return [record for record in records.values() if record.settings["part"] == part]


def figures(records: kit.Records) -> dict[str, Figure]:
    """Figures 5.4 and 5.12, and the time of a step."""
    panels = {"test_accuracy": "test accuracy, %", "test_loss": "test loss"}
    found = {
        part: kit.draw_curves([(panels, _part(records, part))])
        for part in FIGURES
        if _part(records, part)
    }
    if times(records):
        labels = {name: own["label"] for name, own in FINETUNING.items()}
        found["time"] = multirate.draw_times(records, labels)
    return found


def table(records: kit.Records) -> kit.Table:
    """What every method ends at, and what a step costs."""
    rows = []
    for job, record in trained(records).items():
        finetuned = record.settings["part"] == "finetune"
        phases = times(records).get(job.removeprefix("finetune-")) if finetuned else None
        rows.append(
            [
                FIGURES[record.settings["part"]],
                record.label,
                ACCURACY.text(record),
                LOSS.text(record),
                " + ".join(f"{phase:.1f}" for phase in phases) if phases else "–",
                records.text(job, "milliseconds", 0),
            ]
        )
    columns = ["figure", "method", ACCURACY.label, LOSS.label, "forward + backward + update, ms"]
    return kit.Table([*columns, "processor time of a step in training, ms"], rows)


def claims(records: kit.Records) -> list[kit.Claim]:
    """What the captions and section 5.4 state."""
    best = "finetune-multirate-fc"
    stated = [(best, f"finetune-{other}") for other in ("full", "block", "fc")]
    stated += [("finetune-multirate-block", "finetune-full"), ("long-multirate-fc", "long-full")]
    pairs = [(f"biases-slow-{word}", f"biases-sgd-{word}") for word in ("augmented", "plain")]
    return [
        *multirate.orderings(records, ACCURACY, stated[:-1], "fine-tuning, "),
        *multirate.orderings(records, ACCURACY, stated[-1:], "fine-tuning, longer, "),
        *multirate.faster(records, "multirate-fc", "fc fast", "almost half"),
        *multirate.orderings(records, ACCURACY, pairs, "ResNet, "),
        *_gains(records),
    ]


def _gains(records: kit.Records) -> list[kit.Claim]:
    """Slow biases bring more without augmentation."""
    gains = []
    for word in ("plain", "augmented"):
        names = [f"biases-{name}-{word}" for name in ("slow", "sgd")]
        if any(name not in records for name in names):
            return []
        slow, sgd = [ACCURACY.of(records[name]).values for name in names]
        gains.append(kit.Measured(f"gain, {word}", [a - b for a, b in zip(slow, sgd, strict=True)]))
    return [kit.ahead("ResNet, gain of slow biases in test accuracy, %", gains[0], gains[1:])]


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="a pretrained network fine-tuned at two rates on CIFAR-10, and slow biases of a ResNet",
    phrase="fine-tuning at two rates",
    source="thesis figures 5.4 and 5.12",
    claimed="""fine-tuning with the last layer fast takes about half the time and reaches a
        higher accuracy; slow biases help a ResNet""",
    ours="""a MobileNetV2 for the ResNet-34, 126 steps of fine-tuning: the slow momentum alone
        remembers 50 steps""",
    settings_stated="""
        network, figure 5.4 | ResNet-34 from ImageNet | MobileNetV2 from ImageNet
        network, figure 5.12 | ResNet-34 | three blocks of 8, 16 and 32 channels
        training images | 50,000 | 2,000, 4,000 and 5,000
        steps of fine-tuning | epochs of all images | 126 and 1,000
        h/k, k, momentum | 0.001, 5, 0.9 | the same
        runs | 20 | {runs}
    """,
    reduced={
        "laptop": "a MobileNetV2 for ResNet-34, 4 to 8 % of the images, 126 "
        "and 1,000 steps; a small ResNet for 6 epochs",
        "full": "a MobileNetV2 for ResNet-34, 20,000 of 50,000 images",
    },
    own_scale="",
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures=figures,
    table=table,
    claims=claims,
    data=("cifar-10",),
    note=NOTE,
    times={"smoke": "10 s", "laptop": "15 min", "full": "10 days"},
)
