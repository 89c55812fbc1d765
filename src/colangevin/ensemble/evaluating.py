"""Functions of the members' outputs, on all points at once or some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.func import functional_call, vmap
from torch.utils.data import Dataset, TensorDataset, default_collate

from colangevin import checks
from colangevin.ensemble.effort import evaluating
from colangevin.ensemble.sources import Points, is_loader, pair

if TYPE_CHECKING:
    from colangevin.ensemble.ensemble import Ensemble

Function: TypeAlias = "Callable[[Any, Any], Tensor]"
Chunk: TypeAlias = "tuple[Tensor, Tensor | None]"


@torch.no_grad()
def evaluate(
    ensemble: Ensemble,
    function: Function,
    inputs: Points,
    targets: Tensor | None,
    per_member: bool,
    batch_size: int | None,
) -> Tensor:
    """A function of outputs and targets for every member left; see ``Ensemble.evaluate``."""
    if batch_size is not None:
        checks.count("batch_size", batch_size)
    found, counts = [], []
    for x, y in _chunks(ensemble, inputs, targets, per_member, batch_size):
        found.append(_apply(ensemble, function, x, y, per_member))
        counts.append(x.shape[1 if per_member else 0])
    return found[0] if len(found) == 1 else _joined(found, counts)


def _chunks(
    ensemble: Ensemble,
    inputs: Points,
    targets: Tensor | None,
    per_member: bool,
    batch_size: int | None,
) -> Iterator[Chunk]:
    """Some points at a time, on the members' device."""
    if is_loader(inputs) or isinstance(inputs, Dataset):
        if targets is not None or per_member:
            raise ValueError("targets and per_member go with a tensor of inputs")
        if isinstance(inputs, TensorDataset):
            inputs, targets = pair(inputs.tensors)
    if not isinstance(inputs, Tensor):
        batches = iter(inputs) if is_loader(inputs) else _items(inputs, batch_size)
        for x, y in map(pair, batches):
            yield x.to(ensemble.device), y.to(ensemble.device)
        return
    if per_member:
        inputs = inputs[ensemble.active]
        targets = None if targets is None else targets[ensemble.active]
    dim = 1 if per_member else 0
    size = max(1, inputs.shape[dim] if batch_size is None else batch_size)
    parts = inputs.split(size, dim)
    answers = [None] * len(parts) if targets is None else targets.split(size, dim)
    for x, z in zip(parts, answers, strict=True):
        yield x.to(ensemble.device), None if z is None else z.to(ensemble.device)


def _items(dataset: Any, batch_size: int | None) -> Iterator[Any]:
    size = len(dataset) if batch_size is None else batch_size
    for start in range(0, len(dataset), size):
        indices = range(start, min(start + size, len(dataset)))
        yield default_collate([dataset[i] for i in indices])


def _apply(
    ensemble: Ensemble, function: Function, inputs: Tensor, targets: Tensor | None, own: bool
) -> Tensor:
    dim = 0 if own else None
    template = ensemble._template

    def one(tensors: dict[str, Tensor], x: Tensor, y: Tensor | None) -> Tensor:
        return function(functional_call(template, tensors, (x,)), y)

    in_dims = (0, dim, None if targets is None else dim)
    threads = ensemble._effort.threads(inputs, len(ensemble), shared=not own)
    with evaluating(template), threads:
        return vmap(one, in_dims=in_dims)(ensemble._tensors(), inputs, targets)


def _joined(found: list[Tensor], counts: list[int]) -> Tensor:
    """The mean of numbers, weighted with the points that they are of; values per point in a row.

    Raises:
        ValueError: if the function returns something else.
    """
    if not found:
        raise ValueError("inputs must have at least one point, got none")
    first = found[0]
    if first.dim() == 1 and first.is_floating_point():
        parts = [value.double() * count for value, count in zip(found, counts, strict=True)]
        return (torch.stack(parts).sum(dim=0) / sum(counts)).to(first.dtype)
    per_point = all(v.dim() > 1 and v.shape[1] == n for v, n in zip(found, counts, strict=True))
    if not per_point:
        raise ValueError(
            "with batches, the function must return a mean over the points (a floating-point "
            "number) or one value per point; it returned "
            f"{tuple(first.shape[1:])} of {first.dtype} for {counts[0]} points"
        )
    return torch.cat(found, dim=1)
