"""Networks for digits, and the generator of digits."""

import pytest
import torch
from torch import nn

from colangevin.lab.models import VisionTransformer, dcgan, digit_cnn


def parameters(model):
    return sum(p.numel() for p in model.parameters())


def test_convolutional_network_has_the_layers_of_the_thesis():
    model = digit_cnn()
    kinds = [type(layer) for layer in model]
    assert kinds.count(nn.Conv2d) == kinds.count(nn.BatchNorm2d) == 4
    assert kinds.count(nn.Linear) == 3 and kinds.count(nn.MaxPool2d) == 2
    linear = [i for i, kind in enumerate(kinds) if kind is nn.Linear]
    (drop,) = [i for i, kind in enumerate(kinds) if kind is nn.Dropout]
    assert linear[1] < drop < linear[2] and model[drop].p == 0.4
    assert parameters(model) == 64_992 + 384 + 401_536 + 8_256 + 650


def test_transformer_has_the_blocks_of_the_thesis():
    model = VisionTransformer()
    layers = model.encoder.layers
    assert len(layers) == 6
    assert layers[0].self_attn.num_heads == 8 and layers[0].linear1.out_features == 128
    block = 4 * 64 * 64 + 4 * 64 + 2 * 64 * 128 + 128 + 64 + 4 * 64
    assert parameters(model) == 6 * block + (16 * 64 + 64) + 64 + 50 * 64 + 2 * 64 + 650


def test_positions_are_as_large_as_embedded_patches():
    torch.manual_seed(0)
    model = VisionTransformer(patch=7, size=64)
    vectors = model.embedding(torch.randn(500, 49))
    for own in (model.token, model.position):
        assert 0.5 < own.std() / vectors.std() < 3


def test_transformer_reads_every_patch_at_its_place():
    torch.manual_seed(0)
    model = VisionTransformer(patch=14, size=16, blocks=1).eval()
    image = torch.randn(1, 1, 28, 28)
    swapped = torch.cat([image[..., 14:], image[..., :14]], dim=3)
    assert not torch.allclose(model(image), model(swapped), atol=1e-4)
    for row, column in ((0, 0), (0, 27), (27, 0), (27, 27)):
        other = image.clone()
        other[0, 0, row, column] += 5
        assert not torch.allclose(model(image), model(other), atol=1e-5)


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (digit_cnn, {"width": 0}, "width"),
        (digit_cnn, {"dropout": 1.5}, "dropout"),
        (VisionTransformer, {"patch": 5}, "patch must divide 28, got 5"),
        (VisionTransformer, {"size": 12}, "multiple of heads"),
        (VisionTransformer, {"blocks": 0}, "blocks"),
        (dcgan.generator, {"features": 0}, "features"),
        (dcgan.generator, {"noise": 0}, "noise"),
        (dcgan.discriminator, {"features": -1}, "features"),
    ],
)
def test_bad_arguments(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)


def test_generator_and_discriminator_have_five_layers_of_small_normal_weights():
    torch.manual_seed(0)
    pair = dcgan.generator(), dcgan.discriminator()
    for model, kind in zip(pair, (nn.ConvTranspose2d, nn.Conv2d), strict=True):
        layers = [m for m in model if isinstance(m, kind)]
        assert len(layers) == 5
        assert layers[1].weight.std().item() == pytest.approx(0.02, rel=0.02)
    norms = [sum(isinstance(m, nn.BatchNorm2d) for m in model) for model in pair]
    assert norms == [4, 3]
    assert pair[0][0](torch.randn(4, 100, 1, 1)).shape[-2:] == (4, 4)
    images = pair[0](torch.randn(4, 100, 1, 1))
    assert images.shape == (4, 1, 32, 32) and images.abs().max() <= 1
    assert pair[1](images).shape == (4,)
