"""Names: one way to match them, and modules that are what their name says."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest
from torch import nn

import colangevin as cl

PACKAGES = ("constraints", "integrators", "optimizers", "ensemble", "diagnostics")


class Tied(nn.Module):
    """One weight with two names, as in language models."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.body = nn.Linear(3, 3)
        self.out = nn.Linear(3, 5, bias=False)
        self.out.weight = self.embed.weight


every_name = pytest.mark.parametrize("name", ["embed.weight", "out.weight", "out.*"])


@every_name
def test_tied_weights_in_parameter_groups(name: str) -> None:
    model, circle = Tied(), cl.Circle(5.0)
    groups = cl.parameter_groups(model, {name: circle})
    assert [p is model.out.weight for p in groups[0]["params"]] == [True]
    assert sum(len(group["params"]) for group in groups) == 3


@every_name
def test_tied_weights_in_a_partition(name: str) -> None:
    model = Tied()
    first, rest = cl.partition(model, head=[name], rest=...)
    assert [p is model.out.weight for p in first["params"]] == [True]
    assert len(rest["params"]) == 2


@every_name
def test_tied_weights_at_two_rates(name: str) -> None:
    model = Tied()
    rates = cl.fast_by_name(model, name)
    assert [p is model.out.weight for p in rates.fast] == [True]
    assert len(rates.slow) == 2


@every_name
def test_tied_weights_in_random_subsets(name: str) -> None:
    model = Tied()
    first, rest = cl.random_subsets(model, {name: 0.5})
    assert [p is model.out.weight for p in first["params"]] == [True]
    assert len(rest["params"]) == 2


def test_a_tied_weight_is_in_one_part_only() -> None:
    with pytest.raises(ValueError, match="overlap"):
        cl.partition(Tied(), first=["embed.weight"], second=["out.weight"], rest=...)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_shares_its_name_with_a_function(package: str) -> None:
    """``import colangevin.optimizers.partition as m`` gives the module of that name."""
    whole = importlib.import_module(f"colangevin.{package}")
    for found in pkgutil.iter_modules(whole.__path__):
        name = f"colangevin.{package}.{found.name}"
        importlib.import_module(name)
        scope: dict[str, object] = {}
        exec(f"import {name} as module", scope)  # which asks the package's attribute
        assert isinstance(scope["module"], ModuleType), name
