"""A smooth two-part problem that couples its parts, and an optimizer loop with recorded noise."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

import colangevin as cl
from injected_noise import noise_from

SIZES = (5, 3)


@cache
def couplings() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    matrix = torch.randn(4, SIZES[0], dtype=torch.float64, generator=generator)
    mixing = torch.randn(SIZES[1], 4, dtype=torch.float64, generator=generator)
    return matrix, mixing


def loss(first: Tensor, second: Tensor) -> Tensor:
    """Bounded forces that couple the parts, and a bowl that keeps them near 0."""
    matrix, mixing = couplings()
    hidden = torch.tanh(matrix @ first)
    bowl = first.square().sum() + second.square().sum()
    return (torch.sin(hidden) * (second @ mixing)).sum() + 0.5 * bowl


def negative_gradient(parts: list[Tensor]) -> list[Tensor]:
    leaves = [part.detach().requires_grad_() for part in parts]
    return [-gradient for gradient in torch.autograd.grad(loss(*leaves), leaves)]


def start() -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(11)
    draws = (torch.randn(size, dtype=torch.float64, generator=generator) for size in SIZES)
    return [torch.nn.Parameter(0.3 * draw) for draw in draws]


class Recorder:
    """Stands in for an optimizer's noise and keeps what it has drawn, by size."""

    def __init__(self, seed: int = 3) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.drawn: dict[int, list[Tensor]] = {}

    def __call__(self, like: Tensor) -> Tensor:
        value = torch.randn(like.shape, dtype=like.dtype, generator=self.generator)
        self.drawn.setdefault(like.numel(), []).append(value.reshape(-1))
        return value

    def of(self, size: int) -> list[Tensor]:
        return self.drawn.get(size, [])


def run(
    optimizer: cl.CoLA,
    parts: list[torch.nn.Parameter],
    steps: int,
    objective: Callable[..., Tensor] = loss,
) -> tuple[list[list[Tensor]], Recorder]:
    """The positions after each step, and the noise that was drawn."""
    recorder = Recorder()
    path = []

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = objective(*parts)
        value.backward()
        return value

    with noise_from(recorder):
        for _ in range(steps):
            optimizer.step(closure)
            path.append([part.detach().clone() for part in parts])
    return path, recorder


def largest_difference(path: list[list[Tensor]], other: list[list[Tensor]]) -> float:
    return max(
        float((one - two).abs().max())
        for parts, others in zip(path, other, strict=True)
        for one, two in zip(parts, others, strict=True)
    )
