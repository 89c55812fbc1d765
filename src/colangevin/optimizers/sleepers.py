"""Parameters that are frozen for a while, and no longer than their keeper lives."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from torch import Tensor


class Sleepers:
    """Freezes parameters and gives back what it has taken, to them alone.

    Example:
        >>> import torch
        >>> trained, frozen = torch.zeros(1, requires_grad=True), torch.zeros(1)
        >>> sleepers = Sleepers()
        >>> sleepers.put([trained, frozen])
        >>> trained.requires_grad
        False
        >>> sleepers.wake()
        >>> trained.requires_grad, frozen.requires_grad
        (True, False)
    """

    def __init__(self) -> None:
        self._asleep: list[Tensor] = []

    def put(self, parameters: Iterable[Tensor]) -> None:
        """Freeze those that are awake; who is not was frozen by somebody else."""
        for parameter in parameters:
            if parameter.requires_grad:
                parameter.requires_grad_(False)
                self._asleep.append(parameter)

    def wake(self) -> None:
        """Give the frozen ones their ``requires_grad`` back."""
        for parameter in self._asleep:
            parameter.requires_grad_(True)
        self._asleep.clear()

    def wake_with(self, keeper: object) -> None:
        """Wake them when ``keeper`` is deleted, except at the end of the program."""
        weakref.finalize(keeper, self.wake).atexit = False
