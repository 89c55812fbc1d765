"""Sorting the parameters: those that vmap can serve, and those of geometries that look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from colangevin.constraints import Unconstrained
from colangevin.ensemble.coupled import Coupled
from colangevin.ensemble.members import aligned
from colangevin.ensemble.step import Cell, Store


def sort_parameters(
    store: Store, groups: Sequence[Sequence[dict[str, Any]]]
) -> tuple[list[Cell], list[Coupled]]:
    """The cells and the coupled parameters; slacks go into the store.

    Args:
        store: the stacked parameters.
        groups: the parameter groups of each member.

    Raises:
        ValueError: if members differ in what cannot differ.
    """
    cells: list[Cell] = []
    coupled: list[Coupled] = []
    for place, group in enumerate(groups[0]):
        owns = [member[place]["constraint"] for member in groups]
        constraint = owns[0] if owns[0] is not None else Unconstrained()
        if not constraint.fallible:
            owns = [constraint if own is None else own for own in owns]
            cells += [_cell(store, name, owns) for name in group["names"]]
            continue
        if any(own is not constraint for own in owns):
            raise ValueError(
                f"{type(constraint).__name__} cannot differ between members; give one "
                f"constraint for {group['name']!r}"
            )
        tensors = {name: store.position[name] for name in group["names"]}
        coupled.append(Coupled(constraint, tensors))
    return cells, coupled


def _cell(store: Store, name: str, owns: Sequence[Any]) -> Cell:
    position = store.position[name] = aligned(store.position[name])
    if any(type(own) is not type(owns[0]) for own in owns):
        raise ValueError(f"the members' constraints of {name} must be of one kind")
    constraint = owns[0].bind([position.shape[1:]])
    if any(own is not owns[0] for own in owns) and not all(own.numbers() for own in owns):
        raise ValueError(f"the constraint of {name} cannot differ between members")
    constants = torch.tensor([own.numbers() for own in owns], dtype=position.dtype)
    flat = [p if constraint.elementwise else constraint.to_batch(p) for p in position]
    slacks = [own.lift(part) for own, part in zip(owns, flat, strict=True)]
    if slacks[0] is not None:
        store.slack[name] = aligned(torch.stack(slacks))
    return Cell(name, constraint, constants.to(position.device))
