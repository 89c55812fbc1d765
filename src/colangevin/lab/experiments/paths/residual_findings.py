"""What the records of residual-paths show, and what the thesis states about it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from colangevin.lab import kit
from colangevin.lab.experiments.paths.path_findings import shapes

NAME = "residual-paths"
NETS = {"schemes-resnet": "ResNet", "schemes-vgg": "VGG-11"}
TITLES = {
    "base": "h0 = 0.1, WD 5e-4 (base)",
    "h-low-free": "h0 = 0.1 (B), 0.01 (NB)",
    "h-low-barrier": "h0 = 0.01 (B), 0.1 (NB)",
    "h-low-all": "h0 = 0.01",
    "decay-barrier": "WD (B), no WD (NB)",
    "decay-free": "no WD (B), WD (NB)",
    "decay-none": "no WD",
    "narrow-free": "NB layers narrow",
    "narrow-one": "1 B layer narrow",
    "narrow-two": "2 B layers narrow",
    "narrow-all": "all B layers narrow",
    "h-0.1": "fixed h = 0.1",
    "h-0.01": "fixed h = 0.01",
    "h-0.001": "fixed h = 0.001",
    "decay-0.0001": "WD 1e-4",
    "decay-0.002": "WD 2e-3",
    "scratch": "no WD, as a start",
    "before": "from before the barrier",
    "at": "from the barrier",
    "after": "from after the barrier",
    "resnet-plain": "ResNet without BN",
    "vgg-plain": "VGG-11 without BN",
    "deeper": "deeper ResNet",
    "less": "20 % of the images",
    "none": "no augmentation",
    "less-none": "20 %, no augmentation",
    "brightness": "with brightness 0.05",
    "trained": "trained, as a start",
    "random-labels": "random labels, as a start",
    "mobilenet": "MobileNetV2, random start",
    "mobilenet-imagenet": "MobileNetV2, start from ImageNet",
}
"""B: blocks with barriers, NB: the others."""


def trainings(records: kit.Records) -> kit.Records:
    """Each training as a record of its own, named ``job/training``."""
    found: list[kit.Record] = []
    for job, record in records.items():
        options = record.settings.get("trainings", {})
        for name, own in record.final["trainings"].items():
            if own.get("test_accuracy"):
                key = f"{job}/{name}"
                settings = {**options.get(name, {}), "label": label(key)}
                at = {"job": key, "order": len(found), "settings": settings, "final": own}
                found.append(replace(record, **at))
    return kit.Records(found)


def title(record: kit.Record) -> str:
    """What a training is called, with its VGG-11 where its job does not name it."""
    return f"{record.label}, VGG-11" if is_vgg(record) and "vgg" not in record.job else record.label


def is_vgg(record: kit.Record) -> bool:
    """Whether the network of a training is a VGG-11."""
    return record.settings.get("net") == "vgg"


def line(record: kit.Record, name: str = "whole") -> Mapping[str, Any]:
    """A line, by default that of the whole network; without runs if all diverged."""
    found: Mapping[str, Any] = record.final["paths"].get(name, {"losses": [], "shape": []})
    return found


def is_block(line: str) -> bool:
    """Whether a line is that of a block or a layer.

    Example:
        >>> [is_block(line) for line in ("B4.0", "11", "fc", "whole", "BN mean and variance")]
        [True, True, True, False, False]
    """
    return re.fullmatch(r"stem|fc|\d+|B\d(\.\d)?", line) is not None


def label(key: str) -> str:
    """What a training is called.

    Example:
        >>> label("schemes-vgg/base"), label("resets/reset-b2"), label("random-labels/b4-0")
        ('h0 = 0.1, WD 5e-4 (base)', 'trained, but B2 random', 'B4 from random labels, WD 0')
    """
    name = key.partition("/")[2]
    if name in TITLES:
        return TITLES[name]
    start, reset, changed = name.rpartition("reset-")
    if reset:
        return f"{'ImageNet' if start else 'trained'}, but {changed.upper()} random"
    block, _, decay = name.partition("-")
    return f"{block if block == 'all' else block.upper()} from random labels, WD {decay}"


def highest(record: kit.Record, key: str) -> list[float]:
    """The highest barrier among the lines of all blocks, or of those named, for each run."""
    lines = record.final["paths"].items()
    chosen = [
        own["height"] for name, own in lines if (name in key.split(",") if key else is_block(name))
    ]
    return [max(run) for run in zip(*chosen, strict=True)]


def slowness(record: kit.Record, key: str) -> list[float]:
    """Mean of a curve over the epochs: low if the training is fast."""
    curves = [own[key] for own in record.final["curve"]]
    return [math.fsum(curve) / len(curve) for curve in curves]


ACCURACY = kit.Quantity("test_accuracy", "test accuracy", 1, 100.0, 1)
LEARNT = replace(ACCURACY, key="train_accuracy")
DISTANCE = kit.Quantity("distance", "relative distance (6.3), {label}")
HEIGHT = kit.Quantity("paths/whole/height", "height of the barrier", 1, digits=3)
HIGHEST = kit.Quantity("", "highest barrier of a block", 1, digits=3, read=highest)
SPEED = kit.Quantity("train_loss", "training loss", digits=3, read=slowness)


def table(records: kit.Records) -> kit.Table:
    """Table 6.1 with numbers: what was changed, the shape of the whole line, and the accuracy."""
    rows = []
    for key, own in trainings(records).items():
        whole = own.final["paths"].get("whole")
        heights = [float(h or 0.0) for h in whole["height"]] if whole else []
        rows.append(
            [
                key.partition("/")[0],
                title(own),
                ACCURACY.text(own),
                f"{kit.mean_std(LEARNT.of(own).values)[0]:.1f}",
                shapes(whole) if whole else "–",
                f"{kit.mean_std(heights)[0]:.3f}" if heights else "–",
                f"{kit.mean_std(DISTANCE.of(own).values)[0]:.2f}",
                _blocks_with_barriers(own),
            ]
        )
    columns = ["job", "training", "test accuracy, %", "training accuracy, %", "shapes"]
    return kit.Table(
        [*columns, "height", "distance (6.3)", "blocks with a barrier in most runs"], rows
    )


def _blocks_with_barriers(record: kit.Record) -> str:
    lines = {n: own["shape"] for n, own in record.final["paths"].items() if is_block(n)}
    found = [n for n, own in lines.items() if own.count("barrier") > len(own) / 2]
    return ", ".join(found) or ("none" if lines else "")


# --- what is stated ---------------------------------------------------------------------------


def claims(records: kit.Records) -> list[kit.Claim]:
    """What section 6.1 states, as far as the records can tell."""
    found = trainings(records)
    return [claim for stated in STATED for claim in stated(found)]


def because(reason: str, *stated: kit.Judgement) -> kit.Judgement:
    """Statements with a reason before those that their claims have."""

    def judged(found: kit.Records) -> list[kit.Claim]:
        made = [claim for one in stated for claim in one(found)]
        return [replace(c, why="; ".join(filter(None, (reason, c.why)))) for c in made]

    return judged


def _unless_idle(found: kit.Records, claim: kit.Claim, *keys: str) -> kit.Claim:
    """A claim; no verdict where a network has not learnt anything that could be compared."""
    own = [found[key] for key in keys if key in found]
    idle = [
        one.label for one in own if not kit.mean_std(LEARNT.of(one).values)[0] > 100 * kit.CHANCE
    ]
    return claim.incomparable(f"learnt nothing here: {'; '.join(idle)}") if idle else claim


@dataclass(frozen=True)
class Learnt(kit.Ahead):
    """A training is ahead of others, where all of them have learnt; all must have a record."""

    def _claim(self, records: kit.Records) -> kit.Claim | None:
        keys = [one.jobs if isinstance(one, kit.Of) else one for one in (self.best, *self.over)]
        claim = super()._claim(records) if all(key in records for key in keys) else None
        return claim and _unless_idle(records, claim, *map(str, keys))


def higher(text: str, best: str, *others: str) -> kit.Stated:
    """A training has a higher test accuracy than others."""
    return Learnt(ACCURACY, best, others, text=f"test accuracy, {text}, %")


@dataclass(frozen=True)
class Shaped(kit.Stated):
    """In most runs a line, that of the whole network if no other is named, has a shape.

    Attributes:
        job: a training.
        stated: the shape.
        wanted: shapes that count as it; itself alone if there are none.
        line: its name.
    """

    job: str
    stated: str
    wanted: Sequence[str] = ()
    line: str = "whole"

    def _claim(self, records: kit.Records) -> kit.Claim | None:
        if self.job not in records:
            return None
        own, text = line(records[self.job], self.line), f"line of the whole network, {self.text}"
        wanted = self.wanted or (self.stated,)
        right, runs = sum(shape in wanted for shape in own["shape"]), len(own["shape"])
        if not runs:
            return kit.undecided(text, self.stated, "every run diverged", "n = 0")
        return _unless_idle(
            records, kit.most(text, self.stated, right, runs, shapes(own)), self.job
        )


BASE, NONE = "schemes-resnet/base", "schemes-resnet/decay-none"
BENT = ("plateau", "barrier")


def _schemes() -> list[kit.Judgement]:
    """Table 6.2, and table 6.4 of the VGG-11."""
    made: list[kit.Judgement] = []
    for job, p in {
        "schemes-resnet": ("92.2", "91.8", "90.1", "90.3", "91.5", "90.1", "90.1"),
        "schemes-vgg": ("91.9", "92.0", "90.4", "90.9", "91.8", "90.2", "90.4"),
    }.items():
        for one, other, best, worse in (
            (p[1], p[2], "h-low-free", "h-low-barrier"),
            (p[0], p[2], "base", "h-low-barrier"),
            (p[0], p[3], "base", "h-low-all"),
            (p[4], p[5], "decay-barrier", "decay-free"),
            (p[0], p[6], "base", "decay-none"),
        ):
            text = f"{NETS[job]} (thesis {one} against {other})"
            made.append(higher(text, f"{job}/{best}", f"{job}/{worse}"))
        made += [
            spared(job, "h0 of 0.01", "h-low-free", "h-low-barrier"),
            spared(job, "no weight decay", "decay-barrier", "decay-free"),
        ]
    vgg = [f"schemes-vgg/narrow-{which}" for which in ("free", "one", "two", "all")]
    return [*made, higher("VGG-11 (thesis 91.73 against 91.53, 91.25, 91.15)", *vgg)]


def spared(job: str, what: str, free: str, barrier: str) -> kit.Judgement:
    """The advice: a smaller h or no weight decay costs less in blocks without barriers."""

    def judged(found: kit.Records) -> list[kit.Claim]:
        keys = [f"{job}/{name}" for name in ("base", free, barrier)]
        if not all(key in found for key in keys):
            return []
        base, *others = (ACCURACY.of(found[key]).values for key in keys)
        losses = [
            kit.Measured(where, [b - v for b, v in zip(base, values, strict=True)])
            for where, values in zip(("in blocks without barriers", "with"), others, strict=True)
        ]
        text = f"accuracy that {what} costs, {NETS[job]}, points"
        return [kit.ahead(text, losses[0], losses[1:], sign=-1, digits=1)]

    return judged


def any_barrier(job: str, stated: str) -> kit.Judgement:
    """Figures 6.1B and 6.16: blocks have barriers."""

    def judged(found: kit.Records) -> list[kit.Claim]:
        if f"{job}/base" not in found:
            return []
        own = found[f"{job}/base"]
        lines = [one["shape"] for name, one in own.final["paths"].items() if is_block(name)]
        right = sum("barrier" in run for run in zip(*lines, strict=True))
        text, ours = f"runs with a barrier in any block, {NETS[job]}", _blocks_with_barriers(own)
        runs = len(lines[0]) if lines else 0
        return [kit.most(text, stated, right, runs, f"in most runs: {ours}")]

    return judged


def governing(found: kit.Records) -> list[kit.Claim]:
    """Figure 6.18: mean and variance alone give the loss along the line of the third block."""
    own = found[BASE].final["paths"] if BASE in found else {}
    if "BN mean and variance" not in own:
        return []
    whole = np.array(own["B3" if "B3" in own else "B2"]["losses"])
    off = [
        kit.Measured(name, np.abs(np.array(own[name]["losses"]) - whole).mean(axis=1).tolist())
        for name in ("BN mean and variance", "convolutions", "BN weights and biases")
    ]
    text = "mean difference from the line of the third block"
    return [kit.ahead(text, off[0], off[1:], sign=-1, digits=3)]


def _random_blocks() -> list[kit.Stated]:
    """Figures 6.5 and 6.13: one block from random labels; shapes as stated, [block 4, others]."""
    made: list[kit.Stated] = []
    for decay, scratch, stated in (
        ("0", NONE, ("monotone", "barrier")),
        ("0.0001", "decays/decay-0.0001", ()),
        ("0.0005", BASE, ("barrier", "plateau")),
    ):
        keys = {n: f"random-labels/b{n}-{decay}" for n in (4, 3, 2, 1)}
        text = {n: f"block {n} from random labels, WD {decay}" for n in keys}
        made += [higher(text[1], scratch, keys[1]), higher(text[4], keys[4], scratch)]
        made += [Shaped(keys[n], stated[n < 4], text=text[n]) for n in keys if stated]
    return made


SCRATCH = "barrier-start/scratch"


def _with_barrier(quantity: kit.Quantity) -> kit.Quantity:
    """Only the runs whose line has a barrier: those that another can go on from.

    Without the others, runs of the same seed are in the same place of both lists.
    """
    every = quantity.read or kit.Record.values

    def read(record: kit.Record, key: str) -> list[float]:
        pairs = zip(every(record, key), line(record)["shape"], strict=True)
        return [value for value, shape in pairs if shape == "barrier"]

    return replace(quantity, read=read)


def from_barrier(name: str, train: str, test: str) -> kit.Judgement:
    """Figure 6.3 and table 6.3: a start at, before or after the barrier of an earlier run."""
    key = f"barrier-start/{name}"
    text = f"start {label(key)}"
    compared = (
        (ACCURACY, f"test accuracy, {text} (thesis {test} against 90.01), %", test),
        (LEARNT, f"training accuracy, {text} (thesis {train} against 99.44), %", train),
        (SPEED, f"training loss, mean over the epochs, {text}", "faster"),
    )
    source = f"{label(SCRATCH)}, with a barrier"

    def judged(found: kit.Records) -> list[kit.Claim]:
        if SCRATCH not in found:
            return []
        if key not in found:
            why = "no run without weight decay had a barrier to start from"
            return [kit.undecided(what, stated, "–", why) for _, what, stated in compared]
        ahead = [
            Learnt(own, key, [kit.Of(SCRATCH, _with_barrier(own), source)], text=what)
            for own, what, _ in compared
        ]
        late = because(_trained_starts(line(found[SCRATCH])), *ahead)
        reason = "VGG-11 for the ResNet" if is_vgg(found[SCRATCH]) else ""
        return because(reason, late, Shaped(key, "monotone", text=text))(found)

    return judged


def _trained_starts(line: Mapping[str, Any]) -> str:
    """How many runs have the top of their barrier at the end of the line: a trained network."""
    pairs = zip(line["shape"], line["alpha"], strict=True)
    tops = [alpha for shape, alpha in pairs if shape == "barrier"]
    late = sum(alpha == 1.0 for alpha in tops)
    if not late:
        return ""
    return f"in {late} of {len(tops)} runs the top of the barrier is the end, where it was trained"


def some_barriers(text: str, keys: Sequence[str]) -> kit.Judgement:
    """Some lines of trainings have a barrier."""

    def judged(found: kit.Records) -> list[kit.Claim]:
        if not all(key in found for key in keys):
            return []
        kinds = [shape for key in keys for shape in line(found[key])["shape"]]
        count = kinds.count("barrier")
        ours, name = f"{count} of {len(kinds)}", f"lines with a barrier, {text}"
        if not count:
            return [kit.undecided(name, "sometimes", ours, "none was seen")]
        return [kit.Claim(name, "sometimes", ours, order=kit.Answer(kit.YES, "one is enough"))]

    return judged


def _normed(job: str, plain: str) -> list[kit.Judgement]:
    """Figure 6.19."""
    net = NETS[job]
    return [
        Shaped(plain, "monotone", text=f"{net} without BN"),
        Shaped(f"{job}/base", "not monotone", BENT, text=f"{net} with BN"),
        higher(f"{net}, BN", f"{job}/base", plain),
    ]


FIXED = [f"fixed-steps/h-{h}" for h in ("0.1", "0.01", "0.001")]
RESETS = [f"resets/reset-b{n}" for n in (1, 2, 3, 4)]
TAUGHT = [f"imagenet-resets/imagenet-reset-b{n}" for n in (1, 2, 3, 4)]
MOBILE, IMAGENET = "imagenet/mobilenet", "imagenet/mobilenet-imagenet"
FROM = "MobileNetV2 from ImageNet"
LARGE = "decays/decay-0.002"
STATED: list[Callable[[kit.Records], list[kit.Claim]]] = [
    *_schemes(),
    # Figure 6.8.
    Shaped(FIXED[0], "monotone", text="fixed h = 0.1"),
    Shaped(FIXED[1], "not monotone", BENT, text="fixed h = 0.01"),
    Shaped(FIXED[2], "monotone", text="fixed h = 0.001"),
    higher("fixed steps", FIXED[1], FIXED[0], FIXED[2]),
    *[
        kit.Near(DISTANCE, key, value)
        for key, value in zip(FIXED, ("1.03", "0.88", "0.22"), strict=True)
    ],
    # Figure 6.7.
    Shaped("decays/decay-0.0001", "monotone", text="weight decay 1e-4"),
    Shaped(BASE, "plateau", text="weight decay 5e-4 (base)"),
    Shaped(LARGE, "plateau", text="weight decay 2e-3"),
    higher("weight decay", BASE, NONE, "decays/decay-0.0001", LARGE),
    # Figures 6.1B, 6.9, 6.16 and 6.18.
    any_barrier("schemes-resnet", "B2, B3, B4.0"),
    any_barrier("schemes-vgg", "layers 4 to 10"),
    kit.Ahead(
        replace(HIGHEST, sign=-1),
        "schemes-resnet/h-low-barrier",
        [BASE],
        text="highest barrier of a block, ResNet",
    ),
    governing,
    # Figures 6.2B, 6.3, 6.5 and 6.13, table 6.3.
    higher("start from random labels, no WD", NONE, "random-labels/all-0"),
    kit.Ahead(HEIGHT, "random-labels/all-0", [NONE], text="height of the barrier, random labels"),
    *_random_blocks(),
    from_barrier("before", "99.80", "91.05"),
    from_barrier("at", "99.86", "91.12"),
    from_barrier("after", "99.88", "90.85"),
    # Figure 6.4, from a trained state.
    higher(
        "one block reset (thesis 92.2 against 91.79, 91.83, 90.97)", BASE, *RESETS[:2], RESETS[3]
    ),
    some_barriers("one block reset", RESETS),
    # Figures 6.6 and 6.15.
    Shaped("data/less", "monotone", text="20 % of the images"),
    higher("less data", BASE, "data/less"),
    higher("no augmentation", BASE, "data/none"),
    kit.Ahead(
        replace(HIGHEST, sign=-1), "data/none", [BASE], text="highest barrier of a block, {label}"
    ),
    kit.Ahead(
        replace(HIGHEST, key="B2,B3"),
        "data/brightness",
        [BASE],
        text="highest barrier of B2 and B3, {label}",
    ),
    # Figures 6.10 and 6.19.
    kit.Ahead(HIGHEST, "norms/deeper", [BASE], text="highest barrier of a block, depth"),
    higher("depth", "norms/deeper", BASE),
    *_normed("schemes-resnet", "norms/resnet-plain"),
    *_normed("schemes-vgg", "norms/vgg-plain"),
    # Figures 6.2A and 6.4, from ImageNet.
    because(
        "a MobileNetV2 for the ResNets",
        higher(FROM, IMAGENET, MOBILE),
        Shaped(IMAGENET, "monotone", text=FROM),
        Shaped(IMAGENET, "plateau", line="random", text=f"{FROM}, from random weights"),
        higher(
            f"{FROM}, but one of B1 to B3 (thesis 92.2 against 89.97, 89.91, 91.78)",
            MOBILE,
            *TAUGHT[:3],
        ),
        higher(f"{FROM}, but B4 (thesis 92.78 against 92.2)", TAUGHT[3], MOBILE),
        some_barriers(f"{FROM}, but one block", TAUGHT),
    ),
]
