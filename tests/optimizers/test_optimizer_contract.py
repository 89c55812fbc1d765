"""One contract for every optimizer of the library: what torch promises of its own."""

from __future__ import annotations

import copy
import io
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer, lr_scheduler

from optimizer_cases import backward, network, parameters_of, same, values_of
from optimizers_registry import OPTIMIZERS, OptimizerCase, snapshot
from registry import ids

every_optimizer = pytest.mark.parametrize("case", OPTIMIZERS, ids=ids)

SCHEDULERS: dict[str, Callable[[Optimizer], Any]] = {
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2, gamma=0.5),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 8),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.02, total_steps=9, cycle_momentum=False),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, total_iters=3), lr_scheduler.ExponentialLR(o, 0.9)], [3]
    ),
}


def through_a_file(value: Any) -> Any:
    """Saved, and loaded in the way that runs no code."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def spread_gradient(model: nn.Module, name: str) -> None:
    """Make a parameter's gradient sparse."""
    parameter = model.get_parameter(name)
    parameter.grad = parameter.grad.to_sparse()


# --- saving and copying ----------------------------------------------------------------------


@every_optimizer
@pytest.mark.parametrize("stop", [1, 4])
def test_a_resumed_run_goes_on_exactly(case: OptimizerCase, stop: int) -> None:
    model, optimizer = case.start()
    case.train(model, optimizer, range(stop))
    saved = through_a_file([model.state_dict(), optimizer.state_dict()])
    case.train(model, optimizer, range(stop, 7))

    resumed = network(seed=9)
    resumed.load_state_dict(saved[0])
    second = case.make(resumed, seed=2)
    second.load_state_dict(saved[1])
    assert same(resumed.state_dict(), saved[0])  # loading moves no weight
    case.train(resumed, second, range(stop, 7))
    assert same(values_of(second), values_of(optimizer))
    assert same(second.state_dict(), optimizer.state_dict())


@every_optimizer
def test_a_state_dict_is_a_moment(case: OptimizerCase) -> None:
    model, optimizer = case.start()
    case.train(model, optimizer, range(2))
    saved = optimizer.state_dict()
    before = copy.deepcopy(saved)
    case.train(model, optimizer, range(2, 4))
    if not case.plain:  # torch's own share memory with the state
        assert same(saved, before)
    assert not same(optimizer.state_dict(), before)


@every_optimizer
@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))],
    ids=["deepcopy", "pickle"],
)
def test_a_copy_runs_on_by_itself(case: OptimizerCase, duplicate: Callable[[Any], Any]) -> None:
    model, optimizer = case.start()
    case.train(model, optimizer, range(4))
    twin, second = duplicate((model, optimizer))
    assert type(second) is type(optimizer)
    frozen = values_of(second)
    case.train(model, optimizer, range(4, 7))
    assert same(values_of(second), frozen)  # nothing is shared
    case.train(twin, second, range(4, 7))
    assert same(values_of(second), values_of(optimizer))
    assert not same(values_of(second), frozen)


# --- hooks -----------------------------------------------------------------------------------


@every_optimizer
def test_hooks_run_around_the_step(case: OptimizerCase) -> None:
    model, optimizer = case.start()
    seen: list[tuple[str, list[Tensor]]] = []

    def note(name: str) -> Callable[..., None]:
        return lambda *_: seen.append((name, values_of(optimizer)))

    start = values_of(optimizer)
    before = optimizer.register_step_pre_hook(note("pre"))
    optimizer.register_step_post_hook(note("post"))
    case.train(model, optimizer, range(1))
    assert [name for name, _ in seen] == ["pre", "post"]
    assert same(seen[0][1], start)
    assert same(seen[1][1], values_of(optimizer)) and not same(seen[1][1], start)
    before.remove()
    case.train(model, optimizer, range(1, 2))
    assert [name for name, _ in seen] == ["pre", "post", "post"]


