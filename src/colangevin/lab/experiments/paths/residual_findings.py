"""What the records of residual-paths show, and what the thesis states about it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
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


class Found:
    """Trainings of all records by job and name, and measurements of them."""

    def __init__(self, records: kit.Records) -> None:
        self._trainings = {
            f"{job}/{name}": own
            for job, record in records.items()
            for name, own in record.final["trainings"].items()
            if own.get("test_accuracy")
        }
        self._options = {
            f"{job}/{name}": own
            for job, record in records.items()
            for name, own in record.settings.get("trainings", {}).items()
        }

    def title(self, key: str) -> str:
        """What a training is called, with its VGG-11 where its job does not name it."""
        return f"{label(key)}, VGG-11" if self.is_vgg(key) and "vgg" not in key else label(key)

    def is_vgg(self, key: str) -> bool:
        """Whether the network of a training is a VGG-11."""
        return bool(self._options.get(key, {}).get("net") == "vgg")

    def has(self, *keys: str) -> bool:
        """Whether all of these trainings were made."""
        return all(key in self._trainings for key in keys)

    def items(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Trainings by ``job/name``."""
        return list(self._trainings.items())

    def accuracy(self, key: str) -> kit.Measured:
        """Test accuracies in per cent."""
        return self.measured(key, "test_accuracy", 100.0)

    def measured(self, key: str, quantity: str, factor: float = 1.0) -> kit.Measured:
        """One number per run."""
        values = self._trainings[key][quantity]
        return kit.Measured(label(key), [math.nan if v is None else factor * v for v in values])

    def training_loss(self, key: str) -> kit.Measured:
        """Mean of the training loss over the epochs: low if the training is fast."""
        curves = [own["train_loss"] for own in self._trainings[key]["curve"]]
        return kit.Measured(label(key), [math.fsum(curve) / len(curve) for curve in curves])

    def with_barrier(self, key: str, measured: kit.Measured) -> kit.Measured:
        """Only the runs whose line has a barrier: those that another can go on from.

        Without the others, runs of the same seed are in the same place of both lists.
        """
        pairs = zip(measured.values, self.line(key)["shape"], strict=True)
        values = [value for value, shape in pairs if shape == "barrier"]
        return kit.Measured(f"{measured.label}, with a barrier", values)

    def learnt(self, key: str) -> bool:
        """Whether a training has led above chance, in the mean over its runs."""
        return kit.mean_std(self.measured(key, "train_accuracy").values)[0] > kit.CHANCE

    def paths(self, key: str) -> Mapping[str, Any]:
        """Lines by name."""
        found: Mapping[str, Any] = self._trainings[key]["paths"]
        return found

    def line(self, key: str, line: str = "whole") -> Mapping[str, Any]:
        """A line, by default that of the whole network; without runs if all diverged."""
        found: Mapping[str, Any] = self.paths(key).get(line, {"losses": [], "shape": []})
        return found

    def highest(self, key: str, blocks: Sequence[str] = ()) -> kit.Measured:
        """The highest barrier among lines of blocks, for each run."""
        chosen = [
            own["height"]
            for line, own in self.paths(key).items()
            if (line in blocks if blocks else is_block(line))
        ]
        return kit.Measured(label(key), [max(run) for run in zip(*chosen, strict=True)])


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


def table(records: kit.Records) -> kit.Table:
    """Table 6.1 with numbers: what was changed, the shape of the whole line, and the accuracy."""
    rows, found = [], Found(records)
    for key, own in found.items():
        whole = own["paths"].get("whole")
        heights = [float(h or 0.0) for h in whole["height"]] if whole else []
        rows.append(
            [
                key.partition("/")[0],
                found.title(key),
                found.accuracy(key).text(1),
                f"{kit.mean_std(found.measured(key, 'train_accuracy', 100.0).values)[0]:.1f}",
                shapes(whole) if whole else "–",
                f"{kit.mean_std(heights)[0]:.3f}" if heights else "–",
                f"{kit.mean_std(found.measured(key, 'distance').values)[0]:.2f}",
                _blocks_with_barriers(own["paths"]),
            ]
        )
    columns = ["job", "training", "test accuracy, %", "training accuracy, %", "shapes"]
    return kit.Table(
        [*columns, "height", "distance (6.3)", "blocks with a barrier in most runs"], rows
    )


