"""``rounding="stochastic"``: half-precision weights without a float32 copy."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.constraints import State
from colangevin.optimizers.step.noise import ROUNDING
from colangevin.random import key_of, rounded_at_random, uniforms
from optimizer_cases import CONSTRAINTS

HALF = (torch.bfloat16, torch.float16)
every_constraint = pytest.mark.parametrize("constraint", CONSTRAINTS)
every_half = pytest.mark.parametrize("dtype", HALF)
DYNAMICS: dict[str, dict[str, Any]] = {
    "overdamped": {"lr": 1e-3},
    "momentum": {"lr": 1e-3, "momentum": 0.8},
    "noise": {"lr": 1e-3, "momentum": 0.8, "temperature": 1e-3, "scheme": "BAOAB"},
    "adam": {"lr": 1e-3, "direction": "adam"},
}


def weights(dtype: torch.dtype, seed: int = 0, count: int = 2) -> list[nn.Parameter]:
    draw = torch.Generator().manual_seed(seed)
    return [nn.Parameter((0.3 * torch.randn(4, 4, generator=draw)).to(dtype)) for _ in range(count)]


def follow(optimizer: torch.optim.Optimizer, own: list[nn.Parameter], steps: range) -> None:
    """Steps along random gradients, the same in every run."""
    for step in steps:
        draw = torch.Generator().manual_seed(step)
        for weight in own:
            weight.grad = torch.randn(4, 4, generator=draw).to(weight.dtype)
        optimizer.step()


def made(own: list[nn.Parameter], constraint: str, **options: Any) -> cl.CoLA:
    rule = CONSTRAINTS[constraint]()
    return cl.CoLA(own, **{"constraint": rule, "rounding": "stochastic", "seed": 3, **options})


class TestAStep:
    @every_half
    def test_it_is_the_float32_step_rounded_by_the_counter(self, dtype: torch.dtype) -> None:
        """The literal form: the numbers of the seed, the parameter, the step and the index."""
        own = weights(dtype)
        optimizer = made(own, "unconstrained", lr=1e-3)
        for step in range(5):
            before = [weight.detach().float() for weight in own]
            follow(optimizer, own, range(step, step + 1))
            for ordinal, (start, weight) in enumerate(zip(before, own, strict=True)):
                assert weight.grad is not None
                exact = start - 1e-3 * weight.grad.float()
                chances = uniforms([key_of(3, ordinal, step, ROUNDING)], 16)[0].view(4, 4)
                expected = rounded_at_random(exact, dtype, chances)
                assert torch.equal(weight.detach().float(), expected)

    def test_rounding_and_noise_are_other_numbers(self) -> None:
        rounding = uniforms([key_of(3, 0, 0, ROUNDING)], 20_000)[0]
        for draw in range(4):
            noise = uniforms([key_of(3, 0, 0, draw)], 20_000)[0]
            both = torch.stack([rounding, noise])
            assert abs(float(torch.corrcoef(both)[0, 1])) < 4.0 / math.sqrt(20_000)

    @every_half
    def test_small_steps_arrive_on_average(self, dtype: torch.dtype) -> None:
        """Each step is a hundredth of the distance of two neighbours; to the nearest it is lost."""
        size, steps = 20_000, 10
        step = torch.finfo(dtype).eps / 100.0
        random, nearest = (nn.Parameter(torch.full((size,), 1.5, dtype=dtype)) for _ in range(2))
        optimizer = cl.CoLA([random], lr=step, rounding="stochastic", seed=1)
        plain = torch.optim.SGD([nearest], lr=step)
        for weight, own in ((random, optimizer), (nearest, plain)):
            for _ in range(steps):
                weight.grad = -torch.ones_like(weight)
                own.step()
        moved = random.detach().double() - 1.5
        error = float(moved.std()) / math.sqrt(size)
        assert abs(float(moved.mean()) - steps * step) < 4.0 * error
        assert bool((nearest == 1.5).all())

    @every_constraint
    @every_half
    @pytest.mark.parametrize("dynamics", DYNAMICS)
    def test_constraints_hold_to_the_rounding(
        self, constraint: str, dtype: torch.dtype, dynamics: str
    ) -> None:
        own = weights(dtype)
        optimizer = made(own, constraint, **DYNAMICS[dynamics])
        start = [w.detach().clone() for w in own]
        follow(optimizer, own, range(30))
        (found,) = optimizer.violation()
        # Neighbours are at most eps apart, relative to a weight; g is a square of weights.
        assert found.residual < 2.0 * torch.finfo(dtype).eps
        assert found.cotangency < 2.0 * torch.finfo(dtype).eps
        assert found.fallbacks == 0
        assert not any(torch.equal(w, s) for w, s in zip(own, start, strict=True))
        for weight in own:
            entry = optimizer.state[weight]
            assert "master" not in entry
            assert all(v.dtype in (torch.float32, torch.int64) for v in entry.values())

    @every_half
    def test_no_weight_passes_its_bound(self, dtype: torch.dtype) -> None:
        (weight,) = weights(dtype, count=1)
        radius = 0.3001  # between two numbers of the dtype
        optimizer = cl.CoLA(
            [weight], lr=0.01, constraint=cl.Circle(radius), rounding="stochastic", seed=0
        )
        for _ in range(400):
            weight.grad = -torch.ones_like(weight)
            optimizer.step()
            assert float(weight.detach().float().abs().max()) <= radius
        assert float(weight.detach().float().min()) > 0.98 * radius

    def test_a_slack_belongs_to_the_rounded_weight(self) -> None:
        own = weights(torch.bfloat16)
        optimizer = made(own, "circle", lr=1e-2, momentum=0.9)
        follow(optimizer, own, range(30))
        circle = cl.Circle(0.5)
        for weight in own:
            state = State(weight.detach().float(), slack=optimizer.state[weight]["slack"])
            assert float(circle.residual(state).abs().max()) < 1e-6


class TestWhatIsKept:
    @every_constraint
    @every_half
    @pytest.mark.parametrize("dynamics", DYNAMICS)
    def test_a_saved_run_goes_on_bit_for_bit(
        self, constraint: str, dtype: torch.dtype, dynamics: str
    ) -> None:
        own = weights(dtype)
        optimizer = made(own, constraint, **DYNAMICS[dynamics])
        follow(optimizer, own, range(8))
        file = io.BytesIO()
        torch.save(([w.detach() for w in own], optimizer.state_dict()), file)
        file.seek(0)
        values, state = torch.load(file, weights_only=True)
        again = [nn.Parameter(value) for value in values]
        other = made(again, constraint, **{**DYNAMICS[dynamics], "seed": 9})
        other.load_state_dict(state)
        follow(optimizer, own, range(8, 16))
        follow(other, again, range(8, 16))
        assert all(torch.equal(one, two) for one, two in zip(own, again, strict=True))

    def test_another_seed_rounds_in_another_way(self) -> None:
        one, other = weights(torch.bfloat16), weights(torch.bfloat16)
        follow(made(one, "unconstrained", lr=1e-3), one, range(3))
        follow(made(other, "unconstrained", lr=1e-3, seed=4), other, range(3))
        assert not torch.equal(one[0], other[0])

    def test_a_change_of_rounding_counts_at_once(self) -> None:
        own = weights(torch.bfloat16)
        optimizer = made(own, "circle", lr=1e-3, rounding="nearest")
        follow(optimizer, own, range(2))
        assert "master" in optimizer.state[own[0]]
        optimizer.param_groups[0]["rounding"] = "stochastic"
        follow(optimizer, own, range(2, 4))
        assert "master" not in optimizer.state[own[0]]
        optimizer.param_groups[0]["rounding"] = "nearest"
        follow(optimizer, own, range(4, 6))
        master = optimizer.state[own[0]]["master"]
        assert torch.equal(cl.Circle(0.5).narrow(master, torch.bfloat16), own[0].detach())

    def test_a_failed_step_keeps_the_float32_copy(self) -> None:
        class Broken(cl.Direction):
            def update(
                self, gradient: Tensor, weight: Tensor, memory: dict[str, Tensor], step: int
            ) -> Tensor:
                return gradient * math.nan if float(gradient.abs().max()) > 100.0 else gradient

        own = weights(torch.bfloat16)
        optimizer = cl.CoLA(own, lr=1e-3, direction=Broken())
        follow(optimizer, own, range(2))
        kept = copy.deepcopy(optimizer.state_dict()["state"])
        optimizer.param_groups[0]["rounding"] = "stochastic"
        own[0].grad = torch.full((4, 4), 1e4).bfloat16()
        with pytest.raises(ValueError, match="not finite"):
            optimizer.step()
        now = optimizer.state_dict()["state"]
        for key, entry in kept.items():
            assert entry.keys() == now[key].keys() and "master" in entry
            assert all(torch.equal(value, now[key][name]) for name, value in entry.items())

    def test_other_precisions_are_as_they_were(self) -> None:
        for dtype in (torch.float32, torch.float64):
            one, other = weights(dtype), weights(dtype)
            follow(made(one, "circle", lr=1e-3, momentum=0.8), one, range(5))
            follow(
                made(other, "circle", lr=1e-3, momentum=0.8, rounding="nearest"), other, range(5)
            )
            assert torch.equal(one[0], other[0])

    def test_a_weight_that_is_moved_in_blocks(self) -> None:
        large = nn.Parameter(torch.full((300, 400), 0.25).bfloat16())  # more than one block
        optimizer = cl.CoLA([large], lr=1e-3, constraint=cl.Circle(0.5), rounding="stochastic")
        large.grad = torch.ones_like(large)
        optimizer.step()
        assert optimizer.violation()[0].residual < 1e-6
        assert 0.2485 < float(large.detach().float().mean()) < 0.25

    def test_a_stretch_of_multirate_rounds_by_numbers_of_its_own(self) -> None:
        (weight,) = weights(torch.bfloat16, count=1)
        slow = cl.CoLA([weight], lr=1e-2, momentum=0.5, rounding="stochastic", seed=3)
        fast = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
        optimizer = cl.Multirate(fast, slow, period=4)
        follow(optimizer, [weight], range(8))
        assert "master" not in slow.state[weight] and bool(weight.isfinite().all())


class Cast(nn.Module):
    """Weights in half precision, products in float32."""

    def __init__(self, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.first = nn.Parameter((0.3 * torch.randn(6, 4)).to(dtype))
        self.second = nn.Parameter((0.3 * torch.randn(1, 6)).to(dtype))

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(nn.functional.linear(inputs, self.first.float()))
        return nn.functional.linear(hidden, self.second.float())


OTHER_SHAPES = {"circle of radii", "general of two"}


def seeded(seed: int) -> Cast:
    torch.manual_seed(seed)
    return Cast()


class TestMembersOfAnEnsemble:
    @pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
    @pytest.mark.parametrize("constraint", sorted({*CONSTRAINTS} - OTHER_SHAPES))
    @pytest.mark.parametrize("dynamics", DYNAMICS)
    def test_they_are_cola(self, rounding: str, constraint: str, dynamics: str) -> None:
        rules = {"first": CONSTRAINTS[constraint]()}
        options = {**DYNAMICS[dynamics], "rounding": rounding}
        inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
        targets, loss = inputs.prod(dim=1, keepdim=True), nn.functional.mse_loss
        ensemble = cl.Ensemble(seeded, [3, 8], rules, **options)
        for _ in range(6):
            ensemble.step(loss, inputs, targets, shared=True)
        again = cl.Ensemble(seeded, [3, 8], rules, **options)
        again.load_state_dict(ensemble.state_dict())
        for one in (ensemble, again):
            one.step(loss, inputs, targets, shared=True)
        for index, seed in enumerate((3, 8)):
            model = seeded(seed)
            alone = cl.CoLA(cl.parameter_groups(model, rules), seed=seed, **options)
            for _ in range(7):
                alone.zero_grad()
                loss(model(inputs), targets).backward()
                alone.step()
            for name, expected in model.named_parameters():
                found = ensemble.member(index).get_parameter(name)
                assert torch.equal(again.member(index).get_parameter(name), found)
                # A last bit of float32 may decide a rounding; none does in these few steps.
                torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)

    def test_they_round_in_one_way(self) -> None:
        ensemble = cl.Ensemble(seeded, [1, 2], lr=0.01, rounding="stochastic")
        with pytest.raises(ValueError, match="rounding=nearest was set in an ensemble with stoch"):
            ensemble.set(rounding="nearest")
        other = cl.Ensemble(seeded, [1, 2], lr=0.01)
        with pytest.raises(ValueError, match="rounding"):
            other.load_state_dict(ensemble.state_dict())


def regression(train: Callable[[int], float], seeds: int = 5) -> tuple[float, float]:
    """Mean and standard deviation of a loss over seeds."""
    losses = torch.tensor([train(seed) for seed in range(seeds)])
    return float(losses.mean()), float(losses.std())


def trained(seed: int, dtype: torch.dtype, make: Callable[[list[Any]], Any]) -> float:
    """The loss of a small regression after steps that are small against the weights."""
    torch.manual_seed(seed)
    inputs = torch.randn(64, 8)
    targets = inputs @ torch.randn(8, 1)
    weight = nn.Parameter(torch.randn(8, 1).to(dtype))
    optimizer = make([weight])
    for _ in range(600):
        optimizer.zero_grad()
        loss = (inputs @ weight.float() - targets).square().mean()
        loss.backward()
        optimizer.step()
    return float((inputs @ weight.detach().float() - targets).square().mean())


def test_a_training_is_that_in_float32_and_to_the_nearest_it_stops() -> None:
    lr = 1e-3
    exact = regression(
        lambda seed: trained(seed, torch.float32, lambda own: torch.optim.SGD(own, lr=lr))
    )
    nearest = regression(
        lambda seed: trained(seed, torch.bfloat16, lambda own: torch.optim.SGD(own, lr=lr))
    )
    random = regression(
        lambda seed: trained(
            seed, torch.bfloat16, lambda own: cl.CoLA(own, lr=lr, rounding="stochastic", seed=seed)
        )
    )
    assert abs(random[0] - exact[0]) < exact[1]
    assert nearest[0] > exact[0] + exact[1]


@pytest.mark.parametrize("value", ["up", "Nearest", 1, None])
def test_another_word_is_refused(value: object) -> None:
    weight = nn.Parameter(torch.ones(2).bfloat16())
    if value is None:  # what is None is not given
        assert cl.CoLA([weight], lr=0.1, rounding=value).param_groups[0]["rounding"] == "nearest"  # type: ignore[arg-type]
        return
    with pytest.raises((ValueError, TypeError), match="rounding must be one of"):
        cl.CoLA([weight], lr=0.1, rounding=value)  # type: ignore[arg-type]
