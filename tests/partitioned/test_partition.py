"""Partitions, and what the presets make of them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.optimizers.option_checks import check_group, refuse_unknown


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 4), nn.Linear(4, 1)
    )


def parts(groups: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {group["part"]: group["names"] for group in groups}


def test_named_parts_by_pattern_module_parameter_and_rest() -> None:
    model = network()
    groups = cl.partition(model, middle=["1.*", model[3]], last=model[4].weight, rest=...)
    assert parts(groups) == {
        "middle": ["1.weight", "1.bias", "3.weight", "3.bias"],
        "last": ["4.weight"],
        "rest": ["0.weight", "0.bias", "4.bias"],
    }


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("layer", {"0": 2, "1": 2, "3": 2, "4": 2}),
        ("input", {"input": 2, "later": 6}),
        ("output", {"hidden": 6, "output": 2}),
        ("bias", {"weights": 4, "biases": 4}),
        ("type", {"Conv2d": 2, "BatchNorm2d": 2, "Linear": 4}),
    ],
)
def test_the_usual_partitions(by: str, expected: dict[str, int]) -> None:
    found = parts(cl.partition(network(), by=by))
    assert {part: len(names) for part, names in found.items()} == expected
    assert list(found) == list(expected)


def test_parts_keep_the_constraints_of_groups() -> None:
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    constrained = cl.constrain_(model, {"*.weight": cl.Circle(radius=0.5)})
    groups = cl.partition(model, by="output", groups=constrained)
    assert [(g["part"], g["names"]) for g in groups] == [
        ("hidden", ["0.weight"]),
        ("hidden", ["0.bias"]),
        ("output", ["2.weight"]),
        ("output", ["2.bias"]),
    ]
    optimizer = cl.AdLaLa(groups, step_size=0.1)
    kinds = [type(group["constraint"]).__name__ for group in optimizer.param_groups]
    assert kinds == ["Circle", "Unconstrained", "Circle", "Unconstrained"]
    assert [g["thermostat"] for g in optimizer.param_groups] == ["adaptive"] * 2 + ["langevin"] * 2


@pytest.mark.parametrize("pattern", ["3.weight", "4.weight"])
def test_tied_weights_match_by_any_of_their_names(pattern: str) -> None:
    model = nn.Sequential(*[nn.Linear(2, 2, bias=False) for _ in range(5)])
    model[4].weight = model[3].weight
    found = parts(cl.partition(model, tied=pattern, rest=...))
    assert found == {"tied": ["3.weight"], "rest": ["0.weight", "1.weight", "2.weight"]}
    assert parts(cl.partition(model, tied=model[4], rest=...)) == found


def test_members_may_be_module_types_and_iterators() -> None:
    model = network()
    found = parts(cl.partition(model, dense=nn.Linear, first=model[0].parameters(), rest=...))
    assert found["dense"] == ["3.weight", "4.weight"]
    assert found["first"] == ["0.weight", "0.bias"]


def test_a_pattern_of_frozen_parameters() -> None:
    model = network()
    model[0].requires_grad_(False)
    with pytest.raises(ValueError, match=r"part 'a': .*'0\.\*' matches only .*: 0.weight, 0.bias"):
        cl.partition(model, a="0.*", b=...)


def test_parameters_without_gradient_are_left_out() -> None:
    model = network()
    model[0].requires_grad_(False)
    assert "0" not in parts(cl.partition(model, by="layer"))


@pytest.mark.filterwarnings("ignore:another optimizer was made from the same weights")
def test_presets_take_mappings_groups_and_parameters() -> None:
    one, two = (nn.Parameter(torch.zeros(2)) for _ in range(2))
    mapping = cl.LOL({"first": [one], "last": [two]}, step_size=0.1)
    named = cl.LOL(
        [{"params": [one], "name": "first"}, {"params": two, "name": "last"}], step_size=0.1
    )
    for optimizer in (mapping, named):
        assert [group["friction"] for group in optimizer.param_groups] == [0.01, float("inf")]
    assert len(cl.Langevin([one, two], 0.1, 1.0, 0.0).param_groups) == 1


def test_a_groups_own_options_win() -> None:
    one, two = (nn.Parameter(torch.zeros(2)) for _ in range(2))
    groups = [{"params": [one], "name": "a", "temperature": 0.5}, {"params": [two], "name": "b"}]
    optimizer = cl.LOL(groups, step_size=0.1)
    assert [group["temperature"] for group in optimizer.param_groups] == [0.5, 0.0]


PRESETS: dict[str, Callable[..., cl.CoLA]] = {
    "Langevin": lambda parts, **o: cl.Langevin(parts, 0.1, 1.0, 0.1, **o),
    "LangevinInLayers": lambda parts, **o: cl.LangevinInLayers(parts, 0.1, 1.0, 0.1, **o),
    "LOL": lambda parts, **o: cl.LOL(parts, 0.1, **o),
    "AdaptiveLangevin": lambda parts, **o: cl.AdaptiveLangevin(parts, 0.1, **o),
    "AdLaLa": lambda parts, **o: cl.AdLaLa(parts, 0.1, **o),
    "SGLD": lambda parts, **o: cl.SGLD(parts, 0.1, 0.1, **o),
    "DHSGD": lambda parts, **o: cl.DHSGD(parts, 0.1, **o),
}


@pytest.mark.parametrize("method", PRESETS)
def test_presets_pass_further_options_on(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def init(self: cl.CoLA, groups: Any, **options: Any) -> None:
        seen.update(options)

    monkeypatch.setattr(cl.CoLA, "__init__", init)
    PRESETS[method](cl.partition(network(), by="bias"), seed=3, weight_decay=0.1)
    assert seen["seed"] == 3
    assert seen["weight_decay"] == 0.1


@pytest.mark.parametrize("method", PRESETS)
def test_groups_of_presets_have_known_keys(method: str) -> None:
    optimizer = PRESETS[method](cl.partition(network(), by="bias"))
    for group in optimizer.param_groups:
        assert refuse_unknown(group) == group
        check_group(group)


BAD = {
    "overlap": (
        lambda m: cl.partition(m, a=["0.*", "1.*"], b=["1.weight", "3.*", "4.*"]),
        r"parts 'a' and 'b' overlap: both have '1.weight'",
    ),
    "empty list": (lambda m: cl.partition(m, a=[], b=...), r"part 'a' is empty"),
    "empty rest": (lambda m: cl.partition(m, a="*", b=...), r"part 'b' is empty"),
    "no match": (
        lambda m: cl.partition(m, a="7.*", b=...),
        r"part 'a': the pattern '7\.\*' matches no",
    ),
    "left over": (lambda m: cl.partition(m, a="0.*"), r"no part has '1.weight'"),
    "two rests": (lambda m: cl.partition(m, a=..., b=...), r"only one part can be the rest"),
    "nothing": (lambda m: cl.partition(m), r"name the parts, or give by"),
    "both": (lambda m: cl.partition(m, "layer", a="0.*"), r"by='layer' and the parts a"),
    "by": (lambda m: cl.partition(m, by="colour"), r"by must be one of .*got 'colour'"),
    "strange group": (
        lambda m: cl.partition(m, by="layer", groups=[{"params": [nn.Parameter(torch.ones(9))]}]),
        r"groups has a parameter of shape \(9,\)",
    ),
    "one layer": (lambda m: cl.partition(m[4], by="output"), r"part 'hidden' is empty"),
    "frozen": (
        lambda m: cl.partition(m.requires_grad_(False), by="layer"),
        r"no parameter that needs a gradient",
    ),
    "three parts": (
        lambda m: cl.LOL(cl.partition(m, by="type"), 0.1),
        r"LOL takes two parts, the Langevin one and the overdamped one; got 3: Conv2d",
    ),
    "one part": (lambda m: cl.DHSGD(m.parameters(), 0.1), r"DHSGD takes two parts.*got 1: all"),
    "empty part": (lambda m: cl.AdLaLa({"a": m[0].parameters(), "b": []}, 0.1), "'b' is empty"),
    "no parts": (lambda m: cl.Langevin([], 0.1, 1.0, 0.0), r"parts must not be empty"),
    "missing value": (
        lambda m: cl.LangevinInLayers(cl.partition(m, by="bias"), 0.1, {"weights": 1.0}, 0.0),
        r"friction must have a value for each of the parts weights, biases; got weights",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_partitions(case: str) -> None:
    make, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        make(network())


def test_bad_types() -> None:
    with pytest.raises(TypeError, match=r"model must be an nn\.Module, got list"):
        cl.partition([], by="layer")  # type: ignore[arg-type]
    for members in (3, [3]):
        with pytest.raises(TypeError, match=r"a pattern must be a name pattern, .*got 3"):
            cl.partition(network(), a=members, b=...)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="parts must be parameters or groups with params, got 'x'"):
        cl.Langevin(["x"], 0.1, 1.0, 0.0)  # type: ignore[list-item]


def test_overlapping_mappings_are_refused() -> None:
    shared = nn.Parameter(torch.zeros(2))
    with pytest.raises(ValueError, match="group 1 appears in group 0 already"):
        cl.LOL({"first": [shared], "last": [shared]}, step_size=0.1)
