"""Chapter 5 of the thesis, transcribed literally: plain loops, one algorithm a function.

A loss takes the slow parameters, the fast ones and the number of the step (which stands for the
mini-batch) and returns a scalar. All functions return the parameters after every step.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Loss = Callable[[Tensor, Tensor, int], Tensor]
Trajectory = list[tuple[Tensor, ...]]


def gradients(loss: Callable[..., Tensor], *theta: Tensor, step: int) -> tuple[Tensor, ...]:
    """The gradient of the loss with respect to each of the parameters."""
    leaves = [t.detach().clone().requires_grad_() for t in theta]
    return torch.autograd.grad(loss(*leaves, step), leaves)


def linear_drift(
    loss: Loss,
    theta_s: Tensor,
    theta_f: Tensor,
    h: float,
    mu: float,
    k: int,
    cycles: int,
    omega_s: float = 0.0,
    omega_f: float = 0.0,
) -> Trajectory:
    """Algorithm 5.3, and with omega = 0 algorithm 5.1."""
    p_s, p_f = torch.zeros_like(theta_s), torch.zeros_like(theta_f)
    trajectory: Trajectory = []
    for cycle in range(cycles):
        gradient_s, _ = gradients(loss, theta_s, theta_f, step=cycle * k)
        p_s = mu * p_s + gradient_s + omega_s * theta_s
        for i in range(k):
            _, gradient_f = gradients(loss, theta_s, theta_f, step=cycle * k + i)
            p_f = mu * p_f + gradient_f + omega_f * theta_f
            theta_f = theta_f - h / k * p_f
            theta_s = theta_s - h / k * p_s
            trajectory.append((theta_s, theta_f))
    return trajectory


def no_drift(
    loss: Loss, theta_s: Tensor, theta_f: Tensor, h: float, mu: float, k: int, cycles: int
) -> Trajectory:
    """Algorithm 5.2: a cycle takes k + 1 gradients, the first fast one after the slow move."""
    p_s, p_f = torch.zeros_like(theta_s), torch.zeros_like(theta_f)
    trajectory: Trajectory = []
    for cycle in range(cycles):
        gradient_s, _ = gradients(loss, theta_s, theta_f, step=cycle * k)
        p_s = mu * p_s + gradient_s
        theta_s = theta_s - h * p_s
        for i in range(k):
            _, gradient_f = gradients(loss, theta_s, theta_f, step=cycle * k + i)
            p_f = mu * p_f + gradient_f
            theta_f = theta_f - h / k * p_f
            trajectory.append((theta_s, theta_f))
    return trajectory


def no_drift_shared(
    loss: Loss, theta_s: Tensor, theta_f: Tensor, h: float, mu: float, k: int, cycles: int
) -> Trajectory:
    """Algorithm 5.2 with k gradients a cycle: the first one, before the slow move, serves both."""
    p_s, p_f = torch.zeros_like(theta_s), torch.zeros_like(theta_f)
    trajectory: Trajectory = []
    for step in range(cycles * k):
        gradient_s, gradient_f = gradients(loss, theta_s, theta_f, step=step)
        if step % k == 0:
            p_s = mu * p_s + gradient_s
            theta_s = theta_s - h * p_s
        p_f = mu * p_f + gradient_f
        theta_f = theta_f - h / k * p_f
        trajectory.append((theta_s, theta_f))
    return trajectory


def three_scales(
    loss: Callable[[Tensor, Tensor, Tensor, int], Tensor],
    theta: tuple[Tensor, Tensor, Tensor],
    h: float,
    mu: float,
    periods: tuple[int, int],
    cycles: int,
) -> Trajectory:
    """Section 5.3.1 for r = 3: h_1 = h, h_2 = h_1 / K_1, h_3 = h_2 / K_2, algorithm 5.1 within 5.1.

    The parameters are ordered from the slowest to the fastest. Each step of h_2 is divided into
    K_2 of h_3, and every scale drifts along in the finest steps.
    """
    k1, k2 = periods
    t1, t2, t3 = theta
    p1, p2, p3 = torch.zeros_like(t1), torch.zeros_like(t2), torch.zeros_like(t3)
    h3 = h / k1 / k2
    trajectory: Trajectory = []
    step = 0
    for _ in range(cycles):
        p1 = mu * p1 + gradients(loss, t1, t2, t3, step=step)[0]
        for _ in range(k1):
            p2 = mu * p2 + gradients(loss, t1, t2, t3, step=step)[1]
            for _ in range(k2):
                p3 = mu * p3 + gradients(loss, t1, t2, t3, step=step)[2]
                t3 = t3 - h3 * p3
                t2 = t2 - h3 * p2
                t1 = t1 - h3 * p1
                trajectory.append((t1, t2, t3))
                step += 1
    return trajectory


def subset_multirate(
    loss: Callable[[Tensor, int], Tensor],
    theta: Tensor,
    subsets: list[Tensor],
    h: float,
    mu: float,
    k: int,
    omega: float = 0.0,
) -> list[Tensor]:
    """Section 5.5.1 after a first step of plain SGD; ``subsets`` are boolean, one a cycle."""
    (gradient,) = gradients(loss, theta, step=0)
    p = gradient + omega * theta
    theta = theta - h * p
    trajectory = [theta.clone()]
    step = 1
    for slow in subsets:
        asleep = theta[slow].clone()
        theta = theta.clone()
        theta[slow] = 0.0
        trajectory[-1] = theta.clone()
        for _ in range(k):
            (gradient,) = gradients(loss, theta, step=step)
            p[~slow] = mu * p[~slow] + gradient[~slow] + omega * theta[~slow]
            theta[~slow] -= h * p[~slow]
            trajectory.append(theta.clone())
            step += 1
        theta[slow] = asleep
        trajectory[-1] = theta.clone()
        (gradient,) = gradients(loss, theta, step=step)
        p = mu * p + gradient + omega * theta
        theta[~slow] -= h * p[~slow]
        theta[slow] -= h * k * p[slow]
        trajectory.append(theta.clone())
        step += 1
    return trajectory


def other_weights_every_time(
    loss: Callable[[Tensor, int], Tensor],
    theta: Tensor,
    subsets: list[Tensor],
    h: float,
    mu: float,
    k: int,
) -> list[Tensor]:
    """The comparison of figure 5.7, after a step of SGD; whole weights, after every stretch of k.

    A stretch keeps one subset at zero; neither its weights nor their momenta move.
    """
    (p,) = gradients(loss, theta, step=0)
    theta = theta - h * p
    trajectory = [theta.clone()]
    for number, slow in enumerate(subsets):
        asleep = theta[slow].clone()
        theta[slow] = 0.0
        for i in range(k):
            (gradient,) = gradients(loss, theta, step=1 + number * k + i)
            p[~slow] = mu * p[~slow] + gradient[~slow]
            theta[~slow] -= h * p[~slow]
        theta[slow] = asleep
        trajectory.append(theta.clone())
    return trajectory
