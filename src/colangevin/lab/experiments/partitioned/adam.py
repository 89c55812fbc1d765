"""Adam for many seeds as one computation: the baseline of the partitioned methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.ensemble import Ensemble


class AdamEnsemble(Ensemble):
    """An ensemble whose members are trained by ``torch.optim.Adam``.

    Adam treats every weight by itself, so the stacked weights of all members are one parameter
    to it. Members, batches, measurements and checkpoints are those of ``Ensemble``.

    Args:
        factory: as in ``Ensemble``.
        seeds: as in ``Ensemble``.
        lr: of Adam.

    Example:
        >>> from torch import nn
        >>> adams = AdamEnsemble(lambda: nn.Linear(2, 1), range(3), lr=0.01)
        >>> inputs, targets = torch.randn(8, 2), torch.randn(8, 1)
        >>> adams.epoch(nn.functional.mse_loss, inputs, targets, batch_size=4).shape
        torch.Size([3])
    """

    def __init__(self, factory: Any, seeds: Sequence[int], lr: float) -> None:
        super().__init__(factory, seeds, lr=1.0)
        self._rate = lr
        self._adam = self._begin()

    def _begin(self) -> torch.optim.Adam:
        return torch.optim.Adam(list(self._learned.values()), lr=self._rate, foreach=True)

    @torch.no_grad()
    def step(self, loss: Any, inputs: Tensor, targets: Tensor, *, shared: bool = False) -> Tensor:
        """Make one step of every member; return the losses before it."""
        found = self.slopes(loss, inputs, targets, shared=shared)
        for name, parameter in self._learned.items():
            parameter.grad = found.gradients[name]
        self._adam.step()
        for name, tensor in found.buffers.items():
            self._buffers[name].copy_(tensor)
        self.steps += 1
        return found.losses.detach()

    def _select(self, rows: Sequence[int]) -> None:
        chosen = list(rows)
        states = [self._adam.state.get(tensor, {}) for tensor in self._learned.values()]
        super()._select(rows)
        self._adam = self._begin()
        for tensor, state in zip(self._learned.values(), states, strict=True):
            self._adam.state[tensor] = {
                key: value[chosen].clone() if value.dim() else value for key, value in state.items()
            }

    def state_dict(self) -> dict[str, Any]:
        """Everything that a training needs to go on exactly."""
        return {**super().state_dict(), "adam": self._adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where ``state_dict`` was taken."""
        super().load_state_dict(state)
        self._adam = self._begin()
        self._adam.load_state_dict(state["adam"])
