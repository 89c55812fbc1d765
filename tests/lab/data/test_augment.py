"""Augmentation of batches of images."""

import pytest
import torch
from torch.nn import functional

from colangevin.lab.data.augment import (
    channel_statistics,
    normalise,
    random_brightness,
    random_crop,
    random_flip,
)


def generator(seed=1):
    return torch.Generator().manual_seed(seed)


def numbered(count, channels=3, height=6, width=5, dtype=torch.float32):
    """Images in which no two pixels of the batch are alike, and none is black."""
    total = count * channels * height * width
    return torch.arange(1, total + 1).view(count, channels, height, width).to(dtype)


def shift_of(image, crop, padding):
    """The one place of the padded image that the crop comes from, or None."""
    padded = functional.pad(image, (padding,) * 4)
    height, width = image.shape[-2:]
    places = [
        (top, left)
        for top in range(2 * padding + 1)
        for left in range(2 * padding + 1)
        if torch.equal(padded[:, top : top + height, left : left + width], crop)
    ]
    return places[0] if len(places) == 1 else None


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_every_crop_is_a_window_of_its_own_padded_image(dtype):
    images = numbered(40, dtype=dtype)
    crops = random_crop(images, padding=2, generator=generator())
    assert crops.shape == images.shape and crops.dtype == dtype
    shifts = [shift_of(*pair, padding=2) for pair in zip(images, crops, strict=True)]
    assert None not in shifts
    # Images move on their own, in both directions, and the two do not move together.
    assert len(set(shifts)) > 10
    assert {top for top, _ in shifts} == {left for _, left in shifts} == {0, 1, 2, 3, 4}


def test_all_shifts_are_equally_likely():
    images = numbered(1, 1, 3, 3).expand(9000, 1, 3, 3)
    crops = random_crop(images, padding=1, generator=generator())
    _, counts = torch.unique(crops.flatten(1), dim=0, return_counts=True)
    assert len(counts) == 9
    # Mean 1000, standard deviation 30.
    assert counts.min() > 850 and counts.max() < 1150


def test_crop_without_padding_changes_nothing():
    images = numbered(4)
    assert torch.equal(random_crop(images, padding=0), images)


def test_uint8_images_stay_uint8():
    images = torch.full((2, 3, 8, 8), 200, dtype=torch.uint8)
    assert random_crop(images, generator=generator()).dtype == torch.uint8
    assert random_flip(images, generator=generator()).dtype == torch.uint8


def test_flip_mirrors_some_images_whole():
    images = numbered(1000, 2, 3, 4)
    flipped = random_flip(images, generator=generator())
    same = (flipped == images).flatten(1).all(1)
    mirrored = (flipped == images.flip(-1)).flatten(1).all(1)
    assert torch.equal(same, ~mirrored)
    # Mean 500, standard deviation 16.
    assert 420 < mirrored.sum() < 580


@pytest.mark.parametrize(("probability", "expected"), [(0.0, "same"), (1.0, "mirrored")])
def test_flip_never_and_always(probability, expected):
    images = numbered(50)
    want = images if expected == "same" else images.flip(-1)
    assert torch.equal(random_flip(images, probability), want)


@pytest.mark.parametrize("augment", [random_crop, random_flip])
def test_generator_decides(augment):
    images = numbered(30)
    first = augment(images, generator=generator(1))
    assert torch.equal(first, augment(images, generator=generator(1)))
    assert not torch.equal(first, augment(images, generator=generator(2)))
    torch.manual_seed(1)
    before = torch.get_rng_state()
    augment(images, generator=generator(1))
    assert torch.equal(before, torch.get_rng_state())


def test_inputs_are_left_alone():
    images = numbered(5)
    kept = images.clone()
    random_crop(images), random_flip(images, 1.0), normalise(images, [0.1] * 3, [2.0] * 3)
    assert torch.equal(images, kept)


def test_normalise_undoes_the_statistics():
    images = torch.randint(256, (50, 3, 8, 8), dtype=torch.uint8, generator=generator())
    images[:, 1] //= 3
    mean, std = channel_statistics(images)
    result = normalise(images, mean, std)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        result.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5, rtol=0
    )


def test_bytes_and_fractions_agree():
    images = torch.randint(256, (5, 3, 4, 4), dtype=torch.uint8, generator=generator())
    fractions = images.double() / 255
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]
    torch.testing.assert_close(
        normalise(images, mean, std).double(), normalise(fractions, mean, std)
    )
    assert normalise(fractions, mean, std).dtype == torch.float64
    for got, want in zip(channel_statistics(images), channel_statistics(fractions), strict=True):
        assert got == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: random_crop(torch.zeros(3, 8, 8)), "images must have the shape"),
        (lambda: random_flip(torch.zeros(3, 8, 8)), "images must have the shape"),
        (lambda: normalise(torch.zeros(8, 8), [0.0], [1.0]), "images must have the shape"),
        (lambda: channel_statistics(torch.zeros(8, 8)), "images must have the shape"),
        (lambda: random_crop(numbered(1), padding=-1), "padding must not be negative"),
        (lambda: random_flip(numbered(1), 1.5), "probability must be 0 to 1"),
        (lambda: normalise(numbered(1), [0.0] * 2, [1.0] * 2), "3 channels need as many"),
        (lambda: normalise(numbered(1), [0.0] * 3, [1.0] * 2), "3 channels need as many"),
        (lambda: normalise(numbered(1), [0.0] * 3, [1.0, 0.0, 1.0]), "std must be positive"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_images_of_other_types_are_not_normalised(dtype):
    with pytest.raises(TypeError, match="uint8 or floating point"):
        normalise(torch.ones(1, 1, 2, 2, dtype=dtype), [0.5], [0.25])
    with pytest.raises(ValueError, match="std must be positive"):
        normalise(torch.ones(1, 1, 2, 2), [0.5], [float("nan")])


def test_brightness_is_one_factor_per_image_within_the_strength():
    images = torch.full((200, 3, 2, 2), 0.5)
    factors = random_brightness(images, 0.05, generator=generator()) / images
    assert factors.amin() >= 0.95 and factors.amax() <= 1.05
    assert factors.amax() > 1.04 and factors.amin() < 0.96
    assert torch.equal(factors, factors[:, :1, :1, :1].expand_as(factors))


def test_brightness_stays_within_the_type():
    white = torch.full((50, 1, 1, 1), 255, dtype=torch.uint8)
    changed = random_brightness(white, 0.5, generator=generator())
    assert changed.dtype == torch.uint8 and changed.max() == 255 and changed.min() < 200
    with pytest.raises(ValueError, match="strength must be 0 to 1, got 2"):
        random_brightness(white, 2.0)
