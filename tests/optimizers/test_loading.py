"""A damaged state dict is refused by name, and leaves everything as it was."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from optimizer_cases import network, same, values_of
from optimizers_registry import OPTIMIZERS, OptimizerCase, optimizers_within, snapshot
from registry import ids

LIKE_OTHERS = ("radii", "unit-norm", "unconstrained", "overdamped", "general", "general inequality")
"""Constraints of CoLA whose state has the same entries as another's."""

CASES = [case for case in OPTIMIZERS if not case.plain and not case.name.endswith(LIKE_OTHERS)]
"""A plain torch optimizer inside ``Multirate`` takes what torch takes."""

every_optimizer = pytest.mark.parametrize("case", CASES, ids=ids)

Damage = Callable[[dict[str, Any]], bool]
"""Damages a state dict in place; False if it has no such entry."""


def option(name: str, value: Any) -> Damage:
    """The last group has another value for an option."""

    def damage(saved: dict[str, Any]) -> bool:
        group = saved["param_groups"][-1]
        found = name in group
        group[name] = value
        return found

    return damage


def without_option(name: str) -> Damage:
    return lambda saved: saved["param_groups"][-1].pop(name, saved) is not saved


def entry(change: Callable[[dict[str, Any]], Any]) -> Damage:
    """Another state of the last parameter that has any."""

    def damage(saved: dict[str, Any]) -> bool:
        filled = [key for key, value in saved["state"].items() if value]
        if not filled:
            return False
        made = change(dict(saved["state"][filled[-1]]))
        saved["state"][filled[-1]] = made
        return made is not None

    return damage


def in_entry(name: str, change: Callable[[Any], Any]) -> Damage:
    """Another value for a name of the last state that has it."""

    def damage(saved: dict[str, Any]) -> bool:
        keys = [key for key, value in saved["state"].items() if name in value]
        if keys:
            saved["state"][keys[-1]][name] = change(saved["state"][keys[-1]][name])
        return bool(keys)

    return damage


def part(name: str, change: Callable[[Any], Any]) -> Damage:
    """Another value for a key of the state dict itself."""

    def damage(saved: dict[str, Any]) -> bool:
        saved[name] = change(saved[name])
        return True

    return damage


def without_part(name: str) -> Damage:
    return lambda saved: bool(saved.pop(name, None))


def stretched(value: Tensor) -> Tensor:
    return torch.cat([value.reshape(-1), torch.zeros(1, dtype=value.dtype)])


OPTIONS = ("lr", "temperature", "weight_decay", "scheme", "thermostat", "seed", "constraint")
DAMAGES: dict[str, Damage] = {
    "lr=-1": option("lr", -1.0),
    "lr=nan": option("lr", math.nan),
    "lr of text": option("lr", "0.1"),
    "scheme XYZ": option("scheme", "XYZ"),
    "scheme 3": option("scheme", 3),
    "temperature OBA": option("temperature", "OBA"),
    "temperature=-1": option("temperature", -1.0),
    "momentum=2": option("momentum", 2.0),
    "weight_decay=-1": option("weight_decay", -1.0),
    "thermostat of another kind": option("thermostat", "tropical"),
    "seed of text": option("seed", "five"),
    "probability=2": option("probability", 2.0),
    **{f"no {name}": without_option(name) for name in OPTIONS},
    "no params": without_option("params"),
    "a parameter less": option("params", []),
    "no groups": part("param_groups", lambda groups: []),
    "a group of text": part("param_groups", lambda groups: ["lr"] * len(groups)),
    "groups of None": part("param_groups", lambda groups: None),
    "no param_groups": without_part("param_groups"),
    "no state": without_part("state"),
    "state is a list": part("state", lambda state: list(state.values())),
    "an entry is a number": entry(lambda found: 1.5),
    "an entry is a list": entry(lambda found: [found]),
    "momentum of another shape": in_entry("momentum_buffer", stretched),
    "momentum of text": in_entry("momentum_buffer", lambda value: "fast"),
    "slack of another shape": in_entry("slack", stretched),
    "slack of None": in_entry("slack", lambda value: None),
    "step=nan": in_entry("step", lambda value: math.nan),
    "step=-1": in_entry("step", lambda value: -1),
    "step of text": in_entry("step", lambda value: "three"),
}