def _blocks_with_barriers(paths: Mapping[str, Any]) -> str:
    lines = {n: own["shape"] for n, own in paths.items() if is_block(n)}
    if not lines:
        return ""
    found = [n for n, own in lines.items() if own.count("barrier") > len(own) / 2]
    return ", ".join(found) or "none"


def claims(records: kit.Records) -> list[kit.Claim]:
    """What section 6.1 states, as far as the records can tell."""
    found = Found(records)
    parts = (_schemes_claims, _steps, _decays, _blocks, _starts, _resets, _data, _models)
    made = [claim for part in parts for claim in part(found)]
    return made + _with_reason(_pretrained(found), "a MobileNetV2 for the ResNets")


def _with_reason(claims: Sequence[kit.Claim], reason: str) -> list[kit.Claim]:
    """Claims with a reason before their own."""
    return [replace(c, why="; ".join(filter(None, (reason, c.why)))) for c in claims]


def _higher(found: Found, text: str, best: str, *others: str) -> list[kit.Claim]:
    """The claim that a training has a higher test accuracy than others."""
    if not found.has(best, *others):
        return []
    rest = [found.accuracy(key) for key in others]
    claim = kit.ahead(f"test accuracy, {text}, %", found.accuracy(best), rest, digits=1)
    return [_unless_idle(found, claim, best, *others)]


def _unless_idle(found: Found, claim: kit.Claim, *keys: str) -> kit.Claim:
    """A claim; no verdict where a network has not learnt anything that could be compared."""
    idle = "; ".join(label(key) for key in keys if not found.learnt(key))
    return claim.incomparable(f"learnt nothing here: {idle}") if idle else claim


def _shaped(
    found: Found, text: str, key: str, stated: str, wanted: Sequence[str], line: str = "whole"
) -> list[kit.Claim]:
    """The claim that whole lines have a shape."""
    if not found.has(key):
        return []
    own, text = found.line(key, line), f"line of the whole network, {text}"
    right, runs = sum(shape in wanted for shape in own["shape"]), len(own["shape"])
    if not runs:
        return [kit.undecided(text, stated, "every run diverged", "n = 0")]
    return [_unless_idle(found, kit.most(text, stated, right, runs, shapes(own)), key)]


def _schemes_claims(found: Found) -> list[kit.Claim]:
    """Table 6.2, and table 6.4 of the VGG-11."""
    made = []
    stated = {
        "schemes-resnet": ("92.2", "91.8", "90.1", "90.3", "91.5", "90.1", "90.1"),
        "schemes-vgg": ("91.9", "92.0", "90.4", "90.9", "91.8", "90.2", "90.4"),
    }
    for job, net in NETS.items():
        p = stated[job]
        pairs = [
            (f"thesis {p[1]} against {p[2]}", "h-low-free", "h-low-barrier"),
            (f"thesis {p[0]} against {p[2]}", "base", "h-low-barrier"),
            (f"thesis {p[0]} against {p[3]}", "base", "h-low-all"),
            (f"thesis {p[4]} against {p[5]}", "decay-barrier", "decay-free"),
            (f"thesis {p[0]} against {p[6]}", "base", "decay-none"),
        ]
        for numbers, best, other in pairs:
            made += _higher(found, f"{net} ({numbers})", f"{job}/{best}", f"{job}/{other}")
        made += _spared(found, job, net)
    vgg = [f"schemes-vgg/narrow-{which}" for which in ("free", "one", "two", "all")]
    text = "VGG-11 (thesis 91.73 against 91.53, 91.25, 91.15)"
    return made + _higher(found, text, vgg[0], *vgg[1:])


