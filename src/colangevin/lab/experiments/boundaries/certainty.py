"""Table 6.9: how sure networks of one kind are of the images that the reference is not sure of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import torch
from torch import Tensor

from colangevin import diagnostics
from colangevin.lab import kit

Certainties: TypeAlias = Mapping[str, Mapping[str, Tensor]]
"""By kind of network and target accuracy: the networks' certainty of each image."""
KINDS = {"mlp": "MLP", "cnn": "CNN", "vit": "ViT"}
UNSURE = 0.8
"""The certainty of the reference up to which the thesis compares the kinds of networks."""
ONE_SET = "one set of images, of one generator"


def repetitions(values: Tensor, group: str, seeds: int) -> tuple[Tensor, ...]:
    """Cut what the networks of a group have found: one part per repetition.

    Networks of different kinds have one repetition.

    Example:
        >>> [len(repetitions(torch.zeros(4, 3), group, 2)) for group in ("cnn", "diverse")]
        [2, 1]
    """
    return values.split(len(values) if group == "diverse" else seeds)


def certainty_of(labels: Tensor, seeds: int) -> Tensor:
    """Certainty of each image, mean over the repetitions of so many seeds.

    Args:
        labels: (networks, images), one repetition after the other.
        seeds: networks of a repetition.

    Example:
        >>> certainty_of(torch.tensor([[0, 1], [0, 2], [0, 3], [5, 3]]), 2).tolist()
        [0.75, 0.75]
    """
    return torch.stack([diagnostics.certainty(part) for part in labels.split(seeds)]).mean(dim=0)


def claims(kinds: Certainties, reference: Tensor, several: bool = False) -> list[kit.Claim]:
    """What section 6.2.6.3 states.

    Args:
        kinds: without groups of different kinds.
        reference: labels of the reference group, (labellers, images).
        several: whether the images are of several generators.
    """
    reason = "too few such images in a set" if several else ONE_SET
    sure = diagnostics.certainty(reference)
    made = [
        kit.Claim(
            "certainty of networks by the certainty of people, numbers of table 6.9, %",
            "79.2 to 99.0",
            "–",
            number=kit.Answer(kit.NOT_COMPARABLE, "the labels of the people are not in the text"),
        )
    ]
    if "cnn" in kinds and len(kinds) > 1 and bool((sure <= UNSURE).any()):
        made += _lowest(kinds, sure, reason)
    if int((sure < 1).sum()) > 1:
        made.append(_uncorrelated(kinds, sure, reason))
    return made


def _lowest(kinds: Certainties, sure: Tensor, reason: str) -> list[kit.Claim]:
    """CNNs are the least certain, but more than the reference."""
    hard = sure <= UNSURE
    level = float(sure[hard].mean())
    means = {
        kind: {target: float(own[hard].mean()) for target, own in targets.items()}
        for kind, targets in kinds.items()
    }
    ours = "; ".join(
        f"{KINDS[kind]} {', '.join(f'{100 * value:.0f}' for value in own.values())}"
        for kind, own in means.items()
    )
    text = f"certainty on the {int(hard.sum())} images of which the reference is at most 80 % sure"
    beside = f"{ours}; reference {100 * level:.0f}"
    return [
        kit.undecided(f"{text}, %: CNNs the lowest", "CNNs lowest", ours, reason),
        kit.undecided(f"{text}, %: CNNs above the reference", "much higher", beside, reason),
    ]


def _uncorrelated(kinds: Certainties, sure: Tensor, reason: str) -> kit.Claim:
    """The certainty of the reference does not tell that of the networks."""
    split = sure < 1
    found = {
        kind: [
            float(torch.corrcoef(torch.stack([own[split], sure[split]]))[0, 1].nan_to_num())
            for own in targets.values()
        ]
        for kind, targets in kinds.items()
    }
    ours = "; ".join(
        f"{KINDS[kind]} {', '.join(f'{value:.2f}' for value in values)}"
        for kind, values in found.items()
    )
    text = "correlation of the certainties of networks and reference, "
    text += f"{int(split.sum())} images on which the reference disagrees"
    return kit.undecided(text, "not clear", ours, reason)
