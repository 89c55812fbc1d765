import pytest
import torch
from torch import nn

from colangevin.lab.models import mlp


def test_layers_and_shapes():
    network = mlp(2, [5, 7], 3, activation=nn.Tanh)
    kinds = [type(layer) for layer in network]
    assert kinds == [nn.Linear, nn.Tanh, nn.Linear, nn.Tanh, nn.Linear]
    shapes = {name: tuple(p.shape) for name, p in network.named_parameters() if "weight" in name}
    assert shapes == {"0.weight": (5, 2), "2.weight": (7, 5), "4.weight": (3, 7)}


def test_is_the_composition_it_says():
    network = mlp(2, [500], 1).double()
    inputs = torch.randn(6, 2, dtype=torch.float64)
    first, second = network[0], network[2]
    hidden = (inputs @ first.weight.T + first.bias).clamp_min(0.0)
    torch.testing.assert_close(network(inputs), hidden @ second.weight.T + second.bias)


def test_without_hidden_layers_it_is_linear():
    assert [type(layer) for layer in mlp(4, [], 2)] == [nn.Linear]


@pytest.mark.parametrize(("inputs", "hidden", "outputs"), [(0, [3], 1), (2, [0], 1), (2, [3], -1)])
def test_bad_widths_are_refused(inputs, hidden, outputs):
    with pytest.raises(ValueError, match="width of a layer"):
        mlp(inputs, hidden, outputs)
