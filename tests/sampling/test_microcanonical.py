"""Dynamics at one speed: the literal step, its laws, and known measures on every geometry."""

import math
import warnings

import numpy as np
import pytest
import torch
from torch import Tensor

import colangevin as cl
import targets
from colangevin.sampling.chains import Chains, Dynamics
from colangevin.sampling.microcanonical import Microcanonical, at_speed, isokinetic
from colangevin.sampling.moves import Phase, fresh_momenta, refresh, turned
from colangevin.sampling.targets import target_of
from colangevin.sampling.turning import turn
from posteriors import Point, estimate, point
from reference_sampling import isokinetic_on_the_sphere

SEEDS, KAPPA = [3, 4, 5], 5.0
VON_MISES_FISHER = targets.von_mises_fisher_resultant(KAPPA, 10)
FRAME = np.array([[1.2, 0.0], [0.0, 0.9], [0.6, -0.3]])


def torus(q: Tensor) -> Tensor:
    return ((q[0].square() + q[1].square()).sqrt() - 1.0).square() + q[2].square() - 0.25


def cubic(own: dict[str, Tensor]) -> Tensor:
    q = own["q"].flatten()
    return 2.0 * q[0] + 0.5 * q[-1] ** 3 + q[1].square()


GEOMETRIES = {
    "free": ({}, torch.tensor([0.3, -0.2, 0.5])),
    "circle": ({"q": cl.Circle(1.5)}, torch.tensor([0.3, -0.2, 0.5])),
    "sphere": ({"q": cl.Sphere(1.0, equality=True)}, torch.tensor([0.3, -0.2, 0.5])),
    "ball": ({"q": cl.Sphere(1.0)}, torch.tensor([0.3, -0.2, 0.5])),
    "orthogonal": ({"q": cl.Orthogonal()}, torch.eye(3, 2)),
}


def chains(rules, start: Tensor, potential, step_size: float, tau: float = 0.7) -> Chains:
    target = target_of(Point(start.double()), potential, None, None, SEEDS, 0, 0.1)
    dynamics = Dynamics(step_size, 1.3, "BAOAB", [tau] * len(SEEDS), 0.0, False)
    return Chains(target, rules, SEEDS, dynamics)


quiet = pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")


def started(name: str, h: float, tau: float = 0.7) -> tuple[Chains, list, Phase]:
    moving = chains(*GEOMETRIES[name], cubic, h, tau)
    parts = moving.parts()
    states = fresh_momenta(moving, parts, moving.states(parts, momentum=False), h, 0)
    states = at_speed(moving, parts, states, h)
    return moving, parts, Phase(states, *moving.energies(parts, states))


def test_the_step_follows_its_literal_form_on_a_sphere() -> None:
    h, tau = 0.4, 0.7
    moving, parts, start = started("sphere", h, tau)
    moved = isokinetic(moving, parts, start, h)
    n = moving.freedom
    assert n == 2

    def gradient(x: Tensor) -> Tensor:
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(cubic({"q": leaf}), leaf)[0] / tau

    speed = math.sqrt(n * tau)
    for i in range(len(SEEDS)):
        u = -start.states[0].momentum[i] * h / speed
        torch.testing.assert_close(u.norm(), torch.ones(()).double())
        q, u, gain = isokinetic_on_the_sphere(
            start.states[0].position[i], u, gradient, h * speed, n
        )
        torch.testing.assert_close(moved.phase.states[0].position[i], q)
        torch.testing.assert_close(moved.phase.states[0].momentum[i], -u * speed / h)
        change = cubic({"q": q}) - cubic({"q": start.states[0].position[i]}) + tau * gain
        torch.testing.assert_close(moved.change[i], change)


