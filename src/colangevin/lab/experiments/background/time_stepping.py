"""Multiple time-stepping of chapter 1: r-RESPA and reversible averaging, algorithms 1.1 to 1.4.

They are the background of multirate training: a slow force, or a slow variable, gets a long step h
while the fast one makes k short steps. Tensors may have leading dimensions; steps broadcast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

Force: TypeAlias = Callable[[Tensor], Tensor]
Slope: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def respa(
    q: Tensor, p: Tensor, slow: Force, fast: Force, h: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """One step of r-RESPA (algorithm 1.1), mass 1.

    Args:
        q: position.
        p: momentum.
        slow: ∇U_S.
        fast: ∇U_F.
        h: the long step.
        k: short steps in a long one.

    Example:
        >>> one, zero = torch.ones(1), torch.zeros(1)
        >>> q, p = respa(one, zero, lambda q: 0 * q, lambda q: q, torch.tensor(0.1), 10)
        >>> bool((q - torch.tensor(0.1).cos()).abs() < 1e-4)
        True
    """
    p = p - h / 2 * slow(q)
    short = h / k
    for _ in range(k):
        p = p - short / 2 * fast(q)
        q = q + short * p
        p = p - short / 2 * fast(q)
    return q, p - h / 2 * slow(q)


def langevin_respa(
    q: Tensor,
    p: Tensor,
    slow: Force,
    fast: Force,
    h: Tensor,
    k: int,
    friction: Tensor,
    temperature: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """One step of algorithm 1.2, with BAOAB inside.

    Its O is p ← e^(−γh/k) p + √(τ(1 − e^(−2γh/k))) R. The factor p is missing in print.
    """
    short = h / k
    keep = torch.exp(-friction * short)
    noise = (temperature * (1 - keep * keep)).sqrt()
    p = p - h / 2 * slow(q)
    for _ in range(k):
        p = p - short / 2 * fast(q)
        q = q + short / 2 * p
        p = keep * p + noise * torch.randn(q.shape, generator=generator, dtype=q.dtype)
        q = q + short / 2 * p
        p = p - short / 2 * fast(q)
    return q, p - h / 2 * slow(q)


class Two(NamedTuple):
    """A slow variable (Q, P) of mass 1 and a fast one (q, p) of mass m."""

    slow: Tensor
    fast: Tensor
    slow_momentum: Tensor
    fast_momentum: Tensor


class Slopes(NamedTuple):
    """∂U/∂Q and ∂U/∂q as functions of Q and q, and the mass m."""

    slow: Slope
    fast: Slope
    mass: float


def averaged(state: Two, slopes: Slopes, h: Tensor, k: int) -> Tensor:
    """The mean of ∂U/∂Q while q runs for the time h, forwards or (h < 0) backwards; Q is fixed."""
    q, p, short = state.fast, state.fast_momentum, h / k
    total = slopes.slow(state.slow, q) / 2
    for turn in range(k):
        q, p = _verlet(state.slow, q, p, slopes, short)
        force = slopes.slow(state.slow, q)
        total = total + (force / 2 if turn == k - 1 else force)
    return total / k


def _verlet(
    slow: Tensor, q: Tensor, p: Tensor, slopes: Slopes, short: Tensor
) -> tuple[Tensor, Tensor]:
    p = p - short / 2 * slopes.fast(slow, q)
    q = q + short * p / slopes.mass
    return q, p - short / 2 * slopes.fast(slow, q)


def reversible_averaging(state: Two, slopes: Slopes, h: Tensor, k: int, drift: bool) -> Two:
    """One step of RA-0 (algorithm 1.3), or with ``drift`` of RA-1 (algorithm 1.4).

    RA-0 keeps Q at the middle of its step while the fast variable runs. RA-1 moves it along a
    straight line: the linear drift of multirate training.

    Example:
        >>> model = spring(10.0)
        >>> start = Two(*torch.eye(4, dtype=torch.float64))
        >>> end = reversible_averaging(start, model, torch.tensor(0.01), 10, drift=True)
        >>> end.slow.shape
        torch.Size([4])
    """
    slow, q, momentum, p = state
    momentum = momentum - h / 2 * averaged(state, slopes, h, k)
    short = h / k
    if not drift:
        slow = slow + h / 2 * momentum
    for _ in range(k):
        if drift:
            p = p - short / 2 * slopes.fast(slow, q)
            q = q + short * p / slopes.mass
            slow = slow + short * momentum
            p = p - short / 2 * slopes.fast(slow, q)
        else:
            q, p = _verlet(slow, q, p, slopes, short)
    if not drift:
        slow = slow + h / 2 * momentum
    moved = Two(slow, q, momentum, p)
    return moved._replace(slow_momentum=momentum - h / 2 * averaged(moved, slopes, -h, k))


def spring(stiffness: float) -> Slopes:
    """Example 1.2.4: U = Q²/2 + Ω²(Q − q)²/2 with m = 1/Ω², for Ω² = ``stiffness``."""
    return Slopes(
        lambda slow, q: slow + stiffness * (slow - q),
        lambda slow, q: stiffness * (q - slow),
        1.0 / stiffness,
    )


def respa_matrices(h: Tensor, frequency: float, k: int) -> Tensor:
    """The linear maps (q, p) → (q, p) of r-RESPA for example 1.2.2: [steps, 2, 2]."""
    unit = torch.eye(2, dtype=torch.float64).unsqueeze(0).expand(len(h), 2, 2)
    step = h.unsqueeze(1)
    q, p = respa(unit[:, 0], unit[:, 1], lambda q: q, lambda q: frequency**2 * q, step, k)
    return torch.stack([q, p], dim=1)


def averaging_matrices(h: Tensor, stiffness: float, k: int, drift: bool) -> Tensor:
    """The linear maps of RA-0 or RA-1 for example 1.2.4: [steps, 4, 4]."""
    unit = torch.eye(4, dtype=torch.float64).unsqueeze(0).expand(len(h), 4, 4)
    start = Two(*unit.unbind(dim=1))
    end = reversible_averaging(start, spring(stiffness), h.unsqueeze(1), k, drift)
    return torch.stack(list(end), dim=1)
