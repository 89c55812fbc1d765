"""An ensemble from one device to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from colangevin.optimizers.step.friction import FRICTION

if TYPE_CHECKING:
    from colangevin.ensemble.ensemble import Ensemble


@torch.no_grad()
def move(ensemble: Ensemble, convert: Callable[[Tensor], Tensor]) -> None:
    """Put all tensors somewhere else: all of them, or none if one cannot be moved.

    Args:
        ensemble: the members.
        convert: makes the new tensor from the old one.
    """
    tables = (ensemble._learned, ensemble._frozen, ensemble._buffers)
    moved = [{name: convert(tensor) for name, tensor in table.items()} for table in tables]
    state = {
        moved[0][name]: {
            key: convert(value) if value.dim() and key != FRICTION else value  # laying out moves it
            for key, value in ensemble._state[tensor].items()
        }
        for name, tensor in ensemble._learned.items()
    }
    ensemble._template._apply(convert)
    for table, new in zip(tables, moved, strict=True):
        table.update(new)
    ensemble._state = state
    ensemble._gradients.forget()
    if ensemble.active:
        ensemble._lay_out()
