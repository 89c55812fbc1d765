"""The oracle checked against itself and against facts that need no oracle."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import reference as ref
import targets

WORDS = ["OBA", "ABO", "BAOAB", "AOAB"]
GEOMETRIES = ["unconstrained", "circle", "sphere", "sphere_slack"]
GEOMETRIES += ["orthogonal", "orthogonal_wide", "ellipse", "ball"]
RADIUS = torch.tensor([0.05, 1.0, 5.0], dtype=torch.float64)
THETA = torch.tensor([0.3, -0.8], dtype=torch.float64)
XI = ref.circle_slack(THETA, 1.0)


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def ellipse(q: Tensor) -> Tensor:
    return (q[:1] / 1.5) ** 2 + q[1:] ** 2 - 1.0


def ball(theta: Tensor) -> Tensor:
    return (theta**2).sum()[None] - 2.0


def example(name: str) -> tuple[ref.Pieces, ref.State]:
    """Pieces of a geometry and a state on its cotangent bundle (momentum through B)."""
    if name == "unconstrained":
        pieces, q = ref.unconstrained_pieces(), (normal(3, 2),)
    elif name == "circle":
        theta = RADIUS * torch.tensor([[0.5, -0.3, 0.9], [0.1, -0.99, 0.0]], dtype=torch.float64)
        pieces, q = ref.circle_pieces(RADIUS), (theta, ref.circle_slack(theta, RADIUS))
    elif name == "sphere":
        w = normal(3, 4)
        pieces = ref.sphere_pieces(1.3, equality=True)
        q = (1.3 * w / torch.linalg.vector_norm(w, dim=1, keepdim=True),)
    elif name == "sphere_slack":
        radius = torch.tensor([3.0, 2.0, 4.0], dtype=torch.float64)
        w = 0.3 * normal(3, 4)
        pieces, q = ref.sphere_pieces(radius), (w, ref.sphere_slack(w, radius))
    elif name.startswith("orthogonal"):
        pieces = ref.orthogonal_pieces(40, wide=name == "orthogonal_wide")
        q = (torch.linalg.qr(normal(5, 3)).Q,)
    elif name == "ellipse":
        pieces = ref.general_pieces(ellipse)
        q = (torch.tensor([1.5 * math.cos(1.0), math.sin(1.0)], dtype=torch.float64),)
    else:
        theta = torch.tensor([0.5, -0.7, 0.2], dtype=torch.float64)
        pieces = ref.general_pieces(ref.with_slack(ball, 1), slack=1, projection="orthogonal")
        q = (torch.cat([theta, torch.sqrt(-ball(theta))]),)
    state = q + tuple(torch.zeros_like(x) for x in q)
    return pieces, pieces.b(state, normal(*pieces.position(state).shape, seed=1), 0.5)


def bowl_gradient(w: Tensor) -> Tensor:
    """Gradient of a potential that couples nothing but is not linear."""
    return torch.sin(w) + 0.5 * w - 0.3


def close(left: ref.State, right: ref.State, tolerance: float = 1e-12) -> None:
    for x, y in zip(left, right, strict=True):
        torch.testing.assert_close(x, y, rtol=0.0, atol=tolerance)


def assert_on_bundle(pieces: ref.Pieces, state: ref.State, tolerance: float = 1e-11) -> None:
    for values in (pieces.residual(state), pieces.cotangency(state)):
        assert values.numel() == 0 or values.abs().max() <= tolerance


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_words_stay_on_the_cotangent_bundle(name: str, word: str) -> None:
    pieces, state = example(name)
    noise = ref.gaussian_noise(torch.Generator().manual_seed(2))
    for _ in range(20):
        state = ref.run_word(word, pieces, state, bowl_gradient, 0.02, 1.0, 0.05, noise)
        assert_on_bundle(pieces, state)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_overdamped_steps_stay_on_the_manifold(name: str) -> None:
    pieces, state = example(name)
    noise = ref.gaussian_noise(torch.Generator().manual_seed(3))
    for _ in range(20):
        state = ref.run_overdamped(pieces, state, bowl_gradient, 0.005, 0.02, noise)
        assert pieces.residual(state).numel() == 0 or pieces.residual(state).abs().max() <= 1e-11


@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_and_b_are_reversible(name: str) -> None:
    pieces, state = example(name)
    gradient = normal(*pieces.position(state).shape, seed=4)
    for step in (lambda s: pieces.a(s, 0.05), lambda s: pieces.b(s, gradient, 0.05)):
        there = step(state)
        assert any(not torch.equal(x, y) for x, y in zip(there, state, strict=True))
        close(ref.flip_momentum(step(ref.flip_momentum(there))), state, 1e-11)


def test_circle_drift_is_a_rotation() -> None:
    pieces, state = example("circle")
    theta, xi, p_theta, p_xi = state
    omega = ref.circle_angular_speed(*state, RADIUS)
    close(ref.circle_momentum(theta, xi, omega), (p_theta, p_xi))
    after = pieces.a(state, 0.3)
    turn = torch.exp(-1j * omega * 0.3)
    close((torch.complex(after[0], after[1]),), (turn * torch.complex(theta, xi),))
    close((torch.complex(after[2], after[3]),), (turn * torch.complex(p_theta, p_xi),))


def test_circle_b_and_o_are_the_reduced_angular_forms() -> None:
    pieces, state = example("circle")
    theta, xi = state[:2]
    omega = ref.circle_angular_speed(*state, RADIUS)
    gradient, noise = normal(2, 3, seed=5), normal(2, 3, seed=6)
    kicked = pieces.b(state, gradient, 0.1)
    close((ref.circle_angular_speed(*kicked, RADIUS),), (omega - 0.1 * gradient * xi / RADIUS**2,))
    drawn = pieces.o(state, 0.1, 2.0, 0.7, ref.circle_noise(theta, xi, noise, RADIUS))
    c = math.exp(-0.2)
    expected = c * omega + math.sqrt(0.7 * (1 - c**2)) * noise / RADIUS
    close((ref.circle_angular_speed(*drawn, RADIUS),), (expected,))


def test_circle_overdamped_keeps_negative_weights() -> None:
    zero = torch.zeros_like(THETA)
    close(ref.circle_overdamped(THETA, XI, zero, 0.1, 0.0, zero, zero, 1.0), (THETA, XI))
    assert (torch.cos(torch.arctan(XI / THETA)) > 0).all()


def test_sphere_with_one_weight_is_the_circle() -> None:
    circle, sphere = ref.circle_pieces(1.0), ref.sphere_pieces(1.0)
    noise = (normal(2, seed=7), normal(2, seed=8))

    def columns(state: ref.State) -> ref.State:
        return tuple(x[:, None] if k % 2 == 0 else x for k, x in enumerate(state))

    left = (THETA, XI, *ref.circle_momentum(THETA, XI, normal(2)))
    right = columns(left)
    for word in WORDS:
        left = ref.run_word(word, circle, left, torch.sin, 0.1, 1.0, 0.3, lambda _: noise)
        right = ref.run_word(
            word, sphere, right, torch.sin, 0.1, 1.0, 0.3, lambda _: columns(noise)
        )
        close(columns(left), right)
    left = ref.run_overdamped(circle, left, torch.sin, 0.1, 0.3, lambda _: noise)
    right = ref.run_overdamped(sphere, right, torch.sin, 0.1, 0.3, lambda _: columns(noise))
    close(columns(left), right)


def test_general_with_the_orthogonal_g_is_orthogonal() -> None:
    pieces, state = example("orthogonal")
    general = ref.general_pieces(ref.orthogonal_constraint(5, 3))
    flat = tuple(x.ravel() for x in state)
    for _ in range(10):
        state = ref.run_word("BAOAB", pieces, state, bowl_gradient, 0.05, 1.0)
        flat = ref.run_word("BAOAB", general, flat, bowl_gradient, 0.05, 1.0)
        close(tuple(x.ravel() for x in state), flat, 1e-11)
    state = ref.run_overdamped(pieces, state, bowl_gradient, 0.05)
    flat = ref.run_overdamped(general, flat, bowl_gradient, 0.05)
    close((state[0].ravel(),), flat[:1], 1e-11)


def test_general_rattle_on_the_circle_turns_by_the_arcsine() -> None:
    """RATTLE keeps the angular speed and turns by arcsin(omega h), the exact flow by omega h."""
    omega, h = normal(2), 0.2
    p = torch.cat(ref.circle_momentum(THETA, XI, omega))
    general = ref.general_pieces(ref.circle_constraint(1.0), slack=2)
    q, p = general.a((torch.cat([THETA, XI]), p), h)
    close((ref.circle_angular_speed(q[:2], q[2:], p[:2], p[2:], 1.0),), (omega,))
    exact = ref.circle_a(THETA, XI, *ref.circle_momentum(THETA, XI, omega), h, 1.0)
    turned = ref.circle_a(
        THETA, XI, *ref.circle_momentum(THETA, XI, torch.asin(h * omega)), 1.0, 1.0
    )
    assert (exact[0] - q[:2]).abs().max() > 1e-3
    close(turned[:2], (q[:2], q[2:]))


def test_general_orthogonal_projection_on_the_circle_is_the_nearest_point() -> None:
    general = ref.general_pieces(ref.circle_constraint(1.0), slack=2, projection="orthogonal")
    q = torch.cat([THETA, XI])
    noise, gradient = normal(4, seed=9), normal(2, seed=10)
    after = general.overdamped((q, q), gradient, 0.1, 0.2, (noise,))[0]
    expected = ref.circle_overdamped(THETA, XI, gradient, 0.1, 0.2, noise[:2], noise[2:], 1.0)
    close((after[:2], after[2:]), expected)


def test_wide_orthogonal_is_the_transpose_of_tall() -> None:
    tall, state = example("orthogonal")
    wide = ref.orthogonal_pieces(40, wide=True)
    w = state[0].T
    assert torch.equal(ref.to_tall(w), state[0])
    assert torch.equal(ref.from_tall(ref.to_tall(w), wide=True), w)
    c = normal(5, 5)
    left = ref.run_word("OBA", tall, state, lambda q: c @ q, 0.1, 1.0)
    right = ref.run_word("OBA", wide, state, lambda w: w @ c.T, 0.1, 1.0)
    close(left, right)


@pytest.mark.parametrize("friction", [0.5, math.inf])
def test_oba_without_constraint_is_sgd(friction: float) -> None:
    """lr = h^2 and momentum = e^{-gamma h}."""
    pieces, state = example("unconstrained")
    h, decay = 0.2, math.exp(-friction * 0.2)
    state = (state[0], torch.zeros_like(state[1]))
    theta, buffer = state[0], None
    weight = torch.nn.Parameter(state[0].clone())
    optimizer = torch.optim.SGD([weight], lr=h**2, momentum=decay)
    for _ in range(50):
        state = ref.run_word("OBA", pieces, state, bowl_gradient, h, friction)
        theta, buffer = ref.sgd_step(theta, buffer, bowl_gradient(theta), h**2, decay)
        weight.grad = bowl_gradient(weight.detach())
        optimizer.step()
        close((state[0], theta), (theta, weight.detach()))


def test_words_place_the_gradient() -> None:
    """ABO is BOA displaced by an A; delayed words take one gradient, where the step starts."""
    pieces, state = example("unconstrained")
    seen: list[Tensor] = []

    def gradient(w: Tensor) -> Tensor:
        seen.append(w)
        return bowl_gradient(w)

    q, p = ref.run_word("BAOAB", pieces, state, gradient, 0.1, 1.0)
    close(tuple(seen), (state[0], q), 0.0)
    half = state[1] - 0.05 * bowl_gradient(state[0])
    decayed = math.exp(-0.1) * half
    middle = state[0] + 0.05 * half + 0.05 * decayed
    close((q, p), (middle, decayed - 0.05 * bowl_gradient(middle)))
    seen.clear()
    ref.run_word("AOAB", pieces, state, gradient, 0.1, 1.0, delayed=True)
    close(tuple(seen), state[:1], 0.0)
    shifted = ref.run_word("BOA", pieces, pieces.a(state, 0.1), bowl_gradient, 0.1, 1.0)
    literal = pieces.a(ref.run_word("ABO", pieces, state, bowl_gradient, 0.1, 1.0), 0.1)
    close(shifted, literal)


def test_targets_agree_with_closed_forms() -> None:
    first, second = targets.von_mises_moment(1.7), targets.von_mises_moment(1.7, 2)
    on_sphere = targets.von_mises_fisher_mean(1.7)
    on_circle = targets.circle_expectation(lambda x, y: x, lambda x, y: -1.7 * x, 2.0, radius=2.0)
    squares = targets.circle_expectation(lambda x, y: x**2 - y**2, lambda x, y: -1.7 * x, 1.0)
    column = targets.matrix_langevin_32(lambda q: q[..., 0, 0], [[1.7, 0], [0, 0], [0, 0]])
    found = [on_circle / 2.0, squares, targets.matrix_langevin_21(lambda q: q[..., 0, 0], 1.7)]
    found += [column, *(targets.von_mises_fisher_resultant(1.7, d) for d in (2, 3))]
    assert found == pytest.approx([first, second, first, on_sphere, first, on_sphere], abs=1e-12)


@pytest.mark.parametrize("entry", [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)])
def test_stiefel_quadrature_has_haar_moments(entry: tuple[int, int]) -> None:
    def moment(order: int) -> float:
        return targets.matrix_langevin_32(
            lambda q: q[..., entry[0], entry[1]] ** order, np.zeros((3, 2)), 16
        )

    assert moment(2) == pytest.approx(targets.haar_second_moment(3), abs=1e-12)
    assert moment(4) == pytest.approx(targets.haar_fourth_moment(3), abs=1e-12)


def test_stiefel_quadrature_is_invariant_under_rotation() -> None:
    f = np.array([[1.0, -0.5], [0.3, 0.8], [-0.2, 2.0]])
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0] @ f
    means = [
        targets.matrix_langevin_32(lambda q, m=m: (m * q).sum(axis=(-2, -1)), m)
        for m in (f, turned)
    ]
    assert means[0] == pytest.approx(means[1], abs=1e-12)


def test_surface_quadrature_uses_length_and_area() -> None:
    """Without a potential: closed forms on the torus, a fine polygon for the ellipse."""

    def torus(observable: targets.SpaceFunction) -> float:
        return targets.torus_expectation(observable, lambda x, y, z: 0.0 * x, 1.0, 2.0, 0.5)

    assert torus(lambda x, y, z: z**2) == pytest.approx(0.5**2 / 2, abs=1e-12)
    assert torus(lambda x, y, z: np.hypot(x, y)) == pytest.approx(2.0 + 0.5**2 / 4, abs=1e-12)
    t = np.linspace(0.0, 2.0 * np.pi, 200_001)
    x, y = 2.0 * np.cos(t), np.sin(t)
    lengths = np.hypot(np.diff(x), np.diff(y))
    polygon = (lengths * 0.5 * (x[1:] ** 2 + x[:-1] ** 2)).sum() / lengths.sum()
    mean = targets.ellipse_expectation(lambda x, y: x**2, lambda x, y: 0.0 * x, 1.0, 2.0, 1.0)
    assert mean == pytest.approx(polygon, abs=1e-7)


def test_standard_error_and_order() -> None:
    rng = np.random.default_rng(1)
    white = rng.normal(size=100_000)
    assert targets.batch_means_mcse(white) == pytest.approx(100_000**-0.5, rel=0.15)
    chains = np.zeros((20_000, 8))
    steps = rng.normal(size=chains.shape)
    for n in range(1, len(chains)):
        chains[n] = 0.8 * chains[n - 1] + steps[n]
    assert targets.batch_means_mcse(chains) == pytest.approx(5.0 * chains.size**-0.5, rel=0.15)
    sizes = np.array([0.1, 0.2, 0.4])
    assert targets.fitted_order(sizes, -3.0 * sizes**2) == pytest.approx(2.0)
