"""SubsetMultirate: section 5.5.1, and how it lives with training loops."""

import copy
import io
import pickle

import pytest
import torch

import colangevin as cl
import reference_multirate as reference
from colangevin.random import key_of, uniforms

SIZE = 12


def problem(steps=200):
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(SIZE, SIZE, generator=generator, dtype=torch.float64)
    batches = torch.randn(steps, SIZE, generator=generator, dtype=torch.float64)
    start = torch.randn(SIZE, generator=generator, dtype=torch.float64)

    def loss(theta, step):
        return (matrix @ (theta + 0.1 * batches[step])).cos().sum() + 0.05 * theta.square().sum()

    return loss, start


def make(weight, **settings):
    return cl.SubsetMultirate([weight], lr=0.01, seed=5, **settings)


def run(optimizer, loss, weight, steps, first=0):
    trajectory = []
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss(weight, step).backward()
        optimizer.step()
        trajectory.append(weight.detach().clone())
    return trajectory


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("period", [1, 4])
def test_it_is_section_5_5_1(period, weight_decay, momentum):
    loss, start = problem()
    weight = torch.nn.Parameter(start.clone())
    optimizer = make(weight, momentum=momentum, weight_decay=weight_decay, period=period)
    cycles = 20
    ours = run(optimizer, loss, weight, 1 + cycles * (period + 1))
    seed = optimizer.state_dict()["param_groups"][0]["cycle"]["seed"]
    keys = [key_of(seed, 0, drawn) for drawn in range(cycles + 1)]
    subsets = list(uniforms(keys, SIZE) < 0.5)
    theirs = reference.subset_multirate(
        loss, start, subsets[:-1], 0.01, momentum, period, weight_decay
    )
    theirs[-1][subsets[-1]] = 0.0  # the last step has put the next subset to sleep
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("period", [1, 3])
def test_without_the_waking_step_other_weights_sleep_every_time(period, momentum):
    loss, start = problem()
    weight = torch.nn.Parameter(start.clone())
    optimizer = make(weight, momentum=momentum, period=period, waking_step=False)
    stretches, ours = 20, []
    for step in range(1 + stretches * period):
        run(optimizer, loss, weight, 1, step)
        if step % period == 0:
            with optimizer.full_weights():
                ours.append(weight.detach().clone())
    seed = optimizer.state_dict()["param_groups"][0]["cycle"]["seed"]
    subsets = list(uniforms([key_of(seed, 0, i) for i in range(stretches)], SIZE) < 0.5)
    theirs = reference.other_weights_every_time(loss, start, subsets, 0.01, momentum, period)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_without_the_waking_step_a_restored_subset_makes_a_plain_step():
    loss, start = problem()
    weight = torch.nn.Parameter(start.clone())
    optimizer = make(weight, probability=1.0, waking_step=False)
    run(optimizer, loss, weight, 1)
    optimizer.restore()
    before = weight.detach().clone()
    (gradient,) = torch.autograd.grad(loss(weight, 1), weight)
    run(optimizer, loss, weight, 1, 1)
    with optimizer.full_weights():
        torch.testing.assert_close(weight.detach(), before - 0.01 * gradient)


