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
