"""Masses of free weights: what they change, what they leave, and where they are refused."""

import copy
import io
import math

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.diagnostics import kinetic_temperature
from colangevin.optimizers.step.layout import MOMENTUM

MASSES = torch.tensor([1.0, 4.0, 0.25])
WORDS = ["OBA", "ABO", "BAOAB", "AOAB"]


def stiff(weight):
    return (weight * weight * torch.tensor([1.0, 2.0, 3.0]).to(weight)).sum() / 2


def walk(weight, optimizer, steps=20, loss=stiff):
    for _ in range(steps):
        optimizer.zero_grad()
        loss(weight).backward()
        optimizer.step()
    return weight.detach().clone()


def started(**options):
    weight = nn.Parameter(torch.tensor([1.0, -2.0, 0.5]))
    return weight, cl.CoLA([weight], **{"lr": 0.01, "momentum": 0.9, "seed": 3, **options})


# --- what it is -----------------------------------------------------------------------------


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_mass_1_is_sgd(momentum):
    weight, optimizer = started(momentum=momentum, mass=1.0)
    other = nn.Parameter(torch.tensor([1.0, -2.0, 0.5]))
    sgd = torch.optim.SGD([other], lr=0.01, momentum=momentum)
    torch.testing.assert_close(walk(weight, optimizer), walk(other, sgd), rtol=0, atol=1e-7)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_one_mass_for_all_is_another_learning_rate(word, momentum):
    options = {"scheme": word, "momentum": momentum, "temperature": 0.5}
    heavy = walk(*started(mass=4.0, **options))
    slow = walk(*started(lr=0.01 / 4.0, **options))
    torch.testing.assert_close(heavy, slow, rtol=0, atol=2e-6)
    assert not torch.allclose(heavy, walk(*started(**options)), atol=1e-2)


def test_a_tensor_of_equal_masses_is_the_number():
    options = {"temperature": 0.5, "scheme": "BAOAB"}
    one = walk(*started(mass=4.0, **options))
    same = walk(*started(mass=torch.full((3,), 4.0), **options))
    torch.testing.assert_close(one, same, rtol=0, atol=1e-6)


def test_each_weight_moves_as_with_a_learning_rate_of_its_own():
    found = walk(*started(mass=MASSES))
    for index, mass in enumerate(MASSES.tolist()):
        alone = walk(*started(lr=0.01 / mass))
        torch.testing.assert_close(found[index], alone[index], rtol=0, atol=1e-6)


def oscillator(h, word, mass, stiffness, temperature=0.7):
    """E q² and E p² of the scheme on U = kq²/2, exactly: a step is linear in state and noise."""
    from colangevin.integrators import Dynamics, advance, parse

    geometry = cl.Massive(mass)
    moves = Dynamics(h * h, math.exp(-h), temperature, parse(word)).actions(first=False)

    def step(q, v, noise):
        state = cl.State(torch.tensor([q]).double(), torch.tensor([v]).double())
        rest = iter([noise])
        draw = lambda like: torch.full_like(like, next(rest))  # noqa: E731
        new = advance(geometry, state, stiffness * state.position, moves, draw)
        return torch.cat([new.position, new.momentum])

    matrix = torch.stack([step(1.0, 0.0, 0.0), step(0.0, 1.0, 0.0)], dim=1)
    noise = step(0.0, 0.0, 1.0)[:, None]
    # S = A S Aᵀ + B Bᵀ, as a linear system for the entries of S.
    both = torch.kron(matrix, matrix)
    flat = torch.linalg.solve(torch.eye(4).double() - both, (noise @ noise.T).reshape(4))
    found = flat.reshape(2, 2)
    return float(found[0, 0]), float(found[1, 1]) * h * h


@pytest.mark.parametrize(("word", "order"), [("OBA", 1), ("ABO", 1)])
def test_the_bias_falls_with_the_order_of_the_scheme(word, order):
    mass, stiffness, temperature = 5.0, 3.0, 0.7
    errors = [
        abs(oscillator(h, word, mass, stiffness)[0] - temperature / stiffness) for h in (0.1, 0.05)
    ]
    assert errors[0] < 0.1 * temperature / stiffness
    rate = math.log2(errors[0] / errors[1])
    assert rate > order - 0.2
    _, square = oscillator(0.001, word, mass, stiffness)
    assert square == pytest.approx(temperature * mass, rel=2e-3)


def test_baoab_has_no_bias_in_the_positions():
    for mass in (0.2, 1.0, 5.0):
        square, _ = oscillator(0.3, "BAOAB", mass, 3.0)
        assert square == pytest.approx(0.7 / 3.0, rel=1e-12)


