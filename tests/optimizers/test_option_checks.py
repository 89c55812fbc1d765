"""Options that are misspelled, out of range or missing are refused by name."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin import checks
from colangevin.optimizers.distributed import replicas
from colangevin.optimizers.option_checks import (
    SGD_FLAGS,
    check_group,
    refuse_flags,
    refuse_unknown,
)
from colangevin.optimizers.options import OPTIONS, Option

KEPT = [name for name, option in OPTIONS.items() if option.kept and name != "constraint"]
NAN, INF = math.nan, math.inf


def langevin(**changes: Any) -> dict[str, Any]:
    weight = nn.Parameter(torch.ones(2))
    return {**cl.CoLA([weight], lr=0.1, momentum=0.9).param_groups[0], **changes}


def frictional(**changes: Any) -> dict[str, Any]:
    weight = nn.Parameter(torch.ones(2))
    return {**cl.CoLA([weight], step_size=0.1, friction=1.0).param_groups[0], **changes}


def adaptive(**changes: Any) -> dict[str, Any]:
    weight = nn.Parameter(torch.ones(2))
    return {**cl.AdaptiveLangevin([weight], step_size=0.1).param_groups[0], **changes}


class TestUnknownKeys:
    @pytest.mark.parametrize(
        ("key", "meant"),
        [
            ("tempreture", "'temperature'"),
            ("Momentum", "'momentum'"),
            ("learning_rate", "the options are lr, momentum,"),
            ("weightdecay", "'weight_decay'"),
            ("stepsize", "'step_size'"),
            ("betas", "the options are lr, momentum,"),
            ("probability", "the options are lr, momentum,"),
        ],
    )
    def test_of_a_group(self, key: str, meant: str) -> None:
        with pytest.raises(TypeError, match=f"no option '{key}'") as raised:
            refuse_unknown({"params": [], key: 0.1})
        assert meant in str(raised.value)

    @pytest.mark.parametrize(
        ("name", "meant"), [("tempreture", "'temperature'"), ("sead", "'seed'"), ("x", "seed")]
    )
    def test_of_the_constructor(self, name: str, meant: str) -> None:
        with pytest.raises(TypeError, match=f"unexpected argument '{name}'") as raised:
            refuse_flags({name: 0.1})
        assert meant in str(raised.value)

    def test_groups_of_the_package_and_of_schedulers_pass(self) -> None:
        model = nn.Linear(2, 2)
        groups = cl.partition(model, by="bias", groups=cl.parameter_groups(model, {}))
        for group in groups:
            assert refuse_unknown(group) == group
        optimizer = cl.CoLA(model.named_parameters(), lr=0.1, momentum=0.9)
        torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
        torch.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.1, max_lr=1.0)
        torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.1)
        group = optimizer.param_groups[0]
        assert refuse_unknown(group) == group

    def test_the_argument_is_left_alone(self) -> None:
        given = {"params": [], "lr": 0.1, "nesterov": False}
        assert refuse_unknown(given) == {"params": [], "lr": 0.1}
        assert given == {"params": [], "lr": 0.1, "nesterov": False}


class TestFlagsOfSGD:
    @pytest.mark.parametrize("name", SGD_FLAGS)
    @pytest.mark.parametrize("value", [None, False, 0, 0.0])
    def test_without_meaning(self, name: str, value: object) -> None:
        assert refuse_unknown({"params": [], name: value}) == {"params": []}
        refuse_flags({name: value})

    @pytest.mark.parametrize(
        ("name", "value", "instead"),
        [
            ("nesterov", True, "torch.optim.SGD"),
            ("dampening", 0.5, "multiply lr by 1 - dampening"),
            ("maximize", True, "negate the loss"),
            ("foreach", True, "leave it out"),
            ("capturable", True, "an argument of the optimizer"),
            ("differentiable", True, "leave it out"),
            ("maximize", "yes", "negate the loss"),
        ],
    )
    def test_with_a_meaning(self, name: str, value: object, instead: str) -> None:
        for refuse in (refuse_unknown, refuse_flags):
            with pytest.raises(ValueError, match=f"{name}={value!r} is not supported") as raised:
                refuse({name: value})
            assert instead in str(raised.value)

    def test_groups_of_sgd(self) -> None:
        weight = nn.Parameter(torch.ones(2))
        group = torch.optim.SGD([weight], lr=0.1, momentum=0.9).param_groups[0]
        assert refuse_unknown(group).keys() == {"params", "lr", "momentum", "weight_decay"}
        group["fused"] = True
        with pytest.raises(ValueError, match=r"fused=True .*an argument of the optimizer"):
            refuse_unknown(group)

    def test_dampening_is_a_factor_of_lr(self) -> None:
        """The advice is right: from the second step on, and with the first gradient at 0."""
        one, two = (nn.Parameter(torch.ones(3)) for _ in range(2))
        damped = torch.optim.SGD([one], lr=0.1, momentum=0.9, dampening=0.5)
        scaled = torch.optim.SGD([two], lr=0.05, momentum=0.9)
        for step in range(5):
            for weight, optimizer in ((one, damped), (two, scaled)):
                weight.grad = weight.detach() * (step > 0)
                optimizer.step()
        torch.testing.assert_close(one, two)


class TestWholeGroups:
    @pytest.mark.parametrize("make", [langevin, frictional, adaptive])
    @pytest.mark.parametrize("changes", [{}, {"lr": torch.tensor(0.1)}, {"lr": 0.0}, {"seed": 0}])
    def test_good_ones(self, make: Any, changes: dict[str, Any]) -> None:
        check_group(make(**changes))

    @pytest.mark.parametrize(
        "friction", [-0.3, torch.tensor(-0.3), torch.tensor(0.1, dtype=torch.float64)]
    )
    def test_good_initial_frictions(self, friction: object) -> None:
        check_group(adaptive(friction=friction))

    def test_infinite_friction(self) -> None:
        check_group(frictional(friction=INF))

    @pytest.mark.parametrize("make", [langevin, frictional, adaptive])
    @pytest.mark.parametrize("name", [*KEPT, "seed"])
    def test_nothing_may_be_missing(self, make: Any, name: str) -> None:
        group = make()
        del group[name]
        with pytest.raises(ValueError, match=f"^{name} of group 1 is missing"):
            check_group(group, "group 1")

    @pytest.mark.parametrize(
        ("group", "error", "name"),
        [
            (langevin(lr=-0.1), ValueError, "lr"),
            (langevin(lr=NAN), ValueError, "lr"),
            (langevin(lr=None), TypeError, "lr"),
            (langevin(lr=torch.ones(2)), TypeError, "lr"),
            (langevin(momentum=1.5), ValueError, "momentum"),
            (langevin(momentum="0.9"), TypeError, "momentum"),
            (langevin(momentum=None), ValueError, "momentum or friction"),
            (langevin(friction=1.0), ValueError, "momentum or friction"),
            (frictional(friction=-1.0), ValueError, "friction"),
            (frictional(friction=NAN), ValueError, "friction"),
            (frictional(friction=[1.0]), TypeError, "friction"),
            (langevin(temperature=-1.0), ValueError, "temperature"),
            (langevin(temperature=INF), ValueError, "temperature"),
            (langevin(temperature=None), TypeError, "temperature"),
            (langevin(scheme="BAB"), ValueError, "scheme"),
            (langevin(scheme=3), TypeError, "scheme"),
            (langevin(scheme="BACDEDCAB"), ValueError, "scheme"),
            (adaptive(scheme="OBA"), ValueError, "scheme"),
            (langevin(delayed_gradient=1), TypeError, "delayed_gradient"),
            (langevin(weight_decay=-1.0), ValueError, "weight_decay"),
            (langevin(weight_decay=True), TypeError, "weight_decay"),
            (langevin(thermostat="warm"), ValueError, "thermostat"),
            (langevin(thermostat=[]), ValueError, "thermostat"),
            (langevin(coupling=0.1), ValueError, "coupling"),
            (langevin(driving_noise=0.1), ValueError, "driving_noise"),
            (adaptive(coupling=-0.1), ValueError, "coupling"),
            (adaptive(driving_noise=None), TypeError, "driving_noise"),
            (adaptive(momentum=0.9), ValueError, "momentum"),
            (adaptive(friction=None), TypeError, "friction"),
            (adaptive(friction=INF), ValueError, "friction"),
            (adaptive(friction=torch.tensor(NAN)), ValueError, "friction"),
            (adaptive(friction=torch.ones(2, 2)), TypeError, "friction"),
            (adaptive(friction=torch.tensor([0.1, 0.2])), TypeError, "friction"),
            (adaptive(friction=torch.ones(0)), TypeError, "friction"),
            (langevin(seed=-1), ValueError, "seed"),
            (langevin(seed=2**63), ValueError, "seed"),
            (langevin(seed=0.5), TypeError, "seed"),
            (langevin(seed=True), TypeError, "seed"),
            (langevin(seed=None), TypeError, "seed"),
        ],
    )
    def test_bad_ones(self, group: dict[str, Any], error: type[Exception], name: str) -> None:
        with pytest.raises(error, match=f"{name} of group 7"):
            check_group(group, "group 7")
        with pytest.raises(error, match=name) as raised:
            check_group(group)
        assert "group 7" not in str(raised.value)


class TestANewOption:
    """One line of ``OPTIONS`` is all that it takes."""

    @pytest.fixture(autouse=True)
    def line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(OPTIONS, "patience", Option("a count", 3, checks.count))

    def test_is_inherited_and_set_by_group(self) -> None:
        weights = [nn.Parameter(torch.ones(2)) for _ in range(2)]
        groups = [{"params": weights[:1]}, {"params": weights[1:], "patience": 7}]
        assert [g["patience"] for g in cl.CoLA(groups, lr=0.1).param_groups] == [3, 7]
        assert [g["patience"] for g in cl.CoLA(groups, lr=0.1, patience=5).param_groups] == [5, 7]

    def test_is_checked_by_name(self) -> None:
        weight = nn.Parameter(torch.ones(2))
        with pytest.raises(ValueError, match="patience must be at least 1, got 0"):
            cl.CoLA([weight], lr=0.1, patience=0)
        with pytest.raises(TypeError, match="did you mean 'patience'"):
            cl.CoLA([{"params": [weight], "patiense": 4}], lr=0.1)

    def test_is_saved_and_checked_in_a_state_dict(self) -> None:
        def made(**options: int) -> cl.CoLA:
            return cl.CoLA([nn.Parameter(torch.ones(2))], lr=0.1, **options)

        saved = made(patience=9).state_dict()
        other = made()
        other.load_state_dict(saved)
        assert other.param_groups[0]["patience"] == 9
        saved["param_groups"][0]["patience"] = -1
        with pytest.raises(ValueError, match="patience"):
            other.load_state_dict(saved)

    def test_is_watched_in_a_step_that_repeats_the_last(self) -> None:
        weight = nn.Parameter(torch.ones(2))
        optimizer = cl.CoLA([weight], lr=0.1, momentum=0.9)
        for _ in range(4):
            weight.grad = torch.ones(2)
            optimizer.step()
        plan = optimizer._plans[0]
        kept = plan._others
        optimizer.param_groups[0]["patience"] = 4
        optimizer.step()
        assert optimizer._plans[0] is plan and plan._others != kept

    def test_is_compared_between_replicas(self) -> None:
        group = cl.CoLA([nn.Parameter(torch.ones(2))], lr=0.1).param_groups[0]
        assert replicas._options(group)["patience"] == "3"
