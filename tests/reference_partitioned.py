"""The thesis's partitioned schemes, transcribed literally: sections 2.2 to 2.4, 3.2 and 3.3.

Slow and plain, in float64. G is the negative gradient, as in chapter 3, and every noise variable
is an argument. ``Gradient`` maps the list of all parts to the list of their G.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Parts = list[Tensor]
Gradient = Callable[[Parts], Parts]


def oba(theta: Tensor, p: Tensor, g: Gradient, h: float, gamma: float, tau: float, r: Tensor):
    """Algorithm 2.1."""
    p = math.exp(-gamma * h) * p + math.sqrt(tau * (1 - math.exp(-2 * gamma * h))) * r
    p = p + h * g([theta])[0]
    return theta + h * p, p


def sgld(theta: Tensor, g: Gradient, h: float, sigma: float, r: Tensor) -> Tensor:
    """(2.66)."""
    return theta + h * g([theta])[0] + sigma * math.sqrt(h) * r


def baoab_in_layers(
    theta: Parts, p: Parts, g: Gradient, h: float, gamma: list[float], tau: list[float], r: Parts
) -> tuple[Parts, Parts]:
    """(3.25) by (3.20): BAOAB with a friction and a temperature for each part."""
    layers = range(len(theta))
    force = g(theta)
    p = [p[i] + h / 2 * force[i] for i in layers]
    theta = [theta[i] + h / 2 * p[i] for i in layers]
    alpha = [math.exp(-gamma[i] * h) for i in layers]
    p = [alpha[i] * p[i] + math.sqrt(tau[i] * (1 - alpha[i] ** 2)) * r[i] for i in layers]
    theta = [theta[i] + h / 2 * p[i] for i in layers]
    force = g(theta)
    return theta, [p[i] + h / 2 * force[i] for i in layers]


def baoab_limit(
    theta: Tensor, g: Gradient, h: float, tau: float, r: Tensor, r_before: Tensor
) -> Tensor:
    """(2.56)."""
    return theta + h**2 / 2 * g([theta])[0] + h / 2 * math.sqrt(tau) * (r + r_before)


def lol(
    theta: Parts,
    p: Parts,
    g: Gradient,
    h: float,
    gamma_1: float,
    tau_1: float,
    tau_2: float,
    r_1: Tensor,
    r_2: Tensor,
) -> tuple[Parts, Parts]:
    """(3.26)."""
    g1, g2 = g(theta)
    p1_half = p[0] + h / 2 * g1
    p2_half = p[1] + h / 2 * g2
    theta1_half = theta[0] + h / 2 * p1_half
    theta2_half = theta[1] + h / 2 * p2_half
    alpha = math.exp(-gamma_1 * h)
    p1_hat = alpha * p1_half + math.sqrt(tau_1 * (1 - alpha**2)) * r_1
    p2_hat = math.sqrt(tau_2) * r_2
    theta1 = theta1_half + h / 2 * p1_hat
    theta2 = theta2_half + h / 2 * p2_hat
    g1, g2 = g([theta1, theta2])
    return [theta1, theta2], [p1_hat + h / 2 * g1, p2_hat + h / 2 * g2]


def lol_start(theta: Parts, g: Gradient, h: float, tau_2: float, r_before: Tensor) -> Parts:
    """The p_0 from which (3.26) is (2.56) in its second part: as if a step had gone before."""
    return [torch.zeros_like(theta[0]), math.sqrt(tau_2) * r_before + h / 2 * g(theta)[1]]


def dhsgd(
    theta: Parts, p: Tensor, g: Gradient, h: float, second: float | None = None
) -> tuple[Parts, Tensor]:
    """(3.27) to (3.30); ``second`` is what stands in the place of h²/2 (contractive: h)."""
    second = h**2 / 2 if second is None else second
    g1, g2 = g(theta)
    p_half = p + h / 2 * g1
    theta = [theta[0] + h * p_half, theta[1] + second * g2]
    return theta, p_half + h / 2 * g(theta)[0]


def dhsgd_heun(theta: Parts, p: Tensor, g: Gradient, h: float) -> tuple[Parts, Tensor]:
    """Section 3.3.2.1 with Heun's method for the second part."""
    g1, g2 = g(theta)
    p_half = p + h / 2 * g1
    theta1 = theta[0] + h * p_half
    euler = theta[1] + h * g2
    theta2 = theta[1] + h / 2 * (g2 + g([theta1, euler])[1])
    return [theta1, theta2], p_half + h / 2 * g([theta1, theta2])[0]


# Adaptive Langevin (2.59): C, D, E, and F for the first two.


def adaptive_c(p: Tensor, xi: float, h: float) -> Tensor:
    return math.exp(-h * xi) * p


def adaptive_d(p: Tensor, sigma: float, h: float, r: Tensor) -> Tensor:
    return p + sigma * math.sqrt(h) * r


def adaptive_e(p: Tensor, xi: float, epsilon: float, n: int, tau: float, h: float) -> float:
    return xi + h * epsilon * (float((p * p).sum()) - n * tau)


