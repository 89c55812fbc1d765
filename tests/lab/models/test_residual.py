"""The residual networks."""

import pytest
import torch
from torch import nn

from colangevin.lab.models.residual import BasicBlock, resnet


def parameters(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("depth", "expected"), [(18, 11_173_962), (34, 21_282_122)])
def test_standard_networks_have_the_known_number_of_parameters(depth, expected):
    with torch.device("meta"):
        model = resnet(depth)
    assert parameters(model) == expected
    # Weighted layers: those on the way past the blocks are not counted in the name.
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    assert sum(m.kernel_size == (3, 3) for m in convolutions) + 1 == depth
    assert sum(m.kernel_size == (1, 1) for m in convolutions) == 3
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == len(convolutions)


def test_without_normalisation_the_convolutions_have_biases():
    with torch.device("meta"):
        plain, usual = resnet(18, norm=False), resnet(18)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in plain.modules())
    # A bias in the place of a scale and a shift.
    norms = sum(m.num_features for m in usual.modules() if isinstance(m, nn.BatchNorm2d))
    assert parameters(plain) == parameters(usual) - norms
    assert resnet((1, 1), width=2, norm=False)(torch.zeros(1, 3, 8, 8)).shape == (1, 10)


def test_stages_halve_the_image_and_double_the_channels():
    model = resnet((1, 2, 1), width=4)
    shapes = []
    for stage in model.stages:
        stage.register_forward_hook(lambda _m, _i, out: shapes.append(tuple(out.shape[1:])))
    model(torch.zeros(2, 3, 32, 32))
    assert shapes == [(4, 32, 32), (8, 16, 16), (16, 8, 8)]
    assert [len(stage) for stage in model.stages] == [1, 2, 1]


@pytest.mark.parametrize("depth", [18, (1, 1)])
def test_output_has_a_logit_a_class(depth):
    model = resnet(depth, width=2, classes=7, channels=1)
    assert model(torch.zeros(3, 1, 32, 32)).shape == (3, 7)


def test_block_adds_its_input():
    block = BasicBlock(3, 3)
    nn.init.zeros_(block.bn2.weight)
    images = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(block(images), images.relu())


def test_block_with_another_shape_projects_its_input():
    block = BasicBlock(3, 6, stride=2)
    nn.init.zeros_(block.bn2.weight)
    images = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    expected = block.shortcut(images).relu()
    assert expected.shape == (2, 6, 3, 3) and expected.any()
    torch.testing.assert_close(block(images), expected)


def test_initialisation_is_the_standard_one():
    torch.manual_seed(3)
    model = resnet((1,), width=4)
    torch.manual_seed(3)
    assert torch.equal(model.stem[0].weight, nn.Conv2d(3, 4, 3, bias=False).weight)


def test_it_learns():
    torch.manual_seed(1)
    model = resnet((1, 1), width=4, classes=2)
    images = torch.randn(16, 3, 8, 8)
    labels = torch.arange(16) % 2
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 < losses[0]
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 50}, "depth must be 18 or 34"),
        ({"depth": ()}, "at least one stage"),
        ({"depth": (1, 0)}, "blocks of a stage"),
        ({"depth": 18, "width": 0}, "width"),
        ({"depth": 18, "classes": -1}, "classes"),
        ({"depth": 18, "channels": 0}, "channels"),
    ],
)
def test_bad_sizes(arguments, message):
    with pytest.raises(ValueError, match=message):
        resnet(**arguments)
