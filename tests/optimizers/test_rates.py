"""The partitions into fast and slow."""

import pytest
from torch import nn

import colangevin as cl


def network():
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1))


def names(model, members):
    own = {id(p): name for name, p in model.named_parameters()}
    return [own[id(p)] for p in members]


def test_last_layers_fast():
    model = network()
    rates = cl.last_layers_fast(model)
    assert names(model, rates.fast) == ["3.weight", "3.bias"]
    assert names(model, rates.slow) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert names(model, cl.last_layers_fast(model, 2).slow) == ["0.weight", "0.bias"]


def test_fast_by_name():
    model = network()
    assert names(model, cl.fast_by_name(model, "3.*", "1.*").slow) == ["0.weight", "0.bias"]


def test_biases_slow():
    model = network()
    assert names(model, cl.biases_slow(model).slow) == ["0.bias", "1.bias", "3.bias"]
    assert names(model, cl.input_biases_slow(model).slow) == ["0.bias"]
    attention = nn.MultiheadAttention(4, 1)
    assert names(attention, cl.biases_slow(attention).slow) == ["in_proj_bias", "out_proj.bias"]


def test_a_first_layer_without_a_bias_is_passed_over():
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.Linear(3, 1))
    assert names(model, cl.input_biases_slow(model).slow) == ["1.bias"]


def test_random_subsets():
    model = network()
    groups = cl.random_subsets(model, {"0.weight": 0.8, "*.weight": 0.5})
    assert [names(model, g["params"]) for g in groups] == [
        ["0.weight"],
        ["1.weight", "3.weight"],
        ["0.bias", "1.bias", "3.bias"],
    ]
    assert [g["probability"] for g in groups] == [0.8, 0.5, 0.0]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Embedding(5, 3), nn.Linear(3, 5)
        self.decoder.weight = self.encoder.weight


@pytest.mark.parametrize("pattern", ["encoder.weight", "decoder.weight", nn.Embedding, nn.Linear])
def test_tied_weights_match_by_any_of_their_names(pattern):
    model = Tied()
    assert names(model, cl.fast_by_name(model, pattern).fast) == ["encoder.weight"]
    groups = cl.random_subsets(model, {pattern: 0.5})
    assert [names(model, g["params"]) for g in groups] == [["encoder.weight"], ["decoder.bias"]]


def test_modules_and_parameters_are_patterns_too():
    model = network()
    fast = cl.fast_by_name(model, model[3], model[0].weight).fast
    assert names(model, fast) == ["0.weight", "3.weight", "3.bias"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: cl.last_layers_fast(m, 3), "layers must be less than the 3 .*, got 3"),
        (lambda m: cl.last_layers_fast(m, 0), "layers must be at least 1, got 0"),
        (
            lambda m: cl.fast_by_name(m, "head.*"),
            "pattern 'head.\\*' matches no parameter.*0.weight",
        ),
        (lambda m: cl.fast_by_name(m, "*"), "leaves no slow parameters"),
        (lambda m: cl.fast_by_name(m), "leaves no fast parameters"),
        (lambda m: cl.biases_slow(nn.Linear(2, 2, bias=False)), "leaves no slow parameters"),
        (lambda m: cl.input_biases_slow(nn.Linear(2, 2, bias=False)), "leaves no slow"),
        (lambda m: cl.random_subsets(m, {"x": 0.5}), "pattern 'x' matches no parameter"),
        (
            lambda m: cl.random_subsets(m, {"0.*": 0.5, "0.weight": 0.1}),
            "'0.weight' matches only parameters that an earlier pattern has taken: 0.weight",
        ),
        (lambda m: cl.fast_by_name(m, "3.weigth"), "did you mean '3.weight'"),
        (lambda m: cl.fast_by_name(m, "3.*", "head.*"), "'head.\\*' matches no parameter"),
        (lambda m: cl.random_subsets(m, {"0.*": 2.0}), "probability of '0.\\*' must lie between"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(network())