def adaptive_f(p: Tensor, xi: float, sigma: float, h: float, r: Tensor) -> Tensor:
    """The exact solution of (2.61)."""
    variance = h if xi == 0 else (1 - math.exp(-2 * xi * h)) / (2 * xi)
    return math.exp(-xi * h) * p + sigma * math.sqrt(variance) * r


def bacdedcab(
    theta: Tensor,
    p: Tensor,
    xi: float,
    g: Callable[[Tensor], Tensor],
    h: float,
    epsilon: float,
    sigma: float,
    tau: float,
    r_1: Tensor,
    r_2: Tensor,
    flow: bool = False,
) -> tuple[Tensor, Tensor, float]:
    """(2.60), or with ``flow`` F in the place of C and D: BAFEFAB."""
    p = p + h / 2 * g(theta)
    theta = theta + h / 2 * p
    if flow:
        p = adaptive_f(p, xi, sigma, h / 2, r_1)
    else:
        p = adaptive_d(adaptive_c(p, xi, h / 2), sigma, h / 2, r_1)
    xi = adaptive_e(p, xi, epsilon, p.numel(), tau, h)
    if flow:
        p = adaptive_f(p, xi, sigma, h / 2, r_2)
    else:
        p = adaptive_c(adaptive_d(p, sigma, h / 2, r_2), xi, h / 2)
    theta = theta + h / 2 * p
    return theta, p + h / 2 * g(theta), xi


def baefeab(
    theta: Tensor,
    p: Tensor,
    xi: float,
    g: Callable[[Tensor], Tensor],
    h: float,
    epsilon: float,
    sigma: float,
    tau: float,
    r: Tensor,
) -> tuple[Tensor, Tensor, float]:
    """The order that others call BADODAB: the friction moves before and after the flow."""
    p = p + h / 2 * g(theta)
    theta = theta + h / 2 * p
    xi = adaptive_e(p, xi, epsilon, p.numel(), tau, h / 2)
    p = adaptive_f(p, xi, sigma, h, r)
    xi = adaptive_e(p, xi, epsilon, p.numel(), tau, h / 2)
    theta = theta + h / 2 * p
    return theta, p + h / 2 * g(theta), xi


def adlala(
    theta: Parts,
    p: Parts,
    xi: float,
    g: Gradient,
    h: float,
    epsilon: float,
    sigma: float,
    tau_1: float,
    gamma_2: float,
    tau_2: float,
    r: Parts,
    printed: bool = False,
) -> tuple[Parts, Parts, float]:
    """(3.31), BACDEDCAB beside BAOAB, with friction epsilon * xi as printed, or xi as in (2.58).

    r is R1, R1', R2.
    """
    times = epsilon if printed else 1.0
    g1, g2 = g(theta)
    p1, p2 = p[0] + h / 2 * g1, p[1] + h / 2 * g2
    theta1, theta2 = theta[0] + h / 2 * p1, theta[1] + h / 2 * p2
    p1 = adaptive_d(adaptive_c(p1, times * xi, h / 2), sigma, h / 2, r[0])
    xi = adaptive_e(p1, xi, epsilon, p1.numel(), tau_1, h)
    p1 = adaptive_c(adaptive_d(p1, sigma, h / 2, r[1]), times * xi, h / 2)
    alpha = math.exp(-gamma_2 * h)
    p2 = alpha * p2 + math.sqrt(tau_2 * (1 - alpha**2)) * r[2]
    theta = [theta1 + h / 2 * p1, theta2 + h / 2 * p2]
    g1, g2 = g(theta)
    return theta, [p1 + h / 2 * g1, p2 + h / 2 * g2], xi


def adaptive_circle(
    theta: Tensor,
    slack: Tensor,
    omega: Tensor,
    xi: float,
    g: Callable[[Tensor], Tensor],
    radius: float,
    h: float,
    epsilon: float,
    sigma: float,
    tau: float,
    r_1: Tensor,
    r_2: Tensor,
) -> tuple[Tensor, Tensor, Tensor, float]:
    """(2.60) on |theta_i| <= r: p = omega (slack, -theta), so p^T p = sum (r omega)^2."""

    def turn(theta: Tensor, slack: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = torch.cos(angle), torch.sin(angle)
        return cos * theta + sin * slack, -sin * theta + cos * slack

    omega = omega + h / 2 * g(theta) * slack / radius**2
    theta, slack = turn(theta, slack, omega * h / 2)
    omega = adaptive_d(adaptive_c(omega, xi, h / 2), sigma / radius, h / 2, r_1)
    xi = xi + h * epsilon * (float(((radius * omega) ** 2).sum()) - omega.numel() * tau)
    omega = adaptive_c(adaptive_d(omega, sigma / radius, h / 2, r_2), xi, h / 2)
    theta, slack = turn(theta, slack, omega * h / 2)
    return theta, slack, omega + h / 2 * g(theta) * slack / radius**2, xi
