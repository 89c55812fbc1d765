"""A step takes the works of the last one only while nothing has changed."""

import gc
import weakref

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.native import load


def repeats_cleared(optimizer: cl.CoLA) -> None:
    for plan in optimizer._plans.values():
        plan.leave(optimizer._marks)


def run(change, clear: bool, **options) -> list[float]:
    """Eight steps with a change after four, with and without the works of the last step."""
    weight = nn.Parameter(torch.full((3,), 0.3))
    optimizer = cl.CoLA([weight], lr=0.1, momentum=0.5, seed=1, **options)
    for step in range(8):
        if step == 4:
            change(optimizer, weight)
        if clear:
            repeats_cleared(optimizer)
        weight.grad = weight.detach().clone()
        optimizer.step()
    return [float(x) for x in weight.detach().double()]


def set_option(name, value):
    def change(optimizer, weight):
        optimizer.param_groups[0][name] = value

    return change


def drop_momentum(optimizer, weight):
    optimizer.state[weight].pop("momentum_buffer")


def other_dtype(optimizer, weight):
    weight.data = weight.data.double()


def other_memory(optimizer, weight):
    weight.data = weight.data.clone() * 0.5


def written(optimizer, weight):
    with torch.no_grad():
        weight.mul_(0.5)


CHANGES = {
    "lr": set_option("lr", 0.01),
    "momentum": set_option("momentum", 0.9),
    "temperature": set_option("temperature", 0.01),
    "weight decay": set_option("weight_decay", 0.5),
    "scheme": set_option("scheme", "BAOAB"),
    "seed": set_option("seed", 7),
    "constraint": set_option("constraint", cl.Circle(2.0)),
    "momentum dropped": drop_momentum,
    "dtype": other_dtype,
    "memory": other_memory,
    "written": written,
}


@pytest.mark.parametrize("fused", [None, False])
@pytest.mark.parametrize("constraint", [None, cl.Circle(1.0)], ids=["free", "circle"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed(name: str, constraint, fused) -> None:
    options = {"constraint": constraint, "fused": fused, "scheme": "BAOAB", "temperature": 1e-3}
    found, right, plain = (
        run(CHANGES[name], False, **options),
        run(CHANGES[name], True, **options),
        run(lambda *_: None, False, **options),
    )
    assert found == right
    if name != "scheme":  # it is BAOAB from the beginning
        assert found != plain


FLAGS = {
    "maximize": (False, True),
    "nesterov": (False, True),
    "thermostat": (None, "adaptive"),
    "driving_noise": (None, 3.0),
    "coupling": (None, 0.1),
    "mass": (None, 2.0),
}


@pytest.mark.parametrize("fused", [None, False])
@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("name", FLAGS)
def test_what_has_no_effect_is_refused_at_any_step(name: str, steps: int, fused) -> None:
    """Options that a repeated step does not read were ignored there without a word."""
    weight = nn.Parameter(torch.zeros(2))
    optimizer = cl.CoLA([weight], lr=0.1, momentum=0.5, fused=fused)
    neutral, written = FLAGS[name]
    if neutral is not None:
        optimizer.param_groups[0][name] = neutral
    for _ in range(steps):
        weight.grad = torch.ones(2)
        optimizer.step()
    before = weight.detach().clone()
    optimizer.param_groups[0][name] = written
    weight.grad = torch.ones(2)
    with pytest.raises(ValueError, match=name):
        optimizer.step()
    assert torch.equal(weight, before)


SCHEDULES = {
    "lr": lambda step: 0.1 / (step + 1),
    "momentum": lambda step: 0.5 + 0.04 * step,
    "temperature": lambda step: 1e-3 * (step % 3),
    "weight_decay": lambda step: 0.1 * step,
}


@pytest.mark.parametrize("tensor", [False, True], ids=["number", "tensor"])
@pytest.mark.parametrize("fused", [None, False])
@pytest.mark.parametrize(
    "constraint",
    [None, cl.Circle(1.0), cl.Sphere(2.0), cl.Orthogonal()],
    ids=["free", "circle", "sphere", "orthogonal"],
)
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_changes_the_numbers_of_the_same_works(name, constraint, fused, tensor) -> None:
    """With a schedule every step took the slow route, since lr was part of the key."""
    found = []
    for clear in (False, True):
        torch.manual_seed(0)
        weight = nn.Parameter(0.3 * torch.randn(4, 3))
        options = {"lr": 0.1, "momentum": 0.5, "temperature": 1e-4, "seed": 1, "fused": fused}
        optimizer = cl.CoLA([weight], constraint=constraint, **options)
        group, held = optimizer.param_groups[0], torch.tensor(0.1)
        for step in range(10):
            number = SCHEDULES[name](step)
            held.fill_(number)
            group[name] = held if tensor else number
            kept = optimizer._plans.get(0)
            if clear:
                repeats_cleared(optimizer)
            weight.grad = weight.detach().clone()
            optimizer.step()
            assert clear or step < 3 or optimizer._plans[0] is kept
        found.append(weight.detach().clone())
    assert torch.equal(*found)


@pytest.mark.parametrize("fused", [None, False])
@pytest.mark.parametrize("name, value", [("lr", -1.0), ("momentum", 2.0), ("temperature", "hot")])
def test_a_wrong_number_is_refused_in_a_repeated_step(name, value, fused) -> None:
    weights = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))]
    groups = [{"params": [weight]} for weight in weights]
    optimizer = cl.CoLA(groups, lr=0.1, momentum=0.5, fused=fused)
    for _ in range(4):
        for weight in weights:
            weight.grad = torch.ones(2)
        optimizer.step()
    before = [weight.detach().clone() for weight in weights]
    optimizer.param_groups[1][name] = value
    with pytest.raises((ValueError, TypeError), match=name):
        optimizer.step()
    assert all(torch.equal(weight, old) for weight, old in zip(weights, before, strict=True))


