"""Simulated tempering: its rungs, its weights, what it samples, and how it resumes."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.optimizers.step.layout import MOMENTUM, SLACK

LADDER = [0.1, 0.2, 0.4, 0.8]


def started(ladder=LADDER, start=0.0, options=None, **more):
    weight = nn.Parameter(torch.tensor([start], dtype=torch.float64))
    settings = {"step_size": 0.2, "friction": 1.0, "scheme": "BAOAB", "seed": 1}
    optimizer = cl.CoLA([weight], **{**settings, **(options or {})})
    return weight, optimizer, cl.SimulatedTempering(optimizer, ladder, **more)


def well(x):
    """Minima near −1 and 1, the first one deeper; a barrier of about 1."""
    return (x * x - 1.0) ** 2 + 0.1 * x


def slope(x):
    return 4.0 * x * (x * x - 1.0) + 0.1


def walk(weight, optimizer, tempering, steps):
    rungs, places = [], []
    for _ in range(steps):
        weight.grad = slope(weight.detach())
        optimizer.step()
        rungs.append(tempering.step(lambda: well(weight.detach())))
        places.append(float(weight.detach()))
    return np.array(rungs), np.array(places)


# --- the rungs ------------------------------------------------------------------------------


def test_the_rungs_have_their_probabilities_at_a_fixed_energy():
    weights = [0.0, -1.0, 0.5, 1.0]
    _, _, tempering = started(every=1, burn_in=0, log_weights=weights)
    energy = 0.3
    for _ in range(40_000):
        tempering.step(energy)
    logits = torch.tensor(weights) - energy / torch.tensor(LADDER)
    found = np.array(tempering.visits) / sum(tempering.visits)
    # The rungs forget within about ten proposals: 4 √(0.25 · 10 / 40,000)
    assert np.abs(found - logits.softmax(0).numpy()).max() < 0.03
    assert 0 < tempering.accepted < 40_000


def test_the_end_of_the_ladder_is_a_wall():
    _, _, tempering = started([0.1, 0.2], every=1, burn_in=0)
    seen = {tempering.step(0.0) for _ in range(200)}
    assert seen == {0, 1}


def test_momenta_are_rescaled_and_temperatures_set():
    weight, optimizer, tempering = started(every=1, burn_in=0)
    for _ in range(30):
        weight.grad = slope(weight.detach())
        optimizer.step()
        before, old = optimizer.state[weight][MOMENTUM].clone(), tempering.temperature
        tempering.step(0.0)
        factor = math.sqrt(tempering.temperature / old)
        torch.testing.assert_close(optimizer.state[weight][MOMENTUM], before * factor)
        assert optimizer.param_groups[0]["temperature"] == LADDER[tempering.rung]
    assert tempering.accepted > 3


def test_the_weight_decay_belongs_to_the_energy():
    options = {"weight_decay": 2.0}
    _, _, plain = started(start=3.0, every=1, burn_in=0, log_weights=[0, 50, 100, 150])
    _, _, heavy = started(start=3.0, options=options, every=1, burn_in=0)
    heavy.log_weights = list(plain.log_weights)
    same = [plain.step(9.0) == heavy.step(0.0) for _ in range(100)]
    assert all(same)


def test_a_loss_is_evaluated_for_proposals_only():
    calls = []
    _, _, tempering = started(every=5, burn_in=0)
    for _ in range(20):
        tempering.step(lambda: calls.append(1) or 0.0)
    assert len(calls) == tempering.moves == 4


def test_constrained_weights_stay_on_their_constraint():
    weight = nn.Parameter(torch.tensor([0.5, -0.2]))
    circle = cl.Circle(1.0)
    optimizer = cl.CoLA([weight], lr=0.01, momentum=0.9, constraint=circle, seed=1)
    tempering = cl.SimulatedTempering(optimizer, [0.1, 0.3], every=2, burn_in=10)
    for _ in range(100):
        weight.grad = weight.detach().clone()
        optimizer.step()
        tempering.step(float(weight.detach().square().sum()) / 2)
    slack = optimizer.state[weight][SLACK].cos()
    torch.testing.assert_close(weight.detach() ** 2 + slack**2, torch.ones(2), atol=1e-5, rtol=0)


# --- what it samples ------------------------------------------------------------------------


def masses(temperature):
    """Of the two wells, and E x², by quadrature."""
    x = np.linspace(-3.0, 3.0, 20_001)
    density = np.exp(-well(x) / temperature)
    return density[x < 0].sum() / density.sum(), (x * x * density).sum() / density.sum()


def batch_error(values, batches=20):
    means = np.array([part.mean() for part in np.array_split(values, batches)])
    return means.std(ddof=1) / math.sqrt(batches)


@pytest.mark.statistical
def test_a_double_well_has_its_masses_at_the_lowest_temperature():
    ladder = [0.07, 0.12, 0.22, 0.4]  # a barrier of 14 τ at the lowest rung
    weight, optimizer, tempering = started(ladder, start=1.0, every=4, burn_in=2500, seed=3)
    walk(weight, optimizer, tempering, 10_000)
    assert not tempering.adapting
    rungs, places = walk(weight, optimizer, tempering, 60_000)
    shares = np.bincount(rungs, minlength=4) / len(rungs)
    assert shares.min() > 0.1 and shares.max() < 0.45  # a fourth each, as g was learnt
    # Steps in which the rung is another are left out by a ratio of two means.
    lowest, left = (rungs == 0).astype(float), (rungs == 0) * (places < 0)
    exact, square = masses(ladder[0])
    assert 0.9 < exact < 0.98  # the shallow well has a mass that counts
    found = left.sum() / lowest.sum()
    error = batch_error(left - exact * lowest) / lowest.mean()
    assert error < 0.06
    assert abs(found - exact) < 4.0 * error
    spread = (rungs == 0) * (places**2 - square)
    assert abs(spread.mean()) < 4.0 * batch_error(spread) + 0.01 * lowest.mean()
    crossings = np.count_nonzero(np.diff(places[rungs == 0] < 0))
    assert crossings > 20


@pytest.mark.statistical
def test_without_the_ladder_it_stays_in_its_well():
    weight, optimizer, _ = started([0.07, 0.12], start=1.0, every=10**9)
    places = []
    for _ in range(20_000):
        weight.grad = slope(weight.detach())
        optimizer.step()
        places.append(float(weight.detach()))
    assert min(places) > 0.0


@pytest.mark.statistical
def test_the_burn_in_learns_the_free_energies():
    """For U = x²/2 in n dimensions exp(−g) is the partition function: g_k = −(n/2) log τ_k."""
    count = 20
    weight = nn.Parameter(torch.zeros(count, dtype=torch.float64))
    optimizer = cl.CoLA([weight], step_size=0.3, friction=1.0, scheme="BAOAB", seed=2)
    tempering = cl.SimulatedTempering(optimizer, [0.5, 0.8, 1.3], every=3, burn_in=3000)
    for _ in range(9000):
        weight.grad = weight.detach().clone()
        optimizer.step()
        tempering.step(float(weight.detach().square().sum()) / 2)
    exact = [-count / 2 * math.log(tau / 0.5) for tau in tempering.temperatures]
    assert tempering.log_weights == pytest.approx(exact, abs=0.4)


# --- resumed --------------------------------------------------------------------------------


def test_it_follows_from_the_seed_and_resumes():
    one, two = started(every=2, burn_in=20, seed=5), started(every=2, burn_in=20, seed=5)
    other = started(every=2, burn_in=20, seed=6)
    rungs, places = walk(*one, 200)
    again, _ = walk(*two, 100)
    saved = copy.deepcopy([two[1].state_dict(), two[2].state_dict(), two[0].detach()])
    weight, optimizer, tempering = started(every=2, burn_in=20, seed=5)
    weight.data.copy_(saved[2])
    optimizer.load_state_dict(saved[0])
    tempering.load_state_dict(saved[1])
    rest, later = walk(weight, optimizer, tempering, 100)
    assert np.array_equal(np.concatenate([again, rest]), rungs)
    assert np.array_equal(later, places[100:])
    assert not np.array_equal(walk(*other, 200)[0], rungs)


def test_state_dicts_of_others_are_refused():
    _, optimizer, tempering = started()
    saved = tempering.state_dict()
    with pytest.raises(ValueError, match="no rung"):
        tempering.load_state_dict({})
    with pytest.raises(ValueError, match="temperatures"):
        cl.SimulatedTempering(optimizer, [0.1, 0.5]).load_state_dict(saved)
    with pytest.raises(ValueError, match="rung"):
        tempering.load_state_dict({**saved, "rung": 9})
    assert tempering.rung == 0


@pytest.mark.parametrize(
    ("ladder", "more", "message"),
    [
        ([0.1], {}, "at least two"),
        ([0.2, 0.1], {}, "ascending"),
        ([0.0, 0.1], {}, "temperatures must be"),
        (LADDER, {"every": 0}, "every"),
        (LADDER, {"burn_in": -1}, "burn_in"),
        (LADDER, {"log_weights": [0.0]}, "log_weights must be 4"),
        (LADDER, {"seed": -1}, "seed"),
    ],
)
def test_bad_input(ladder, more, message):
    with pytest.raises(ValueError, match=message):
        started(ladder, **more)


def test_a_loss_that_is_no_number_changes_nothing():
    _, _, tempering = started(every=1)
    for bad in (math.nan, math.inf, torch.tensor(math.nan)):
        with pytest.raises(ValueError, match="loss"):
            tempering.step(bad)
    assert tempering.moves == tempering.steps == 0


def test_other_optimizers_are_refused():
    weight = nn.Parameter(torch.zeros(1))
    with pytest.raises(TypeError, match="CoLA"):
        cl.SimulatedTempering(torch.optim.SGD([weight], lr=0.1), LADDER)
    adaptive = cl.CoLA([weight], lr=0.1, thermostat="adaptive")
    with pytest.raises(ValueError, match="langevin"):
        cl.SimulatedTempering(adaptive, LADDER)
