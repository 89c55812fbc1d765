"""Stationary statistics: exactly from the scheme's own linear map, and sampled under heat."""

import numpy as np
import pytest
import torch
from scipy.linalg import solve_discrete_lyapunov

import colangevin as cl
from injected_noise import noise_from
from targets import fitted_order

STIFFNESS = torch.tensor([0.3, 1.0, 4.0], dtype=torch.float64)
TAU = 0.7


def linear_map(step_size: float, scheme: str, friction: float) -> tuple[np.ndarray, np.ndarray]:
    """One call on a Gaussian target as x ← Mx + NR with x = (θ, p), read off the optimizer."""
    columns = []
    for position, momentum, noise in np.eye(3):
        parameter = torch.nn.Parameter(torch.full((3,), position, dtype=torch.float64))
        optimizer = cl.CoLA(
            [parameter], step_size=step_size, friction=friction, temperature=TAU, scheme=scheme
        )
        buffer = torch.full((3,), -momentum / step_size, dtype=torch.float64)
        optimizer.state[parameter]["momentum_buffer"] = buffer
        optimizer.state[parameter]["step"].fill_(1)  # the first call may differ
        parameter.grad = STIFFNESS * parameter.detach()
        with noise_from(lambda like, noise=noise: torch.full_like(like, noise)):
            optimizer.step()
        p = -step_size * optimizer.state[parameter]["momentum_buffer"]
        columns.append(torch.stack([parameter.detach(), p]).numpy())
    maps = np.stack(columns, axis=-1)  # 2 × stiffness × 3
    return maps[:, :, :2].transpose(1, 0, 2), maps[:, :, 2].T


def covariances(step_size: float, scheme: str, friction: float = 1.0) -> np.ndarray:
    """Stationary covariances of (θ, p) between two calls, one matrix a stiffness."""
    drift, noise = linear_map(step_size, scheme, friction)
    pairs = zip(drift, noise, strict=True)
    return np.array([solve_discrete_lyapunov(m, np.outer(n, n)) for m, n in pairs])


STEPS = [0.4, 0.2, 0.1, 0.05]
SEVERAL = pytest.mark.filterwarnings("ignore:another optimizer was made from the same weights")
EXACT = TAU / STIFFNESS.numpy()


@SEVERAL
@pytest.mark.parametrize("friction", [0.1, 1.0, 20.0, np.inf])
def test_baoab_is_exact_on_a_gaussian_target(friction: float) -> None:
    """Its error, of order h² elsewhere, vanishes: in θ, and in p between two calls."""
    for step_size in STEPS:
        covariance = covariances(step_size, "BAOAB", friction)
        assert covariance[:, 0, 0] == pytest.approx(EXACT, rel=1e-10)
        assert covariance[:, 1, 1] == pytest.approx(TAU, rel=1e-10)


@SEVERAL
def test_momentum_of_whole_steps_has_an_error_of_second_order() -> None:
    """After BAOAB's closing half kick the variance is τ(1 − h²k/4)."""
    for step_size in STEPS:
        covariance = covariances(step_size, "BAOAB")
        kick = np.array([[-step_size / 2 * k, 1.0] for k in STIFFNESS.numpy()])
        closed = np.einsum("ki,kij,kj->k", kick, covariance, kick)
        assert closed == pytest.approx(TAU * (1 - step_size**2 * STIFFNESS.numpy() / 4), rel=1e-10)


@SEVERAL
def test_oba_has_a_configurational_error_of_first_order() -> None:
    errors = [np.abs(covariances(h, "OBA")[:, 0, 0] / EXACT - 1).max() for h in STEPS]
    assert fitted_order(STEPS, errors) == pytest.approx(1.0, abs=0.15)


# --- heat of unknown origin ---------------------------------------------------------------


def run(
    optimizer: cl.CoLA,
    weight: torch.nn.Parameter,
    slope: torch.Tensor | float,
    heat: float,
    steps: tuple[int, int],
) -> tuple[float, torch.Tensor]:
    """Mean kinetic temperature and mean θ², with Gaussian noise in the gradient."""
    generator = torch.Generator().manual_seed(5)
    kinetic, square = 0.0, torch.zeros_like(weight.detach())
    for step in range(sum(steps)):
        noise = torch.randn(weight.shape, dtype=weight.dtype, generator=generator)
        weight.grad = slope * weight.detach() + heat * noise
        optimizer.step()
        if step >= steps[0] and step % 5 == 0:
            kinetic += float(cl.kinetic_temperature(optimizer)[0] or 0.0) / (steps[1] / 5)
            square += weight.detach().square() / (steps[1] / 5)
    return kinetic, square


@pytest.mark.statistical
@pytest.mark.parametrize("scheme", ["BACDEDCAB", "BAFEFAB", "BAEFEAB"])
def test_adaptive_langevin_holds_its_temperature_under_gradient_noise(scheme: str) -> None:
    stiffness = torch.linspace(0.5, 2.0, 400, dtype=torch.float64)
    h, heat = 0.03, 5.0
    weight = torch.nn.Parameter(torch.zeros(400, dtype=torch.float64))
    optimizer = cl.AdaptiveLangevin(
        [weight],
        h,
        coupling=0.02,
        driving_noise=0.2,
        temperature=TAU,
        scheme=scheme,
        seed=1,
    )
    kinetic, square = run(optimizer, weight, stiffness, heat, (2000, 6000))
    assert kinetic == pytest.approx(TAU, rel=0.02)
    assert float((stiffness * square).mean()) == pytest.approx(TAU, rel=0.05)
    # The friction that takes out the heat of σ_A and of the gradient's noise alike.
    balance = (0.2**2 + h * heat**2) / (2 * TAU)
    friction = cl.friction_variable(optimizer)[0]
    assert friction == pytest.approx(balance, rel=0.2)


@pytest.mark.statistical
def test_langevin_at_the_same_settings_is_hot() -> None:
    """With the friction that σ_A alone would need: γ = σ_A²/(2τ)."""
    stiffness = torch.linspace(0.5, 2.0, 400, dtype=torch.float64)
    weight = torch.nn.Parameter(torch.zeros(400, dtype=torch.float64))
    friction = 0.2**2 / (2 * TAU)
    optimizer = cl.Langevin([weight], 0.03, friction, TAU, seed=1)
    kinetic, _ = run(optimizer, weight, stiffness, 5.0, (4000, 2000))
    assert kinetic > 3 * TAU


@pytest.mark.statistical
def test_adaptive_langevin_holds_its_temperature_on_circles() -> None:
    h, heat, size = 0.02, 6.0, 400
    results = []
    for adaptive in (True, False):
        weight = torch.nn.Parameter(torch.full((size,), 0.1, dtype=torch.float64))
        shared = {"constraint": cl.Circle(radius=1.5), "seed": 2}
        optimizer: cl.CoLA
        if adaptive:
            optimizer = cl.AdaptiveLangevin([weight], h, 0.02, 0.2, TAU, **shared)
        else:
            optimizer = cl.Langevin([weight], h, 0.2**2 / (2 * TAU), TAU, **shared)
        results.append(run(optimizer, weight, 1.0, heat, (3000, 5000))[0])
    assert results[0] == pytest.approx(TAU, rel=0.02)
    assert results[1] > 1.5 * TAU
