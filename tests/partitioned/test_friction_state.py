"""The friction variable of an adaptive group is state of its parameters, not an option."""

import copy
import io
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

import colangevin as cl
from colangevin.ensemble.state import move
from colangevin.optimizers.step import question


def weight(*shape: int, seed: int = 0) -> nn.Parameter:
    generator = torch.Generator().manual_seed(seed)
    return nn.Parameter(torch.randn(*shape, dtype=torch.float64, generator=generator))


def pair() -> list[nn.Parameter]:
    return [weight(4, 2), weight(3, seed=1)]


def adaptive(parameters: list[nn.Parameter], **options: Any) -> cl.CoLA:
    settings = {"step_size": 0.1, "friction": 0.5, "temperature": 0.1, "seed": 4, **options}
    return cl.CoLA(parameters, thermostat="adaptive", **settings)


def walk(optimizer: cl.CoLA, parameters: list[nn.Parameter], steps: int) -> None:
    for _ in range(steps):
        for parameter in parameters:
            parameter.grad = parameter.detach() - 0.1 if parameter.requires_grad else None
        optimizer.step()


def frictions(optimizer: cl.CoLA) -> list[torch.Tensor]:
    return [entry["friction"] for entry in optimizer.state.values() if "friction" in entry]


# --- where it is --------------------------------------------------------------------------


def test_it_is_there_from_the_start_and_one_for_all_parameters() -> None:
    parameters = pair()
    optimizer = adaptive(parameters)
    found = frictions(optimizer)
    assert len(found) == 2 and found[0] is found[1]
    assert (found[0].shape, found[0].dtype) == (torch.Size([]), torch.float64)
    assert float(found[0]) == 0.5


def test_a_step_writes_the_state_and_leaves_the_option() -> None:
    parameters = pair()
    optimizer = adaptive(parameters)
    first = frictions(optimizer)[0]
    walk(optimizer, parameters, 3)
    option = optimizer.param_groups[0]["friction"]
    assert type(option) is float and option == 0.5
    assert all(found is first for found in frictions(optimizer))
    assert cl.friction_variable(optimizer) == [float(first)] != [0.5]


def test_the_options_of_an_adaptive_group_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    read = question._read_all
    monkeypatch.setattr(question, "_read_all", lambda *a: (calls.append(1), read(*a))[1])
    parameters = pair()
    optimizer = adaptive(parameters)
    walk(optimizer, parameters, 1)
    assert calls
    calls.clear()
    walk(optimizer, parameters, 5)
    assert calls == []


def test_a_group_without_an_adaptive_thermostat_has_none() -> None:
    parameters = pair()
    optimizer = cl.AdLaLa({"first": parameters[:1], "last": parameters[1:]}, 0.1)
    walk(optimizer, parameters, 2)
    assert ["friction" in optimizer.state[p] for p in parameters] == [True, False]


# --- saving -------------------------------------------------------------------------------


def test_a_state_dict_has_it_in_the_state_of_every_parameter() -> None:
    parameters, others = pair(), pair()
    first, second = adaptive(parameters), adaptive(others, friction=2.0, seed=9)
    walk(first, parameters, 7)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    assert saved["param_groups"][0]["friction"] == 0.5
    assert [float(saved["state"][i]["friction"]) for i in range(2)] == cl.friction_variable(
        first
    ) * 2
    for other, parameter in zip(others, parameters, strict=True):
        other.data.copy_(parameter.data)
    second.load_state_dict(saved)
    assert second.param_groups[0]["friction"] == 0.5, "and no step refuses the other option"
    assert cl.friction_variable(second) == cl.friction_variable(first)
    walk(first, parameters, 5)
    walk(second, others, 5)
    assert all(torch.equal(*both) for both in zip(parameters, others, strict=True))
    assert cl.friction_variable(second) == cl.friction_variable(first)
    found = frictions(second)
    assert found[0] is found[1], "what was loaded is one again"


def linear(seed: int) -> tuple[nn.Module, cl.CoLA]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    return model, adaptive(list(model.parameters()), seed=seed)


@pytest.mark.filterwarnings("ignore:torch.distributed is")
def test_a_checkpoint_is_loaded_into_the_names_of_a_new_optimizer(tmp_path: Path) -> None:
    model, first = linear(4)
    walk(first, list(model.parameters()), 6)
    dcp.save(get_optimizer_state_dict(model, first), checkpoint_id=tmp_path)
    other, second = linear(9)
    other.load_state_dict(model.state_dict())
    names = get_optimizer_state_dict(other, second)
    dcp.load(names, checkpoint_id=tmp_path)
    set_optimizer_state_dict(other, second, names)
    assert cl.friction_variable(second) == cl.friction_variable(first) != [0.5]
    for one, optimizer in ((model, first), (other, second)):
        walk(optimizer, list(one.parameters()), 5)
    own = (list(one.parameters()) for one in (model, other))
    assert all(torch.equal(p, q) for p, q in zip(*own, strict=True))


