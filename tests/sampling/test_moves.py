"""The Verlet step and its test, against the literal transcription and by their laws."""

import pytest
import torch
from torch import Tensor

import colangevin as cl
from colangevin.ensemble.data import TEST, random_bits
from colangevin.integrators.scheme import Overdamped
from colangevin.optimizers.step.layout import MOMENTUM
from colangevin.optimizers.step.noise import Noise
from colangevin.sampling import descent
from colangevin.sampling.chains import Chains, Dynamics
from colangevin.sampling.moves import Metropolis, Phase, fresh_momenta, refresh, turned, verlet
from colangevin.sampling.readings import configurational, energy_errors, ratio
from colangevin.sampling.targets import target_of
from posteriors import Point
from reference_sampling import ghmc_on_the_sphere

SEEDS = [3, 4, 5]


def chains(rules, start: Tensor, potential, step_size: float, tau: float = 0.7) -> Chains:
    target = target_of(Point(start.double()), potential, None, None, SEEDS, 0, 0.1)
    dynamics = Dynamics(step_size, 1.3, "BAOAB", [tau] * len(SEEDS), 0.0, False)
    return Chains(target, rules, SEEDS, dynamics)


def cubic(own: dict[str, Tensor]) -> Tensor:
    q = own["q"].flatten()
    return 2.0 * q[0] + 0.5 * q[-1] ** 3 + q[1].square()


def torus(q: Tensor) -> Tensor:
    return ((q[0].square() + q[1].square()).sqrt() - 1.0).square() + q[2].square() - 0.25


GEOMETRIES = {
    "free": ({}, torch.tensor([0.3, -0.2, 0.5])),
    "circle": ({"q": cl.Circle(1.5)}, torch.tensor([0.3, -0.2, 0.5])),
    "sphere": ({"q": cl.Sphere(1.0, equality=True)}, torch.tensor([0.3, -0.2, 0.5])),
    "ball": ({"q": cl.Sphere(1.0)}, torch.tensor([0.3, -0.2, 0.5])),
    "orthogonal": ({"q": cl.Orthogonal()}, torch.eye(3, 2)),
    "torus": ({"q": cl.General(torus)}, torch.tensor([1.5, 0.1, 0.1])),
}


def test_the_tested_step_follows_its_literal_form() -> None:
    """Several steps, large enough that some are refused."""
    moving = chains(*GEOMETRIES["sphere"], cubic, 0.9)
    refresh(moving)
    tested = Metropolis(moving)
    bucket = moving.groups[0].buckets[0]
    entry = moving.ensemble._state[moving.weights["q"]]
    q, p = moving.weights["q"].clone(), -0.9 * entry[MOMENTUM].clone()
    verdicts = []
    for step in range(12):
        normals = Noise(bucket, SEEDS, [step]).draw(torch.zeros(3, 3).double())
        bits = random_bits(SEEDS, TEST, step, 1)[:, 0]
        levels = ((bits >> 11) & (2**53 - 1)).double() * 2.0**-53
        # The sign of the noise is that of the momenta in the engine, v = -p/h.
        for i in range(3):

            def gradient(x: Tensor) -> Tensor:
                leaf = x.detach().requires_grad_()
                return torch.autograd.grad(cubic({"q": leaf}), leaf)[0]

            q[i], p[i], accepted = ghmc_on_the_sphere(
                q[i],
                p[i],
                gradient,
                lambda x: cubic({"q": x}),
                0.9,
                1.3,
                0.7,
                -normals[i],
                float(levels[i]),
            )
            verdicts.append(accepted)
        tested.step()
        torch.testing.assert_close(tested.weights()["q"], q, atol=1e-9, rtol=0)
    assert 0 < sum(verdicts) < len(verdicts)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_the_step_is_reversible_and_its_energy_error_of_third_order(name: str) -> None:
    moving = chains(*GEOMETRIES[name], cubic, 0.1)
    parts = moving.parts()
    states = moving.states(parts, momentum=False)
    start = Phase(states, *moving.energies(parts, states))
    changes = []
    for h in (0.08, 0.04):
        drawn = fresh_momenta(moving, parts, states, h, 0)
        moved = verlet(moving, parts, start._replace(states=drawn), h)
        assert bool(moved.good.all())
        changes.append(moved.change)
        back = verlet(
            moving, parts, moved.phase._replace(states=[turned(s) for s in moved.phase.states]), h
        )
        torch.testing.assert_close(back.phase.states[0].position, states[0].position)
        torch.testing.assert_close(back.change, -moved.change, atol=1e-9, rtol=1e-4)
    rate = (changes[0].abs().mean() / changes[1].abs().mean()).log2()
    assert 2.3 < float(rate) < 4.2


