"""Taking members out whose loss is no longer finite, and saying so."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from colangevin.ensemble import members
from colangevin.errors import DivergenceWarning

if TYPE_CHECKING:
    from colangevin.ensemble.ensemble import Ensemble


class Removal(NamedTuple):
    """A member that was removed because its loss was no longer finite."""

    member: int
    seed: int
    step: int


def remove_diverged(ensemble: Ensemble, losses: Tensor) -> Tensor:
    """Remove members by their losses, with a warning, and return which of them stay."""
    keep = losses.isfinite().cpu()
    if bool(keep.all()):
        return keep
    gone = [i for i, stays in zip(ensemble.active, keep.tolist(), strict=True) if not stays]
    ensemble.removed += [Removal(i, ensemble.seeds[i], ensemble.steps) for i in gone]
    ensemble.active = [i for i in ensemble.active if i not in gone]
    warnings.warn(
        f"{len(gone)} of {len(ensemble.seeds)} members diverged and were removed at step "
        f"{ensemble.steps}: seeds {[ensemble.seeds[i] for i in gone]}; see Ensemble.removed",
        DivergenceWarning,
        stacklevel=3,
    )
    select(ensemble, keep)
    return keep


def select(ensemble: Ensemble, keep: Tensor) -> None:
    """Keep those members that ``keep`` has True for."""
    for part in (*ensemble._store.parts().values(), ensemble._frozen):
        for name, tensor in part.items():
            part[name] = members.aligned(tensor[keep.to(tensor.device)])
    ensemble._cells = [
        replace(cell, constants=cell.constants[keep.to(cell.constants.device)])
        for cell in ensemble._cells
    ]
    ensemble._coupled = [coupled.select(keep) for coupled in ensemble._coupled]
    for coupled in ensemble._coupled:
        ensemble._store.position.update(coupled.tensors())
    if ensemble._options and ensemble.active:
        ensemble.set()


def refuse_removed(removed: Iterable[Removal], index: int) -> None:
    """Refuse to hand out a member that is gone.

    Raises:
        ValueError: saying when it was removed.
    """
    for removal in removed:
        if removal.member == index:
            raise ValueError(
                f"member {index} (seed {removal.seed}) diverged and was removed at step "
                f"{removal.step}"
            )