def test_a_state_dict_of_before_that_has_it_as_an_option_goes_on() -> None:
    parameters, others = pair(), pair()
    first, second = adaptive(parameters), adaptive(others, seed=9)
    walk(first, parameters, 4)
    old = first.state_dict()
    old["param_groups"][0]["friction"] = old["state"][0]["friction"]
    for entry in old["state"].values():
        del entry["friction"]
    for other, parameter in zip(others, parameters, strict=True):
        other.data.copy_(parameter.data)
    second.load_state_dict(old)
    assert type(second.param_groups[0]["friction"]) is float
    for optimizer, own in ((first, parameters), (second, others)):
        walk(optimizer, own, 3)
    assert all(torch.equal(*both) for both in zip(parameters, others, strict=True))


def test_a_damaged_one_is_refused() -> None:
    optimizer = adaptive(pair())
    state = optimizer.state_dict()
    state["state"][0]["friction"] = torch.zeros(2)
    with pytest.raises(ValueError, match=r"has friction of shape \(2,\)"):
        optimizer.load_state_dict(state)


# --- failing, freezing, exchanging ----------------------------------------------------------


def test_a_failed_step_puts_it_back() -> None:
    """The first group has made its step, with another ξ, when the second one fails."""
    free, bound = weight(3), weight(4, seed=1)
    good = cl.General(lambda w: w.square().sum().reshape(1) - 1.0)
    bad = cl.General(lambda w: w.square().sum().reshape(1) - 1.0, max_iterations=10)
    groups = [{"params": [free], "constraint": good}, {"params": [bound], "constraint": bad}]
    optimizer = adaptive(groups, friction=0.0)  # type: ignore[arg-type]
    walk(optimizer, [free, bound], 3)
    before = cl.friction_variable(optimizer)
    held = frictions(optimizer)
    free.grad, bound.grad = torch.ones_like(free), torch.full_like(bound, 1e6)
    with pytest.raises(cl.ConvergenceError):
        optimizer.step()
    assert cl.friction_variable(optimizer) == before
    assert all(one is other for one, other in zip(frictions(optimizer), held, strict=True))
    walk(optimizer, [free, bound], 1)
    assert cl.friction_variable(optimizer) != before


@pytest.mark.parametrize("loaded", [False, True])
def test_a_frozen_first_parameter_keeps_it(loaded: bool) -> None:
    """Its entry must not go stale, also where loading has made it a tensor of its own."""
    parameters = pair()
    optimizer = adaptive(parameters)
    walk(optimizer, parameters, 3)
    if loaded:
        optimizer.load_state_dict(optimizer.state_dict())
    parameters[0].requires_grad_(False)
    walk(optimizer, parameters, 3)
    now = cl.friction_variable(optimizer)
    assert [float(found) for found in frictions(optimizer)] == now * 2
    parameters[0].requires_grad_(True)
    for parameter in parameters:
        parameter.grad = None
    optimizer.step()
    assert cl.friction_variable(optimizer) == now


def test_a_parameter_that_is_frozen_from_the_start_joins_later() -> None:
    parameters = pair()
    parameters[0].requires_grad_(False)
    optimizer = adaptive(parameters)
    assert "friction" not in optimizer.state[parameters[0]]
    walk(optimizer, parameters, 3)
    before = cl.friction_variable(optimizer)
    assert before != [0.5]
    parameters[0].requires_grad_(True)
    optimizer.param_groups[0]["coupling"] = 0.0
    walk(optimizer, parameters, 1)
    assert cl.friction_variable(optimizer) == before
    assert optimizer.state[parameters[0]]["friction"] is optimizer.state[parameters[1]]["friction"]


def test_a_new_constraint_keeps_it() -> None:
    parameters = pair()
    optimizer = adaptive(parameters, coupling=0.0)
    optimizer.state[parameters[0]]["friction"].fill_(1.25)
    walk(optimizer, parameters, 2)
    optimizer.param_groups[0]["constraint"] = cl.Circle(3.0)
    walk(optimizer, parameters, 2)
    assert cl.friction_variable(optimizer) == [1.25]


def test_a_group_that_becomes_adaptive_again_starts_from_its_option() -> None:
    parameters = pair()
    optimizer = adaptive(parameters)
    walk(optimizer, parameters, 3)
    group = optimizer.param_groups[0]
    former = dict(group)
    group.update(
        thermostat="langevin", scheme="BAOAB", coupling=None, driving_noise=None, friction=1.0
    )
    walk(optimizer, parameters, 2)
    assert not frictions(optimizer)
    group.update({**former, "friction": 0.25, "coupling": 0.0})
    walk(optimizer, parameters, 2)
    assert cl.friction_variable(optimizer) == [0.25]


# --- what a user writes ---------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_an_option_that_would_have_no_effect_is_refused(steps: int) -> None:
    parameters = pair()
    optimizer = adaptive(parameters)
    walk(optimizer, parameters, steps)
    before = [p.detach().clone() for p in parameters]
    optimizer.param_groups[0]["friction"] = 2.0
    for _ in range(2):
        with pytest.raises(ValueError, match=r"friction=2.0.*began at 0.5.*fill_\(2.0\)"):
            walk(optimizer, parameters, 1)
    assert all(torch.equal(*both) for both in zip(parameters, before, strict=True))
    optimizer.param_groups[0]["friction"] = 0.5
    walk(optimizer, parameters, 1)


