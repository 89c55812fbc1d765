"""The wide residual networks: sizes and shapes."""

import pytest
import torch
from torch import nn

from colangevin.lab.models import WideResNet


def test_sixteen_layers_and_the_published_size():
    model = WideResNet(factor=4)
    main = [m for m in model.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)]
    assert len(main) + 1 == 14  # 16 with two of the three shortcuts' convolutions
    assert sum(p.numel() for p in model.parameters()) == 2_748_890
    assert sum(p.numel() for p in WideResNet(factor=10, depth=28).parameters()) == 36_479_194


def test_shapes():
    model = WideResNet(channels=4, classes=3)
    images = torch.randn(2, 3, 32, 32)
    assert model(images).shape == (2, 3)
    assert model.blocks(model.stem(images)).shape == (2, 16, 8, 8)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [({"depth": 17}, "6n \\+ 4"), ({"depth": 4}, "6n"), ({"factor": 0}, "factor")],
)
def test_bad_sizes(sizes, message):
    with pytest.raises(ValueError, match=message):
        WideResNet(**sizes)
