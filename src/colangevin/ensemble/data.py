"""The batches of all members, each in its own order of the data.

With tensors and datasets every member has its own order, a function of its seed and the epoch. A
loader has one order, and all members see its batches.

The random numbers of a member are a function of its seed and of when they are used. Nothing is
drawn from a generator that goes on, so there is no state to save, and what a member gets depends
neither on the other members nor on interruptions. The function is splitmix64: its mixing of a
counter whose start depends on the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset, default_collate

from colangevin import checks

if TYPE_CHECKING:
    from colangevin.ensemble.ensemble import Ensemble

Batch: TypeAlias = "tuple[Tensor, Tensor]"
Points: TypeAlias = "Tensor | Dataset[Any] | Iterable[Any]"
"""Tensors, a dataset or a loader."""

RUN = 64
"""Batches that are gathered at once, and after which diverged members are removed."""
GOLDEN = 0x9E3779B97F4A7C15 - 2**64
FIRST, SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64
"""Constants of splitmix64, as signed integers."""
ORDER, TEST = 1, 2
"""Streams, by what numbers are for: orders of data, and tests of proposals.

Weights are drawn from the bare seed, as in a training alone."""


# --- orders ---------------------------------------------------------------------------------


def mix(x: Tensor) -> Tensor:
    """Splitmix64's bijection of 64-bit integers, whose values behave like random numbers."""
    x = (x ^ _shift(x, 30)) * FIRST
    x = (x ^ _shift(x, 27)) * SECOND
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """To the right without the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def random_bits(seeds: Sequence[int], stream: int, index: int, count: int) -> Tensor:
    """Random 64-bit integers [members, count]: the index-th lot of a stream.

    Example:
        >>> random_bits([0, 1], ORDER, 5, 3).shape
        torch.Size([2, 3])
    """
    start = mix(mix(torch.tensor(seeds, dtype=torch.int64) + GOLDEN) + stream)
    lot = mix(start + GOLDEN * (index + 1) % 2**63).unsqueeze(1)
    return mix(lot + torch.arange(1, count + 1) * GOLDEN)


def batch_orders(seeds: Sequence[int], epoch: int, points: int) -> Tensor:
    """Return the order in which each member sees the data in an epoch: [members, points].

    Example:
        >>> orders = batch_orders([0, 1], epoch=0, points=5)
        >>> orders.shape, sorted(orders[1].tolist())
        (torch.Size([2, 5]), [0, 1, 2, 3, 4])
    """
    return random_bits(seeds, ORDER, epoch, points).argsort(dim=1)


def runs(points: int, batch_size: int) -> Iterator[tuple[int, int]]:
    """Cut an epoch into runs of equal batches, from point to point; the last may be smaller.

    Example:
        >>> list(runs(300, 2))[-1], list(runs(5, 2))
        ((256, 300), [(0, 4), (4, 5)])
    """
    size = min(batch_size, points)
    whole = points // size * size
    for start in range(0, whole, RUN * size):
        yield start, min(start + RUN * size, whole)
    if whole < points:
        yield whole, points


# --- batches --------------------------------------------------------------------------------


def batches_of(
    ensemble: Ensemble,
    inputs: Points,
    targets: Tensor | None,
    batch_size: int | None,
    per_member: bool,
) -> Iterator[Iterator[Batch]]:
    """Check where the batches of an epoch come from, and give them.

    Returns:
        Runs of batches [members, batch, ...]; members may be removed between two runs.

    Raises:
        ValueError, TypeError: naming the argument.
    """
    if isinstance(inputs, TensorDataset):
        _only_tensors(targets, per_member, "a dataset")
        inputs, targets = pair(inputs.tensors)
    if is_loader(inputs):
        _only_tensors(targets, per_member, "a loader")
        if batch_size is not None:
            raise ValueError(f"a loader has a batch size of its own, got batch_size={batch_size}")
        return _from_loader(ensemble, inputs)  # type: ignore[arg-type]
    if batch_size is None:
        raise TypeError("batch_size is missing: give how many points a batch has")
    size = checks.count("batch_size", batch_size)
    if isinstance(inputs, Tensor):
        if targets is None:
            raise TypeError("targets are missing: give them with a tensor of inputs")
        points = _points(inputs, targets, len(ensemble.seeds), per_member)
        read = _gather(ensemble, (inputs, targets), size, per_member)
        return _in_own_order(ensemble, points, size, read)
    _only_tensors(targets, per_member, "a dataset")
    if not len(inputs):  # type: ignore[arg-type]
        raise ValueError("inputs must have at least one point, got none")
    return _in_own_order(ensemble, len(inputs), size, _items(inputs, size))  # type: ignore[arg-type]


def _only_tensors(targets: Any, per_member: bool, what: str) -> None:
    if targets is not None:
        raise ValueError(f"{what} brings the targets with it; give no others")
    if per_member:
        raise ValueError(f"per_member needs tensors of inputs and targets, got {what}")


def _points(inputs: Tensor, targets: Tensor, members: int, per_member: bool) -> int:
    """How many points each member has, if inputs and targets belong together."""
    if per_member:
        for name, tensor in (("inputs", inputs), ("targets", targets)):
            if len(tensor) != members:
                raise ValueError(
                    f"{name} must be one per member, {members} in all, got {len(tensor)}"
                )
    dim = 1 if per_member else 0
    if inputs.dim() <= dim or targets.dim() <= dim or inputs.shape[dim] != targets.shape[dim]:
        raise ValueError(
            f"inputs and targets must have as many points, got shapes {tuple(inputs.shape)} and "
            f"{tuple(targets.shape)}"
        )
    if inputs.shape[dim] == 0:
        raise ValueError("inputs must have at least one point, got none")
    return inputs.shape[dim]


def _in_own_order(
    ensemble: Ensemble, points: int, batch_size: int, read: Callable[[Tensor], Iterable[Batch]]
) -> Iterator[Iterator[Batch]]:
    """Batches in which each member has its own order.

    Args:
        ensemble: the members.
        points: how many there are.
        batch_size: how many a batch has.
        read: makes the batches of a run from the places [members, points] that they have.
    """
    members = ensemble.active
    orders = batch_orders([ensemble.seeds[i] for i in members], ensemble.epochs, points)
    for start, stop in runs(points, batch_size):
        if len(ensemble) < len(members):  # some were removed after the last run
            orders = orders[[members.index(i) for i in ensemble.active]]
            members = ensemble.active
        yield _moved(read(orders[:, start:stop]), ensemble.device)


def _gather(
    ensemble: Ensemble, tensors: Batch, batch_size: int, per_member: bool
) -> Callable[[Tensor], Iterable[Batch]]:
    """Reads from tensors, of all members together or of each, the batches of a run at once."""

    def read(places: Tensor) -> Iterable[Batch]:
        index = places.to(tensors[0].device)
        rows = torch.tensor(ensemble.active, device=index.device).unsqueeze(1)
        size = min(batch_size, index.shape[1])
        batches = []
        for tensor in tensors:
            drawn = tensor[rows, index] if per_member else tensor[index]
            split = drawn.view(len(rows), -1, size, *drawn.shape[2:]).transpose(0, 1)
            batches.append(split.contiguous())  # a compiled step is for one memory layout
        return zip(*batches, strict=True)

    return read


def _items(dataset: Any, batch_size: int) -> Callable[[Tensor], Iterable[Batch]]:
    """Reads items one by one, each time that a member meets them: augmented for it alone."""

    def one(index: Tensor) -> Batch:
        inputs, targets = pair(default_collate([dataset[i] for i in index.flatten().tolist()]))
        return inputs.unflatten(0, index.shape), targets.unflatten(0, index.shape)

    return lambda places: map(one, places.split(batch_size, dim=1))


def _from_loader(ensemble: Ensemble, loader: Iterable[Any]) -> Iterator[Iterator[Batch]]:
    """The batches of a loader, which all members see."""
    batches, empty = iter(loader), True
    while first := list(islice(batches, 1)):
        empty, members = False, len(ensemble)
        run = map(pair, chain(first, islice(batches, RUN - 1)))
        wide = ((x.expand(members, *x.shape), y.expand(members, *y.shape)) for x, y in run)
        yield _moved(wide, ensemble.device)
    if empty:
        raise ValueError("the loader gave no batch")


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
    if isinstance(inputs, IterableDataset):
        raise TypeError("an IterableDataset has no items to choose from: give a DataLoader of it")
    if isinstance(inputs, Tensor | Dataset):
        return False
    if not isinstance(inputs, Iterable) or isinstance(inputs, Iterator):
        raise TypeError(
            "inputs must be a tensor, a dataset or a loader that can be read in every epoch, got "
            f"{type(inputs).__name__}"
        )
    return True
