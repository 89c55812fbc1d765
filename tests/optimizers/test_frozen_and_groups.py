"""What an optimizer takes in: frozen weights, groups with odd keys, shared memory, norm layers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from optimizer_cases import CONSTRAINTS, backward, constrained, network, same, train

BOUNDS = [name for name in CONSTRAINTS if name not in ("unconstrained", "general of two")]
every_bound = pytest.mark.parametrize("bound", BOUNDS)


def parameter(*values: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values))


# --- frozen weights --------------------------------------------------------------------------


def frozen(factor: float = 3.0) -> nn.Module:
    """A network whose weight 2 is off every manifold, and frozen."""
    model = network()
    with torch.no_grad():
        model[2].weight.mul_(factor)
    model[2].weight.requires_grad_(False)
    return model


@every_bound
@pytest.mark.parametrize("strict", [False, True])
def test_frozen_weights_are_left_alone(bound: str, strict: bool) -> None:
    model = frozen()
    before = model[2].weight.clone()
    rules = {"2.weight": CONSTRAINTS[bound]()}
    groups = cl.constrain_(model, rules, strict=strict)
    assert same(model[2].weight.clone(), before)
    optimizer = cl.CoLA(groups, lr=0.01, momentum=0.9, strict=strict)
    assert same(model[2].weight.clone(), before)
    train(model, optimizer, range(3))
    assert same(model[2].weight.clone(), before)


@pytest.mark.parametrize("constraint", [cl.Circle("initial"), cl.Orthogonal()], ids=repr)
def test_a_state_dict_with_frozen_weights_is_loaded(constraint: cl.Constraint) -> None:
    model = frozen(1.0)
    groups = cl.parameter_groups(model, {"*.weight": constraint})
    optimizer = cl.CoLA(groups, lr=0.01, momentum=0.9)
    optimizer.load_state_dict(optimizer.state_dict())
    train(model, optimizer, range(3))
    optimizer.load_state_dict(optimizer.state_dict())


@every_bound
def test_frozen_weights_are_put_on_their_manifold_on_demand(bound: str) -> None:
    """An averaged model is often frozen."""
    model, twin = frozen(), frozen()
    twin[2].weight.requires_grad_(True)
    rules = {"2.weight": CONSTRAINTS[bound]()}
    cl.constrain_(model, rules, frozen=True)
    cl.constrain_(twin, rules)
    assert same(model[2].weight.clone(), twin[2].weight.detach().clone())
    assert not model[2].weight.requires_grad


@every_bound
def test_a_weight_that_is_thawed_is_put_on_its_manifold(bound: str) -> None:
    model = frozen()
    optimizer = cl.CoLA(constrained(model, CONSTRAINTS[bound]()), lr=1e-4, momentum=0.9)
    train(model, optimizer, range(2))
    before = model[2].weight.clone()
    model[2].weight.requires_grad_(True)
    train(model, optimizer, range(2, 3))
    assert not same(model[2].weight.detach(), before)
    assert optimizer.violation()[0].residual < 1e-10
    train(model, optimizer, range(3, 6))
    assert optimizer.violation()[0].residual < 1e-10


# --- where constraints make no sense ---------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3)])
def test_a_matrix_of_zeros_has_no_nearest_orthogonal_one(shape: tuple[int, int]) -> None:
    weight = nn.Parameter(torch.zeros(shape))
    with pytest.raises(cl.ConstraintError, match="zero"):
        cl.CoLA([weight], lr=0.1, constraint=cl.Orthogonal())
    assert same(weight.detach(), torch.zeros(shape))


NORMS: dict[str, Callable[[], nn.Module]] = {
    "BatchNorm": lambda: nn.BatchNorm1d(4),
    "LayerNorm": lambda: nn.LayerNorm(4),
    "GroupNorm": lambda: nn.GroupNorm(2, 4),
}


@pytest.mark.parametrize("constraint", [cl.Circle(0.5), cl.Sphere(0.5)], ids=["circle", "sphere"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("collect", [cl.parameter_groups, cl.constrain_])
def test_a_pattern_that_takes_in_normalisation_is_warned_of(
    collect: Callable[..., Any], norm: str, constraint: cl.Constraint
) -> None:
    model = nn.Sequential(nn.Linear(3, 4), NORMS[norm](), nn.Linear(4, 2))
    with pytest.warns(UserWarning, match=r"1\.weight"):
        collect(model, {"*.weight": constraint})


def test_rules_that_leave_normalisation_out_are_not_warned_of() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    plain = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cl.parameter_groups(model, {nn.Linear: cl.Circle(0.5)})
        cl.parameter_groups(model, {("0.weight", "2.weight"): cl.Circle(0.5)})
        cl.parameter_groups(plain, {"*.weight": cl.Circle(0.5)})


# --- keys of groups and arguments ------------------------------------------------------------


@pytest.mark.parametrize(
    "key, value", [("tempreture", 0.1), ("maximize", True), ("nesterov", True), ("betas", (1, 2))]
)
def test_a_key_that_nobody_knows_is_refused_by_name(key: str, value: Any) -> None:
    weight = parameter(0.1, 0.2)
    with pytest.raises((TypeError, ValueError), match=key):
        cl.CoLA([{"params": [weight], key: value}], lr=0.1)
    optimizer = cl.CoLA([weight], lr=0.1)
    with pytest.raises((TypeError, ValueError), match=key):
        optimizer.add_param_group({"params": [parameter(0.3)], key: value})
    assert len(optimizer.param_groups) == 1


MEANINGLESS: dict[str, tuple[Any, Any]] = {
    "maximize": (False, True),
    "nesterov": (False, True),
    "foreach": (None, True),
    "differentiable": (False, True),
    "dampening": (0, 0.5),
}
"""Arguments of torch's optimizers: the value that asks for nothing, and one that does."""


