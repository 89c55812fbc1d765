"""Schedulers of torch and of this library steer the members as they steer an optimizer."""

import math

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

import colangevin as cl

mse = nn.functional.mse_loss
POINTS = torch.randn(16, 3, generator=torch.Generator().manual_seed(0))
TARGETS = POINTS.sum(dim=1, keepdim=True)
SETTINGS = {"lr": 0.1, "momentum": 0.9, "temperature": 1e-2}


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


RULES = {"0.weight": cl.Circle(0.7), "2.weight": cl.Sphere(1.0)}

SCHEDULERS = {
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=10),
    "step": lambda o: lr_scheduler.StepLR(o, 3, gamma=0.5),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.2, total_steps=10),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda n: 1 / (1 + n)),
    "temperature": lambda o: cl.TemperatureScheduler(o, cl.annealing(10)),
    "sequence": lambda o: lr_scheduler.SequentialLR(
        o,
        [lr_scheduler.LinearLR(o, total_iters=3), lr_scheduler.ExponentialLR(o, 0.9)],
        milestones=[3],
    ),
}


def member_alone(seed, make_scheduler, lr=0.1):
    """A member with CoLA, in a loop."""
    torch.manual_seed(seed)
    module = network()
    optimizer = cl.CoLA(cl.parameter_groups(module, RULES), **{**SETTINGS, "lr": lr}, seed=seed)
    scheduler = make_scheduler(optimizer)
    for _ in range(9):
        optimizer.zero_grad()
        mse(module(POINTS), TARGETS).backward()
        optimizer.step()
        scheduler.step()
    return module


@pytest.mark.parametrize("name", SCHEDULERS)
# SequentialLR of torch 2.6 warns about its own call.
@pytest.mark.filterwarnings("error", "ignore:The epoch parameter")
def test_members_follow_cola_under_a_schedule(name):
    rates = [0.1, 0.05]
    ensemble = cl.Ensemble(network, [7, 8], RULES, **{**SETTINGS, "lr": rates})
    scheduler = SCHEDULERS[name](ensemble.optimizer)
    for _ in range(9):
        ensemble.step(mse, POINTS.expand(2, -1, -1), TARGETS.expand(2, -1, -1))
        scheduler.step()
    for member, seed, lr in zip(ensemble, (7, 8), rates, strict=True):
        alone = member_alone(seed, SCHEDULERS[name], lr)
        for found, expected in zip(member.parameters(), alone.parameters(), strict=True):
            assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("step", [{"step_size": 0.3, "friction": 1.0}, {"lr": 0.1}])
def test_a_setting_leaves_the_schedule_of_another_alone(step):
    ensemble = cl.Ensemble(network, range(2), RULES, **step)
    groups = ensemble.optimizer.param_groups
    before = [group["lr"] for group in groups]
    scheduler = lr_scheduler.ExponentialLR(ensemble.optimizer, 0.5)
    ensemble.epoch(mse, POINTS, TARGETS, batch_size=4)
    scheduler.step()
    ensemble.set(temperature=0.5)
    assert [group["lr"] for group in groups] == [lr * 0.5 for lr in before]
    assert {group["temperature"] for group in groups} == {0.5}
    ensemble.set(**step)
    assert [group["lr"] for group in groups] == before


def test_an_lr_of_zero_stays_and_the_members_rest():
    ensemble = cl.Ensemble(network, range(2), RULES, **SETTINGS)
    scheduler = lr_scheduler.LambdaLR(ensemble.optimizer, lambda epoch: float(epoch < 1))
    ensemble.epoch(mse, POINTS, TARGETS, batch_size=4)
    scheduler.step()
    ensemble.set(temperature=1.0)
    before = ensemble.parameters["0.weight"].clone()
    ensemble.epoch(mse, POINTS, TARGETS, batch_size=4)
    assert torch.equal(ensemble.parameters["0.weight"], before)


