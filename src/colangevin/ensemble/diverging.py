"""Members that diverge: how they are found, and how they leave an ensemble."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from colangevin.ensemble.groups import MemberGroup, finite_members

if TYPE_CHECKING:
    from colangevin.ensemble.ensemble import Ensemble


class Removal(NamedTuple):
    """A member that was removed because its loss or its weights were no longer finite."""

    member: int
    seed: int
    step: int


def sound(losses: Tensor, stacked: Iterable[Tensor], groups: Iterable[MemberGroup]) -> Tensor:
    """Which members go on: their losses, weights and gradients are finite.

    A gradient of the last step that is not finite shows in no loss yet. It shows in the weights,
    and where a projection would fail, in the members that rest.

    Example:
        >>> import torch
        >>> sound(torch.ones(2), [torch.tensor([[1.0], [torch.nan]])], [])
        tensor([ True, False])
    """
    keep = losses.isfinite().cpu()
    for tensor in stacked:
        if (own := finite_members(tensor)) is not None:
            keep = keep & own.cpu()
    for group in groups:
        if group.resting is not None:
            keep = keep & ~group.resting.cpu()
    return keep


def select(ensemble: Ensemble, rows: Sequence[int]) -> None:
    """Keep the members in these rows."""
    count, chosen = len(ensemble.active), list(rows)
    learned = ensemble._learned
    entries = {name: ensemble._state[learned[name]] for name in learned}
    for table in (learned, ensemble._frozen, ensemble._buffers):
        for name, tensor in table.items():
            table[name] = tensor[chosen].contiguous()
    ensemble._state = {
        learned[name]: {
            key: value if value.dim() == 0 else _rows(value, count, chosen)
            for key, value in entry.items()
        }
        for name, entry in entries.items()
    }
    ensemble.active = [ensemble.active[row] for row in chosen]
    ensemble._own_seeds = [ensemble.seeds[i] for i in ensemble.active]
    for group in ensemble._groups:
        group.select(chosen)
    if ensemble.active:
        ensemble._lay_out()


def _rows(tensor: Tensor, count: int, chosen: Sequence[int]) -> Tensor:
    """Some members' part of a tensor whose first dimension is members, or members · rows."""
    return tensor.unflatten(0, (count, -1))[list(chosen)].flatten(0, 1).contiguous()
