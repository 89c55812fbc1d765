"""VGG-11."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from colangevin.lab.models import VGG11


def parameters(model):
    return sum(p.numel() for p in model.parameters())


def expected(norm):
    sizes = [3, 64, 128, 256, 256, 512, 512, 512, 512]
    weights = sum(9 * a * b for a, b in pairwise(sizes))
    others = sum(sizes[1:]) * (2 if norm else 1)  # scale and shift, or a bias
    linear = 2 * (512 * 512 + 512) + 512 * 10 + 10
    return weights + others + linear


@pytest.mark.parametrize("norm", [True, False])
def test_number_of_parameters(norm):
    with torch.device("meta"):
        model = VGG11(norm=norm)
    assert parameters(model) == expected(norm)
    layers = [m for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    assert len(layers) == 11
    assert any(isinstance(m, nn.BatchNorm2d) for m in model.modules()) == norm


@pytest.mark.parametrize("pixels", [32, 16, 8])
def test_images_end_as_one_pixel(pixels):
    model = VGG11(width=2).eval()
    assert model.features(torch.zeros(1, 3, pixels, pixels)).shape == (1, 16, 1, 1)
    assert model(torch.zeros(3, 3, pixels, pixels)).shape == (3, 10)


@pytest.mark.parametrize("norm", [True, False])
def test_the_signal_reaches_the_output(norm):
    """Without batch normalisation and with PyTorch's own weights it would be about 1e-4."""
    torch.manual_seed(0)
    outputs = VGG11(width=8, norm=norm)(torch.randn(64, 3, 16, 16))
    assert outputs.std(dim=0).mean() > 0.03


def test_only_the_named_layers_are_narrow():
    whole, narrow = VGG11(width=4), VGG11(width=4, narrow=(2, 9))
    sizes = [[layer[0].weight.shape[0] for layer in m.features] for m in (whole, narrow)]
    assert [a != b for a, b in zip(*sizes, strict=True)] == [False, True] + [False] * 6
    assert narrow.features[1][0].weight.shape[0] == 4
    assert [layer[0].weight.shape[0] for layer in narrow.classifier[:2]] == [16, 32]
    assert narrow.eval()(torch.zeros(1, 3, 8, 8)).shape == (1, 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 0}, "width"),
        ({"classes": 0}, "classes"),
        ({"channels": -1}, "channels"),
        ({"narrow": (11,)}, "narrow must name layers 1 to 10, got 11"),
        ({"narrow": (0, 3)}, "got 0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        VGG11(**arguments)
