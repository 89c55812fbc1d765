"""The step of adjusted sampling, transcribed literally; physical units, float64, one chain."""

import math

import torch
from torch import Tensor


def ghmc_on_the_sphere(
    q: Tensor,
    p: Tensor,
    gradient,
    potential,
    h: float,
    gamma: float,
    tau: float,
    noise: Tensor,
    level: float,
) -> tuple[Tensor, Tensor, bool]:
    """O, then B/2, A, B/2 on the unit sphere, then the test; p is turned where it fails."""
    c = math.exp(-gamma * h)

    def tangent(q: Tensor, v: Tensor) -> Tensor:
        return v - q * (q @ v)

    p = tangent(q, c * p + math.sqrt(tau * (1 - c**2)) * noise)
    energy = potential(q) + p @ p / 2
    half = p - h / 2 * tangent(q, gradient(q))
    speed = half.norm()
    end = q * torch.cos(h * speed) + half / speed * torch.sin(h * speed)
    along = half * torch.cos(h * speed) - q * speed * torch.sin(h * speed)
    last = along - h / 2 * tangent(end, gradient(end))
    change = potential(end) + last @ last / 2 - energy
    if level < math.exp(min(0.0, -float(change) / tau)):
        return end, last, True
    return q, -p, False


def baoab_in_a_metric(
    q: Tensor,
    z: Tensor,
    gradient,
    factor: Tensor,
    h: float,
    gamma: float,
    tau: float,
    noise: Tensor,
    kick: float,
) -> tuple[Tensor, Tensor]:
    """B, A/2, O, A/2 with the momentum z = Lᵀp and the velocity Lz; ``kick`` is the share of B."""
    c = math.exp(-gamma * h)
    z = z - kick * h * factor.T @ gradient(q)
    q = q + h / 2 * factor @ z
    z = c * z + math.sqrt(tau * (1 - c**2)) * noise
    return q + h / 2 * factor @ z, z


def isokinetic_on_the_sphere(
    q: Tensor, u: Tensor, gradient, epsilon: float, freedom: int
) -> tuple[Tensor, Tensor, float]:
    """B/2, A, B/2 of a unit velocity on the unit sphere, and what the kinetic energy gains."""

    def kick(q: Tensor, u: Tensor) -> tuple[Tensor, float]:
        g = gradient(q) - q * (q @ gradient(q))
        e, delta = -g / g.norm(), float(epsilon / 2 * g.norm() / (freedom - 1))
        along = float(u @ e)
        scale = math.cosh(delta) + along * math.sinh(delta)
        turned = u + e * (math.sinh(delta) + along * (math.cosh(delta) - 1))
        return turned / scale, (freedom - 1) * math.log(scale)

    u, first = kick(q, u)
    end = q * math.cos(epsilon) + u * math.sin(epsilon)
    u = u * math.cos(epsilon) - q * math.sin(epsilon)
    u, second = kick(end, u)
    return end, u, first + second