@every_optimizer
def test_hooks_run_around_saving(case: OptimizerCase) -> None:
    model, optimizer = case.start()
    case.train(model, optimizer, range(2))
    seen: list[Any] = []
    optimizer.register_state_dict_pre_hook(lambda _: seen.append("pre"))
    optimizer.register_state_dict_post_hook(lambda _, saved: seen.append(set(saved)))
    saved = optimizer.state_dict()
    assert seen == ["pre", set(saved)]  # the last hook sees the whole of it
    optimizer.register_state_dict_post_hook(lambda _, saved: {**saved, "mine": 1})
    assert optimizer.state_dict()["mine"] == 1


@every_optimizer
def test_hooks_run_around_loading(case: OptimizerCase) -> None:
    model, optimizer = case.start()
    case.train(model, optimizer, range(2))
    saved = optimizer.state_dict()
    other, second = case.start(seed=3)
    other.load_state_dict(model.state_dict())
    seen: list[Any] = []

    def before(_: Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
        seen.append("pre")
        return {key: value for key, value in state_dict.items() if key != "mine"}

    second.register_load_state_dict_pre_hook(before)
    second.register_load_state_dict_post_hook(lambda o: seen.append(same(o.state_dict(), saved)))
    second.load_state_dict({**saved, "mine": 1})
    assert seen == ["pre", True]


# --- the step --------------------------------------------------------------------------------


@every_optimizer
def test_a_closure_is_run_with_gradients_and_its_loss_returned(case: OptimizerCase) -> None:
    model, optimizer = case.start()
    start, calls = values_of(optimizer), []

    def closure() -> Tensor:
        calls.append(torch.is_grad_enabled())
        return backward(model, 0)

    loss = optimizer.step(closure)
    assert calls and all(calls)
    assert same(loss, backward(network_as(start, optimizer, model), 0))
    assert not same(values_of(optimizer), start)


def network_as(values: list[Tensor], optimizer: Optimizer, model: nn.Module) -> nn.Module:
    """A copy of the model with these values for the optimizer's parameters."""
    known = {id(p): v for p, v in zip(parameters_of(optimizer), values, strict=True)}
    twin = network()
    pairs = zip(twin.parameters(), model.parameters(), strict=True)
    with torch.no_grad():
        for own, other in pairs:
            own.copy_(known[id(other)])
    return twin


@every_optimizer
def test_zero_grad(case: OptimizerCase) -> None:
    model, optimizer = case.start()
    backward(model, 0)
    optimizer.zero_grad(set_to_none=False)
    assert all(float(p.grad.abs().max()) == 0.0 for p in model.parameters())
    optimizer.zero_grad()
    assert all(p.grad is None for p in model.parameters())


@every_optimizer
def test_gradients_are_left_alone(case: OptimizerCase) -> None:
    if case.closure:
        pytest.skip("its closure makes new gradients within the step")
    model, optimizer = case.start()
    for step in range(3):
        backward(model, step)
        gradients = {name: p.grad for name, p in model.named_parameters()}
        copies = {name: None if g is None else g.clone() for name, g in gradients.items()}
        optimizer.step()
        assert all(p.grad is gradients[name] for name, p in model.named_parameters())
        assert same(gradients, copies)


@every_optimizer
@pytest.mark.parametrize("name", ["0.bias", "4.weight"])
def test_a_parameter_without_gradient_stays(case: OptimizerCase, name: str) -> None:
    model, optimizer = case.start()
    before = copy.deepcopy(dict(model.named_parameters()))
    case.train(model, optimizer, range(4), missing=(name,))
    assert same(model.get_parameter(name).detach(), before[name].detach())
    assert not same(model[0].weight.detach(), before["0.weight"].detach())


@every_optimizer
def test_no_gradient_at_all(case: OptimizerCase) -> None:
    _, optimizer = case.start()
    start = values_of(optimizer)
    optimizer.step(*([lambda: torch.zeros(())] if case.closure else []))
    assert same(values_of(optimizer), start)


@every_optimizer
def test_add_param_group(case: OptimizerCase) -> None:
    model, optimizer = case.start()
    extra = nn.Parameter(torch.ones(3, dtype=torch.float64))
    case.train(model, optimizer, range(2))
    before, groups = values_of(optimizer), len(optimizer.param_groups)
    if not case.grows:
        with pytest.raises(ValueError, match=r"fast.*slow"):
            optimizer.add_param_group({"params": [extra]})
        assert len(optimizer.param_groups) == groups and same(values_of(optimizer), before)
        return
    optimizer.add_param_group({"params": [extra]})
    assert same(values_of(optimizer)[: len(before)], before)
    extra.grad = torch.ones_like(extra)
    case.train(model, optimizer, range(2, 4))
    assert not same(extra.detach(), torch.ones(3, dtype=torch.float64))
    assert not same(values_of(optimizer)[: len(before)], before)


# --- schedulers ------------------------------------------------------------------------------


def rates_under(name: str, optimizer: Optimizer, move: Callable[[int], None]) -> list[list[float]]:
    scheduler = SCHEDULERS[name](optimizer)
    rates = []
    for step in range(6):
        move(step)
        scheduler.step(1.0) if name == "ReduceLROnPlateau" else scheduler.step()
        rates.append([float(group["lr"]) for group in optimizer.param_groups])
    return rates


@every_optimizer
@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_kind_of_schedule(case: OptimizerCase, name: str) -> None:
    """Each sets the rates as it does those of SGD, and they act."""
    if case.name == "SGLD":
        pytest.skip("its own decay multiplies the schedule's")
    model, optimizer = case.start()
    steady, constant = case.start()
    groups = [
        {"params": [torch.zeros(1, requires_grad=True)], "lr": float(group["lr"])}
        for group in optimizer.param_groups
    ]
    sgd = torch.optim.SGD(groups, lr=1.0)
    found = rates_under(name, optimizer, lambda k: case.train(model, optimizer, range(k, k + 1)))
    assert found == rates_under(name, sgd, lambda k: sgd.step())
    assert len({tuple(rates) for rates in found}) > 1
    case.train(steady, constant, range(6))
    assert all(bool(w.isfinite().all()) for w in values_of(optimizer))
    assert not same(values_of(optimizer), values_of(constant))


# --- bad input -------------------------------------------------------------------------------


@every_optimizer
@pytest.mark.parametrize("step", [math.nan, -0.1, math.inf])
def test_a_step_that_is_no_step_is_refused(case: OptimizerCase, step: float) -> None:
    model = network()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=r"lr|step_size"):
        case.make(model, step=step)
    assert same(model.state_dict(), before)
    assert all(p.requires_grad for p in model.parameters())


