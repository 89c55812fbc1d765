"""Steps with a large energy error are refused, and a warm-up with a test leads somewhere."""

import math

import pytest
import torch
from torch import Tensor

import colangevin as cl
from colangevin.sampling.chains import Chains, Dynamics
from colangevin.sampling.moves import Guard, Metropolis, Phase, refresh, turned, verlet
from colangevin.sampling.targets import target_of
from colangevin.sampling.warmup import WarmUp
from posteriors import point

SEEDS = [3, 4, 5]


def quartic(own: dict[str, Tensor]) -> Tensor:
    return own["q"].pow(4).sum()


def chains(start: float, potential, step_size: float) -> Chains:
    target = target_of(point(start), potential, None, None, SEEDS, 0, 0.1)
    return Chains(target, {}, SEEDS, Dynamics(step_size, 0.5, "BAOAB", [1.0] * 3, 0.0, False))


def test_errors_above_the_bound_are_refused_in_either_direction() -> None:
    """A refused chain stays; a move that is made can be made backwards with the same verdict."""
    moving = chains(0.5, quartic, 0.6)
    refresh(moving)
    tested, bound = Guard(moving, 0.4), 0.4
    verdicts = []
    for _ in range(60):
        tested.step()
        before = tested.weights()["q"].clone()
        accepted = tested.accepted.clone()
        tested.step()
        made = tested.accepted > accepted
        assert bool(((tested.weights()["q"] == before).squeeze(1) == ~made).all())
        verdicts += made.tolist()
    assert 0 < sum(verdicts) < len(verdicts)
    tested.write()
    parts = moving.parts()
    states = moving.states(parts, momentum=True)
    start = Phase(states, *moving.energies(parts, states))
    moved = verlet(moving, parts, start, 0.6)
    flags = [bool(change.abs() <= bound) for change in moved.change]
    assert Guard(moving, bound)._decide(moved).tolist() == flags
    phase = moved.phase._replace(states=[turned(state) for state in moved.phase.states])
    back = verlet(moving, parts, phase, 0.6)
    assert torch.allclose(back.change, -moved.change, atol=1e-9)
    assert Guard(moving, bound)._decide(back).tolist() == flags
    for begun, ended in zip(states, back.phase.states, strict=True):
        assert torch.allclose(begun.position, ended.position)


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")
def test_a_guard_keeps_chains_where_steps_would_throw_them_out() -> None:
    """exp(−q⁴) has E q² = Γ(3/4)/Γ(1/4). The step is unstable in its tails."""
    settings = {"chains": 200, "warmup": 200, "draws": 100, "thin": 5, "step_size": 0.35, "seed": 3}
    with pytest.raises(cl.DivergenceError):
        cl.sample(point(0.5), quartic, **{**settings, "draws": 2000})
    trace = cl.sample(point(0.5), quartic, guard=1.0, **settings)
    exact = math.gamma(0.75) / math.gamma(0.25)
    assert float(trace["q"].square().mean()) == pytest.approx(exact, rel=0.08)
    assert trace.acceptance is not None and 0.8 < float(trace.acceptance.mean()) < 1.0
    assert float(trace["kinetic_temperature"].mean()) == pytest.approx(1.0, rel=0.08)


@pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")
def test_steps_that_the_guard_refuses_do_not_ask_for_smaller_ones() -> None:
    """A Gaussian in 20 dimensions with a stiff wall that one draw in 700 meets."""
    settings = {"chains": 200, "warmup": 200, "draws": 20, "guard": 2.0, "seed": 3}

    def walled(own: dict[str, Tensor]) -> Tensor:
        beyond = (own["q"][0] - 3.0).clamp_min(0.0)
        return own["q"].square().sum() / 2.0 + 1e4 * beyond.square()

    steps = [
        cl.sample(point(*[0.5] * 20), loss, **settings).tuning.step_size
        for loss in (lambda own: own["q"].square().sum() / 2.0, walled)
    ]
    assert steps[1] > 0.8 * steps[0]


@pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")
def test_a_strict_guard_in_many_dimensions_does_not_let_every_step_pass() -> None:
    def gaussian(own: dict[str, Tensor]) -> Tensor:
        return own["q"].square().sum() / 2.0

    settings = {"chains": 20, "warmup": 200, "draws": 20, "guard": 0.1, "seed": 3}
    trace = cl.sample(point(*[0.5] * 400), gaussian, **settings)
    assert trace.tuning.step_size < 0.3
    assert float(trace.acceptance.min()) > 0.5


def test_the_warm_up_with_a_test_goes_on_where_its_steps_have_led() -> None:
    moving = chains(20.0, lambda own: own["q"].square().sum() / 2, 0.1)
    tested = Metropolis(moving)
    gaps = []

    def report(steps: int) -> None:
        gaps.append(float((tested.weights()["q"] - moving.weights["q"]).abs().max()))

    warm = WarmUp(moving, tested.step, tested, 0.02, report)
    warm.tuned(400)
    assert len(gaps) > 20 and max(gaps) == 0.0
    assert float(moving.weights["q"].abs().max()) < 6.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"guard": 0.0}, "guard"),
        ({"guard": 2.0, "adjust": True}, "leave guard None"),
        ({"guard": 2.0, "scheme": "OBA"}, "guard has a step of its own"),
        ({"guard": 2.0, "schedule": lambda step: 1.0}, "guard and schedule"),
    ],
)
def test_bad_guards_are_refused(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cl.sample(point(0.5), quartic, step_size=0.1, **options)
