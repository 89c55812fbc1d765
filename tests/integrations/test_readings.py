"""The numbers to watch, and where they go."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from torch.utils.tensorboard import SummaryWriter

import colangevin as cl
from colangevin.integrations import readings, release, to_logging, to_tensorboard, watch
from integrations.small import KINDS, multirate_for, network, optimizer_for, train


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_those_of_the_optimizer(kind: str) -> None:
    model = network()
    optimizer = optimizer_for(
        model, KINDS[kind], step_size=0.1, friction=2.0, lr=None, momentum=None
    )
    assert not any(name.startswith("kinetic") for name in readings(optimizer))  # not yet moved
    train(model, optimizer, 3)
    found = readings(optimizer)
    name = "0.weight"
    assert found[f"temperature/{name}"] == 1e-4
    assert found[f"friction/{name}"] == 2.0
    assert found[f"kinetic_temperature/{name}"] == cl.kinetic_temperature(optimizer)[0]
    residual = optimizer.violation()[0].residual
    assert found.get(f"violation/{name}") == (None if KINDS[kind] is None else residual)


def test_friction_from_momentum_and_of_adaptive_thermostats() -> None:
    weight = nn.Parameter(torch.ones(3))
    lr, momentum = 0.04, 0.9
    found = readings(cl.CoLA([weight], lr=lr, momentum=momentum))
    assert math.exp(-found["friction/group0"] * math.sqrt(lr)) == pytest.approx(momentum)
    assert "friction/group0" not in readings(cl.CoLA([weight], lr=lr))  # overdamped
    adaptive = cl.AdaptiveLangevin([weight], step_size=0.1, temperature=1e-3)
    for _ in range(3):
        weight.grad = torch.ones(3)
        adaptive.step()
    assert list(readings(adaptive)).count("friction/all") <= 1
    (number,) = [v for k, v in readings(adaptive).items() if k.startswith("friction/")]
    assert number == cl.friction_variable(adaptive)[0] != 0.0


def test_names_are_plain_and_differ() -> None:
    model = network()
    optimizer = cl.CoLA(cl.parameter_groups(model, {"*.weight": cl.Circle(1.0)}), lr=0.1)
    optimizer.param_groups[1]["name"] = "*.weight"
    names = {name.partition("/")[2] for name in readings(optimizer)}
    assert names == {"_.weight", "_.weight.1"}


def test_parts_of_multirate_and_release() -> None:
    model = network()
    optimizer = multirate_for(model)
    train(model, optimizer, 2)
    assert {"violation/slow.weight", "temperature/fast.group0"} <= set(readings(optimizer))
    assert not model[0].weight.requires_grad
    release(optimizer)
    assert model[0].weight.requires_grad


def test_what_cannot_be_read_is_refused() -> None:
    sgd = torch.optim.SGD(network().parameters(), lr=0.1)
    with pytest.raises(TypeError, match="must be a CoLA or a Multirate of them, got SGD"):
        readings(sgd)
    with pytest.raises(TypeError, match="got SGD"):
        watch(sgd, to_logging())
    optimizer = optimizer_for(network())
    with pytest.raises(TypeError, match="sink must be a function"):
        watch(optimizer, "runs")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="every must be at least 1, got 0"):
        watch(optimizer, to_logging(), every=0)


def test_watching_counts_on_after_a_resumption() -> None:
    seen: list[int] = []

    def sink(numbers: Any, step: int) -> None:
        assert "violation/0.weight" in numbers
        seen.append(step)

    model = network()
    optimizer = optimizer_for(model, cl.Orthogonal())
    handle = watch(optimizer, sink, every=4)
    train(model, optimizer, 6)
    again = optimizer_for(model, cl.Orthogonal())
    again.load_state_dict(optimizer.state_dict())
    watch(again, sink, every=4)
    train(model, again, 6)
    assert seen == [4, 8, 12]
    handle.remove()
    train(model, optimizer, 8)
    assert seen == [4, 8, 12]


def test_sinks_get_the_same_numbers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seen: dict[str, float] = {}
    model = network()
    optimizer = optimizer_for(model, cl.Orthogonal())
    watch(optimizer, lambda numbers, step: seen.update(numbers), every=5)
    writer = SummaryWriter(str(tmp_path))
    watch(optimizer, to_tensorboard(writer), every=5)
    watch(optimizer, to_logging("a.logger", logging.WARNING), every=5)
    train(model, optimizer, 5)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "a.logger"]
    assert line.startswith("step 5: violation/0.weight ")
    assert f"temperature/0.weight {seen['temperature/0.weight']:.3g}" in line
    writer.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    found = {name: events.Scalars(name) for name in events.Tags()["scalars"]}
    assert {name: [event.step for event in each] for name, each in found.items()} == {
        name: [5] for name in seen
    }
    for name, each in found.items():
        assert each[0].value == pytest.approx(seen[name])
    assert callable(to_tensorboard(tmp_path / "another"))  # a folder will do