@cache
def trained(name: str, seed: int, first: int, stop: int) -> tuple[nn.Module, Optimizer]:
    """A run in its middle, to be copied."""
    case = next(case for case in OPTIMIZERS if case.name == name)
    model, optimizer = case.start(seed)
    case.train(model, optimizer, range(first, stop))
    return model, optimizer


def saved_by(case: OptimizerCase) -> dict[str, Any]:
    """The state dict of a run, to be damaged."""
    return copy.deepcopy(trained(case.name, 1, 0, 4)[1].state_dict())


def refuses(case: OptimizerCase, saved: dict[str, Any], go_on: bool = False) -> None:
    """Load a damaged state into another run, which goes on as if nothing had been."""
    model, optimizer = copy.deepcopy(trained(case.name, 5, 10, 12))
    before = snapshot(optimizer)
    with pytest.raises((ValueError, TypeError)):
        optimizer.load_state_dict(saved)
    assert same(snapshot(optimizer), before)
    if go_on:
        twin, second = copy.deepcopy(trained(case.name, 5, 10, 12))
        case.train(model, optimizer, range(12, 15))
        case.train(twin, second, range(12, 15))
        assert same(values_of(optimizer), values_of(second))


@every_optimizer
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_refused_and_changes_nothing(case: OptimizerCase, damage: str) -> None:
    saved = saved_by(case)
    *_, last = optimizers_within(saved)
    if not DAMAGES[damage](last):
        pytest.skip("it has no such entry")
    refuses(case, saved)


@pytest.mark.parametrize("case", OPTIMIZERS, ids=ids)
def test_a_state_without_one_of_its_parts_is_refused(case: OptimizerCase) -> None:
    whole = saved_by(case)
    for name in whole:
        refuses(case, {key: value for key, value in whole.items() if key != name}, go_on=True)


@pytest.mark.parametrize("case", [c for c in OPTIMIZERS if c.name.startswith("Multirate")], ids=ids)
@pytest.mark.parametrize(
    "name, value",
    [
        ("0_period", 0),
        ("0_period", "often"),
        ("0_steps", -1),
        ("0_steps", math.nan),
        ("0_steps", "three"),
        ("0_drift", "yes"),
        ("_parts", 0),
        ("_done", -1),
        ("_rate", math.nan),
        ("_way", None),
    ],
)
@pytest.mark.parametrize("everywhere", [True, False])
def test_a_damaged_multirate_state_is_refused(
    case: OptimizerCase, name: str, value: Any, everywhere: bool
) -> None:
    saved = saved_by(case)
    found = [entry for entry in saved["state"].values() if f"multirate{name}" in entry]
    if not found:
        pytest.skip("it has no such entry")
    for entry in found if everywhere else found[-1:]:
        entry[f"multirate{name}"] = value
    refuses(case, saved, go_on=True)


@every_optimizer
def test_a_good_state_loads_after_a_refusal(case: OptimizerCase) -> None:
    model, optimizer = case.start()
    case.train(model, optimizer, range(3))
    good, weights = copy.deepcopy(optimizer.state_dict()), copy.deepcopy(model.state_dict())
    bad = copy.deepcopy(good)
    *_, last = optimizers_within(bad)
    last["param_groups"][-1]["lr"] = -1.0
    case.train(model, optimizer, range(3, 6))
    resumed = network(seed=9)
    resumed.load_state_dict(weights)
    second = case.make(resumed, seed=2)
    with pytest.raises((ValueError, TypeError)):
        second.load_state_dict(bad)
    second.load_state_dict(good)
    case.train(resumed, second, range(3, 6))
    assert same(values_of(second), values_of(optimizer))