@pytest.mark.statistical
def test_the_kinetic_temperature_counts_the_masses():
    weight = nn.Parameter(torch.zeros(4000))
    masses = torch.linspace(0.1, 10.0, 4000)
    optimizer = cl.CoLA(
        [weight], step_size=0.05, friction=1.0, temperature=0.3, seed=1, mass=masses
    )
    found = []
    for step in range(300):
        walk(weight, optimizer, 1, lambda w: (w * w).sum() / 2)
        if step >= 100:
            found.append(kinetic_temperature(optimizer)[0])
    mean = sum(found) / len(found)
    # 4,000 weights with a correlation time of 20 steps: 0.3 √(2/4000/10) = 0.002
    assert mean == pytest.approx(0.3, abs=0.02)


@pytest.mark.statistical
def test_the_adaptive_thermostat_holds_the_temperature_of_all_masses():
    weight = nn.Parameter(torch.zeros(2000))
    masses = torch.cat([torch.full((1000,), 0.25), torch.full((1000,), 4.0)])
    optimizer = cl.CoLA(
        [weight], step_size=0.1, temperature=0.3, thermostat="adaptive", seed=1, mass=masses
    )
    optimizer.param_groups[0]["driving_noise"] = 0.5
    squares = []
    for step in range(1500):
        walk(weight, optimizer, 1, lambda w: (w * w).sum() / 2)
        if step >= 500:
            squares.append(weight.detach().square().view(2, -1).mean(dim=1))
    light, heavy = torch.stack(squares).mean(dim=0).tolist()
    assert light == pytest.approx(0.3, rel=0.1)
    assert heavy == pytest.approx(0.3, rel=0.1)


# --- the routes -----------------------------------------------------------------------------


def test_the_kernels_leave_groups_with_a_mass_alone():
    weight, other = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    optimizer = cl.CoLA([{"params": [weight], "mass": MASSES}, {"params": [other]}], lr=0.1)
    other.grad, weight.grad = torch.ones(3), torch.ones(3)
    optimizer.step()
    assert optimizer._plans[0].buckets[0].kernel is None


def test_a_large_weight_moves_in_blocks_as_a_small_one():
    weight = nn.Parameter(torch.ones(200_000))
    optimizer = cl.CoLA([weight], lr=0.01, momentum=0.9, temperature=0.1, seed=1, mass=4.0)
    other = nn.Parameter(torch.ones(200_000))
    slow = cl.CoLA([other], lr=0.0025, momentum=0.9, temperature=0.1, seed=1)
    quadratic = lambda w: (w * w).sum() / 2  # noqa: E731
    one, two = walk(weight, optimizer, 3, quadratic), walk(other, slow, 3, quadratic)
    torch.testing.assert_close(one, two, rtol=0, atol=1e-5)


