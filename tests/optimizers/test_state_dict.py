"""A saved run continues exactly where it stopped."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

import colangevin as cl
from optimizer_cases import (
    CONSTRAINTS,
    SCHEMES,
    constrained,
    contents,
    network,
    optimizer_for,
    same,
    train,
    values_of,
)

every_constraint = pytest.mark.parametrize("constraint", CONSTRAINTS)
every_scheme = pytest.mark.parametrize("scheme", SCHEMES)
TEMPERATURE = 1e-3


def through_a_file(value: Any) -> Any:
    """Saved, and loaded in the way that runs no code."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def tensors(value: Any) -> Iterator[Tensor]:
    """Every tensor within a state dict."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def storages(value: Any) -> set[int]:
    return {t.untyped_storage().data_ptr() for t in tensors(value) if t.numel()}


class TestResuming:
    @pytest.mark.parametrize("full", [True, False])
    @every_constraint
    def test_by_torch_distributed_checkpoint(self, constraint: str, full: bool) -> None:
        """It takes no key of a group that a new optimizer's group lacks."""
        options = StateDictOptions(full_state_dict=full)
        model = network()
        optimizer = optimizer_for(model, constraint, "OBA", TEMPERATURE, seed=1)
        train(model, optimizer, range(4))
        saved = get_optimizer_state_dict(model, optimizer, options=options)
        resumed = network(seed=9)
        resumed.load_state_dict(model.state_dict())
        second = optimizer_for(resumed, constraint, "OBA", TEMPERATURE, seed=2)
        set_optimizer_state_dict(resumed, second, saved, options=options)
        for one, own in ((model, optimizer), (resumed, second)):
            train(one, own, range(4, 8))
        assert same(values_of(second), values_of(optimizer))

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
    @every_scheme
    @every_constraint
    def test_goes_on_bit_for_bit(self, constraint: str, scheme: str, dtype: torch.dtype) -> None:
        model = network(dtype=dtype)
        optimizer = optimizer_for(model, constraint, scheme, TEMPERATURE, seed=1)
        train(model, optimizer, range(4))
        saved = through_a_file({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
        train(model, optimizer, range(4, 8))

        # As a new process would: other weights, another seed, then the checkpoint.
        resumed = network(seed=9, dtype=dtype)
        resumed.load_state_dict(saved["model"])
        second = optimizer_for(resumed, constraint, scheme, TEMPERATURE, seed=2)
        second.load_state_dict(saved["optimizer"])
        assert same(resumed.state_dict(), saved["model"])  # loading moves no weight
        train(resumed, second, range(4, 8))

        assert same(values_of(second), values_of(optimizer))
        assert same(second.state_dict(), optimizer.state_dict())

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    @every_constraint
    def test_with_the_optimizer_made_before_the_weights_are_loaded(
        self, constraint: str, dtype: torch.dtype
    ) -> None:
        model = network(dtype=dtype)
        optimizer = optimizer_for(model, constraint, "OBA", TEMPERATURE)
        train(model, optimizer, range(3))
        saved = through_a_file([model.state_dict(), optimizer.state_dict()])
        train(model, optimizer, range(3, 6))

        resumed = network(seed=9, dtype=dtype)
        second = optimizer_for(resumed, constraint, "OBA", TEMPERATURE)
        second.load_state_dict(saved[1])
        resumed.load_state_dict(saved[0])
        train(resumed, second, range(3, 6))
        assert same(values_of(second), values_of(optimizer))

    @every_constraint
    def test_can_be_rolled_back_in_place(self, constraint: str) -> None:
        model = network()
        optimizer = optimizer_for(model, constraint, "BAOAB", TEMPERATURE)
        train(model, optimizer, range(3))
        weights, state = copy.deepcopy(model.state_dict()), optimizer.state_dict()
        train(model, optimizer, range(3, 6))
        end = values_of(optimizer)
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
        train(model, optimizer, range(3, 6))
        assert same(values_of(optimizer), end)

    def test_many_steps_near_the_boundary(self) -> None:
        """Weights that round to ±r in bf16 must not be rescaled by a resumed run."""
        runs, hits = [], 0
        for stops in ([40], range(5, 45, 5)):
            model = network(dtype=torch.bfloat16)
            optimizer = optimizer_for(model, "circle", "OBA", 0.5, seed=1)
            start = 0
            for stop in stops:
                train(model, optimizer, range(start, stop))
                hits += sum(int((model[i].weight.detach().abs() == 0.5).sum()) for i in (0, 2))
                saved = through_a_file([model.state_dict(), optimizer.state_dict()])
                model = network(seed=9, dtype=torch.bfloat16)
                model.load_state_dict(saved[0])
                optimizer = optimizer_for(model, "circle", "OBA", 0.5)
                optimizer.load_state_dict(saved[1])
                start = stop
            runs.append(values_of(optimizer))
        assert hits > 0
        assert same(*runs)

    def test_before_the_first_step(self) -> None:
        model = network()
        optimizer = optimizer_for(model, "circle", "BAOAB", TEMPERATURE, seed=1)
        resumed = copy.deepcopy(model)
        second = optimizer_for(resumed, "circle", "BAOAB", TEMPERATURE, seed=2)
        second.load_state_dict(through_a_file(optimizer.state_dict()))
        train(model, optimizer, range(4))
        train(resumed, second, range(4))
        assert same(values_of(second), values_of(optimizer))

    def test_with_parameters_that_have_not_moved_yet(self) -> None:
        model, resumed = network(), network(seed=9)
        optimizer = optimizer_for(model, "max-norm", "BAOAB", TEMPERATURE)
        model[2].weight.requires_grad_(False)
        train(model, optimizer, range(3))
        saved = through_a_file([model.state_dict(), optimizer.state_dict()])
        model[2].weight.requires_grad_(True)
        train(model, optimizer, range(3, 6))
        resumed.load_state_dict(saved[0])
        second = optimizer_for(resumed, "max-norm", "BAOAB", TEMPERATURE)
        second.load_state_dict(saved[1])
        train(resumed, second, range(3, 6))
        assert same(values_of(second), values_of(optimizer))

    def test_with_schedulers(self) -> None:
        def make(model: nn.Module) -> tuple[Any, ...]:
            optimizer = optimizer_for(model, "circle", "OBA", 0.01, seed=1)
            return (
                optimizer,
                torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20),
                cl.TemperatureScheduler(optimizer, cl.annealing(10)),
            )

        def run(model: nn.Module, parts: tuple[Any, ...], steps: range) -> None:
            for step in steps:
                train(model, parts[0], range(step, step + 1))
                parts[1].step()
                parts[2].step()

        model, resumed = network(), network(seed=9)
        parts = make(model)
        run(model, parts, range(4))
        saved = through_a_file([model.state_dict(), *(part.state_dict() for part in parts)])
        run(model, parts, range(4, 8))
        resumed.load_state_dict(saved[0])
        others = make(resumed)
        for part, state in zip(others, saved[1:], strict=True):
            part.load_state_dict(state)
        run(resumed, others, range(4, 8))
        assert same(values_of(others[0]), values_of(parts[0]))
        assert others[0].param_groups[0]["temperature"] == parts[0].param_groups[0]["temperature"]

    def test_options_come_with_it(self) -> None:
        model = network()
        optimizer = optimizer_for(model, "circle", "OBA", 0.5, weight_decay=0.1)
        optimizer.param_groups[0]["lr"] = 0.007
        second = cl.CoLA(constrained(network(), cl.Circle(0.5)), lr=1.0, momentum=0.1)
        second.load_state_dict(optimizer.state_dict())
        for name in ("lr", "momentum", "temperature", "weight_decay", "scheme"):
            assert second.param_groups[0][name] == optimizer.param_groups[0][name]
        assert isinstance(second.param_groups[0]["constraint"], cl.Circle)

    def test_a_tensor_lr(self) -> None:
        model = network()
        optimizer = optimizer_for(model, "circle", "OBA", lr=torch.tensor(0.02))
        train(model, optimizer, range(2))
        second = optimizer_for(network(), "circle", "OBA", lr=torch.tensor(0.5))
        second.load_state_dict(through_a_file(optimizer.state_dict()))
        assert same(second.param_groups[0]["lr"], torch.tensor(0.02))


class TestMemory:
    @every_constraint
    def test_a_state_dict_is_a_moment(self, constraint: str) -> None:
        """It holds plain values and copies, so that the run does not change it."""
        model = network()
        optimizer = optimizer_for(model, constraint, "OBA", TEMPERATURE)
        train(model, optimizer, range(2))
        saved = optimizer.state_dict()
        frozen = copy.deepcopy(saved)
        live = storages([list(model.parameters()), list(optimizer.state.values())])
        assert not storages(saved) & live
        train(model, optimizer, range(2, 4))
        assert same(saved, frozen)
        assert not same(saved, optimizer.state_dict())

    @every_constraint
    def test_loading_shares_none(self, constraint: str) -> None:
        model, other = network(), network(seed=9)
        optimizer = optimizer_for(model, constraint, "OBA", TEMPERATURE)
        train(model, optimizer, range(2))
        saved = optimizer.state_dict()
        second = optimizer_for(other, constraint, "OBA", TEMPERATURE)
        second.load_state_dict(saved)
        frozen = copy.deepcopy(saved)
        assert not storages(saved) & storages(list(second.state.values()))
        train(other, second, range(2, 4))
        assert same(saved, frozen)

    def test_a_tensor_radius_and_lr_are_copied(self) -> None:
        radius, lr = torch.full((4, 1), 0.5), torch.tensor(0.1)
        optimizer = cl.CoLA([nn.Parameter(torch.zeros(4, 3))], lr=lr, constraint=cl.Circle(radius))
        assert not storages(optimizer.state_dict()) & storages([radius, lr])


class TestRefusals:
    """State of another constraint or of other shapes; nothing is changed then."""

    @staticmethod
    def refuse(second: cl.CoLA, saved: dict[str, Any], message: str) -> None:
        before = contents(second)
        frozen = copy.deepcopy(saved)
        with pytest.raises(ValueError, match=message):
            second.load_state_dict(saved)
        assert same(contents(second), before)
        assert same(saved, frozen)

    @pytest.mark.parametrize("other", CONSTRAINTS)
    @every_constraint
    def test_every_other_constraint(self, constraint: str, other: str) -> None:
        if constraint == other or {constraint, other} == {"general", "general of two"}:
            pytest.skip("the same, or functions g that no description can tell apart")
        optimizer = optimizer_for(network(), constraint, "OBA")
        second_model = network(seed=9)
        second = optimizer_for(second_model, other, "OBA", TEMPERATURE)
        train(second_model, second, range(2))
        kind = type(CONSTRAINTS[constraint]()).__name__
        self.refuse(second, optimizer.state_dict(), rf"(?s)group 0 .* constraint .*{kind}")

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (cl.Circle(0.5), cl.Circle(0.6)),
            (cl.Circle(torch.full((4, 1), 0.5)), cl.Circle(torch.full((4, 1), 0.6))),
            (cl.Sphere(0.5), cl.Sphere(0.5, dim=1)),
            (cl.Sphere(0.5), cl.Sphere(0.5, equality=True)),
            (cl.Orthogonal(), cl.Orthogonal(scale=2.0)),
        ],
    )
    def test_the_same_kind_with_other_numbers(
        self, one: cl.Constraint, other: cl.Constraint
    ) -> None:
        optimizer = cl.CoLA(constrained(network(), one), lr=0.1)
        second = cl.CoLA(constrained(network(), other), lr=0.1)
        self.refuse(second, optimizer.state_dict(), r"(?s)group 0 .* the optimizer has")

    @pytest.mark.parametrize("momentum", [0.0, 0.9])
    @pytest.mark.parametrize(
        "constraint",
        [cl.Circle(0.5), cl.Sphere(0.5), cl.General(lambda w: w - 1.0, inequality=True)],
        ids=["circle", "max-norm", "general inequality"],
    )
    def test_other_shapes(self, constraint: cl.Constraint, momentum: float) -> None:
        """Overdamped there is no momentum to tell it by, but there is slack."""
        small, large = (nn.Parameter(torch.full((rows, 3), 0.1)) for rows in (4, 5))
        optimizer, second = (
            cl.CoLA([p], lr=0.1, momentum=momentum, constraint=constraint) for p in (small, large)
        )
        small.grad, large.grad = torch.ones(4, 3), torch.ones(5, 3)
        optimizer.step()
        second.step()
        self.refuse(second, optimizer.state_dict(), r"group 0 .* of shape \((4|12|1, 12)")

    def test_another_number_of_groups(self) -> None:
        one, other = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
        optimizer = cl.CoLA([one], lr=0.1)
        second = cl.CoLA([{"params": [one]}, {"params": [other]}], lr=0.1)
        self.refuse(second, optimizer.state_dict(), "has 1 groups, not 2")

    def test_another_number_of_parameters(self) -> None:
        one, other = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
        optimizer = cl.CoLA([one], lr=0.1)
        second = cl.CoLA([one, other], lr=0.1)
        self.refuse(second, optimizer.state_dict(), "group 0 .* has 1 parameters, not 2")

    def test_a_state_dict_of_a_model(self) -> None:
        model = network()
        second = optimizer_for(model, "circle", "OBA")
        self.refuse(second, dict(model.state_dict()), r"no state dict of an optimizer.*0\.weight")

    def test_a_state_dict_of_sgd(self) -> None:
        sgd = torch.optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1)
        second = cl.CoLA([nn.Parameter(torch.zeros(2))], lr=0.1)
        self.refuse(second, sgd.state_dict(), "group 0 .* no constraint")


def test_the_slack_of_an_earlier_version_is_not_taken_for_an_angle():
    weight = nn.Parameter(torch.full((2,), 0.3))
    optimizer = cl.CoLA([weight], lr=0.1, momentum=0.9, constraint=cl.Circle(0.5))
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    del saved["param_groups"][0]["constraint"]["keeps"]
    with pytest.raises(ValueError, match="'keeps': 'angle'"):
        optimizer.load_state_dict(saved)
