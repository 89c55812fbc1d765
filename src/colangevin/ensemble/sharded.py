"""The members of an ensemble shared out over the processes that ``torchrun`` starts.

A member is a function of its seed, so the processes need nothing of each other while they train:
they agree in the beginning on what is trained, and exchange what was measured in the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from colangevin.ensemble import members
from colangevin.ensemble.data import Points
from colangevin.ensemble.ensemble import Ensemble
from colangevin.ensemble.gradients import Loss
from colangevin.ensemble.train import History, listed, widen
from colangevin.optimizers.violation import Violation, share_of, worst_of

T = TypeVar("T")


class ShardedEnsemble:
    """An ensemble whose members are on several processes: rank r of n has every n-th, from r on.

    Make it and call its methods on every rank, with the same arguments. The results are those of
    one ``Ensemble`` with all seeds, in the order of the seeds, on every rank. Whatever one rank
    raises, every rank raises.

    Args:
        factory: as in ``Ensemble``.
        seeds: of all members.
        rules: as in ``Ensemble``; a sequence has one constraint per member of all.
        process_group: the processes; None for all.
        options: as in ``Ensemble``; a sequence has one number per member of all.

    Attributes:
        seeds: of all members.
        local: the ``Ensemble`` of this rank's members.

    Raises:
        RuntimeError: if there is no process group.
        ValueError: if the ranks have different seeds or options, or there are too few seeds.

    Example:
        >>> ShardedEnsemble(lambda: nn.Linear(1, 1), range(4), lr=0.1)
        Traceback (most recent call last):
        ...
        RuntimeError: there is no process group: start the program with torchrun and call \
