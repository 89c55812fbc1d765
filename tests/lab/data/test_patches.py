"""Images with patches: what section 5.9.3 prescribes, in numbers."""

import pytest
import torch

from colangevin.lab.data.patches import BOTH, CLEAN, ONLY, draw_kinds, draw_patches


def drawn(count=4_000):
    generator = torch.Generator().manual_seed(0)
    patches = draw_patches(generator)
    labels = torch.randint(10, (count,), generator=generator)
    images = torch.randn(count, 3, 32, 32, generator=generator)
    return patches, images, labels, generator


def test_shares_of_the_kinds():
    shares = draw_kinds(50_000, torch.Generator().manual_seed(0)).bincount() / 50_000
    assert shares[CLEAN] == 0.2
    assert shares[ONLY] == pytest.approx(0.16, abs=0.01)
    assert shares[BOTH] == pytest.approx(0.64, abs=0.01)


def test_sizes_of_the_patterns():
    patches = draw_patches(torch.Generator().manual_seed(0), classes=400)
    assert patches.common.shape == (3, 7, 7)
    assert patches.common.var() == pytest.approx(1.5625, rel=0.3)
    assert patches.own.abs().max() <= 0.1
    assert patches.own.std() == pytest.approx(0.1 / 3**0.5, rel=0.02)


def test_every_kind_of_image():
    patches, images, labels, generator = drawn()
    before = images.clone()
    kinds = torch.arange(len(images)) % 3
    found = patches.put(images, labels, kinds, generator)
    assert torch.equal(images, before)
    assert torch.equal(found[kinds == CLEAN], images[kinds == CLEAN])
    border = torch.ones(32, 32, dtype=torch.bool)
    border[12:19, 12:19] = False
    assert torch.equal(found[kinds == BOTH][..., border], images[kinds == BOTH][..., border])
    assert not found[kinds == ONLY][..., border].any()

    def signal(kind, background):
        centre = (found - background)[kinds == kind][..., 12:19, 12:19] - patches.common
        own = patches.own[labels[kinds == kind]]
        scale = (centre * own).sum(dim=(1, 2, 3)) / own.square().sum(dim=(1, 2, 3))
        torch.testing.assert_close(centre, scale.view(-1, 1, 1, 1) * own, rtol=0, atol=1e-5)
        return scale

    both = signal(BOTH, images)
    torch.testing.assert_close(both.abs(), torch.ones_like(both), rtol=0, atol=1e-4)
    assert abs(float(both.mean())) < 0.1
    only = signal(ONLY, torch.zeros_like(images))
    assert only.abs().max() <= 1.7501
    assert only.abs().mean() == pytest.approx(1.75 / 2, rel=0.05)


def test_bad_input():
    patches, images, labels, _ = drawn(4)
    with pytest.raises(ValueError, match="kinds must be 0, 1 or 2"):
        patches.put(images, labels, torch.tensor([0, 1, 2, 3]))
    with pytest.raises(ValueError, match="7 pixels a side"):
        patches.put(images[..., :5], labels, torch.zeros(4))