@pytest.mark.parametrize("mass", [2.0, MASSES])
def test_saved_and_resumed(mass):
    weight, optimizer = started(mass=mass, temperature=0.1)
    walk(weight, optimizer, 5)
    file = io.BytesIO()
    torch.save({"weight": weight.detach(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again, other = started(mass=mass, temperature=0.1)
    again.data.copy_(saved["weight"])
    other.load_state_dict(saved["optimizer"])
    assert torch.equal(walk(weight, optimizer, 5), walk(again, other, 5))
    _, unlike = started(mass=3.0, temperature=0.1)
    with pytest.raises(ValueError, match="constraint"):
        unlike.load_state_dict(saved["optimizer"])
    twin = copy.deepcopy(optimizer)
    assert twin.param_groups[0]["constraint"].describe().keys() == {"kind", "mass"}


def test_a_scheduler_and_a_new_group():
    weight, optimizer = started(mass=MASSES)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    extra = nn.Parameter(torch.ones(2, 3))
    optimizer.add_param_group({"params": [extra], "mass": torch.tensor([[1.0], [9.0]])})
    before = extra.detach().clone()
    extra.grad = torch.ones(2, 3)
    walk(weight, optimizer, 1)
    extra.grad = torch.ones(2, 3)
    optimizer.step()
    schedule.step()
    moved = before - extra.detach()
    torch.testing.assert_close(moved[0], 9 * moved[1])
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.005)


def test_half_precision_and_float64():
    for dtype in (torch.bfloat16, torch.float64):
        weight = nn.Parameter(torch.ones(3, dtype=dtype))
        optimizer = cl.CoLA([weight], lr=0.1, momentum=0.5, mass=MASSES)
        weight.grad = torch.ones_like(weight)
        optimizer.step()
        expected = 1.0 - 0.1 / MASSES.to(torch.float64)
        torch.testing.assert_close(weight.detach().double(), expected, rtol=0, atol=4e-3)


def linear(seed):
    torch.manual_seed(seed)
    return nn.Linear(3, 1, bias=False)


def trained(**options):
    def method(model):
        return cl.CoLA(model.parameters(), momentum=0.9, **options)

    ensemble = cl.Ensemble(linear, [0, 1], method=method)
    generator = torch.Generator().manual_seed(0)
    inputs, targets = (torch.randn(8, n, generator=generator) for n in (3, 1))
    for _ in range(4):
        ensemble.step(nn.functional.mse_loss, inputs, targets, shared=True)
    return ensemble.parameters["weight"].detach(), (inputs, targets)


def test_an_ensemble_moves_as_its_members_alone():
    found, (inputs, targets) = trained(lr=0.1, mass=MASSES)
    for index, seed in enumerate([0, 1]):
        model = linear(seed)
        alone = cl.CoLA(model.parameters(), lr=0.1, momentum=0.9, mass=MASSES)
        for _ in range(4):
            alone.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            alone.step()
        torch.testing.assert_close(found[index], model.weight.detach(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("mass", [4.0, torch.full((3,), 4.0)])
def test_the_noise_of_an_ensemble_with_masses(mass):
    heavy, _ = trained(lr=0.1, mass=mass, temperature=0.1)
    slow, _ = trained(lr=0.025, temperature=0.1)
    torch.testing.assert_close(heavy, slow, atol=1e-5, rtol=0)


def test_multirate_moves_a_slow_weight_as_with_another_learning_rate():
    def run(**slow):
        fast, weight = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
        parts = cl.CoLA([fast], lr=0.02, momentum=0.9), cl.CoLA([weight], momentum=0.9, **slow)
        optimizer = cl.Multirate(*parts, period=5)
        for _ in range(20):
            optimizer.zero_grad()
            (stiff(fast) + stiff(weight) + (fast * weight).sum()).backward()
            optimizer.step()
        return weight.detach()

    torch.testing.assert_close(run(lr=0.1, mass=4.0), run(lr=0.025), rtol=0, atol=1e-6)


def test_handed_over_momenta_stay():
    weight, optimizer = started(mass=4.0)
    walk(weight, optimizer, 3)
    target = cl.CoLA([weight], lr=0.01, momentum=0.9, mass=MASSES)
    cl.hand_over(optimizer, target)
    torch.testing.assert_close(target.state[weight][MOMENTUM], optimizer.state[weight][MOMENTUM])


# --- refused --------------------------------------------------------------------------------


@pytest.mark.parametrize("mass", [0.0, -1.0, math.nan, math.inf, torch.tensor([1.0, -1.0, 1.0])])
def test_masses_are_positive(mass):
    with pytest.raises(ValueError, match="mass must be"):
        started(mass=mass)


def test_masses_have_the_shape_of_the_weight():
    with pytest.raises(ValueError, match=r"mass of shape \(2,\) does not broadcast to \(3,\)"):
        started(mass=torch.ones(2))
    with pytest.raises(TypeError, match="mass"):
        started(mass="heavy")


def test_two_masses_are_not_equal():
    assert repr(cl.Massive(2.0)) == "Massive(mass=2.0)"
    assert cl.Massive(2.0) != cl.Massive(3.0)


def test_a_constraint_has_no_masses():
    with pytest.raises(ValueError, match="same as lr / m"):
        started(mass=2.0, constraint=cl.Circle(1.0))
    weight, other = nn.Parameter(torch.ones(3) / 2), nn.Parameter(torch.ones(3))
    bound = {"params": [weight], "constraint": cl.Circle(1.0)}
    with pytest.raises(ValueError, match="mass=None"):
        cl.CoLA([bound, {"params": [other]}], lr=0.1, mass=2.0)
    optimizer = cl.CoLA([{**bound, "mass": None}, {"params": [other]}], lr=0.1, mass=2.0)
    kinds = [type(group["constraint"]).__name__ for group in optimizer.param_groups]
    assert kinds == ["Circle", "Massive"]


def test_the_masses_of_a_rule_are_those_of_its_group():
    model = nn.Linear(3, 2)
    groups = cl.parameter_groups(model, {"weight": cl.Massive(4.0)})
    optimizer = cl.CoLA(groups, lr=0.1)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.step()
    moved = [b - p.detach() for b, p in zip(before, model.parameters(), strict=True)]
    assert float(moved[0].mean()) == pytest.approx(0.025)
    assert float(moved[1].mean()) == pytest.approx(0.1)