torch.distributed.init_process_group() first, or use Ensemble
    """

    def __init__(
        self,
        factory: members.Factory,
        seeds: Sequence[int],
        rules: members.Rules | None = None,
        *,
        process_group: Any = None,
        **options: Any,
    ) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError(
                "there is no process group: start the program with torchrun and call "
                "torch.distributed.init_process_group() first, or use Ensemble"
            )
        self._group = process_group
        self.rank, self.world = dist.get_rank(process_group), dist.get_world_size(process_group)
        self._mine = slice(self.rank, None, self.world)
        self.seeds = self._together(lambda: members.check_seeds(seeds))
        own = {"seeds": self.seeds, **{k: _words(v) for k, v in options.items()}}
        self._agree({**own, "rules": {str(k): _words(v) for k, v in (rules or {}).items()}})
        if len(self.seeds) < self.world:
            raise ValueError(f"there are {len(self.seeds)} seeds for {self.world} ranks")
        self.local = self._together(lambda: self._make(factory, rules or {}, options))

    def _make(
        self, factory: members.Factory, rules: members.Rules, options: Mapping[str, Any]
    ) -> Ensemble:
        count = len(self.seeds)
        members.rules_of(rules, count)  # refuses another number of constraints
        own: dict[str, Any] = {
            name: value[self._mine] if members.is_column(name, value, count) else value
            for name, value in options.items()
        }
        shared: dict[Any, Any] = {
            key: rule[self._mine] if isinstance(rule, Sequence) else rule
            for key, rule in rules.items()
        }
        return Ensemble(factory, self.seeds[self._mine], shared, **own)

    def __len__(self) -> int:
        """The number of members of all ranks, without the removed ones."""
        return sum(self._gather(len(self.local)))

    def __repr__(self) -> str:
        return f"ShardedEnsemble({len(self.seeds)} seeds, rank {self.rank} of {self.world})"

    # --- the ranks together -----------------------------------------------------------------

    def _gather(self, value: T) -> list[T]:
        found: list[Any] = [None] * self.world
        dist.all_gather_object(found, value, group=self._group)
        return found

    def _together(self, work: Callable[[], T]) -> T:
        """Do this rank's part; raise on every rank what any has raised."""
        result: Any = None
        error: Exception | None = None
        try:
            result = work()
        except Exception as raised:
            error = raised
        told = None if error is None else (type(error).__name__, str(error))
        for rank, other in enumerate(self._gather(told)):
            if error is not None:
                raise error
            if other is not None:
                raise RuntimeError(f"rank {rank} raised {other[0]}: {other[1]}")
        return result

    def _agree(self, wanted: Mapping[str, Any]) -> None:
        """Raise on every rank if one of them has something else in mind."""
        found = self._gather(dict(wanted))
        for rank, other in enumerate(found):
            for name in sorted({*found[0], *other}):
                one, two = found[0].get(name), other.get(name)
                if one != two:
                    raise ValueError(
                        f"ranks 0 and {rank} have different {name}: {one} and {two}"[:500]
                    )

    def _everyone(self, own: Tensor, dim: int = 0) -> Tensor:
        """From this rank's seeds to all, in their order."""
        parts = self._gather(own.detach().cpu())
        shape = list(own.shape)
        shape[dim] = len(self.seeds)
        whole = torch.empty(shape, dtype=own.dtype)
        for rank, part in enumerate(parts):
            whole.index_copy_(dim, torch.arange(rank, len(self.seeds), self.world), part)
        return whole

    def _own(self, per_member: bool, *data: Any) -> list[Any]:
        """Inputs and targets of this rank's members."""
        if not per_member:
            return list(data)
        for tensor in data:
            if isinstance(tensor, Tensor) and len(tensor) != len(self.seeds):
                raise ValueError(
                    f"data must be one per member, {len(self.seeds)}, got {len(tensor)}"
                )
        return [t[self._mine] if isinstance(t, Tensor) else t for t in data]

    # --- training and results ---------------------------------------------------------------

    def set(self, **options: Any) -> None:
        """As ``Ensemble.set``, with one value for all members."""
        self._agree({name: _words(value) for name, value in options.items()})
        self._together(lambda: self.local.set(**options))

    def fit(
        self,
        loss: Loss,
        inputs: Points,
        targets: Tensor | None = None,
        *,
        per_member: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Any = False,
        schedulers: Any = None,
        **settings: Any,
    ) -> History:
        """Train as ``Ensemble.fit`` does, and return the history of all seeds on every rank.

        Args:
            loss: as in ``Ensemble.fit``.
            inputs: the same on every rank; a loader must give the same batches on every rank.
            targets: likewise.
            per_member: every member has its own data.
            checkpoint: each rank writes a file of its own, with this name and its rank. A run is
                resumed with as many ranks.
            progress: shown on rank 0.
            schedulers: of ``local.optimizer``. ``ReduceLROnPlateau`` is refused, because a rank
                does not know the losses of the others.
            settings: as in ``Ensemble.fit``; ``metrics`` are functions of the local ensemble.
        """
        data = {"inputs": _checksum(inputs), "targets": _checksum(targets)}
        self._agree({**data, **{k: v for k, v in settings.items() if k != "metrics"}})

        def work() -> History:
            if any(isinstance(one, ReduceLROnPlateau) for one in listed(schedulers)):
                raise ValueError("ReduceLROnPlateau needs the losses of all ranks: use another")
            return self.local.fit(
                loss,
                *self._own(per_member, inputs, targets),
                per_member=per_member,
                checkpoint=None if checkpoint is None else self._file(Path(checkpoint)),
                progress=progress if self.rank == 0 else False,
                schedulers=schedulers,
                **settings,
            )

        return self._joined(self._together(work))

    def _file(self, path: Path) -> Path:
        """This rank's checkpoint.

        Raises:
            ValueError: if there are checkpoints of another number of ranks.
        """
        for other in sorted(path.parent.glob(f"{path.name}.rank*of*")):
            if other.name.rpartition("of")[2] != str(self.world):
                raise ValueError(f"{other} is of another number of ranks, this is {self.world}")
        return path.with_name(f"{path.name}.rank{self.rank}of{self.world}")

    def _joined(self, own: History) -> History:
        """The history of all; a rank whose members have all diverged has a shorter one."""
        longest = max(self._gather(own.epochs), key=len)
        joined = History(list(longest))
        for name in max(self._gather(list(own.values)), key=len):
            rows = torch.full((len(longest), len(self.local.seeds)), torch.nan, dtype=torch.float64)
            if own.epochs:
                rows[: len(own.epochs)] = own[name]
            joined.values[name] = list(self._everyone(rows, dim=1))
        return joined

    def evaluate(
        self,
        function: Callable[[Any, Any], Tensor],
        inputs: Points,
        targets: Tensor | None = None,
        *,
        per_member: bool = False,
        batch_size: int | None = None,
    ) -> Tensor:
        """As ``Ensemble.evaluate``, for all seeds, on the CPU; NaN for members that are gone."""

        def work() -> Tensor:
            own = self._own(per_member, inputs, targets)
            found = self.local.evaluate(
                function, *own, per_member=per_member, batch_size=batch_size
            )
            return widen(self.local, found)

        return self._everyone(self._together(work))

    def violation(self) -> list[Violation]:
        """As ``Ensemble.violation``; ``members`` has every seed, NaN for those that are gone."""
        own = self._together(self.local.violation)
        found = []
        for mine, *ranks in zip(own, *self._gather(own), strict=True):
            members = torch.tensor(mine.members, dtype=torch.float64)
            found.append(
                Violation(
                    worst_of([one.residual for one in ranks]),
                    worst_of([one.cotangency for one in ranks]),
                    max(one.iterations for one in ranks),
                    sum(one.fallbacks for one in ranks),
                    share_of((one.at_bound * len(one.members), len(one.members)) for one in ranks),
                    tuple(self._everyone(widen(self.local, members)).tolist()),
                )
            )
        return found

    def member(self, index: int) -> nn.Module:
        """A member as an ordinary module of its own, on every rank."""
        if not -len(self.seeds) <= index < len(self.seeds):
            raise IndexError(f"there are {len(self.seeds)} members, got index {index}")
        place, home = divmod(index % len(self.seeds), self.world)
        own = self._together(lambda: self.local.member(place) if self.rank == home else None)
        state = {} if own is None else {n: t.cpu() for n, t in own.state_dict().items()}
        module = own if own is not None else self.local.member(self.local.active[0])
        module.load_state_dict(self._gather(state)[home])
        return module


def _words(value: Any) -> str:
    """An option as words that are the same in every process."""
    if isinstance(value, Tensor):
        return str(value.tolist())
    if isinstance(value, (list, tuple, range)):
        return str([_words(one) for one in value])
    describe = getattr(value, "describe", None)
    if describe is not None:
        return str({key: _words(one) for key, one in describe().items()})
    return getattr(value, "__qualname__", None) or str(value)


def _checksum(data: Any) -> str:
    """What distinguishes the data of two ranks; of datasets and loaders their kind only."""
    if not isinstance(data, Tensor):
        return type(data).__name__
    return f"{tuple(data.shape)} with sum {float(data.double().sum())!r}"
