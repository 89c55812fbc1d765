"""The cross entropy in blocks is the usual one, with the usual gradients."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from colangevin.lab.models import cross_entropy
from colangevin.lab.models.cross_entropy import linear_cross_entropy


def parts(tokens=23, classes=11):
    torch.manual_seed(0)
    layer = nn.Linear(5, classes).double()
    features = torch.randn(tokens, 5, dtype=torch.float64, requires_grad=True)
    return layer, features, torch.randint(classes, (tokens,))


@pytest.mark.parametrize("numbers", [1, 11, 44, 10_000])
def test_loss_and_gradients(numbers, monkeypatch):
    monkeypatch.setattr(cross_entropy, "NUMBERS", numbers)  # blocks of 1, 1, 4 and all rows
    layer, features, targets = parts()
    wanted = [features, layer.weight, layer.bias]
    usual = functional.cross_entropy(layer(features), targets)
    expected = torch.autograd.grad(3.0 * usual, wanted)
    loss = linear_cross_entropy(layer, features, targets)
    found = torch.autograd.grad(3.0 * loss, wanted)
    torch.testing.assert_close(loss, usual)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_without_gradients_none_are_made():
    layer, features, targets = parts()
    with torch.no_grad():
        loss = linear_cross_entropy(layer, features, targets)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, functional.cross_entropy(layer(features), targets).detach())


def test_large_logits_do_not_overflow():
    layer, features, targets = parts()
    with torch.no_grad():
        layer.weight.mul_(1e4)
    loss = linear_cross_entropy(layer, features, targets)
    torch.testing.assert_close(loss, functional.cross_entropy(layer(features), targets))