@pytest.mark.parametrize("name", MEANINGLESS)
@pytest.mark.parametrize("place", ["argument", "group"])
def test_arguments_of_torch_that_ask_for_nothing_are_accepted(name: str, place: str) -> None:
    nothing, something = MEANINGLESS[name]

    def run(value: Any) -> Tensor:
        weight = parameter(0.1, 0.2)
        if place == "argument":
            optimizer = cl.CoLA([weight], lr=0.1, **{name: value})
        else:
            optimizer = cl.CoLA([{"params": [weight], name: value}], lr=0.1)
        weight.grad = torch.ones(2)
        optimizer.step()
        return weight.detach()

    torch.testing.assert_close(run(nothing), torch.tensor([0.0, 0.1]))
    with pytest.raises((TypeError, ValueError), match=name):
        run(something)


@pytest.mark.parametrize("name", MEANINGLESS)
def test_a_flag_that_is_written_into_a_group_is_refused_by_the_next_step(name: str) -> None:
    nothing, something = MEANINGLESS[name]
    weights = [parameter(0.1, 0.2), parameter(0.3)]
    optimizer = cl.CoLA([{"params": [weight]} for weight in weights], lr=0.1, momentum=0.9)
    for step in range(3):
        for weight in weights:
            weight.grad = torch.ones_like(weight)
        if step == 2:
            optimizer.param_groups[1][name] = something
            before = [weight.detach().clone() for weight in weights]
            with pytest.raises(ValueError, match=f"{name}=.*is not supported"):
                optimizer.step()
            assert all(map(torch.equal, weights, before))
            optimizer.param_groups[1][name] = nothing
        optimizer.step()
    assert not torch.equal(weights[1], before[1])


def test_all_of_them_at_once_as_a_configuration_file_has_them() -> None:
    options = {name: nothing for name, (nothing, _) in MEANINGLESS.items()}
    weight = parameter(0.1)
    optimizer = cl.CoLA([{"params": [weight], **options}], lr=0.1, **options)
    weight.grad = torch.ones(1)
    optimizer.step()
    assert weight.item() == pytest.approx(0.0, abs=1e-7)


def test_names_and_what_schedulers_leave_are_no_unknown_keys() -> None:
    group = {"params": [parameter(0.1)], "name": "head", "initial_lr": 0.5, "lr": 0.1}
    optimizer = cl.CoLA([group])
    torch.optim.lr_scheduler.StepLR(optimizer, 3, last_epoch=2)
    assert optimizer.param_groups[0]["name"] == "head"
    cl.CoLA(cl.partition(network(), by="output"), lr=0.1)
    cl.CoLA(list(network().named_parameters()), lr=0.1)


# --- shared memory ---------------------------------------------------------------------------


