"""Exact expectations for statistical tests, and the statistics to compare samples with them.

Integrals over periodic angles use the trapezoidal rule, which converges exponentially there.
An observable or a potential takes arrays of coordinates and returns an array of values.
A potential U at temperature tau stands for the density exp(-U / tau) with respect to the
surface measure, (4.8).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ive

Array = NDArray[np.float64]
PlaneFunction = Callable[[Array, Array], Array]
SpaceFunction = Callable[[Array, Array, Array], Array]
MatrixFunction = Callable[[Array], Array]


def angles(nodes: int) -> Array:
    return np.arange(nodes) * (2.0 * np.pi / nodes)


def weighted_mean(values: Array, energies: Array, measure: Array) -> float:
    """Mean of the values under the weights exp(-energy) * measure, safe against overflow."""
    weights = np.exp(-(energies - energies.min())) * measure
    return float((np.broadcast_to(values, weights.shape) * weights).sum() / weights.sum())


def von_mises_moment(kappa: float, order: int = 1) -> float:
    """E cos(n alpha) = I_n(kappa) / I_0(kappa) for the density exp(kappa cos alpha)."""
    return float(ive(order, kappa) / ive(0, kappa))


def von_mises_cosine(kappa: float) -> float:
    """E cos(alpha) = I_1(kappa) / I_0(kappa)."""
    return von_mises_moment(kappa, 1)


def von_mises_fisher_mean(kappa: float) -> float:
    """E <mu, x> = coth(kappa) - 1 / kappa on S^2 for the density exp(kappa <mu, x>)."""
    if abs(kappa) < 1e-3:
        return kappa / 3.0 - kappa**3 / 45.0
    return float(1.0 / np.tanh(kappa) - 1.0 / kappa)


def von_mises_fisher_resultant(kappa: float, dimension: int) -> float:
    """The same on the unit sphere of R^d: I_{d/2}(kappa) / I_{d/2 - 1}(kappa), kappa > 0."""
    return float(ive(dimension / 2, kappa) / ive(dimension / 2 - 1, kappa))


def haar_second_moment(rows: int) -> float:
    """E Q_ij^2 = 1 / r on the Stiefel manifold of r x s matrices, any s."""
    return 1.0 / rows


def haar_fourth_moment(rows: int) -> float:
    """E Q_ij^4 = 3 / (r (r + 2))."""
    return 3.0 / (rows * (rows + 2))


def ellipse_expectation(
    observable: PlaneFunction,
    potential: PlaneFunction,
    temperature: float,
    a: float,
    b: float,
    nodes: int = 2000,
) -> float:
    """E f(x, y) on x^2/a^2 + y^2/b^2 = 1 with respect to arc length."""
    t = angles(nodes)
    x, y = a * np.cos(t), b * np.sin(t)
    arc = np.sqrt((a * np.sin(t)) ** 2 + (b * np.cos(t)) ** 2)
    return weighted_mean(observable(x, y), potential(x, y) / temperature, arc)


def circle_expectation(
    observable: PlaneFunction,
    potential: PlaneFunction,
    temperature: float,
    radius: float = 1.0,
    nodes: int = 2000,
) -> float:
    """E f(theta, xi) on theta^2 + xi^2 = r^2."""
    return ellipse_expectation(observable, potential, temperature, radius, radius, nodes)


def torus_expectation(
    observable: SpaceFunction,
    potential: SpaceFunction,
    temperature: float,
    major: float,
    minor: float,
    nodes: int = 400,
) -> float:
    """E f(x, y, z) on (sqrt(x^2 + y^2) - R)^2 + z^2 = r^2 with respect to area."""
    u, v = np.meshgrid(angles(nodes), angles(nodes), indexing="ij")
    distance = major + minor * np.cos(v)
    x, y, z = distance * np.cos(u), distance * np.sin(u), minor * np.sin(v)
    return weighted_mean(observable(x, y, z), potential(x, y, z) / temperature, minor * distance)


def stiefel_21_expectation(
    observable: MatrixFunction, log_density: MatrixFunction, nodes: int = 2000
) -> float:
    """E f(Q) on Stiefel(2, 1); both functions take Q of shape (..., 2, 1)."""
    t = angles(nodes)
    q = np.stack([np.cos(t), np.sin(t)], axis=-1)[..., None]
    return weighted_mean(observable(q), -log_density(q), np.ones(nodes))


def stiefel_32_expectation(
    observable: MatrixFunction, log_density: MatrixFunction, nodes: int = 64
) -> float:
    """E f(Q) on Stiefel(3, 2); both functions take Q of shape (..., 3, 2).

    The first column is a point of the sphere (Gauss-Legendre in its height, trapezoidal in its
    longitude), the second a point of the circle of unit vectors orthogonal to it; the product of
    the two uniform measures is the invariant one.
    """
    height, height_weight = np.polynomial.legendre.leggauss(nodes)
    z, u, v = np.meshgrid(height, angles(nodes), angles(nodes), indexing="ij")
    s = np.sqrt(1.0 - z**2)
    first = np.stack([s * np.cos(u), s * np.sin(u), z], axis=-1)
    south = np.stack([z * np.cos(u), z * np.sin(u), -s], axis=-1)
    east = np.stack([-np.sin(u), np.cos(u), np.zeros_like(u)], axis=-1)
    second = np.cos(v)[..., None] * south + np.sin(v)[..., None] * east
    q = np.stack([first, second], axis=-1)
    measure = np.broadcast_to(height_weight[:, None, None], z.shape)
    return weighted_mean(observable(q), -log_density(q), measure)


def matrix_langevin_21(observable: MatrixFunction, kappa: float, nodes: int = 2000) -> float:
    """E f(Q) on Stiefel(2, 1) for the density exp(kappa Q_00)."""
    return stiefel_21_expectation(observable, lambda q: kappa * q[..., 0, 0], nodes)


def matrix_langevin_32(observable: MatrixFunction, parameter: ArrayLike, nodes: int = 64) -> float:
    """E f(Q) on Stiefel(3, 2) for the density exp(tr(F^T Q)), F of shape (3, 2)."""
    f = np.asarray(parameter, dtype=np.float64)
    return stiefel_32_expectation(observable, lambda q: (f * q).sum(axis=(-2, -1)), nodes)


def batch_means_mcse(samples: ArrayLike, batches: int | None = None) -> float:
    """Monte Carlo standard error of the mean of all samples, by batch means.

    ``samples`` has time along its first axis; further axes are independent chains. Each chain is
    cut into ``batches`` batches (the square root of its length unless told), which must be long
    beside the autocorrelation time; a remainder at the start of the chain is left out.
    """
    x = np.asarray(samples, dtype=np.float64)
    x = x.reshape(len(x), -1)
    length = len(x)
    count = int(np.sqrt(length)) if batches is None else batches
    size = length // count
    if size < 1 or count * x.shape[1] < 2:
        raise ValueError(f"{length} samples are too few for {count} batches")
    means = x[length - count * size :].reshape(count, size, -1).mean(axis=1).ravel()
    return float(means.std(ddof=1) / np.sqrt(means.size))


def fitted_order(step_sizes: ArrayLike, errors: ArrayLike) -> float:
    """Least squares slope of log |error| against log step size."""
    h = np.log(np.asarray(step_sizes, dtype=np.float64))
    e = np.log(np.abs(np.asarray(errors, dtype=np.float64)))
    return float(((h - h.mean()) * (e - e.mean())).sum() / ((h - h.mean()) ** 2).sum())