@pytest.mark.parametrize("index", [0, 1])
def test_writing_in_place_counts(index: int) -> None:
    parameters = pair()
    optimizer = adaptive(parameters, coupling=0.0)
    walk(optimizer, parameters, 2)
    optimizer.state[parameters[index]]["friction"].fill_(3.0)
    walk(optimizer, parameters, 2)
    assert cl.friction_variable(optimizer) == [3.0]


@pytest.mark.parametrize("value", [3.0, torch.tensor(3.0), torch.tensor(3)])
def test_another_entry_is_noticed(value: Any) -> None:
    parameters, others = pair(), pair()
    optimizer, expected = adaptive(parameters), adaptive(others)
    for each, own in ((optimizer, parameters), (expected, others)):
        walk(each, own, 2)
    optimizer.state[parameters[0]]["friction"] = value
    expected.state[others[0]]["friction"].fill_(3.0)
    for each, own in ((optimizer, parameters), (expected, others)):
        walk(each, own, 3)
    assert all(torch.equal(*both) for both in zip(parameters, others, strict=True))
    found = frictions(optimizer)
    assert found[0] is found[1] and found[0].dtype == torch.float64


def test_an_entry_of_another_shape_is_refused() -> None:
    parameters = pair()
    optimizer = adaptive(parameters)
    optimizer.state[parameters[0]]["friction"] = torch.zeros(2)
    with pytest.raises(ValueError, match=r"state's friction must have the shape \(\), got \(2,\)"):
        walk(optimizer, parameters, 1)


def test_copies_share_nothing_with_the_original() -> None:
    parameters = pair()
    optimizer = adaptive(parameters)
    walk(optimizer, parameters, 3)
    twin = copy.deepcopy(optimizer)
    before = cl.friction_variable(twin)
    walk(optimizer, parameters, 3)
    assert cl.friction_variable(twin) == before != cl.friction_variable(optimizer)
    found = frictions(twin)
    assert found[0] is found[1]


# --- from one optimizer to another ------------------------------------------------------------


def test_hand_over_gives_a_copy_to_all_parameters() -> None:
    parameters = pair()
    source, target = adaptive(parameters), adaptive(parameters, friction=2.0)
    walk(source, parameters, 5)
    given = cl.friction_variable(source)
    cl.hand_over(source, target)
    assert target.param_groups[0]["friction"] == 2.0
    found = frictions(target)
    assert len(found) == 2 and found[0] is found[1] is not frictions(source)[0]
    walk(target, parameters, 3)
    assert cl.friction_variable(source) == given != cl.friction_variable(target)


def test_hand_over_from_a_method_without_one_begins_anew() -> None:
    parameters = pair()
    target = adaptive(parameters, friction=2.0)
    walk(target, parameters, 5)
    cl.hand_over(torch.optim.SGD(parameters, lr=0.1), target)
    assert cl.friction_variable(target) == [2.0]


# --- ensembles --------------------------------------------------------------------------------

SEEDS = [3, 5, 8]
POINTS = torch.linspace(-1.0, 1.0, 8).view(8, 1)


def ensemble_of() -> cl.Ensemble:
    return cl.Ensemble(
        lambda: nn.Linear(1, 2),
        SEEDS,
        method=lambda model: cl.AdaptiveLangevin(model.parameters(), 0.1, friction=0.5),
        compile=False,
    )


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (outputs - targets).square().mean()


def train(ensemble: cl.Ensemble, steps: int) -> None:
    for _ in range(steps):
        ensemble.step(loss, POINTS, POINTS, shared=True)


def of_members(ensemble: cl.Ensemble) -> torch.Tensor:
    found = [entry["friction"] for entry in ensemble._state.values()]
    assert len(found) == 2 and found[0] is found[1]
    return found[0]


def test_every_member_has_its_own() -> None:
    ensemble = ensemble_of()
    assert of_members(ensemble).tolist() == [0.5] * 3
    train(ensemble, 4)
    assert len(set(of_members(ensemble).tolist())) == 3
    kept = of_members(ensemble)[[0, 2]].tolist()
    move(ensemble, torch.clone)
    ensemble._select([0, 2])
    assert of_members(ensemble).tolist() == kept


@pytest.mark.parametrize("old", [False, True])
def test_an_ensemble_goes_on_exactly(old: bool) -> None:
    """States of before have ξ in the groups."""
    first, second = ensemble_of(), ensemble_of()
    train(first, 4)
    state = first.state_dict()
    if old:
        state["groups"][0]["friction"] = of_members(first).clone()
        for entry in state["state"].values():
            del entry["friction"]
    second.load_state_dict(state)
    for ensemble in (first, second):
        train(ensemble, 3)
    assert torch.equal(of_members(first), of_members(second))
    for name, tensor in first.parameters.items():
        assert torch.equal(tensor, second.parameters[name])