def test_two_parameters_over_one_memory_are_refused() -> None:
    memory = torch.zeros(4)
    first, second, other = nn.Parameter(memory), nn.Parameter(memory), parameter(0.5)
    with pytest.raises(ValueError, match=r"first.*second|second.*first"):
        cl.CoLA([("first", first), ("other", other), ("second", second)], lr=0.1)
    groups = [{"params": [("first", first)]}, {"params": [("second", second)]}]
    with pytest.raises(ValueError, match=r"first.*second|second.*first"):
        cl.CoLA(groups, lr=0.1)


def test_parameters_that_overlap_are_refused() -> None:
    memory = torch.zeros(6)
    parts = [("left", nn.Parameter(memory[:4])), ("right", nn.Parameter(memory[2:]))]
    with pytest.raises(ValueError, match=r"left.*right|right.*left"):
        cl.CoLA(parts, lr=0.1)


def test_an_added_parameter_over_the_same_memory_is_refused() -> None:
    memory = torch.zeros(4)
    optimizer = cl.CoLA([("first", nn.Parameter(memory))], lr=0.1)
    with pytest.raises(ValueError, match="second"):
        optimizer.add_param_group({"params": [("second", nn.Parameter(memory))]})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize("constraint", [None, cl.Circle(0.5)])
def test_parameters_side_by_side_in_one_memory_are_fine(constraint: cl.Constraint | None) -> None:
    memory = torch.zeros(6)
    parts = [nn.Parameter(memory[:3]), nn.Parameter(memory[3:])]
    optimizer = cl.CoLA(parts, lr=0.1, constraint=constraint)
    for factor, part in enumerate(parts, start=1):
        part.grad = torch.full((3,), -float(factor))
    optimizer.step()
    assert (memory[:3] > 0).all() and (memory[3:] > memory[:3]).all()


def test_parameters_without_entries_share_no_memory() -> None:
    cl.CoLA([nn.Parameter(torch.zeros(0)), nn.Parameter(torch.zeros(0))], lr=0.1)


# --- weights that move at construction -------------------------------------------------------


def messages(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith("colangevin")]


def test_weights_that_construction_moves_are_told(caplog: pytest.LogCaptureFixture) -> None:
    model = network()
    rules = {"0.weight": cl.Circle(0.1), "2.weight": cl.Orthogonal(), "4.weight": cl.Circle(50.0)}
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with caplog.at_level(logging.DEBUG, logger="colangevin"):
        cl.CoLA(cl.parameter_groups(model, rules), lr=0.1)
    found = messages(caplog)
    assert len(found) == 2  # one for each group that has moved
    assert all(record.levelno == logging.WARNING for record in found)
    for record, name in zip(found, ("0.weight", "2.weight"), strict=True):
        assert name in record.getMessage()
        assert any(character.isdigit() for character in record.getMessage().replace(name, ""))
        assert not same(model.get_parameter(name).detach(), before[name])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_that_stay_are_not_told(
    caplog: pytest.LogCaptureFixture, dtype: torch.dtype
) -> None:
    model = network(dtype=dtype)
    rules = {"0.weight": cl.Circle(5.0), "2.weight": cl.Orthogonal(), "4.weight": cl.Sphere(9.0)}
    groups = cl.constrain_(model, rules)
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="colangevin"):
        optimizer = cl.CoLA(groups, lr=0.1)
        backward(model, 0)
        optimizer.step()
    assert not messages(caplog)


def test_a_parameter_without_a_shape_is_refused() -> None:
    with pytest.raises(TypeError, match="run the model once before"):
        cl.CoLA(nn.LazyLinear(3).parameters(), lr=0.1)
    with pytest.raises(TypeError, match="run the model once before"):
        cl.constrain_(nn.LazyLinear(3), {"weight": cl.Orthogonal()})


@pytest.mark.parametrize("mass", [3.0, torch.tensor([1.0, 4.0])])
def test_a_mass_that_is_written_into_a_group_is_refused_by_the_next_step(mass: Any) -> None:
    weight = parameter(0.1, 0.2)
    weight.grad = torch.ones(2)
    optimizer = cl.CoLA([weight], lr=0.1, mass=2.0)
    optimizer.step()
    group, before = optimizer.param_groups[0], weight.detach().clone()
    group["mass"] = mass
    with pytest.raises(ValueError, match=r"mass=.*cl\.Massive"):
        optimizer.step()
    assert torch.equal(weight, before)
    group["mass"], group["constraint"] = None, cl.Massive(mass)
    optimizer.step()
    torch.testing.assert_close(weight.detach(), before - 0.1 / mass)
