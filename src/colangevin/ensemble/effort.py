"""How much work a step is, which decides how many threads of torch it uses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn

from colangevin.threads import multiply_adds_of, threads_for


class Effort:
    """Measures a module once, and chooses the threads for any number of points.

    Args:
        template: the module whose forward pass all members share.
    """

    def __init__(self, template: nn.Module) -> None:
        self._template = template
        self._per_number: float | None = None

    def threads(
        self, inputs: Tensor, members: int, shared: bool = False
    ) -> AbstractContextManager[None]:
        """One thread where the members' forward pass is little work.

        Args:
            inputs: a batch of each member, or of all.
            members: how many there are.
            shared: all members have the same batch.
        """
        if torch.get_num_threads() == 1 or inputs.device.type != "cpu":
            return nullcontext()
        if self._per_number is None:
            self._per_number = self._measure(inputs, shared)
        total = self._per_number * inputs.numel() * (members if shared else 1)
        return nullcontext() if math.isinf(total) else threads_for(int(total))

    def _measure(self, inputs: Tensor, shared: bool) -> float:
        """Multiply-adds for each number of the input."""
        model = self._template
        # Recurrent and attention layers of one call have no count: take every weight once a row.
        weights = sum(parameter.numel() for parameter in model.parameters())
        try:
            batch = inputs if shared else inputs[0]
            with evaluating(model), torch.random.fork_rng(devices=[]):
                counted = multiply_adds_of(lambda: model(batch))
            return max(counted, weights * len(batch)) / batch.numel()
        except Exception:  # the step itself says what is wrong
            return math.inf


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, and every part of it back into its own afterwards.

    Example:
        >>> model = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
        >>> with evaluating(model):
        ...     pass
        >>> model[0].training, model[1].training
        (True, False)
    """
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
