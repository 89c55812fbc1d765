"""Temperature schedules beside learning-rate schedules."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import colangevin as cl
from injected_noise import noise_from, undrawn
from optimizer_cases import network, same, train, values_of


def optimizer_at(*temperatures: float) -> cl.CoLA:
    groups = [
        {"params": [nn.Parameter(torch.zeros(2))], "temperature": temperature}
        for temperature in temperatures
    ]
    return cl.CoLA(groups, lr=0.1, momentum=0.9)


def temperatures(optimizer: cl.CoLA) -> list[float]:
    return [group["temperature"] for group in optimizer.param_groups]


class TestFactors:
    def test_linear(self) -> None:
        factor = cl.annealing(4, final=0.2, shape="linear")
        assert [factor(step) for step in range(6)] == pytest.approx([1, 0.8, 0.6, 0.4, 0.2, 0.2])

    def test_cosine(self) -> None:
        factor = cl.annealing(4)
        root = math.sqrt(0.5)
        expected = [1.0, (1 + root) / 2, 0.5, (1 - root) / 2, 0.0, 0.0]
        assert [factor(step) for step in range(6)] == pytest.approx(expected, abs=1e-15)

    def test_exponential(self) -> None:
        factor = cl.annealing(2, final=0.01, shape="exponential")
        assert [factor(step) for step in range(4)] == pytest.approx([1.0, 0.1, 0.01, 0.01])

    def test_cyclical(self) -> None:
        factor = cl.cyclical(5, low=0.1, hot=0.4)
        assert [factor(step) for step in range(7)] == [1.0, 1.0, 0.1, 0.1, 0.1, 1.0, 1.0]
        assert {cl.cyclical(3, hot=1.0)(step) for step in range(6)} == {1.0}
        assert {cl.cyclical(3, hot=0.0)(step) for step in range(6)} == {0.0}

    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (lambda: cl.annealing(0), ValueError, "steps must be at least 1, got 0"),
            (lambda: cl.annealing(1.5), TypeError, r"steps must be an integer, got 1\.5"),
            (lambda: cl.annealing(5, final=-1.0), ValueError, r"final .* got -1\.0"),
            (lambda: cl.annealing(5, final=math.nan), ValueError, "final .* NaN"),
            (lambda: cl.annealing(5, shape="square"), ValueError, "shape .* got 'square'"),
            (lambda: cl.annealing(5, shape="exponential"), ValueError, r"final .* got 0\.0"),
            (lambda: cl.cyclical(0), ValueError, "period must be at least 1, got 0"),
            (lambda: cl.cyclical(5, low=-0.1), ValueError, r"low .* got -0\.1"),
            (lambda: cl.cyclical(5, hot=1.1), ValueError, r"hot .* got 1\.1"),
        ],
    )
    def test_bad_arguments(self, make: object, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            make()  # type: ignore[operator]


class TestScheduler:
    def test_scales_each_group_from_its_own_start(self) -> None:
        optimizer = optimizer_at(1.0, 0.5, 0.0)
        scheduler = cl.TemperatureScheduler(optimizer, cl.annealing(4, shape="linear"))
        assert temperatures(optimizer) == [1.0, 0.5, 0.0]
        scheduler.step()
        assert temperatures(optimizer) == [0.75, 0.375, 0.0]
        for _ in range(9):
            scheduler.step()
        assert temperatures(optimizer) == [0.0, 0.0, 0.0]

    def test_applies_the_factor_of_step_zero_at_once(self) -> None:
        optimizer = optimizer_at(1.0)
        cl.TemperatureScheduler(optimizer, lambda step: 0.25)
        assert temperatures(optimizer) == [0.25]

    def test_cycles(self) -> None:
        optimizer = optimizer_at(2.0)
        scheduler = cl.TemperatureScheduler(optimizer, cl.cyclical(2))
        seen = []
        for _ in range(4):
            seen += temperatures(optimizer)
            scheduler.step()
        assert seen == [2.0, 0.0, 2.0, 0.0]

    def test_acts_on_the_run(self) -> None:
        """Annealed to 0, a run is the one that was cold from there on."""
        hot, cold = network(), network()
        one = cl.CoLA(hot.parameters(), lr=0.02, momentum=0.9, temperature=0.1)
        two = cl.CoLA(cold.parameters(), lr=0.02, momentum=0.9)
        scheduler = cl.TemperatureScheduler(one, lambda step: 1.0 if step < 3 else 0.0)
        for step in range(3):
            train(hot, one, range(step, step + 1))
            scheduler.step()
        train(cold, two, range(3))
        assert not same(values_of(one), values_of(two))
        cold.load_state_dict(hot.state_dict())
        two.load_state_dict(one.state_dict())
        with noise_from(undrawn):
            train(hot, one, range(3, 6))
            train(cold, two, range(3, 6))
        assert temperatures(one) == temperatures(two) == [0.0]
        assert same(values_of(one), values_of(two))

    def test_beside_learning_rate_schedulers(self) -> None:
        optimizer = optimizer_at(1.0)
        rate = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.1)
        heat = cl.TemperatureScheduler(optimizer, cl.annealing(4, shape="linear"))
        seen = []
        for _ in range(4):
            optimizer.step()
            rate.step()
            heat.step()
            seen.append((optimizer.param_groups[0]["lr"], *temperatures(optimizer)))
        assert seen == [
            (0.1, 0.75),
            (pytest.approx(0.01), 0.5),
            (pytest.approx(0.01), 0.25),
            (pytest.approx(0.001), 0.0),
        ]

    def test_groups_added_later_keep_their_temperature(self) -> None:
        optimizer = optimizer_at(1.0)
        scheduler = cl.TemperatureScheduler(optimizer, cl.annealing(2, shape="linear"))
        optimizer.add_param_group({"params": nn.Parameter(torch.zeros(1)), "temperature": 0.3})
        scheduler.step()
        assert temperatures(optimizer) == [0.5, 0.3]

    def test_state_dict(self) -> None:
        optimizer = optimizer_at(1.0, 0.5)
        scheduler = cl.TemperatureScheduler(optimizer, cl.annealing(4, shape="linear"))
        scheduler.step()
        saved = scheduler.state_dict()
        scheduler.step()
        assert saved == {"last_step": 1, "initial": [1.0, 0.5]}

        # A resumed optimizer has the annealed temperature, which is not where it started.
        resumed = optimizer_at(0.75, 0.375)
        second = cl.TemperatureScheduler(resumed, cl.annealing(4, shape="linear"))
        second.load_state_dict(saved)
        assert temperatures(resumed) == [0.75, 0.375]
        second.step()
        assert temperatures(resumed) == temperatures(optimizer) == [0.5, 0.25]
        assert second.state_dict() == scheduler.state_dict()

    def test_state_dict_of_more_groups(self) -> None:
        saved = cl.TemperatureScheduler(optimizer_at(1.0, 0.5), cl.annealing(4)).state_dict()
        optimizer = optimizer_at(0.7)
        scheduler = cl.TemperatureScheduler(optimizer, cl.annealing(4))
        with pytest.raises(ValueError, match="2 temperatures, the optimizer 1 groups"):
            scheduler.load_state_dict(saved)
        assert scheduler.state_dict() == {"last_step": 0, "initial": [0.7]}
        assert temperatures(optimizer) == [0.7]

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"initial": None}, ValueError, "no state dict of a TemperatureScheduler: .*initial"),
            ({"last_step": None}, ValueError, "no state dict .*last_step"),
            ({"last_step": -1}, ValueError, "last_step must be at least 0, got -1"),
            ({"last_step": 1.5}, TypeError, r"last_step must be an integer, got 1\.5"),
            ({"initial": [-1.0]}, ValueError, r"initial must be .*got -1\.0"),
            ({"last_step": 9}, ValueError, r"factor\(9\) must be"),
        ],
        ids=str,
    )
    def test_a_bad_state_dict_changes_nothing(
        self, change: dict[str, object], error: type[Exception], message: str
    ) -> None:
        optimizer = optimizer_at(1.0)
        scheduler = cl.TemperatureScheduler(optimizer, lambda step: 0.5 if step < 9 else -1.0)
        state = {"last_step": 3, "initial": [2.0], **change}
        with pytest.raises(error, match=message):
            scheduler.load_state_dict({k: v for k, v in state.items() if v is not None})
        assert scheduler.state_dict() == {"last_step": 0, "initial": [1.0]}
        assert temperatures(optimizer) == [0.5]

    @pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
    def test_a_bad_factor_changes_nothing(self, bad: float) -> None:
        optimizer = optimizer_at(1.0)
        scheduler = cl.TemperatureScheduler(optimizer, lambda step: 0.5 if step < 2 else bad)
        scheduler.step()
        with pytest.raises(ValueError, match=r"factor\(2\) must be .*(NaN|got -1.0|got inf)"):
            scheduler.step()
        assert temperatures(optimizer) == [0.5]
        assert scheduler.last_step == 1

    def test_needs_a_function(self) -> None:
        with pytest.raises(TypeError, match=r"factor must be a function of the step, got 0\.5"):
            cl.TemperatureScheduler(optimizer_at(1.0), 0.5)

    def test_needs_an_optimizer(self) -> None:
        with pytest.raises(TypeError, match=r"optimizer must be an optimizer, got 3"):
            cl.TemperatureScheduler(3, cl.annealing(4))

    def test_needs_groups_with_a_temperature(self) -> None:
        sgd = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
        with pytest.raises(ValueError, match="SGD has a group without a temperature"):
            cl.TemperatureScheduler(sgd, cl.annealing(3))


class TestAsLearningRateScheduler:
    """Frameworks take what is a ``LRScheduler``; the learning rate is not its business."""

    def test_never_sets_the_learning_rate(self) -> None:
        optimizer = optimizer_at(1.0, 0.5)
        scheduler = cl.TemperatureScheduler(optimizer, cl.annealing(4, shape="linear"))
        assert isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler)
        for rate in (0.1, 0.03, 0.2):
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            scheduler.step()
            assert scheduler.get_last_lr() == scheduler.get_lr() == [rate, rate]
            assert [group["lr"] for group in optimizer.param_groups] == [rate, rate]

    def test_tensor_learning_rates_are_copied(self) -> None:
        rate = torch.tensor(0.1)
        optimizer = cl.CoLA([nn.Parameter(torch.zeros(1))], lr=rate, temperature=1.0)
        scheduler = cl.TemperatureScheduler(optimizer, cl.annealing(4))
        scheduler.get_last_lr()[0].fill_(7.0)  # type: ignore[union-attr]
        assert float(optimizer.param_groups[0]["lr"]) == pytest.approx(0.1)

    def test_one_after_another(self) -> None:
        optimizer = optimizer_at(1.0)
        schedulers = [
            cl.TemperatureScheduler(optimizer, cl.annealing(4, final=0.2, shape="linear")),
            cl.TemperatureScheduler(optimizer, lambda step: 0.1 * step),
        ]
        both = torch.optim.lr_scheduler.SequentialLR(optimizer, schedulers, milestones=[2])
        seen = temperatures(optimizer)
        for _ in range(4):
            optimizer.step()
            both.step()
            seen += temperatures(optimizer)
        assert seen == pytest.approx([1.0, 0.8, 0.0, 0.1, 0.2])
        assert optimizer.param_groups[0]["lr"] == both.get_last_lr()[0] == 0.1

    def test_chained_with_a_learning_rate_scheduler(self) -> None:
        optimizer = optimizer_at(1.0)
        rate = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        heat = cl.TemperatureScheduler(optimizer, cl.annealing(4, shape="linear"))
        both = torch.optim.lr_scheduler.ChainedScheduler([rate, heat], optimizer)
        optimizer.step()
        both.step()
        assert (optimizer.param_groups[0]["lr"], temperatures(optimizer)) == (0.05, [0.75])
        resumed = optimizer_at(1.0)
        twin = torch.optim.lr_scheduler.ChainedScheduler(
            [
                torch.optim.lr_scheduler.ExponentialLR(resumed, 0.5),
                cl.TemperatureScheduler(resumed, cl.annealing(4, shape="linear")),
            ],
            resumed,
        )
        resumed.load_state_dict(optimizer.state_dict())
        twin.load_state_dict(both.state_dict())
        twin.step()
        assert (resumed.param_groups[0]["lr"], temperatures(resumed)) == (0.025, [0.5])

    def test_last_epoch_continues_from_the_same_initial_temperatures(self) -> None:
        optimizer = optimizer_at(1.0, 0.5)
        first = cl.TemperatureScheduler(optimizer, cl.annealing(4, shape="linear"))
        first.step()
        second = cl.TemperatureScheduler(optimizer, cl.annealing(4, shape="linear"), last_epoch=1)
        assert temperatures(optimizer) == [0.5, 0.25]
        assert second.last_step == second.last_epoch == 2
        with pytest.raises(ValueError, match="group 0 has no initial_temperature; load the"):
            cl.TemperatureScheduler(optimizer_at(1.0), cl.annealing(4), last_epoch=3)
        for bad in (-2, 1.5):
            with pytest.raises((ValueError, TypeError), match="last_epoch must be"):
                cl.TemperatureScheduler(optimizer, cl.annealing(4), last_epoch=bad)  # type: ignore