def _spared(found: Found, job: str, net: str) -> list[kit.Claim]:
    """The advice: a smaller h or no weight decay costs less in blocks without barriers."""
    made = []
    for what, free, barrier in (
        ("h0 of 0.01", "h-low-free", "h-low-barrier"),
        ("no weight decay", "decay-barrier", "decay-free"),
    ):
        keys = [f"{job}/{name}" for name in ("base", free, barrier)]
        if not found.has(*keys):
            continue
        base, spared, hit = [found.accuracy(key).values for key in keys]
        losses = [
            kit.Measured(where, [b - v for b, v in zip(base, values, strict=True)])
            for where, values in (("in blocks without barriers", spared), ("with", hit))
        ]
        text = f"accuracy that {what} costs, {net}, points"
        made.append(kit.ahead(text, losses[0], losses[1:], sign=-1, digits=1))
    return made


def _steps(found: Found) -> list[kit.Claim]:
    """Figure 6.8."""
    made = []
    wanted = {
        "0.1": ("monotone", ["monotone"]),
        "0.01": ("not monotone", ["plateau", "barrier"]),
        "0.001": ("monotone", ["monotone"]),
    }
    for h, (stated, right) in wanted.items():
        made += _shaped(found, f"fixed h = {h}", f"fixed-steps/h-{h}", stated, right)
    keys = [f"fixed-steps/h-{h}" for h in wanted]
    made += _higher(found, "fixed steps", keys[1], keys[0], keys[2])
    if found.has(*keys):
        for key, value in zip(keys, ("1.03", "0.88", "0.22"), strict=True):
            text = f"relative distance (6.3), {label(key)}"
            made.append(kit.number(text, value, found.measured(key, "distance")))
    return made


def _decays(found: Found) -> list[kit.Claim]:
    """Figure 6.7."""
    base, none = "schemes-resnet/base", "schemes-resnet/decay-none"
    small, large = "decays/decay-0.0001", "decays/decay-0.002"
    flat = ["plateau"]
    return [
        *_shaped(found, "weight decay 1e-4", small, "monotone", ["monotone"]),
        *_shaped(found, "weight decay 5e-4 (base)", base, "plateau", flat),
        *_shaped(found, "weight decay 2e-3", large, "plateau", flat),
        *_higher(found, "weight decay", base, none, small, large),
    ]


def _blocks(found: Found) -> list[kit.Claim]:
    """Figures 6.1B, 6.9 and 6.18."""
    made = []
    for job, net in NETS.items():
        if not found.has(f"{job}/base"):
            continue
        paths = found.paths(f"{job}/base")
        lines = [own["shape"] for name, own in paths.items() if is_block(name)]
        right = sum("barrier" in run for run in zip(*lines, strict=True))
        stated = "B2, B3, B4.0" if net == "ResNet" else "layers 4 to 10"
        ours = f"in most runs: {_blocks_with_barriers(paths)}"
        text = f"runs with a barrier in any block, {net}"
        made.append(kit.most(text, stated, right, len(lines[0]) if lines else 0, ours))
    base, low = "schemes-resnet/base", "schemes-resnet/h-low-barrier"
    if found.has(base, low):
        own = [found.highest(low), found.highest(base)]
        made.append(
            kit.ahead("highest barrier of a block, ResNet", own[0], own[1:], sign=-1, digits=3)
        )
    return made + _governing(found, base)


