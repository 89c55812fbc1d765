"""Where the batches of an epoch come from: tensors, a dataset, or a loader.

With tensors and datasets every member has its own order, a function of its seed and the epoch. A
loader has one order, and all members see its batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset, default_collate

from colangevin.ensemble.data import PIECE, Data, batches_of, pieces
from colangevin.ensemble.streams import batch_orders

if TYPE_CHECKING:
    from colangevin.ensemble.ensemble import Ensemble

Batch: TypeAlias = "tuple[Tensor, Tensor]"
Points: TypeAlias = "Tensor | Dataset[Any] | Iterable[Any]"
"""Tensors, a dataset or a loader."""


class Source(Protocol):
    """Gives the batches of an epoch."""

    def pieces(self, ensemble: Ensemble) -> Iterator[Iterator[Batch]]:
        """Runs of batches [members, batch, ...]; members may be removed between two runs."""


class TensorSource(NamedTuple):
    """Tensors, of all members together or of each."""

    data: Data
    batch_size: int

    def pieces(self, ensemble: Ensemble) -> Iterator[Iterator[Batch]]:
        """See :class:`Source`."""
        orders = _Orders(ensemble, self.data.points)
        for piece in pieces(self.data.points, self.batch_size):
            found = self.data.gather(ensemble.active, orders.present(), piece, self.batch_size)
            yield _moved(found, ensemble.device)


class ItemSource(NamedTuple):
    """A dataset whose items are read one by one, each time that a member meets them."""

    dataset: Any
    batch_size: int

    def pieces(self, ensemble: Ensemble) -> Iterator[Iterator[Batch]]:
        """See :class:`Source`."""
        orders = _Orders(ensemble, len(self.dataset))
        for piece in pieces(len(self.dataset), self.batch_size):
            columns = orders.present()[:, piece.start : piece.stop].split(self.batch_size, dim=1)
            yield _moved(map(self._read, columns), ensemble.device)

    def _read(self, index: Tensor) -> Batch:
        """The items [members, batch], with an augmentation of its own for each member."""
        inputs, targets = pair(default_collate([self.dataset[i] for i in index.flatten().tolist()]))
        return inputs.unflatten(0, index.shape), targets.unflatten(0, index.shape)


class LoaderSource(NamedTuple):
    """A loader, whose batches all members see."""

    loader: Iterable[Any]

    def pieces(self, ensemble: Ensemble) -> Iterator[Iterator[Batch]]:
        """See :class:`Source`."""
        batches = iter(self.loader)
        first = next(batches, None)
        if first is None:
            raise ValueError("the loader gave no batch")
        everything = chain([first], batches)
        while (head := next(everything, None)) is not None:
            members = len(ensemble)
            some = (pair(batch) for batch in chain([head], islice(everything, PIECE - 1)))
            wide = ((x.expand(members, *x.shape), y.expand(members, *y.shape)) for x, y in some)
            yield _moved(wide, ensemble.device)


class _Orders:
    """The orders of the members, without those that are removed on the way."""

    def __init__(self, ensemble: Ensemble, points: int) -> None:
        self._ensemble, self._members = ensemble, list(ensemble.active)
        seeds = [ensemble.seeds[i] for i in self._members]
        self._orders = batch_orders(seeds, ensemble.epochs, points)

    def present(self) -> Tensor:
        active = self._ensemble.active
        if len(active) < len(self._members):
            self._orders = self._orders[[self._members.index(i) for i in active]]
            self._members = list(active)
        return self._orders


def _moved(batches: Iterable[Batch], device: torch.device) -> Iterator[Batch]:
    return ((x.to(device), y.to(device)) for x, y in batches)


def pair(batch: Any) -> Batch:
    """Inputs and targets of a loader's batch.

    Raises:
        ValueError: if it is no pair of tensors.
    """
    tensors = isinstance(batch, Sequence) and all(isinstance(part, Tensor) for part in batch)
    if not tensors or len(batch) != 2:
        raise ValueError(
            "a batch must be a pair of tensors, inputs and targets, got "
            + (f"{len(batch)} parts" if tensors else type(batch).__name__)
        )
    return batch[0], batch[1]


def is_loader(inputs: Any) -> bool:
    """Whether batches come from it by iteration.

    Raises:
        TypeError: if it can be read only once, or not at all.

    Example:
        >>> is_loader(torch.zeros(3)), is_loader([(torch.zeros(3), torch.zeros(3))])
        (False, True)
    """
    if isinstance(inputs, Tensor | TensorDataset):
        return False
    if isinstance(inputs, IterableDataset):
        raise TypeError("an IterableDataset has no items to choose from: give a DataLoader of it")
    if isinstance(inputs, Dataset):
        return False
    if not isinstance(inputs, Iterable) or isinstance(inputs, Iterator):
        raise TypeError(
            "inputs must be a tensor, a dataset or a loader that can be read in every epoch, got "
            f"{type(inputs).__name__}"
        )
    return True


def source_of(
    inputs: Points,
    targets: Tensor | None,
    batch_size: int | None,
    per_member: bool,
    members: int,
) -> Source:
    """Check where the batches come from.

    Raises:
        ValueError, TypeError: naming the argument.

    Example:
        >>> type(source_of(torch.zeros(5, 2), torch.zeros(5), 2, False, 3)).__name__
        'TensorSource'
    """
    if isinstance(inputs, TensorDataset):
        _only_tensors(targets, per_member, "a dataset")
        inputs, targets = pair(inputs.tensors)
    if not isinstance(inputs, Tensor) and is_loader(inputs):
        _only_tensors(targets, per_member, "a loader")
        if batch_size is not None:
            raise ValueError(f"a loader has a batch size of its own, got batch_size={batch_size}")
        return LoaderSource(inputs)  # type: ignore[arg-type]
    if batch_size is None:
        raise TypeError("batch_size is missing: give how many points a batch has")
    if isinstance(inputs, Tensor):
        if targets is None:
            raise TypeError("targets are missing: give them with a tensor of inputs")
        return TensorSource(batches_of(inputs, targets, members, per_member), batch_size)
    _only_tensors(targets, per_member, "a dataset")
    if not len(inputs):  # type: ignore[arg-type]
        raise ValueError("inputs must have at least one point, got none")
    return ItemSource(inputs, batch_size)


def _only_tensors(targets: Any, per_member: bool, what: str) -> None:
    if targets is not None:
        raise ValueError(f"{what} brings the targets with it; give no others")
    if per_member:
        raise ValueError(f"per_member needs tensors of inputs and targets, got {what}")
