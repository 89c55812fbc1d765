"""The order of BAOAB's sampling error, computed without sampling.

The stationary moments m_j = E φ_j(X) of the scheme's Markov chain solve m_j = Σ_k K_jk m_k with
K_jk the coefficients of E[φ_j(X') | X] in orthonormal Hermite polynomials φ_k(θ, p), which a
Gaussian quadrature over (θ, p) and the noise gives from one batched call of the optimizer.
"""

import numpy as np
import pytest
import torch
from numpy.polynomial.hermite_e import hermegauss, hermevander
from scipy.special import factorial

import colangevin as cl
from injected_noise import noise_from
from targets import fitted_order

TAU = 1.0
DEGREE = 22


def slope(theta: torch.Tensor) -> torch.Tensor:
    """U = θ²/2 + 0.4 cos θ: near a Gaussian, so that polynomials converge quickly."""
    return theta - 0.4 * torch.sin(theta)


def exact_square() -> float:
    theta = np.linspace(-12.0, 12.0, 4001)
    weight = np.exp(-(theta**2 / 2 + 0.4 * np.cos(theta)) / TAU)
    return float((theta**2 * weight).sum() / weight.sum())


def polynomials(x: np.ndarray) -> np.ndarray:
    return hermevander(x, DEGREE) / np.sqrt(factorial(np.arange(DEGREE + 1)))


def basis(theta: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Products of total degree at most DEGREE."""
    i, j = np.indices((DEGREE + 1, DEGREE + 1))
    kept = (i + j <= DEGREE).ravel()
    products = polynomials(theta)[:, :, None] * polynomials(p)[:, None, :]
    return products.reshape(len(theta), -1)[:, kept]


def stationary_square(step_size: float, friction: float, scheme: str) -> float:
    nodes, weights = hermegauss(40)
    noise_nodes, noise_weights = hermegauss(30)
    theta, p, r = (g.ravel() for g in np.meshgrid(nodes, nodes, noise_nodes, indexing="ij"))
    moved_theta, moved_p = one_call(theta, p, r, step_size, friction, scheme)
    images = basis(moved_theta, moved_p).reshape(1600, 30, -1)
    expected = np.einsum("xnj,n->xj", images, noise_weights / noise_weights.sum())
    outer = np.outer(weights, weights).ravel() / weights.sum() ** 2
    start = basis(*(g.ravel() for g in np.meshgrid(nodes, nodes, indexing="ij")))
    transfer = np.einsum("x,xj,xk->jk", outer, expected, start, optimize=True)
    system = np.eye(len(transfer)) - transfer
    moments = np.linalg.lstsq(system[1:, 1:], -system[1:, 0], rcond=None)[0]
    # θ² = √2 φ_2(θ) + 1, and (i, j) = (2, 0) stands after DEGREE + 1 + DEGREE products.
    return float(np.sqrt(2.0) * moments[DEGREE + 1 + DEGREE - 1] + 1.0)


def one_call(
    theta: np.ndarray, p: np.ndarray, r: np.ndarray, h: float, friction: float, scheme: str
) -> tuple[np.ndarray, np.ndarray]:
    parameter = torch.nn.Parameter(torch.from_numpy(theta.copy()))
    optimizer = cl.Langevin([parameter], h, friction, TAU, scheme)
    optimizer.state[parameter]["momentum_buffer"] = torch.from_numpy(-p / h)
    optimizer.state[parameter]["step"].fill_(1)  # the first call may differ
    parameter.grad = slope(parameter.detach())
    # The buffer is −p/h, so the optimizer's noise has the other sign.
    with noise_from(lambda like: torch.from_numpy(-r)):
        optimizer.step()
    moved = -h * optimizer.state[parameter]["momentum_buffer"]
    return parameter.detach().numpy(), moved.numpy()


STEPS = [0.4, 0.3, 0.2]


@pytest.mark.parametrize(("friction", "order"), [(1.0, 2.0), (np.inf, 4.0)])
def test_order_of_the_sampling_error_of_baoab(friction: float, order: float) -> None:
    """h², and in the limit (2.56) the square of its step h²/2."""
    errors = [stationary_square(h, friction, "BAOAB") - exact_square() for h in STEPS]
    assert fitted_order(STEPS, errors) == pytest.approx(order, abs=0.15)


def test_oba_is_less_accurate() -> None:
    error = stationary_square(0.2, 1.0, "OBA") - exact_square()
    assert abs(error) > 100 * abs(stationary_square(0.2, 1.0, "BAOAB") - exact_square())