def test_a_projection_by_another_method_is_refused() -> None:
    """The polar factor in the place of the quasi-Newton method cannot be reversed."""
    moving = chains(*GEOMETRIES["orthogonal"], cubic, 1.5, tau=2.0)
    refresh(moving)
    tested = Metropolis(moving)
    for _ in range(10):
        tested.step()
    assert tested.irreversible > 5
    assert max(group.residual for group in moving.ensemble.violation()) < 1e-10


def test_chains_whose_projection_fails_stay_and_do_not_stop_the_others() -> None:
    moving = chains(*GEOMETRIES["torus"], cubic, 0.7, tau=1.0)
    refresh(moving)
    tested = Metropolis(moving)
    for _ in range(6):
        tested.step()
    assert 0 < tested.irreversible < 18
    assert bool((tested.accepted > 0).any())


def failing(geometry: cl.Constraint, state: cl.State, *_: object) -> cl.State:
    """A move that has written over its state when it fails."""
    state.position.fill_(torch.nan)
    raise cl.ConvergenceError("no way back to the manifold")


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_moves_leave_their_start_alone(
    name: str, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Geometries write over states; chains that are refused, or fail, go on from theirs."""
    moving = chains(*GEOMETRIES[name], cubic, 0.1)
    parts = moving.parts()
    (part,) = parts
    states = fresh_momenta(moving, parts, moving.states(parts, momentum=False), 0.1, 0)
    start = Phase(states, *moving.energies(parts, states))
    before = states[0].map(torch.clone)
    kind = type(part.bucket.constraint)
    for method in ("drift", "project") if fails else ():
        monkeypatch.setattr(kind, method, failing)
    assert bool(verlet(moving, parts, start, 0.1).good.any()) == (not fails)
    step = descent._moved(part, states[0], start.forces[0], Overdamped(0.01, None))
    assert torch.equal(step.position, before.position) == fails
    redrawn = Metropolis(moving)._refresh(part, states[0])
    assert not torch.equal(redrawn.momentum, before.momentum)
    for kept, old in zip(states[0].tensors, before.tensors, strict=True):
        assert kept is old or torch.equal(kept, old)


@pytest.mark.parametrize("name", [n for n in GEOMETRIES if n != "torus"])
def test_configurational_temperature_on_every_manifold(name: str) -> None:
    """E|∇U|² = τ E ΔU for exact samples: here of long chains with small steps."""
    rules, start = GEOMETRIES[name]
    seeds = list(range(150))
    potential = lambda own: own["q"].square().sum() + own["q"].flatten()[0]  # noqa: E731
    target = target_of(Point(start.double()), potential, None, None, seeds, 0, 0.1)
    moving = Chains(target, rules, seeds, Dynamics(0.2, 1.0, "BAOAB", [0.5] * 150, 0.0, False))
    for _ in range(60):
        moving.step()
    squares, laplacians = [], []
    for _ in range(6):
        for _ in range(4):
            moving.step()
        reading = configurational(moving)
        squares.append(reading.square)
        laplacians.append(reading.laplacian)
    found = ratio(torch.stack(squares), torch.stack(laplacians))
    assert abs(found.value - 0.5) < 4 * found.error + 0.01 and found.error < 0.05


def test_energy_errors_are_those_of_a_harmonic_oscillator() -> None:
    """U = kq²/2: ΔH of a Verlet step has the variance (hω)⁶/32 τ² up to higher orders."""
    seeds = list(range(500))
    target = target_of(
        Point(torch.zeros(1).double()),
        lambda own: 2 * own["q"].square().sum(),
        None,
        None,
        seeds,
        0,
        0.5,
    )
    moving = Chains(target, {}, seeds, Dynamics(0.1, 1.0, "BAOAB", [1.0] * 500, 0.0, False))
    for _ in range(40):
        moving.step()
    found = float(energy_errors(moving, 0.2, 8).square().mean())
    assert found == pytest.approx(0.4**6 / 16, rel=0.25)