def test_without_subsets_it_is_sgd():
    loss, start = problem()
    weight, twin = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    ours = run(make(weight, momentum=0.9, probability=0.0, period=3), loss, weight, 30)
    sgd = torch.optim.SGD([twin], lr=0.01, momentum=0.9)
    for one, other in zip(ours, run(sgd, loss, twin, 30), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_groups_have_their_own_probability():
    model = torch.nn.Sequential(torch.nn.Linear(100, 50), torch.nn.ReLU(), torch.nn.Linear(50, 9))
    groups = cl.random_subsets(model, {"0.weight": 0.8, "2.weight": 0.5})
    optimizer = cl.SubsetMultirate(groups, lr=0.1, period=3)
    model(torch.randn(4, 100)).square().sum().backward()
    optimizer.step()
    shares = [float((p == 0).float().mean()) for p in model.parameters()]
    assert shares[0] == pytest.approx(0.8, abs=0.03)
    assert shares[2] == pytest.approx(0.5, abs=0.1)
    assert shares[1] == shares[3] == 0.0


def test_full_weights_are_there_for_evaluation_and_gone_afterwards():
    loss, start = problem()
    weight, twin = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    optimizer, other = make(weight, period=3), make(twin, period=3)
    run(optimizer, loss, weight, 6)
    run(other, loss, twin, 6)
    assert bool((weight == 0).any())
    with optimizer.full_weights():
        assert not bool((weight == 0).any())
    assert torch.equal(weight, twin)
    assert torch.equal(run(optimizer, loss, weight, 9, 6)[-1], run(other, loss, twin, 9, 6)[-1])
    optimizer.restore()
    optimizer.restore()
    assert not bool((weight == 0).any())


def test_weights_loaded_before_the_first_step_are_kept():
    loss, start = problem()
    weight = torch.nn.Parameter(start.clone())
    optimizer = make(weight)
    with torch.no_grad():
        weight.fill_(3.0)
    run(optimizer, loss, weight, 1)
    optimizer.restore()
    assert weight.min() > 2.5


@pytest.mark.parametrize("waking_step", [True, False])
@pytest.mark.parametrize("at", [1, 3, 5, 6])
def test_a_resumed_run_continues_exactly(at, waking_step):
    loss, start = problem()
    weight = torch.nn.Parameter(start.clone())
    optimizer = make(weight, momentum=0.9, period=4, waking_step=waking_step)
    run(optimizer, loss, weight, at)
    buffer = io.BytesIO()
    torch.save({"weight": weight.detach(), "optimizer": optimizer.state_dict()}, buffer)
    copies = [copy.deepcopy((weight, optimizer)), pickle.loads(pickle.dumps((weight, optimizer)))]
    last = run(optimizer, loss, weight, 20, at)[-1]
    buffer.seek(0)
    saved = torch.load(buffer, weights_only=True)
    resumed = torch.nn.Parameter(saved["weight"])
    other = cl.SubsetMultirate([resumed], lr=0.5, period=9)
    other.load_state_dict(saved["optimizer"])
    for twin, its in [(resumed, other), *copies]:
        assert torch.equal(run(its, loss, twin, 20, at)[-1], last)


def test_schedulers_and_closures():
    loss, start = problem()
    weight = torch.nn.Parameter(start.clone())
    optimizer = make(weight)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    def closure():
        optimizer.zero_grad()
        value = loss(weight, 0)
        value.backward()
        return value

    assert torch.equal(optimizer.step(closure), loss(torch.nn.Parameter(start), 0))
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.005


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"period": 0}, "period must be at least 1, got 0"),
        ({"probability": 1.5}, "probability must lie between 0 and 1, got 1.5"),
        ({"lr": -1.0}, "lr must be at least 0 and finite, got -1.0"),
        ({"momentum": 2.0}, "momentum must lie between 0 and 1, got 2.0"),
        ({"weight_decay": -1.0}, "weight_decay must be at least 0"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        cl.SubsetMultirate([torch.nn.Parameter(torch.ones(1))], **{"lr": 0.1, **options})


def test_a_bad_group_and_a_foreign_state_dict():
    weight = torch.nn.Parameter(torch.ones(1))
    with pytest.raises(ValueError, match=r"probability must lie between 0 and 1, got -0\.1"):
        cl.SubsetMultirate([{"params": [weight], "probability": -0.1}], lr=0.1)
    optimizer = cl.SubsetMultirate([weight], lr=0.1)
    with pytest.raises(ValueError, match="cycle of the state dict is missing"):
        optimizer.load_state_dict(torch.optim.SGD([weight]).state_dict())
    with pytest.raises(TypeError, match="waking_step must be True or False, got 1"):
        cl.SubsetMultirate([weight], lr=0.1, waking_step=1)