def _governing(found: Found, key: str) -> list[kit.Claim]:
    """Whether mean and variance alone give the loss along the line of the third block."""
    if not found.has(key) or "BN mean and variance" not in found.paths(key):
        return []
    own = found.paths(key)
    whole = np.array(own["B3"]["losses"] if "B3" in own else own["B2"]["losses"])
    off = [
        kit.Measured(name, np.abs(np.array(own[name]["losses"]) - whole).mean(axis=1).tolist())
        for name in ("BN mean and variance", "convolutions", "BN weights and biases")
    ]
    text = "mean difference from the line of the third block"
    return [kit.ahead(text, off[0], off[1:], sign=-1, digits=3)]


def _starts(found: Found) -> list[kit.Claim]:
    """Figures 6.2B, 6.3, 6.5 and table 6.3."""
    none = "schemes-resnet/decay-none"
    every = "random-labels/all-0"
    made = _higher(found, "start from random labels, no WD", none, every)
    if found.has(none, every):
        own = [kit.Measured(label(key), found.line(key)["height"]) for key in (every, none)]
        made.append(kit.ahead("height of the barrier, random labels", own[0], own[1:], digits=3))
    return [
        *made,
        *_random_blocks(found),
        *(
            claim
            for name, train, test in (
                ("before", "99.80", "91.05"),
                ("at", "99.86", "91.12"),
                ("after", "99.88", "90.85"),
            )
            for claim in _from_barrier(found, f"barrier-start/{name}", train, test)
        ),
    ]


def _random_blocks(found: Found) -> list[kit.Claim]:
    """Figures 6.5 and 6.13: one block from random labels; shapes as stated, [block 4, others]."""
    made = []
    for decay, (scratch, *stated) in {
        "0": ("schemes-resnet/decay-none", "monotone", "barrier"),
        "0.0001": ("decays/decay-0.0001",),
        "0.0005": ("schemes-resnet/base", "barrier", "plateau"),
    }.items():
        keys = [f"random-labels/b{n}-{decay}" for n in (1, 2, 3, 4)]
        names = [f"block {n} from random labels, WD {decay}" for n in (1, 2, 3, 4)]
        made += _higher(found, names[0], scratch, keys[0])
        made += _higher(found, names[3], keys[3], scratch)
        for name, key in zip(reversed(names), reversed(keys), strict=True) if stated else ():
            shape = stated[0 if key == keys[3] else 1]
            made += _shaped(found, name, key, shape, [shape])
    return made


def _from_barrier(found: Found, key: str, train: str, test: str) -> list[kit.Claim]:
    """Figure 6.3 and table 6.3: a start at, before or after the barrier of an earlier run."""
    scratch, text = "barrier-start/scratch", f"start {label(key)}"
    if not found.has(scratch):
        return []
    quantities = [
        (f"test accuracy, {text} (thesis {test} against 90.01), %", 1, 1, found.accuracy),
        (
            f"training accuracy, {text} (thesis {train} against 99.44), %",
            1,
            1,
            lambda own: found.measured(own, "train_accuracy", 100.0),
        ),
        (f"training loss, mean over the epochs, {text}", -1, 3, found.training_loss),
    ]
    if not found.has(key):
        why = "no run without weight decay had a barrier to start from"
        stated = (test, train, "faster")
        return [
            kit.undecided(name, value, "–", why)
            for (name, *_), value in zip(quantities, stated, strict=True)
        ]
    made = []
    for name, sign, digits, measure in quantities:
        source = found.with_barrier(scratch, measure(scratch))
        claim = kit.ahead(name, measure(key), [source], sign=sign, digits=digits)
        (claim,) = _with_reason([claim], _trained_starts(found.line(scratch)))
        made.append(_unless_idle(found, claim, key, scratch))
    made += _shaped(found, text, key, "monotone", ["monotone"])
    if not found.is_vgg(scratch):
        return made
    return _with_reason(made, "VGG-11 for the ResNet")


def _trained_starts(line: Mapping[str, Any]) -> str:
    """How many runs have the top of their barrier at the end of the line: a trained network."""
    pairs = zip(line["shape"], line["alpha"], strict=True)
    tops = [alpha for shape, alpha in pairs if shape == "barrier"]
    late = sum(alpha == 1.0 for alpha in tops)
    if not late:
        return ""
    return f"in {late} of {len(tops)} runs the top of the barrier is the end, where it was trained"


