"""Augmentation of images: whole batches at a time, with a generator, without a loop over images.

Crop and flip first, normalise last: the crop's border is then black, as is usual.

``images`` are (n, channels, height, width) everywhere, else there is a ValueError. The random ones
return images of the same shape and type, and draw from ``generator``, or from torch's global one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

# Mean and standard deviation of the 50,000 training images, a channel each.
CIFAR10_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR10_STD = (0.2470, 0.2435, 0.2616)
# Those of ImageNet, with which published networks were trained.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def random_crop(
    images: Tensor, padding: int = 4, *, generator: torch.Generator | None = None
) -> Tensor:
    """Shift every image by its own random amount, with black coming in from the border.

    This is the crop of an image's own size out of the image with ``padding`` black pixels around.

    Args:
        images: of any type.
        padding: largest shift in each direction.
        generator: source of randomness.

    Raises:
        ValueError: if the padding is negative.

    Example:
        >>> image = torch.ones(1, 1, 2, 2)
        >>> shifted = random_crop(image, padding=1, generator=torch.Generator().manual_seed(1))
        >>> shifted.shape, shifted.sum() <= image.sum()
        (torch.Size([1, 1, 2, 2]), tensor(True))
    """
    _require_batch(images)
    if padding < 0:
        raise ValueError(f"padding must not be negative, got {padding}")
    count, channels, height, width = images.shape
    padded = functional.pad(images, (padding,) * 4)
    device = images.device if generator is None else generator.device
    shifts = torch.randint(2 * padding + 1, (2, count, 1), generator=generator, device=device)
    top, left = shifts.to(images.device)
    rows = top + torch.arange(height, device=images.device)
    columns = left + torch.arange(width, device=images.device)
    which = torch.arange(count, device=images.device).view(-1, 1, 1, 1)
    channel = torch.arange(channels, device=images.device).view(1, -1, 1, 1)
    return padded[which, channel, rows[:, None, :, None], columns[:, None, None, :]]


def random_flip(
    images: Tensor, probability: float = 0.5, *, generator: torch.Generator | None = None
) -> Tensor:
    """Mirror every image left to right with the given probability.

    Args:
        images: of any type.
        probability: how likely an image is mirrored.
        generator: source of randomness.

    Raises:
        ValueError: if the probability is none.

    Example:
        >>> random_flip(torch.tensor([[[[1, 2, 3]]]]), probability=1.0)
        tensor([[[[3, 2, 1]]]])
    """
    _require_batch(images)
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"probability must be 0 to 1, got {probability}")
    device = images.device if generator is None else generator.device
    draws = torch.rand(len(images), generator=generator, device=device).to(images.device)
    return torch.where((draws < probability).view(-1, 1, 1, 1), images.flip(-1), images)


def random_brightness(
    images: Tensor, strength: float, *, generator: torch.Generator | None = None
) -> Tensor:
    """Make every image brighter or darker, by a factor from 1 - strength to 1 + strength.

    Args:
        images: ``uint8``, of which 255 is the brightest, or floating point, of which 1 is.
        strength: largest change, 0 to 1. What would be brighter than the brightest is that.
        generator: source of randomness.

    Raises:
        ValueError: if the strength is none.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> random_brightness(torch.full((1, 1, 1, 2), 0.5), 0.1, generator=generator)
        tensor([[[[0.4996, 0.4996]]]])
    """
    _require_batch(images)
    if not 0.0 <= strength <= 1.0:
        raise ValueError(f"strength must be 0 to 1, got {strength}")
    device = images.device if generator is None else generator.device
    draws = torch.rand(len(images), 1, 1, 1, generator=generator, device=device).to(images.device)
    brightest = 255.0 if images.dtype == torch.uint8 else 1.0
    changed = images * (1 + strength * (2 * draws - 1))
    return changed.clamp(0.0, brightest).to(images.dtype)


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Bring every channel to mean 0 and standard deviation 1.

    Args:
        images: floating point, or ``uint8``, of which 255 counts as 1.
        mean: the mean of every channel, on the scale from 0 to 1.
        std: the standard deviation of every channel, on that scale.

    Returns:
        Floating-point images: of the same type, or of the default one for ``uint8``.

    Raises:
        ValueError: if the numbers do not fit the channels, or a deviation is not positive.

    Example:
        >>> normalise(torch.tensor([[[[0, 255]]]], dtype=torch.uint8), mean=[0.5], std=[0.25])
        tensor([[[[-2.,  2.]]]])
    """
    _require_batch(images)
    if not len(mean) == len(std) == images.shape[1]:
        raise ValueError(
            f"{images.shape[1]} channels need as many means and deviations, "
            f"got {len(mean)} and {len(std)}"
        )
    if not all(deviation > 0 for deviation in std):
        raise ValueError(f"std must be positive, got {tuple(std)}")
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise TypeError(f"images must be uint8 or floating point, got {images.dtype}")
    if images.dtype == torch.uint8:
        images = images.to(torch.get_default_dtype()) / 255
    centre = torch.tensor(mean, dtype=images.dtype, device=images.device).view(-1, 1, 1)
    scale = torch.tensor(std, dtype=images.dtype, device=images.device).view(-1, 1, 1)
    return (images - centre) / scale


def channel_statistics(images: Tensor) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of every channel, as ``normalise`` takes them.

    Args:
        images: floating point, or ``uint8``, of which 255 counts as 1.

    Returns:
        The means and the standard deviations.

    Example:
        >>> channel_statistics(torch.tensor([[[[0.0, 1.0]]]]))
        ([0.5], [0.5])
    """
    _require_batch(images)
    # A channel at a time, to spare the memory of the whole set as floating point.
    scale = 255.0 if images.dtype == torch.uint8 else 1.0
    pairs = [
        torch.std_mean(images[:, channel].double(), correction=0)
        for channel in range(images.shape[1])
    ]
    return [float(mean) / scale for _, mean in pairs], [float(std) / scale for std, _ in pairs]


def _require_batch(images: Tensor) -> None:
    if images.dim() != 4:
        raise ValueError(
            f"images must have the shape (n, channels, height, width), got {tuple(images.shape)}"
        )