def test_a_stretch_is_not_repeated_as_a_whole_step() -> None:
    fast, slow = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    inner = cl.CoLA([slow], lr=0.1, momentum=0.5, seed=1)
    outer = cl.Multirate(torch.optim.SGD([fast], lr=0.1), inner, period=4)
    for _ in range(8):
        fast.grad, slow.grad = torch.ones(3), torch.ones(3)
        outer.step()
    outer.release()
    before = float(slow[0])
    slow.grad = torch.ones(3)
    inner.step()
    assert before - float(slow[0]) == pytest.approx(0.1 * (1 + 0.5 * (1 + 0.5)), rel=1e-5)


def test_gradients_are_not_kept() -> None:
    weight = nn.Parameter(torch.ones(100))
    optimizer = cl.CoLA([weight], lr=0.1, momentum=0.9)
    for _ in range(4):
        weight.grad = torch.ones(100)
        optimizer.step()
    kept: weakref.ref[Tensor] = weakref.ref(weight.grad)
    optimizer.zero_grad()
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("old", [None, cl.Circle(1.0)], ids=["free", "circle"])
@pytest.mark.parametrize("new", [cl.Circle(2.0), cl.Orthogonal(), cl.Unconstrained()])
def test_a_replaced_constraint_may_be_looked_at_before_the_step(old, new) -> None:
    """``violation()`` and a step agree on it, whichever comes first."""
    found = []
    for look in (False, True):
        torch.manual_seed(0)
        weight = nn.Parameter(0.3 * torch.randn(4, 2))
        optimizer = cl.CoLA([weight], lr=0.1, momentum=0.9, constraint=old)
        for step in range(5):
            if step == 3:
                optimizer.param_groups[0]["constraint"] = new
                if look:
                    optimizer.violation()
            weight.grad = weight.detach() + 1.0
            optimizer.step()
        found.append(weight.detach().clone())
        assert optimizer.violation()[0].residual < 1e-5
    assert torch.equal(*found)


@pytest.mark.skipif(load() is None, reason="only kernels repeat a step by themselves")
def test_a_plan_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = [nn.Parameter(torch.full((3,), 0.3)) for _ in range(2)]
    groups = [{"params": weights[:1], "constraint": cl.Circle(1.0)}, {"params": weights[1:]}]
    optimizer = cl.CoLA(groups, lr=0.1, momentum=0.5)
    planned = []
    new_plan = optimizer._new_plan
    monkeypatch.setattr(
        optimizer, "_new_plan", lambda *given: planned.append(given) or new_plan(*given)
    )
    for step in range(6):
        for weight in weights:
            weight.grad = torch.ones(3) if step != 4 else torch.ones(6)[::2]
        optimizer.step()
        if step == 3:
            assert len(planned) == 2  # one for each group
    assert len(planned) == 2  # a gradient may lie in another way
    assert [int(optimizer.state[weight]["step"]) for weight in weights] == [6, 6]


@pytest.mark.skipif(load() is None, reason="matrices lie in columns for kernels only")
def test_gradients_column_by_column_and_back() -> None:
    found = []
    for turned in (False, True):
        weight = nn.Parameter(torch.full((3, 2), 0.3))
        optimizer = cl.CoLA([weight], lr=0.1, momentum=0.5, constraint=cl.Circle(1.0))
        for step in range(6):
            slope = torch.arange(6.0).view(3, 2) / 10
            lies = turned and step % 3 == 2
            weight.grad = slope.t().contiguous().t() if lies else slope
            optimizer.step()
        found.append(weight.detach().clone())
    assert torch.equal(*found)
