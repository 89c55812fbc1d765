"""Images between two digits: a DCGAN on MNIST, and the lines of (6.4) between its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from colangevin.lab.models import dcgan

PAIRS = tuple(
    sorted(
        [tuple(sorted((digit, (digit + 2) % 10))) for digit in range(10)]
        + [(digit, digit + 5) for digit in range(5)]
    )
)
"""15 pairs (i, j), i < j, with each digit three times, as the thesis has; which ones is ours."""
ALPHAS = 11
RECOGNISED = 0.5
"""The least probability of an image at the end of a line."""
BORDER = 2
"""Black pixels around a digit of 28 x 28, so that halving goes on to a single one."""


class Forger:
    """A generator and a discriminator on their way through a training.

    Args:
        images: (n, 28, 28), ``uint8``.
        features: size of both networks.
        batch_size: images in a step.
        seed: of weights, batches and noise.

    Attributes:
        step: steps done.
        losses: of discriminator and generator, at the last step.

    Example:
        >>> forger = Forger(torch.zeros(8, 28, 28, dtype=torch.uint8), 1, batch_size=4, seed=0)
        >>> forger.advance()
        >>> forger.step, forger.draw(torch.zeros(2, 100)).shape
        (1, torch.Size([2, 28, 28]))
    """

    def __init__(self, images: Tensor, features: int, batch_size: int, seed: int) -> None:
        padded = functional.pad(images.unsqueeze(1), (BORDER,) * 4)
        self._images, self._batch = padded, batch_size
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            pair = nn.ModuleList([dcgan.generator(features), dcgan.discriminator(features)])
            self.networks = pair.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._random = torch.Generator().manual_seed(seed)
        self._optimizers = [
            torch.optim.Adam(network.parameters(), lr=2e-4, betas=(0.5, 0.999))
            for network in self.networks
        ]
        self.step = 0
        self.losses = (0.0, 0.0)

    def advance(self) -> None:
        """One step of the discriminator, then one of the generator."""
        generator, judge = self.networks
        items = torch.randint(len(self._images), (self._batch,), generator=self._random)
        real = self._images[items].float() / 127.5 - 1
        noise = torch.randn(self._batch, dcgan.NOISE, 1, 1, generator=self._random)
        forged = generator(noise)
        judged = _cross(judge(real), 1.0) + _cross(judge(forged.detach()), 0.0)
        self._descend(1, judged)
        made = _cross(judge(forged), 1.0)
        self._descend(0, made)
        self.step += 1
        self.losses = (float(judged.detach()), float(made.detach()))

    def _descend(self, which: int, loss: Tensor) -> None:
        self._optimizers[which].zero_grad()
        loss.backward()
        self._optimizers[which].step()

    @torch.no_grad()
    def draw(self, noise: Tensor) -> Tensor:
        """Images (n, 28, 28) as ``uint8`` of inputs (n, 100)."""
        self.networks.eval()
        whole = self.networks[0](noise.view(-1, dcgan.NOISE, 1, 1)).squeeze(1)
        self.networks.train()
        digits = whole[:, BORDER:-BORDER, BORDER:-BORDER]
        return ((digits + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on."""
        return {
            "networks": self.networks.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
            "random": self._random.get_state(),
            "step": self.step,
            "losses": list(self.losses),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where ``state_dict`` was taken."""
        self.networks.load_state_dict(state["networks"])
        for optimizer, own in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(own)
        self._random.set_state(state["random"])
        self.step, self.losses = state["step"], tuple(state["losses"])


def _cross(logits: Tensor, wanted: float) -> Tensor:
    return functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, wanted))


def choose(
    forger: Forger, judge: Callable[[Tensor], Tensor], candidates: int, seed: int
) -> tuple[Tensor, list[float]]:
    """Inputs of ten images, one of each digit from 0 to 9, at random among those recognised.

    The clearest ones would be easier than what a person picks. Of a digit that is not recognised
    in any image, the clearest is taken.

    Args:
        forger: the trained generator.
        judge: maps images (n, 28, 28) to probabilities (n, 10).
        candidates: images to choose from, in a random order.
        seed: of their inputs.

    Returns:
        The inputs (10, 100), and the probability of the wanted digit for each.
    """
    noise = torch.randn(
        candidates, dcgan.NOISE, generator=torch.Generator().manual_seed(seed + 501)
    )
    found = torch.cat([judge(forger.draw(some)) for some in noise.split(500)])
    recognised = found > RECOGNISED
    first, clearest = recognised.int().argmax(dim=0), found.argmax(dim=0)
    chosen = torch.where(recognised.any(dim=0), first, clearest)
    return noise[chosen], found[chosen, range(len(chosen))].tolist()


def between(ends: Tensor, pairs: Sequence[Sequence[int]] = PAIRS, points: int = ALPHAS) -> Tensor:
    """The inputs z = (1 - α) z_i + α z_j (6.4) of all pairs: (pairs · points, 100).

    Example:
        >>> between(torch.eye(10), [(0, 1)], points=3)[1, :3]
        tensor([0.5000, 0.5000, 0.0000])
    """
    alphas = torch.linspace(0.0, 1.0, points).view(-1, 1)
    return torch.cat([(1 - alphas) * ends[i] + alphas * ends[j] for i, j in pairs])