def test_a_kick_turns_a_unit_velocity_and_undoes_itself() -> None:
    cosine = torch.linspace(-0.999, 1.0, 9, dtype=torch.float64)
    for reach in (0.0, 0.3, 5.0):
        made = turn(cosine, torch.tensor(reach).double())
        # |u'|² with u·u = e·e = 1.
        length = made.keep.square() + made.toward.square() + 2 * made.keep * made.toward * cosine
        torch.testing.assert_close(length, torch.ones_like(length))
        after = made.keep * cosine + made.toward
        back = turn(-after, torch.tensor(reach).double())
        torch.testing.assert_close(back.gain, -made.gain)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_it_is_reversible_keeps_its_speed_and_its_energy_to_third_order(name: str) -> None:
    changes = []
    for h in (0.08, 0.04):
        moving, parts, start = started(name, h)
        moved = isokinetic(moving, parts, start, h)
        speed = 2.0 * moving.kinetic(parts, moved.phase.states) * h**2
        torch.testing.assert_close(speed, moving.freedom * moving.temperatures)
        changes.append(moved.change)
        phase = moved.phase._replace(states=[turned(s) for s in moved.phase.states])
        back = isokinetic(moving, parts, phase, h)
        # The projections of Orthogonal keep the speed to the order of the step's own error.
        near = 1e-9 if not parts[0].bucket.constraint.fallible else 10 * h**3
        gap = back.phase.states[0].position - start.states[0].position
        assert float(gap.abs().max()) < near
    rate = (changes[0].abs().mean() / changes[1].abs().mean()).log2()
    assert 2.3 < float(rate) < 4.2


def test_energy_errors_do_not_pile_up() -> None:
    """Without O the energy wanders by the error of a step, not by the number of steps."""
    moving, parts, phase = started("sphere", 0.1)
    total, largest = torch.zeros(len(SEEDS)).double(), 0.0
    for _ in range(300):
        moved = isokinetic(moving, parts, phase, 0.1)
        phase, total = moved.phase, total + moved.change
        largest = max(largest, float(total.abs().max()))
    assert largest < 0.05


def run(model, potential, rules=None, **options) -> cl.Trace:
    settings = {"chains": 250, "warmup": 80, "draws": 15, "thin": 5, "step_size": 0.2, "seed": 3}
    settings = {**settings, "dynamics": "microcanonical", "friction": 1.0, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.SamplingWarning)
        return cl.sample(model, potential, rules=rules, **settings)


@pytest.mark.statistical
@pytest.mark.parametrize("adjust", [False, True])
def test_von_mises_fisher(adjust: bool) -> None:
    start = torch.zeros(10, dtype=torch.float64)
    start[1] = 1.0
    trace = run(
        Point(start),
        lambda own: -KAPPA * own["q"][0],
        {"q": cl.Sphere(1.0, equality=True)},
        step_size=0.3 if adjust else 0.05,
        warmup=160,
        adjust=adjust,
        thin=10,
    )
    estimate(trace["q"][..., 0]).check(VON_MISES_FISHER, 0.386)
    assert (trace.acceptance is not None) == adjust


@pytest.mark.statistical
def test_matrix_langevin_on_a_stiefel_manifold() -> None:
    weight = torch.tensor(FRAME)
    law = lambda q: (FRAME * q).sum(axis=(-2, -1))  # noqa: E731
    trace = run(
        Point(torch.eye(3, 2, dtype=torch.float64)),
        lambda own: -(own["q"] * weight).sum(),
        {"q": cl.Orthogonal()},
        step_size=0.1,
        thin=10,
    )
    along = (trace["q"] * weight).sum(dim=(2, 3))
    estimate(along).check(
        targets.matrix_langevin_32(law, FRAME), targets.matrix_langevin_32(law, 0.5 * FRAME)
    )


@pytest.mark.statistical
def test_a_torus_through_a_general_constraint() -> None:
    def mean(temperature: float) -> float:
        return targets.torus_expectation(
            lambda x, y, z: x, lambda x, y, z: -x + 0.5 * z, temperature, 1.0, 0.5
        )

    trace = run(
        point(0.0, 1.5, 0.0),
        lambda own: -own["q"][0] + 0.5 * own["q"][2],
        {"q": cl.General(torus, max_iterations=10, tolerance=1e-9)},
        chains=130,
        warmup=60,
        draws=10,
    )
    estimate(trace["q"][..., 0]).check(mean(1.0), mean(4.0))


@pytest.mark.statistical
@pytest.mark.parametrize("adjust", [False, True])
def test_a_truncated_gaussian_on_circles(adjust: bool) -> None:
    """Each |θ| ≤ 1 with the measure of the circle, dθ/√(1 − θ²); at the temperature ½."""
    angle = np.linspace(-np.pi / 2, np.pi / 2, 20_001)
    law = 2.0 * np.sin(angle) ** 2 - np.sin(angle)
    exact = targets.weighted_mean(np.sin(angle), law / 0.5, np.ones_like(angle))
    warmer = targets.weighted_mean(np.sin(angle), law, np.ones_like(angle))
    trace = run(
        Point(torch.full((6,), 0.2, dtype=torch.float64)),
        lambda own: (2.0 * own["q"].square() - own["q"]).sum(),
        {"q": cl.Circle(1.0)},
        temperature=0.5,
        step_size=0.3 if adjust else 0.1,
        adjust=adjust,
        thin=10,
    )
    estimate(trace["q"].mean(dim=2)).check(exact, warmer)


