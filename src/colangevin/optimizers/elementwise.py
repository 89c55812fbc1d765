"""Elementwise geometries in place, in blocks that stay in the cache.

Eager code is slow on large tensors because of its temporaries, so it goes block by block and
none of them is larger than a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from colangevin.constraints import Constraint, State
from colangevin.constraints.base import Draw, overwrite
from colangevin.integrators.dynamics import Action, advance

BLOCK = 7 << 14
"""Numbers in a block. Smaller ones are bound by calls; temporaries of twice this size are given
back to the system whenever they are freed, and come back page by page."""


def run_in_blocks(
    constraint: Constraint,
    state: State,
    gradient: Tensor,
    weight_decay: float,
    actions: Sequence[Action],
    draw: Draw,
) -> None:
    """Advance flat tensors in place, one block after the other."""
    cut = gradient.device.type == "cpu" and gradient.dim() == 1
    for part, slope in _blocks(state, gradient, BLOCK if cut else gradient.numel()):
        force = slope + weight_decay * part.position if weight_decay else slope
        overwrite(part, advance(constraint, part, force, actions, draw))


def _blocks(state: State, gradient: Tensor, size: int) -> Iterator[tuple[State, Tensor]]:
    if size >= state.position.numel():
        yield state, gradient
        return
    for start in range(0, state.position.numel(), size):
        cut = slice(start, start + size)
        yield State(*[None if t is None else t[cut] for t in state]), gradient[cut]  # type: ignore[arg-type]
