"""CoLA keeps the promises of a torch.optim.Optimizer."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer, lr_scheduler, swa_utils

import colangevin as cl
from injected_noise import noise_from, undrawn
from optimizer_cases import (
    CONSTRAINTS,
    SCHEMES,
    backward,
    constrained,
    contents,
    network,
    optimizer_for,
    parameters_of,
    same,
    train,
    values_of,
)

every_constraint = pytest.mark.parametrize("constraint", CONSTRAINTS)
every_scheme = pytest.mark.parametrize("scheme", SCHEMES)


def parameter(*shape: int, dtype: torch.dtype = torch.float64) -> nn.Parameter:
    return nn.Parameter(torch.linspace(-0.4, 0.4, math.prod(shape), dtype=dtype).reshape(shape))


def full_rank(rows: int, columns: int) -> nn.Parameter:
    """As orthogonal weights must be from the start."""
    return nn.Parameter(parameter(rows, columns).detach() + torch.eye(rows, columns) / 4)


# --- the two ways to name a step -----------------------------------------------------------


class TestNames:
    @pytest.mark.parametrize("temperature", [0.0, 0.1])
    @pytest.mark.parametrize("scheme", ["OBA", "ABO", "BAOAB", "AOAB"])
    def test_both_ways_make_the_same_run(self, scheme: str, temperature: float) -> None:
        step_size, friction = 0.2, 1.5
        runs = []
        for names in (
            {"lr": step_size**2, "momentum": math.exp(-friction * step_size)},
            {"step_size": step_size, "friction": friction},
        ):
            model = network()
            groups = constrained(model, cl.Circle(0.5))
            optimizer = cl.CoLA(groups, temperature=temperature, scheme=scheme, seed=0, **names)
            train(model, optimizer, range(10))
            runs.append(values_of(optimizer))
        for one, other in zip(*runs, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-13)

    @pytest.mark.parametrize("names", [{}, {"friction": math.inf}])
    def test_overdamped_lr_is_the_step_size(self, names: dict[str, float]) -> None:
        runs = []
        for options in ({"lr": 0.03}, {"lr": 0.03, "momentum": 0.0}, {"step_size": 0.03, **names}):
            model = network()
            optimizer = cl.CoLA(
                constrained(model, cl.Circle(0.5)), temperature=0.1, seed=0, **options
            )
            train(model, optimizer, range(5))
            assert optimizer.param_groups[0]["lr"] == 0.03
            runs.append(values_of(optimizer))
        assert same(runs[0], runs[1])
        assert same(runs[0], runs[2])

    def test_groups_keep_lr_and_one_kind_of_damping(self) -> None:
        ours = cl.CoLA([parameter(2)], step_size=0.5, friction=2.0).param_groups[0]
        assert (ours["lr"], ours["momentum"], ours["friction"]) == (0.25, None, 2.0)
        ours = cl.CoLA([parameter(2)], lr=0.5, momentum=0.9).param_groups[0]
        assert (ours["lr"], ours["momentum"], ours["friction"]) == (0.5, 0.9, None)

    def test_a_schedule_acts_on_the_step_of_the_paper(self) -> None:
        """Friction is physical: a smaller lr is a smaller h, so e^{−γh} grows."""
        ours, theirs = parameter(3), parameter(3)
        one = cl.CoLA([ours], step_size=0.2, friction=1.5)
        two = cl.CoLA([theirs], lr=0.04, momentum=math.exp(-0.3))
        for lr in (0.04, 0.01, 0.0025):
            one.param_groups[0]["lr"] = two.param_groups[0]["lr"] = lr
            two.param_groups[0]["momentum"] = math.exp(-1.5 * math.sqrt(lr))
            ours.grad, theirs.grad = ours.detach() + 1.0, theirs.detach() + 1.0
            one.step()
            two.step()
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-15)

    def test_no_friction_is_legal(self) -> None:
        weight = parameter(3)
        optimizer = cl.CoLA([weight], step_size=0.1, friction=0.0, temperature=1.0)
        weight.grad = torch.zeros(3, dtype=torch.float64)
        before = weight.detach().clone()
        optimizer.step()
        assert same(weight.detach(), before)  # no force, no heat bath: nothing moves

    def test_groups_override_every_option(self) -> None:
        model = network()
        circle = cl.Circle(0.5)
        optimizer = cl.CoLA(
            [
                {"params": [model[0].weight], "constraint": None},
                {"params": [model[2].weight], "lr": 0.3, "momentum": 0.1},
                {"params": [model[4].weight], "step_size": 0.3, "friction": 2.0},
                {
                    "params": [model[0].bias],
                    "temperature": 0.7,
                    "scheme": "BAOAB",
                    "delayed_gradient": True,
                    "weight_decay": 0.2,
                },
            ],
            lr=0.1,
            momentum=0.9,
            constraint=circle,
        )
        first, second, third, fourth = optimizer.param_groups
        assert isinstance(first["constraint"], cl.Unconstrained)
        assert (first["lr"], first["momentum"]) == (0.1, 0.9)
        assert (second["lr"], second["momentum"]) == (0.3, 0.1)
        assert second["constraint"] is circle
        assert third["lr"] == pytest.approx(0.09)
        assert (third["momentum"], third["friction"]) == (None, 2.0)
        assert (fourth["temperature"], fourth["scheme"]) == (0.7, "BAOAB")
        assert (fourth["delayed_gradient"], fourth["weight_decay"]) == (True, 0.2)
        assert (first["temperature"], first["scheme"], first["weight_decay"]) == (0.0, "OBA", 0.0)

    def test_groups_may_bring_the_step_and_leave_the_damping(self) -> None:
        weights = [parameter(2), parameter(2)]
        groups = [{"params": [w], "lr": lr} for w, lr in zip(weights, (0.1, 0.2), strict=True)]
        optimizer = cl.CoLA(groups, momentum=0.9)
        assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.2]
        assert [g["momentum"] for g in optimizer.param_groups] == [0.9, 0.9]

    def test_each_group_runs_on_its_own_settings(self) -> None:
        """Two groups in one optimizer do what two optimizers with one group each would."""
        together, apart = network(), network()
        settings: list[dict[str, Any]] = [
            {"lr": 0.02, "momentum": 0.9, "constraint": cl.Circle(0.5)},
            {"step_size": 0.1, "friction": 1.0, "scheme": "BAOAB", "constraint": cl.Orthogonal()},
        ]
        joint = cl.CoLA(
            [{"params": [together[i].weight], **s} for i, s in zip((0, 2), settings, strict=True)]
        )
        alone = [cl.CoLA([apart[i].weight], **s) for i, s in zip((0, 2), settings, strict=True)]
        for step in range(5):
            backward(together, step)
            joint.step()
            backward(apart, step)
            for optimizer in alone:
                optimizer.step()
        for one, other in zip(together.parameters(), apart.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-14)


# --- torch's own interface -----------------------------------------------------------------


class TestStep:
    def test_closure_is_run_with_gradients_and_its_loss_returned(self) -> None:
        model, plain = network(), network()
        optimizer = cl.CoLA(model.parameters(), lr=0.1)
        calls = []

        def closure() -> Tensor:
            calls.append(torch.is_grad_enabled())
            return backward(model, 0)

        loss = optimizer.step(closure)
        assert calls == [True]
        assert same(loss, backward(plain, 0))
        assert not same(model[0].weight.detach(), plain[0].weight.detach())
        assert optimizer.step() is None

    def test_zero_grad(self) -> None:
        model = network()
        optimizer = cl.CoLA(model.parameters(), lr=0.1)
        backward(model, 0)
        optimizer.zero_grad(set_to_none=False)
        assert all(float(p.grad.abs().max()) == 0.0 for p in model.parameters())
        optimizer.zero_grad()
        assert all(p.grad is None for p in model.parameters())

    def test_hooks_run_around_the_step(self) -> None:
        model = network()
        optimizer = cl.CoLA(model.parameters(), lr=0.1)
        seen: list[tuple[str, float]] = []
        weight = model[0].weight

        def note(name: str) -> Callable[..., None]:
            return lambda opt, args, kwargs: seen.append((name, float(weight.detach()[0, 0])))

        before = optimizer.register_step_pre_hook(note("pre"))
        optimizer.register_step_post_hook(note("post"))
        start = float(weight.detach()[0, 0])
        train(model, optimizer, range(1))
        assert seen == [("pre", start), ("post", float(weight.detach()[0, 0]))]
        assert seen[0][1] != seen[1][1]
        before.remove()
        train(model, optimizer, range(1))
        assert [name for name, _ in seen] == ["pre", "post", "post"]

    def test_add_param_group(self) -> None:
        model = network()
        optimizer = cl.CoLA([model[0].weight], lr=0.1, momentum=0.9)
        train(model, optimizer, range(2))
        untouched = model[2].weight.detach().clone()
        optimizer.add_param_group({"params": model[2].weight, "constraint": cl.Orthogonal()})
        assert optimizer.violation()[1].residual <= 1e-12  # it has been put on its manifold
        assert not same(model[2].weight.detach(), untouched)
        placed = model[2].weight.detach().clone()
        train(model, optimizer, range(2, 4))
        assert not same(model[2].weight.detach(), placed)
        assert optimizer.violation()[1].residual <= 1e-12
        assert optimizer.param_groups[1]["momentum"] == 0.9

    def test_named_parameters_are_named_in_messages(self) -> None:
        model = network()
        model[2].bias.grad = torch.ones(4, dtype=torch.float64).to_sparse()
        optimizer = cl.CoLA(model.named_parameters(), lr=0.1)
        with pytest.raises(TypeError, match=r"2\.bias has a sparse gradient"):
            optimizer.step()

    @every_scheme
    @every_constraint
    def test_gradients_are_left_alone(self, constraint: str, scheme: str) -> None:
        model = network()
        optimizer = optimizer_for(model, constraint, scheme, temperature=0.01, weight_decay=0.1)
        for step in range(3):
            backward(model, step)
            gradients = [p.grad for p in model.parameters()]
            copies = [g.clone() for g in gradients]
            optimizer.step()
            assert all(p.grad is g for p, g in zip(model.parameters(), gradients, strict=True))
            assert same(gradients, copies)

    @every_constraint
    def test_weights_stay_the_same_tensors(self, constraint: str) -> None:
        model = network()
        places = [(id(p), p.data_ptr()) for p in model.parameters()]
        optimizer = optimizer_for(model, constraint, "OBA")
        train(model, optimizer, range(3))
        assert [(id(p), p.data_ptr()) for p in model.parameters()] == places
        assert all(p.requires_grad and p.is_leaf for p in model.parameters())


MISSING: dict[str, Callable[[int], tuple[str, ...]]] = {
    "first appears later": lambda step: ("0.weight",) if step < 5 else (),
    "second appears later": lambda step: ("2.weight",) if step < 5 else (),
    "by turns": lambda step: ((), ("0.weight",), (), ("2.weight",))[step % 4],
}


class TestMissingGradients:
    @every_scheme
    @every_constraint
    def test_a_parameter_without_gradient_stays(self, constraint: str, scheme: str) -> None:
        if constraint == "general of two":
            pytest.skip("a constraint on two parameters moves them together")
        model = network()
        optimizer = optimizer_for(model, constraint, scheme, temperature=0.01)
        before = model[2].weight.detach().clone()
        entry = copy.deepcopy(optimizer.state[model[2].weight])
        for step in range(3):
            backward(model, step)
            model[2].weight.grad = None
            optimizer.step()
        assert same(model[2].weight.detach(), before)
        assert same(optimizer.state[model[2].weight], entry)
        assert int(entry["step"]) == 0
        assert not entry.get("momentum_buffer", torch.zeros(1)).any()
        assert optimizer.violation()[0].residual <= 1e-12

    @pytest.mark.parametrize("missing", MISSING)
    @every_scheme
    @every_constraint
    def test_gradients_that_come_and_go(self, constraint: str, scheme: str, missing: str) -> None:
        """Weights that share a batch move as if each had a group of its own."""
        if constraint == "general of two":
            pytest.skip("a constraint on two parameters moves them together")
        joint, apart = network(), network()
        make = CONSTRAINTS[constraint]
        options = SCHEMES[scheme]
        # Under a strong force the slack changes its sign, which must not be forgotten.
        force = 20.0 if constraint in ("circle", "circle of radii", "max-norm") else 1.0
        together = cl.CoLA(constrained(joint, make()), **options)
        alone = cl.CoLA(
            [
                {"params": [p], "constraint": make() if n in ("0.weight", "2.weight") else None}
                for n, p in apart.named_parameters()
            ],
            **options,
        )
        for step in range(9):
            for model, optimizer in ((joint, together), (apart, alone)):
                backward(model, step)
                for p in model.parameters():
                    p.grad.mul_(force)
                for name in MISSING[missing](step):
                    model.get_parameter(name).grad = None
                optimizer.step()
        for one, other in zip(joint.parameters(), apart.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-9)

    def test_two_parameters_of_one_constraint_move_together(self) -> None:
        model = network()
        optimizer = optimizer_for(model, "general of two", "OBA")
        backward(model, 0)
        model[2].weight.grad = None
        before = model[2].weight.detach().clone()
        optimizer.step()
        # Without a gradient the second is moved by the constraint's reaction alone.
        assert not same(model[2].weight.detach(), before)
        assert optimizer.violation()[0].residual <= 1e-12

    def test_no_gradient_at_all(self) -> None:
        model = network()
        optimizer = optimizer_for(model, "circle", "OBA", temperature=1.0)
        before = values_of(optimizer)
        optimizer.step()
        assert same(values_of(optimizer), before)

    @pytest.mark.parametrize("constraint", ["unconstrained", "circle", "max-norm", "orthogonal"])
    def test_a_parameter_without_entries(self, constraint: str) -> None:
        empty, full = nn.Parameter(torch.zeros(0, 3)), full_rank(4, 3)
        optimizer = cl.CoLA([empty, full], lr=0.1, constraint=CONSTRAINTS[constraint]())
        empty.grad, full.grad = torch.zeros(0, 3), torch.ones(4, 3, dtype=torch.float64)
        optimizer.step()
        assert optimizer.violation()[0].residual <= 1e-12


class TestStateInTheHandsOfTheUser:
    """Whoever resets or edits the state, or replaces the weights, gets what SGD would give."""

    @staticmethod
    def reset_all(optimizer: Optimizer, model: nn.Module) -> None:
        optimizer.state.clear()

    @staticmethod
    def reset_one(optimizer: Optimizer, model: nn.Module) -> None:
        del optimizer.state[model[2].weight]

    @staticmethod
    def edit(optimizer: Optimizer, model: nn.Module) -> None:
        optimizer.state[model[2].weight]["momentum_buffer"].mul_(-2.0)

    @staticmethod
    def replace(optimizer: Optimizer, model: nn.Module) -> None:
        buffer = optimizer.state[model[2].weight]["momentum_buffer"]
        optimizer.state[model[2].weight]["momentum_buffer"] = torch.ones_like(buffer)

    @staticmethod
    def move_weights(optimizer: Optimizer, model: nn.Module) -> None:
        model[2].weight.data = model[2].weight.data.clone() + 1.0

    @pytest.mark.parametrize(
        "change", ["reset_all", "reset_one", "edit", "replace", "move_weights"]
    )
    def test_is_heard(self, change: str) -> None:
        ours, theirs = network(), network()
        one = cl.CoLA(ours.parameters(), lr=0.1, momentum=0.9)
        two = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9)
        for step in range(9):
            for model, optimizer in ((ours, one), (theirs, two)):
                train(model, optimizer, range(step, step + 1))
                if step % 3 == 2:
                    getattr(self, change)(optimizer, model)
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=0, atol=1e-12)

    def test_another_dtype_in_the_middle_of_a_run(self) -> None:
        model = network(dtype=torch.float32)
        optimizer = optimizer_for(model, "circle", "OBA")
        train(model, optimizer, range(3))
        reference, second = copy.deepcopy((model, optimizer))
        model.double()
        train(model, optimizer, range(3, 6))
        train(reference, second, range(3, 6))
        assert all(p.dtype == torch.float64 for p in model.parameters())
        for p, q in zip(model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(p, q.double(), rtol=0, atol=1e-5)


class TestWeightsReplacedBeforeTheFirstStep:
    """Loading pretrained weights after the optimizer was made is common."""

    @pytest.mark.parametrize("constraint", ["circle", "max-norm", "unit-norm", "orthogonal"])
    def test_they_are_put_on_the_manifold(self, constraint: str) -> None:
        model = network()
        optimizer = optimizer_for(model, constraint, "OBA", lr=1e-12)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(3.0)
        expected = copy.deepcopy(model)
        cl.constrain_(expected, {("0.weight", "2.weight"): CONSTRAINTS[constraint]()})
        train(model, optimizer, range(1))
        assert optimizer.violation()[0].residual <= 1e-12
        torch.testing.assert_close(model[0].weight, expected[0].weight, rtol=0, atol=1e-9)

    def test_strict_refuses_them(self) -> None:
        weight = nn.Parameter(torch.eye(3))
        optimizer = cl.CoLA([weight], lr=0.1, constraint=cl.Orthogonal(), strict=True)
        with torch.no_grad():
            weight.mul_(3.0)
        weight.grad = torch.ones(3, 3)
        with pytest.raises(cl.ConstraintError, match="strict=True"):
            optimizer.step()
        assert same(weight.detach(), 3.0 * torch.eye(3))


# --- schedulers ----------------------------------------------------------------------------

Schedule = Callable[[Optimizer], Any]

SCHEDULERS: dict[str, Schedule] = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda step: 1.0 / (1 + step)),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda step: 0.9),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 3),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [2, 5]),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.5, 3),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, 0.1, total_iters=5),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, total_iters=3), lr_scheduler.ExponentialLR(o, 0.9)], [3]
    ),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 8),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.5, 3), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 8, power=2.0),
    "SWALR": lambda o: swa_utils.SWALR(o, 0.005, anneal_epochs=4),
}


def run_schedule(optimizer: Optimizer, model: nn.Module, name: str) -> list[float]:
    scheduler = SCHEDULERS[name](optimizer)
    rates = []
    for step in range(10):
        backward(model, step)
        # At lr = 0 CoLA changes nothing, while the momentum of SGD goes on gathering gradients.
        if isinstance(optimizer, cl.CoLA) or optimizer.param_groups[0]["lr"] > 0.0:
            optimizer.step()
        scheduler.step(1.0) if name == "ReduceLROnPlateau" else scheduler.step()
        rates.append(float(optimizer.param_groups[0]["lr"]))
    return rates


class TestSchedulers:
    def test_none_is_left_out(self) -> None:
        assert set(lr_scheduler.__all__) - {"LRScheduler"} <= SCHEDULERS.keys()

    @pytest.mark.parametrize("name", SCHEDULERS)
    def test_each_acts_as_on_sgd(self, name: str) -> None:
        ours, theirs = network(), network()
        rates = run_schedule(cl.CoLA(ours.parameters(), lr=0.05, momentum=0.9), ours, name)
        sgd = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.9)
        assert rates == run_schedule(sgd, theirs, name)
        assert len(set(rates)) > 1
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-13)

    @pytest.mark.parametrize("name", SCHEDULERS)
    def test_lr_as_a_tensor(self, name: str) -> None:
        if torch.__version__.startswith("2.6.") and name in ("SequentialLR", "ReduceLROnPlateau"):
            pytest.skip("these schedulers of torch 2.6 lose or overwrite an lr that is a tensor")
        ours, theirs = network(), network()
        lr = torch.tensor(0.05, dtype=torch.float64)
        one = cl.CoLA(ours.parameters(), lr=lr, momentum=0.9)
        two = cl.CoLA(theirs.parameters(), lr=0.05, momentum=0.9)
        assert run_schedule(one, ours, name) == pytest.approx(run_schedule(two, theirs, name))
        assert isinstance(one.param_groups[0]["lr"], Tensor)
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("name", ["OneCycleLR", "CyclicLR"])
    def test_momentum_is_not_cycled_behind_the_back_of_friction(self, name: str) -> None:
        model = network()
        optimizer = cl.CoLA(model.parameters(), step_size=0.2, friction=1.0)
        SCHEDULERS[name](optimizer)
        backward(model, 0)
        before = values_of(optimizer)
        with pytest.raises(ValueError, match=r"friction=1\.0.*cycle_momentum=False"):
            optimizer.step()
        assert same(values_of(optimizer), before)

    def test_one_cycle_with_friction(self) -> None:
        model = network()
        optimizer = cl.CoLA(model.parameters(), step_size=0.2, friction=1.0)
        scheduler = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=9, cycle_momentum=False)
        start = optimizer.param_groups[0]["lr"]
        for step in range(8):
            backward(model, step)
            optimizer.step()
            scheduler.step()
        assert optimizer.param_groups[0]["lr"] != start

    @every_scheme
    @every_constraint
    def test_warm_up_from_zero_at_a_temperature(self, constraint: str, scheme: str) -> None:
        """At lr = 0 nothing moves; noise in units of 1/h must not turn into NaN."""
        model = network()
        optimizer = optimizer_for(model, constraint, scheme, temperature=1e-3)
        start = values_of(optimizer)
        scheduler = lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 5))
        for step in range(10):
            assert step > 0 or optimizer.param_groups[0]["lr"] == 0.0
            backward(model, step)
            optimizer.step()
            scheduler.step()
            if step == 0:
                for one, other in zip(values_of(optimizer), start, strict=True):
                    torch.testing.assert_close(one, other, rtol=0, atol=1e-14)
        assert all(bool(p.isfinite().all()) for p in model.parameters())
        for entry in optimizer.state.values():
            assert all(bool(value.isfinite().all()) for value in entry.values())
        assert optimizer.violation()[0].residual <= 1e-12
        assert not same(values_of(optimizer), start)

    @pytest.mark.parametrize("lr", [1e-29, 1e-40, 1e-300])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("constraint", CONSTRAINTS)
    def test_the_faintest_lr_at_a_temperature(
        self, constraint: str, dtype: torch.dtype, lr: float
    ) -> None:
        if constraint == "general of two":
            pytest.skip("needs two parameters")
        weight = parameter(4, 2, dtype=dtype)
        optimizer = cl.CoLA(
            [weight], lr=0.1, momentum=0.9, temperature=1.0, constraint=CONSTRAINTS[constraint]()
        )
        optimizer.param_groups[0]["lr"] = lr
        weight.grad = torch.ones_like(weight)
        optimizer.step()
        assert bool(weight.isfinite().all())


# --- mixed precision -----------------------------------------------------------------------


class TestGradScaler:
    def test_is_the_same_run_as_without(self) -> None:
        scaled, plain = network(), network()
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        ours = optimizer_for(scaled, "circle", "OBA", 0.01, seed=0)
        theirs = optimizer_for(plain, "circle", "OBA", 0.01, seed=0)
        for step in range(5):
            backward(scaled, step)
            for p in scaled.parameters():
                scaler.scale(torch.zeros(()))  # makes the scale
                p.grad.mul_(scaler.get_scale())
            scaler.step(ours)
            scaler.update()
            backward(plain, step)
            theirs.step()
        assert scaler.get_scale() == 1024.0
        assert same(values_of(ours), values_of(theirs))  # 1024 is a power of two

    def test_an_overflow_skips_the_step(self) -> None:
        model = network()
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        optimizer = optimizer_for(model, "orthogonal", "OBA", 0.01)
        scaler.scale(backward(model, 0))
        model[0].weight.grad[0, 0] = math.inf
        # Noise is a function of seed and count of steps, so that it is in the contents.
        before = {name: value for name, value in contents(optimizer).items() if name != "gradients"}
        scaler.step(optimizer)
        scaler.update()
        after = {name: value for name, value in contents(optimizer).items() if name != "gradients"}
        assert same(after, before)
        assert scaler.get_scale() == 512.0


def state_dtypes(optimizer: cl.CoLA) -> set[torch.dtype]:
    """Of all entries but the counts, which are integers."""
    entries = [entry for state in optimizer.state.values() for entry in state.items()]
    assert all(value.dtype == torch.int64 for name, value in entries if name == "step")
    return {value.dtype for name, value in entries if name != "step"}


class TestDtypes:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @every_scheme
    @every_constraint
    def test_state_has_the_dtype_of_the_weights(
        self, constraint: str, scheme: str, dtype: torch.dtype
    ) -> None:
        model = network(dtype=dtype)
        optimizer = optimizer_for(model, constraint, scheme, temperature=0.001)
        train(model, optimizer, range(3))
        assert all(p.dtype == dtype for p in model.parameters())
        assert state_dtypes(optimizer) <= {dtype}
        assert "master" not in optimizer.state.get(model[0].weight, {})
        assert optimizer.violation()[0].residual <= (1e-6 if dtype == torch.float32 else 1e-12)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    @every_scheme
    @every_constraint
    def test_half_precision_is_a_rounded_float32_run(
        self, constraint: str, scheme: str, dtype: torch.dtype
    ) -> None:
        half = network(dtype=dtype)
        with torch.no_grad():  # away from the boundary, which the two roundings see apart
            for p in half.parameters():
                p.mul_(0.6)
        full = copy.deepcopy(half).float()
        # Half precision has no kernels in C, which round otherwise than torch.
        options = {"fused": False, "seed": 7}
        ours = optimizer_for(half, constraint, scheme, 0.001, **options)
        # What the float32 weights start from is what the half ones were rounded to.
        with torch.no_grad():
            for p, q in zip(full.parameters(), half.parameters(), strict=True):
                p.copy_(ours.state.get(q, {}).get("master", q))
        theirs = optimizer_for(full, constraint, scheme, 0.001, **options)
        for step in range(6):
            backward(half, step)
            for p, q in zip(full.parameters(), half.parameters(), strict=True):
                p.grad = q.grad.float()
            ours.step()
            theirs.step()
            for p, q in zip(full.parameters(), half.parameters(), strict=True):
                assert same(q.detach(), p.detach().to(dtype))
                assert same(ours.state[q]["master"], p.detach())
        assert state_dtypes(ours) == {torch.float32}
        assert ours.violation()[0].residual <= 1e-6

    def test_half_precision_collects_small_steps(self) -> None:
        """Steps below the rounding of bf16 must add up in the float32 master."""
        weight = nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
        optimizer = cl.CoLA([weight], lr=1e-4)
        weight.grad = torch.ones(1, dtype=torch.bfloat16)
        for _ in range(1000):
            optimizer.step()
        assert float(weight.detach()) == pytest.approx(0.9, abs=0.004)

    def test_on_the_boundary_in_half_precision(self) -> None:
        """0.05 is no bf16: the nearest one lies outside, which is no reason to rescale."""
        weight = nn.Parameter(torch.full((3,), 0.05, dtype=torch.bfloat16))
        assert float(weight.detach()[0]) > 0.05
        before = weight.detach().clone()
        cl.CoLA([weight], lr=0.1, constraint=cl.Circle(0.05))
        assert same(weight.detach(), before)

    @pytest.mark.parametrize(
        ("dtype", "saved"),
        [(torch.float64, torch.float32), (torch.float32, torch.bfloat16)],
    )
    def test_a_state_of_another_dtype_is_taken_over(
        self, dtype: torch.dtype, saved: torch.dtype
    ) -> None:
        """From bf16 to float32: the master is gone, or the weights would go stale."""
        source = network(dtype=saved)
        first = optimizer_for(source, "max-norm", "OBA")
        train(source, first, range(3))
        model = copy.deepcopy(source).to(dtype)
        second = optimizer_for(model, "max-norm", "OBA")
        second.load_state_dict(first.state_dict())
        assert state_dtypes(second) == {dtype}
        train(model, second, range(3, 5))
        bias = model[4].bias
        before = float(bias.detach())
        with torch.no_grad():
            bias.add_(10.0)
        train(model, second, range(5, 6))
        assert float(bias.detach()) == pytest.approx(before + 10.0, abs=2.0)


# --- memory formats, clipping, compilation, copies ----------------------------------------


class TestLayouts:
    @pytest.mark.parametrize(
        "constraint", [None, cl.Circle(0.2), cl.Sphere(0.5), cl.Orthogonal()], ids=repr
    )
    def test_channels_last(self, constraint: cl.Constraint | None) -> None:
        runs = []
        for memory_format in (torch.contiguous_format, torch.channels_last):
            with torch.random.fork_rng():
                torch.manual_seed(0)
                model = nn.Conv2d(3, 4, 3).double()
            model = model.to(memory_format=memory_format)
            optimizer = cl.CoLA(
                [{"params": [model.weight], "constraint": constraint}, {"params": [model.bias]}],
                lr=0.1,
                momentum=0.9,
                temperature=0.01,
                seed=0,
            )
            for step in range(4):
                generator = torch.Generator().manual_seed(step)
                images = torch.randn(2, 3, 6, 6, generator=generator, dtype=torch.float64)
                optimizer.zero_grad()
                model(images.to(memory_format=memory_format)).square().mean().backward()
                optimizer.step()
            assert model.weight.is_contiguous(memory_format=memory_format)
            runs.append(model.weight.detach().contiguous())
        torch.testing.assert_close(*runs, rtol=0, atol=1e-13)

    def test_transposed_weights(self) -> None:
        values = torch.linspace(-0.4, 0.4, 12, dtype=torch.float64).reshape(3, 4)
        runs = []
        for start in (values.T, values.T.contiguous()):
            for fused in (False, None):
                weight = nn.Parameter(start.clone())
                assert weight.stride() == start.stride()
                optimizer = cl.CoLA(
                    [weight], lr=0.1, momentum=0.9, constraint=cl.Circle(0.5), fused=fused
                )
                for _ in range(3):
                    weight.grad = weight.detach().square() + 1.0
                    optimizer.step()
                runs.append(weight.detach().contiguous())
        transposed, transposed_by_default, plain, plain_by_default = runs
        assert same(transposed, plain)
        assert same(transposed, transposed_by_default)  # the kernels want contiguous weights
        torch.testing.assert_close(plain, plain_by_default, rtol=0, atol=1e-14)

    def test_a_number_is_a_parameter(self) -> None:
        for constraint in (None, cl.Circle(0.5)):
            weight = nn.Parameter(torch.tensor(0.1))
            optimizer = cl.CoLA([weight], lr=0.1, momentum=0.9, constraint=constraint)
            weight.grad = torch.tensor(1.0)
            optimizer.step()
            assert weight.shape == ()
            assert float(weight.detach()) < 0.1


class TestClipping:
    @pytest.mark.parametrize("clip", ["norm", "value"])
    def test_is_done_before_the_step_as_with_sgd(self, clip: str) -> None:
        ours, theirs = network(), network()
        one = cl.CoLA(ours.parameters(), lr=0.1, momentum=0.9)
        two = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9)
        for step in range(5):
            for model, optimizer in ((ours, one), (theirs, two)):
                backward(model, step)
                if clip == "norm":
                    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.01)
                    assert float(norm) > 0.01
                else:
                    nn.utils.clip_grad_value_(model.parameters(), 0.01)
                optimizer.step()
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=0, atol=1e-14)


@pytest.fixture
def fresh_compiler() -> Any:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.filterwarnings("ignore::UserWarning")  # the compiler's remarks on graph breaks
class TestCompile:
    @pytest.mark.parametrize(
        ("constraint", "scheme", "temperature", "backend", "eager_steps"),
        [
            ("circle", "OBA", 0.01, "eager", 0),
            ("orthogonal", "BAOAB", 0.0, "aot_eager", 1),
            ("circle", "OBA", 0.0, "inductor", 1),
        ],
    )
    def test_equals_eager(
        self, constraint: str, scheme: str, temperature: float, backend: str, eager_steps: int
    ) -> None:
        runs = []
        for compiled in (True, False):
            weight = full_rank(4, 3)
            optimizer = cl.CoLA(
                [weight],
                constraint=CONSTRAINTS[constraint](),
                temperature=temperature,
                seed=0,
                **SCHEMES[scheme],
            )
            scheduler = lr_scheduler.StepLR(optimizer, 3)
            step: Callable[[], Any] = optimizer.step
            for index in range(5):
                if compiled and index == eager_steps:
                    step = torch.compile(optimizer.step, backend=backend)
                weight.grad = weight.detach() + 1.0
                step()
                scheduler.step()
            runs.append(weight.detach())
        torch.testing.assert_close(*runs, rtol=0, atol=1e-13)


class TestCopies:
    @pytest.mark.parametrize(
        "copied",
        [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))],
        ids=["deepcopy", "pickle"],
    )
    @every_constraint
    def test_a_copy_goes_on_by_itself(self, constraint: str, copied: Callable[[Any], Any]) -> None:
        model = network()
        optimizer = optimizer_for(model, constraint, "BAOAB", 0.001)
        train(model, optimizer, range(3))
        other_model, other = copied((model, optimizer))
        assert same(values_of(other), values_of(optimizer))
        mine = {p.data_ptr() for p in parameters_of(optimizer)}
        assert not mine & {p.data_ptr() for p in parameters_of(other)}
        frozen = values_of(other)
        train(model, optimizer, range(3, 6))
        assert same(values_of(other), frozen)
        train(other_model, other, range(3, 6))
        assert same(values_of(other), values_of(optimizer))
        other.add_param_group({"params": [parameter(2)]})
        assert len(optimizer.param_groups) + 1 == len(other.param_groups)

    def test_repr_names_the_constraint(self) -> None:
        model = network()
        assert "constraint: Circle(radius=0.5)" in repr(optimizer_for(model, "circle", "OBA"))


class TestNoise:
    def test_the_global_stream_is_left_alone(self) -> None:
        torch.manual_seed(3)
        before = torch.get_rng_state()
        model = network()
        optimizer = optimizer_for(model, "circle", "OBA", temperature=1.0)
        train(model, optimizer, range(2))
        assert same(torch.get_rng_state(), before)

    @pytest.mark.filterwarnings("ignore:another optimizer was made from the same weights")
    def test_manual_seed_fixes_the_run(self) -> None:
        runs = []
        for seed in (3, 3, 4):
            torch.manual_seed(seed)
            model = network()
            optimizer = optimizer_for(model, "circle", "OBA", temperature=1.0)
            train(model, optimizer, range(2))
            runs.append(values_of(optimizer))
        assert same(runs[0], runs[1])
        assert not same(runs[0], runs[2])

    def test_none_is_drawn_at_temperature_zero(self) -> None:
        for constraint in ("unconstrained", "circle", "orthogonal"):
            model = network()
            optimizer = optimizer_for(model, constraint, "OBA", temperature=1.0)
            with noise_from(undrawn), pytest.raises(AssertionError, match="noise was drawn"):
                train(model, optimizer, range(1))
            for group in optimizer.param_groups:
                group["temperature"] = 0.0
            with noise_from(undrawn):
                train(model, optimizer, range(2))


class TestTheBoundary:
    """A weight that a user has clamped onto |θ| = r must be able to leave at temperature 0."""

    @pytest.mark.parametrize(
        ("constraint", "start"),
        [
            (cl.Circle(0.5), torch.tensor([0.5, -0.5])),
            (cl.Sphere(0.5), torch.tensor([[0.5, 0.0]])),
        ],
        ids=["circle", "max-norm"],
    )
    @pytest.mark.parametrize("momentum", [0.0, 0.9])
    def test_is_left(self, constraint: cl.Constraint, start: Tensor, momentum: float) -> None:
        weight = nn.Parameter(start.clone())
        optimizer = cl.CoLA([weight], lr=0.05, momentum=momentum, constraint=constraint)
        assert same(weight.detach(), start)
        for _ in range(200):
            weight.grad = weight.detach().clone()  # towards 0
            optimizer.step()
        assert float(weight.detach().abs().max()) < 0.4
