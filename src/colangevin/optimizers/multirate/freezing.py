"""Parameters that are frozen for a while: ``requires_grad`` is taken from them and given back."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from torch import Tensor


class Frozen:
    """The parameters that this object has frozen.

    It gives ``requires_grad`` back to these alone. A parameter that was frozen before, by the
    user or by another object, stays frozen.

    Example:
        >>> import torch
        >>> trained, fixed = torch.zeros(1, requires_grad=True), torch.zeros(1)
        >>> frozen = Frozen()
        >>> frozen.put([trained, fixed])
        >>> trained.requires_grad
        False
        >>> frozen.wake()
        >>> trained.requires_grad, fixed.requires_grad
        (True, False)
    """

    def __init__(self) -> None:
        self._asleep: list[Tensor] = []

    def put(self, parameters: Iterable[Tensor]) -> None:
        """Freeze those of the parameters that are not frozen yet."""
        for parameter in parameters:
            if parameter.requires_grad:
                parameter.requires_grad_(False)
                self._asleep.append(parameter)

    def wake(self) -> None:
        """Give the frozen parameters their ``requires_grad`` back."""
        for parameter in self._asleep:
            parameter.requires_grad_(True)
        self._asleep.clear()

    def wake_with(self, keeper: object) -> None:
        """Wake the parameters when ``keeper`` is deleted, but not at the end of the program."""
        weakref.finalize(keeper, self.wake).atexit = False