def test_fit_steps_schedulers_after_every_epoch_and_resumes_them(tmp_path):
    path = tmp_path / "run.pt"

    def make():
        ensemble = cl.Ensemble(network, range(2), RULES, **SETTINGS)
        plateau = lr_scheduler.ReduceLROnPlateau(ensemble.optimizer, factor=0.9, patience=0)
        heat = cl.TemperatureScheduler(ensemble.optimizer, cl.annealing(8, shape="linear"))
        return ensemble, [plateau, heat]

    def fit(epochs, **more):
        ensemble, schedulers = make()
        data = {"batch_size": 4, "schedulers": schedulers}
        history = ensemble.fit(mse, POINTS, TARGETS, epochs=epochs, **data, **more)
        return ensemble, history

    whole, expected = fit(6)
    fit(3, checkpoint=path)
    resumed, found = fit(6, checkpoint=path)
    assert torch.equal(found["loss"], expected["loss"])
    assert whole.optimizer.param_groups[0]["temperature"] == pytest.approx(1e-2 * 2 / 8)
    assert whole.optimizer.param_groups[0]["lr"] < 0.1, "the loss went up at some time"
    for name, tensor in whole.parameters.items():
        assert torch.equal(tensor, resumed.parameters[name])
    with pytest.raises(ValueError, match="has 2 schedulers, got 0"):
        make()[0].fit(mse, POINTS, TARGETS, epochs=7, batch_size=4, checkpoint=path)


def test_members_that_go_leave_the_schedules_of_the_others():
    rates = [0.01, 1e30, 0.02]
    ensemble = cl.Ensemble(network, range(3), lr=rates)
    scheduler = lr_scheduler.ExponentialLR(ensemble.optimizer, 0.5)
    with pytest.warns(cl.DivergenceWarning):
        ensemble.fit(mse, POINTS, TARGETS, epochs=4, batch_size=4, schedulers=scheduler)
    assert ensemble.active == [0, 2]
    assert scheduler.get_last_lr()[::2] == [0.01 / 16, 0.02 / 16]
    alone = cl.Ensemble(network, [2], lr=0.02)
    scheduler = lr_scheduler.ExponentialLR(alone.optimizer, 0.5)
    alone.fit(mse, POINTS, TARGETS, epochs=4, batch_size=4, schedulers=[scheduler])
    for found, expected in zip(ensemble[2].parameters(), alone[0].parameters(), strict=True):
        assert torch.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("lr", -1.0, "lr must"),
        ("lr", torch.tensor([0.1, 0.2]), "lr must"),
        ("temperature", math.nan, "temperature must"),
        ("momentum", 0.0, "overdamped to underdamped"),
    ],
)
def test_what_a_scheduler_must_not_write(name, value, words):
    ensemble = cl.Ensemble(network, range(2), RULES, **SETTINGS)
    groups = ensemble.optimizer.param_groups
    before = ensemble.parameters["0.weight"].clone()
    for group in groups:
        group[name] = value
    for _ in range(2):  # not only once
        with pytest.raises((ValueError, TypeError), match=words):
            ensemble.epoch(mse, POINTS, TARGETS, batch_size=4)
    assert torch.equal(ensemble.parameters["0.weight"], before)
    for group in groups:
        group[name] = SETTINGS[name]
    ensemble.epoch(mse, POINTS, TARGETS, batch_size=4)


def test_settings_may_be_written_by_update():
    ensemble = cl.Ensemble(network, range(2), RULES, **SETTINGS)
    groups = ensemble.optimizer.param_groups
    ensemble.epoch(mse, POINTS, TARGETS, batch_size=4)
    before = ensemble.parameters["0.weight"].clone()
    for group in groups:
        group.update(lr=0.0, temperature=0.0)
    ensemble.epoch(mse, POINTS, TARGETS, batch_size=4)
    assert torch.equal(ensemble.parameters["0.weight"], before)


def test_no_scheduler_is_refused():
    ensemble = cl.Ensemble(network, range(2), lr=0.1)
    with pytest.raises(TypeError, match="schedulers must be schedulers of torch, got 3"):
        ensemble.fit(mse, POINTS, TARGETS, epochs=1, batch_size=4, schedulers=3)
    with pytest.raises(ValueError, match="give lr"):
        _ = cl.Ensemble(network, range(2)).optimizer
