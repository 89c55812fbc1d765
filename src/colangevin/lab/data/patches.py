"""Patch-augmented images: a patch in the centre tells the class too (section 5.9.3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

CLEAN, ONLY, BOTH = 0, 1, 2
"""Kinds of images: without a patch, the patch alone, image and patch."""
SIDE, DEVIATION, SIGNAL, ALONE = 7, 1.25, 0.1, 1.75


@dataclass(frozen=True)
class Patches:
    """A pattern z for all classes and small ones ζ_i, whose sign changes, for each class i.

    Attributes:
        common: z of (channels, 7, 7), normal with variance 1.5625.
        own: ζ of (classes, channels, 7, 7), uniform in [-0.1, 0.1].

    Example:
        >>> patches = draw_patches(torch.Generator().manual_seed(0))
        >>> images, labels = torch.ones(2, 3, 32, 32), torch.tensor([0, 1])
        >>> found = patches.put(images, labels, torch.tensor([CLEAN, ONLY]))
        >>> bool((found[0] == 1).all()), float(found[1, 0, 0, 0])
        (True, 0.0)
    """

    common: Tensor
    own: Tensor

    def put(
        self,
        images: Tensor,
        labels: Tensor,
        kinds: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Images with patches, or patches alone; the sign and the strength a are drawn for each.

        Args:
            images: (n, channels, height, width), normalised.
            labels: classes, (n,).
            kinds: ``CLEAN``, ``ONLY`` or ``BOTH``, (n,).
            generator: source of randomness; the global one by default.

        Returns:
            New images: the patch is z ± ζ_i added to the image, or z ± 1.75 a ζ_i on 0.

        Raises:
            ValueError: if the images are smaller than a patch, or there is another kind.
        """
        if min(images.shape[-2:]) < SIDE:
            raise ValueError(f"images must have {SIDE} pixels a side, got {tuple(images.shape)}")
        if not bool(torch.isin(kinds, torch.tensor([CLEAN, ONLY, BOTH])).all()):
            raise ValueError(f"kinds must be {CLEAN}, {ONLY} or {BOTH}, got {kinds.unique()}")
        count = len(images)
        signs = 2.0 * torch.randint(2, (count,), generator=generator) - 1.0
        strength = ALONE * torch.rand(count, generator=generator)
        scale = signs * torch.where(kinds == ONLY, strength, 1.0)
        patch = self.common + scale.view(-1, 1, 1, 1) * self.own[labels]
        found = torch.where((kinds == ONLY).view(-1, 1, 1, 1), 0.0, images)
        top, left = [(size - SIDE) // 2 for size in images.shape[-2:]]
        centre = found[..., top : top + SIDE, left : left + SIDE]
        centre += torch.where((kinds == CLEAN).view(-1, 1, 1, 1), 0.0, patch)
        return found


def draw_patches(
    generator: torch.Generator | None = None, classes: int = 10, channels: int = 3
) -> Patches:
    """Patterns for a data set."""
    common = DEVIATION * torch.randn(channels, SIDE, SIDE, generator=generator)
    own = torch.rand(classes, channels, SIDE, SIDE, generator=generator)
    return Patches(common, SIGNAL * (2 * own - 1))


def draw_kinds(count: int, generator: torch.Generator | None = None) -> Tensor:
    """A fifth of the images without a patch; of the others a fifth the patch alone.

    Example:
        >>> draw_kinds(1000, torch.Generator().manual_seed(0)).bincount()[0]
        tensor(200)
    """
    alone = torch.rand(count, generator=generator) < 0.2
    kinds = torch.where(alone, ONLY, BOTH)
    kinds[: count // 5] = CLEAN
    return kinds