@pytest.mark.statistical
def test_a_gaussian_with_tuner_and_metric() -> None:
    """In 30 dimensions, two of them correlated; unadjusted, variances are a few per cent off."""
    scales = torch.linspace(0.2, 2.0, 30, dtype=torch.float64)

    def potential(own: dict[str, Tensor]) -> Tensor:
        q = own["q"] / scales
        return (q.square().sum() + (q[0] - q[1]).square()) / 2

    trace = run(
        Point(scales.clone()), potential,
        step_size=None, friction=None, warmup=400, draws=30, chains=100,
    )  # fmt: skip
    assert trace.tuning.metric and trace.tuning.step_size > 0.3
    values = (trace["q"] / scales).square()
    assert float(values[..., 5:].mean()) == pytest.approx(1.0, abs=0.06)
    assert float(values[..., :2].mean()) == pytest.approx(2.0 / 3.0, abs=0.05)


def test_chains_cannot_be_thrown_out_where_the_potential_is_steep() -> None:
    """exp(−Σ q⁴) at a step at which BAOAB diverges."""
    start = point(*[0.5] * 5)
    quartic = lambda own: own["q"].pow(4).sum()  # noqa: E731
    with pytest.raises(cl.DivergenceError), warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.SamplingWarning)
        cl.sample(start, quartic, chains=250, warmup=80, draws=400, step_size=0.45, seed=3)
    trace = run(start, quartic, step_size=0.45, draws=80)
    exact = math.gamma(0.75) / math.gamma(0.25)
    assert float(trace["q"].square().mean()) == pytest.approx(exact, rel=0.1)


@quiet
def test_a_loss_that_is_not_finite_somewhere_turns_chains_round() -> None:
    def wall(own: dict[str, Tensor]) -> Tensor:
        q = own["q"]
        return torch.where(q[0] > 1.0, torch.nan, q.square().sum() / 2)

    trace = run(point(0.0, 0.0, 0.0), wall, chains=20, draws=100)
    assert float(trace["q"][..., 0].max()) <= 1.0 and bool(trace["q"].isfinite().all())


def test_the_temperature_is_kept_and_nothing_moves_without_a_reason() -> None:
    moving = chains(*GEOMETRIES["ball"], cubic, 0.2)
    refresh(moving)
    mover = Microcanonical(moving)
    for _ in range(5):
        mover.step()
    mover.write()
    torch.testing.assert_close(moving.kinetic_temperatures(), moving.temperatures)
    flat = chains({}, torch.tensor([0.3, -0.2]), lambda own: 0.0 * own["q"].sum(), 0.2)
    refresh(flat)
    calm = Microcanonical(flat)
    calm.step()
    assert bool(calm.weights()["q"].isfinite().all())


BAD = [
    ({"batch_size": 8}, "needs all data"),
    ({"scheme": "OBA"}, "step of its own"),
    ({"friction": math.inf}, "finite friction"),
    ({"rules": {"*": cl.Orthogonal()}, "adjust": True, "model": torch.nn.Linear(3, 3)}, "closed"),
]


@pytest.mark.parametrize(("change", "words"), BAD, ids=[b[1] for b in BAD])
def test_bad_input_is_refused(change: dict, words: str) -> None:
    loss = lambda outputs, targets: (outputs - targets).square().mean()  # noqa: E731
    given = {"model": torch.nn.Linear(3, 3, bias=False), "dynamics": "microcanonical", **change}
    given["model"] = torch.nn.Linear(3, 3, bias=False)
    with pytest.raises(ValueError, match=words):
        cl.sample(loss=loss, data=(torch.randn(20, 3), torch.randn(20, 3)), **given)


def test_one_degree_of_freedom_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 degrees of freedom, got 1"):
        cl.sample(point(0.0), lambda own: own["q"].sum() ** 2, dynamics="microcanonical")