@every_optimizer
@pytest.mark.parametrize("rate", [math.nan, -0.1, "fast"])
@pytest.mark.parametrize("group", [0, -1])
def test_a_rate_that_is_set_later_is_refused(case: OptimizerCase, rate: Any, group: int) -> None:
    if case.plain:
        pytest.skip("the groups are torch.optim.SGD's, which takes any number")
    model, optimizer = case.start()
    case.train(model, optimizer, range(3))  # so that all parameters move in the next
    good = optimizer.param_groups[group]["lr"]
    before = snapshot(optimizer)
    optimizer.param_groups[group]["lr"] = rate
    with pytest.raises((ValueError, TypeError), match="lr"):
        case.train(model, optimizer, range(3, 4))
    optimizer.param_groups[group]["lr"] = good
    assert same_apart_from_sleep(snapshot(optimizer), before)


@every_optimizer
@pytest.mark.parametrize("name", ["0.weight", "4.weight"])
def test_a_sparse_gradient_is_refused(case: OptimizerCase, name: str) -> None:
    if case.plain:
        pytest.skip("torch.optim.SGD takes them in its way")
    model, optimizer = case.start()
    case.train(model, optimizer, range(3))
    before = snapshot(optimizer)

    def closure() -> Tensor:
        loss = backward(model, 3)
        spread_gradient(model, name)
        return loss

    with pytest.raises(TypeError, match="sparse"):
        optimizer.step(closure)
    assert same_apart_from_sleep(snapshot(optimizer), before)


def same_apart_from_sleep(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """A refused step of Multirate gives ``requires_grad`` back, so that one may look."""
    return all(same(one[key], other[key]) for key in one if key != "asleep")