def _pretrained(found: Found) -> list[kit.Claim]:
    """Figures 6.2A and 6.4, from ImageNet."""
    scratch, taught = "imagenet/mobilenet", "imagenet/mobilenet-imagenet"
    text = "MobileNetV2 from ImageNet"
    resets = [f"imagenet-resets/imagenet-reset-b{n}" for n in (1, 2, 3, 4)]
    worse = "but one of B1 to B3 (thesis 92.2 against 89.97, 89.91, 91.78)"
    return [
        *_higher(found, text, taught, scratch),
        *_shaped(found, text, taught, "monotone", ["monotone"]),
        *_shaped(found, f"{text}, from random weights", taught, "plateau", ["plateau"], "random"),
        *_higher(found, f"{text}, {worse}", scratch, *resets[:3]),
        *_higher(found, f"{text}, but B4 (thesis 92.78 against 92.2)", resets[3], scratch),
        *_some_barriers(found, f"{text}, but one block", resets),
    ]


def _resets(found: Found) -> list[kit.Claim]:
    """Figure 6.4, from a trained state."""
    worse = [f"resets/reset-b{n}" for n in (1, 2, 4)]
    text = "one block reset (thesis 92.2 against 91.79, 91.83, 90.97)"
    every = [f"resets/reset-b{n}" for n in (1, 2, 3, 4)]
    return [
        *_higher(found, text, "schemes-resnet/base", *worse),
        *_some_barriers(found, "one block reset", every),
    ]


def _some_barriers(found: Found, text: str, keys: Sequence[str]) -> list[kit.Claim]:
    """The claim that some lines of trainings have a barrier."""
    if not found.has(*keys):
        return []
    kinds = [shape for key in keys for shape in found.line(key)["shape"]]
    count = kinds.count("barrier")
    ours, name = f"{count} of {len(kinds)}", f"lines with a barrier, {text}"
    if not count:
        return [kit.undecided(name, "sometimes", ours, "none was seen")]
    return [kit.Claim(name, "sometimes", ours, order=kit.Answer(kit.YES, "one is enough"))]


def _data(found: Found) -> list[kit.Claim]:
    """Figures 6.6 and 6.15."""
    base, made = "schemes-resnet/base", []
    made += _shaped(found, "20 % of the images", "data/less", "monotone", ["monotone"])
    made += _higher(found, "less data", base, "data/less")
    made += _higher(found, "no augmentation", base, "data/none")
    for key, sign, blocks in (("data/none", -1, ()), ("data/brightness", 1, ("B2", "B3"))):
        if found.has(base, key):
            own = [found.highest(key, blocks), found.highest(base, blocks)]
            text = f"highest barrier of {'B2 and B3' if blocks else 'a block'}, {label(key)}"
            made.append(kit.ahead(text, own[0], own[1:], sign=sign, digits=3))
    return made


def _models(found: Found) -> list[kit.Claim]:
    """Figures 6.10 and 6.19."""
    base, made = "schemes-resnet/base", []
    if found.has(base, "norms/deeper"):
        own = [found.highest("norms/deeper"), found.highest(base)]
        made.append(kit.ahead("highest barrier of a block, depth", own[0], own[1:], digits=3))
    made += _higher(found, "depth", "norms/deeper", base)
    for job, net in NETS.items():
        plain = f"norms/{net.lower().partition('-')[0]}-plain"
        made += _shaped(found, f"{net} without BN", plain, "monotone", ["monotone"])
        stated = ["plateau", "barrier"]
        made += _shaped(found, f"{net} with BN", f"{job}/base", "not monotone", stated)
        made += _higher(found, f"{net}, BN", f"{job}/base", plain)
    return made
