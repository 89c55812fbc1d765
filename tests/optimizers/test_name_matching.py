"""One matcher for all patterns, and one message for those that match nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.optimizers.naming.matching import listed, matches, named_parameters, select
from optimizer_cases import network


def chosen(pattern: object, model: nn.Module) -> list[str]:
    return [entry.name for entry in select(pattern, named_parameters(model))]


class Wrapper(nn.Module):
    """As DistributedDataParallel names its model."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


def tied() -> nn.Sequential:
    model = network()
    model[2].weight = model[0].weight
    return model


def test_all_names_of_tied_parameters() -> None:
    model = tied()
    entries = named_parameters(model)
    assert [entry.names for entry in entries][:2] == [("0.weight", "2.weight"), ("0.bias",)]
    assert entries[0].owners == (model[0], model[2])
    assert [entry.name for entry in entries] == [name for name, _ in model.named_parameters()]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("0.weight", ["0.weight"]),
        ("2.weight", ["0.weight"]),
        ("[24].bias", ["2.bias", "4.bias"]),
        (("4.*", "0.bias"), ["0.bias", "4.weight", "4.bias"]),
        (("4.bias", nn.Linear), ["0.weight", "4.weight", "4.bias"]),
        (nn.Linear, ["0.weight", "4.weight"]),
    ],
    ids=str,
)
def test_patterns_and_types(pattern: object, expected: list[str]) -> None:
    assert chosen(pattern, tied()) == expected


def test_modules_and_parameters() -> None:
    model = tied()
    assert chosen(model[2], model) == ["0.weight", "2.bias"]
    assert chosen(model[2].weight, model) == ["0.weight"]
    assert chosen((model[4].bias, model[0]), model) == ["0.weight", "0.bias", "4.bias"]


@pytest.mark.parametrize("pattern", [3, None, int, ["0.weight"], ("0.weight", 3)], ids=str)
def test_what_is_no_pattern(pattern: object) -> None:
    with pytest.raises(TypeError, match="a pattern must be a name pattern, a module type"):
        chosen(pattern, network())


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("0.wieght", ["the pattern '0.wieght'", "did you mean '0.weight'"]),
        ("*.Weight", ["the pattern '*.Weight'", "; did you mean ", "'0.weight'"]),
        ("encoder.norm", ["the pattern 'encoder.norm' matches no parameter. The model has"]),
        (nn.Conv2d, ["the module type 'Conv2d'"]),
        (nn.Bilinear, ["the module type 'Bilinear'", "did you mean 'Linear'"]),
        (nn.ReLU(), ["the module 'ReLU'"]),
        (torch.ones(2, 3), ["the parameter 'tensor of shape (2, 3)'"]),
        (("0.*", "5.*"), ["the pattern '5.*'"]),
    ],
    ids=str,
)
def test_the_message_for_nothing(pattern: object, words: list[str]) -> None:
    with pytest.raises(ValueError, match="matches no parameter") as raised:
        chosen(pattern, network())
    for word in [*words, "The model has 0.weight, 0.bias, 2.weight"]:
        assert word in str(raised.value)


def test_it_is_the_same_message_everywhere() -> None:
    model, pattern = network(), "2.wieght"
    messages = []
    for call in (
        lambda: cl.parameter_groups(model, {pattern: cl.Circle(1.0)}),
        lambda: cl.constrain_(model, {pattern: cl.Circle(1.0)}),
        lambda: cl.fast_by_name(model, pattern),
        lambda: cl.random_subsets(model, {pattern: 0.5}),
        lambda: cl.partition(model, first=pattern, rest=...),
    ):
        with pytest.raises(ValueError, match=r"did you mean '2\.weight'") as raised:
            call()
        messages.append(str(raised.value).removeprefix("part 'first': "))
    assert len(set(messages)) == 1


def test_wrapped_models_say_so() -> None:
    for model, prefix in [
        (Wrapper(network()), "module."),
        (torch.compile(network(), backend="eager"), "_orig_mod."),
        (Wrapper(torch.compile(network(), backend="eager")), "module._orig_mod."),
    ]:
        with pytest.raises(ValueError, match="the model is wrapped") as raised:
            chosen("0.weight", model)
        assert f"All names begin with '{prefix}'" in str(raised.value)
        assert chosen(f"{prefix}0.weight", model) == [f"{prefix}0.weight"]
        assert chosen("*0.weight", model) == [f"{prefix}0.weight"]
    with pytest.raises(ValueError, match="matches no parameter") as raised:
        chosen("7.weight", network())
    assert "wrapped" not in str(raised.value)


def test_a_model_without_parameters() -> None:
    with pytest.raises(ValueError, match="The model has no parameters"):
        chosen("*", nn.ReLU())


def test_long_lists_are_cut() -> None:
    names = [f"{i}.weight" for i in range(100)]
    assert listed(names).endswith("29.weight and 70 more")
    assert listed(names[:30]).endswith("29.weight")


def test_a_shared_module_has_its_parameters_once() -> None:
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, layer)
    assert [entry.names for entry in named_parameters(model)] == [
        ("0.weight", "1.weight"),
        ("0.bias", "1.bias"),
    ]
    assert matches("1.*", named_parameters(model)[1])
