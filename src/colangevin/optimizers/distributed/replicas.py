"""Replicas: processes that train copies of one model draw the same noise and are compared.

At the first step every process tells the others its rules, its settings, its seed and a checksum
of its weights. So a mistake is one clear error on all of them, before anything moves.

Later, at every k-th step, each leaves a checksum in the store of the process group, where it is
compared with that of the first to come. Nobody waits for anybody: a process may have ended before
the others, as in ``DistributedDataParallel.join``. What was found is an error at the next step,
which no process reaches before all have made this one.
"""

from __future__ import annotations

import contextlib
import json
import uuid
import warnings
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch import distributed as dist

from colangevin import checks
from colangevin.errors import ReplicaError
from colangevin.optimizers.options import OPTIONS
from colangevin.optimizers.step.noise import bit_sum
from colangevin.optimizers.step.place import names_of
from colangevin.torch_compat import is_sharded, local_of, shared_store

PIPELINE = (
    "for processes that train different parameters (ZeroRedundancyOptimizer, or a model of its "
    "own in each) give independent_chains=True; for stages of a pipeline give process_group="
)
ALONE = (
    "replicas compare their settings at the first step, and not all processes of the group came to "
    "it. Give independent_chains=True to all processes or to none; one that trains a model alone "
    "may give process_group= a group of its own"
)
BEHIND = (
    "this process has made fewer steps than another one with a replica, as happens after "
    "DistributedDataParallel.join, or if a step was left out. Its momentum and its noise lag "
    "behind. Replicas are no longer compared"
)


Card: TypeAlias = "dict[str, Any]"
"""What a process tells the others; ``card_of`` has its entries."""


class Replicas:
    """What an optimizer has to do with the other processes of a training.

    Args:
        independent: whether each process is a chain of its own; then nothing is sent.
        every: compare the weights at every k-th step; 0 for never.
        group: the processes that hold replicas; None for all.
    """

    def __init__(self, independent: object, every: object, group: Any = None) -> None:
        self._independent, self._group = checks.flag("independent_chains", independent), group
        self._every = checks.count("check_replicas", every, least=0)
        self._calls = 0
        self._prefix: str | None = None
        self.alone = False
        """Whether it is known that there is nobody to compare with."""
        self.chain: int | None = None
        """The number of this process's chain, where chains are independent."""

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of the optimizer that led to this."""
        return {
            "independent_chains": self._independent,
            "check_replicas": self._every,
            "process_group": self._group,
        }

    def __getstate__(self) -> dict[str, Any]:
        fresh = {"_group": None, "_calls": 0, "_prefix": None, "chain": None, "alone": False}
        return {**self.__dict__, **fresh}

    def meet(self, groups: Sequence[dict[str, Any]], given: bool) -> None:
        """Agree with the others at the first step; compare weights there and at every k-th."""
        calls, every = self._calls, self._every
        if calls == 0:
            self._begin(groups, given)
            self.alone = self._prefix is None
        elif self._prefix is not None and every:
            if calls > 1 and (calls - 1) % every == 0:
                self._read(calls - 1)
            if calls % every == 0:
                self._write(groups, calls)
        self._calls = calls + 1

    def _begin(self, groups: Sequence[dict[str, Any]], given: bool) -> None:
        """Show cards to all processes, and take over the seeds of the first."""
        parameters = [p for group in groups for p in group["params"]]
        if self._independent:
            self.chain = chain_of(parameters, self._group)
            return
        process_groups = process_groups_of(parameters, self._group)
        if not process_groups:
            return
        cards = [card_of(groups, given, self._every)]
        for process_group in process_groups:
            found: list[Any] = [None] * dist.get_world_size(process_group)
            try:
                dist.all_gather_object(found, cards, group=process_group)
            except RuntimeError as error:  # the timeout of the process group
                raise RuntimeError(ALONE) from error
            cards = [card for some in found for card in some]
        cards.sort(key=itemgetter("rank"))
        refuse_differences(cards)
        self._prefix = f"colangevin/{cards[0]['token']}"
        for group, seed in zip(groups, cards[0]["seeds"], strict=True):
            group["seed"] = seed

    def _write(self, groups: Sequence[dict[str, Any]], calls: int) -> None:
        """Leave the checksums here, or compare them with those that another process has left."""
        store = shared_store()
        if store is None:
            return
        if store.add(f"{self._prefix}/passed/{calls}", 0):
            self._prefix = None
            warnings.warn(BEHIND, UserWarning, stacklevel=5)
            return
        by_place: dict[tuple[int, ...], list[list[Any]]] = {}
        for name, where, found in _sums(groups):
            by_place.setdefault(where, []).append([name, found])
        for where, own in by_place.items():
            note = json.dumps([dist.get_rank(), own])
            found = store.compare_set(f"{self._prefix}/{calls}/{where}", "", note)
            rank, others = json.loads(found)
            low, high = sorted((rank, dist.get_rank()))
            names = [one[0] for one, other in zip(own, others, strict=False) if one != other]
            if names or len(own) != len(others):
                wrong = names or [f"the {len(own)} and {len(others)} that they have"]
                text = [f"{name} (rank {high} from rank {low})" for name in wrong]
                store.set(f"{self._prefix}/wrong", _weights_differ(text))
                store.add(f"{self._prefix}/failed", 1)
            _forget(store, f"{self._prefix}/{calls - 2 * self._every}/{where}")
        _forget(store, f"{self._prefix}/passed/{calls - 2 * self._every}")

    def _read(self, calls: int) -> None:
        """Raise what any process has found."""
        store = shared_store()
        if store is None:
            return
        store.add(f"{self._prefix}/passed/{calls}", 1)
        if store.add(f"{self._prefix}/failed", 0):
            raise ReplicaError(store.get(f"{self._prefix}/wrong").decode())


def _forget(store: Any, key: str) -> None:
    """Nobody reads this note any more: without this the store would grow for ever."""
    with contextlib.suppress(RuntimeError, NotImplementedError):  # some stores keep everything
        store.delete_key(key)


def anywhere(found: bool, parameters: Sequence[Tensor]) -> bool:
    """Whether something was found in any process that has a part of the parameters."""
    if not any(map(is_sharded, parameters)):
        return found
    flag = torch.tensor(int(found), device=local_of(parameters[0]).device)
    for process_group in process_groups_of(parameters, None):
        dist.all_reduce(flag, dist.ReduceOp.MAX, group=process_group)
    return bool(flag)


# --- who ------------------------------------------------------------------------------------


def process_groups_of(parameters: Iterable[Tensor], group: Any) -> list[Any]:
    """The process groups to talk to, one after the other, to reach every process.

    They are those of the largest mesh that a parameter is sharded over, else the default group.
    Without any, there is nobody to talk to.
    """
    if not dist.is_available() or not dist.is_initialized():
        return []
    if group is None:
        meshes = [parameter.device_mesh for parameter in parameters if is_sharded(parameter)]  # type: ignore[attr-defined]
        if meshes:
            mesh = max(meshes, key=lambda mesh: mesh.size())
            return [mesh.get_group(i) for i in range(mesh.ndim) if mesh.size(i) > 1]
        group = dist.group.WORLD
    return [group] if dist.get_world_size(group) > 1 else []


def chain_of(parameters: Sequence[Tensor], group: Any) -> int | None:
    """The number of this process's chain: its rank, or that of its replica if it has shards."""
    if not dist.is_available() or not dist.is_initialized():
        return None
    sharded: list[Any] = [parameter for parameter in parameters if is_sharded(parameter)]
    if not sharded:
        return dist.get_rank(group)
    parameter = max(sharded, key=lambda parameter: parameter.device_mesh.size())
    mesh = parameter.device_mesh
    # Along these dimensions of the mesh the shards of a parameter are the same (HSDP).
    along = [i for i, placement in enumerate(parameter.placements) if placement.is_replicate()]
    if mesh.size() > 1 and all(mesh.size(i) == 1 for i in along):
        raise ValueError(
            "independent_chains=True, but the weights are sharded over all processes, which are "
            "one chain together; use a mesh with a dimension of replicas (HSDP)"
        )
    number = 0
    for i in along:
        number = number * mesh.size(i) + mesh.get_local_rank(i)
    return number


# --- cards ----------------------------------------------------------------------------------


def card_of(groups: Sequence[dict[str, Any]], given: bool, every: int) -> Card:
    """What this process has to tell.

    Returns:
        rank: of the process.
        parameters: a description of each parameter, by name.
        groups: the options of each group.
        seeds: of the groups.
        given: whether the user has chosen the seed.
        every: after how many steps weights are compared.
        sums: for each parameter, which part of it lies here, and a checksum of that part.
        token: a random word, for what they leave in the store later.
    """
    parameters = []
    for parameter, name in _named(groups):
        place = ""
        if is_sharded(parameter):
            place = f", {parameter.placements} over {tuple(parameter.device_mesh.shape)}"
        parameters.append((name, f"{tuple(parameter.shape)}, {parameter.dtype}{place}"))
    return {
        "rank": dist.get_rank(),
        "parameters": parameters,
        "groups": [_options(group) for group in groups],
        "seeds": [group["seed"] for group in groups],
        "given": given,
        "every": every,
        "sums": [(where, found) for _, where, found in _sums(groups)],
        "token": uuid.uuid4().hex,
    }


def _named(groups: Sequence[dict[str, Any]]) -> list[tuple[Any, str]]:
    return [pair for group in groups for pair in zip(group["params"], names_of(group), strict=True)]


def _sums(groups: Sequence[dict[str, Any]]) -> list[tuple[str, tuple[int, ...], int]]:
    """For each parameter its name, which part of it lies here, and a checksum of that part."""
    named = _named(groups)
    sums = [bit_sum(local_of(parameter)) for parameter, _ in named]
    numbers = torch.stack([found.to(sums[0].device) for found in sums]).tolist()
    pairs = zip(named, numbers, strict=True)
    return [(name, _where(parameter), found) for (parameter, name), found in pairs]


def _where(parameter: Any) -> tuple[int, ...]:
    """Which part of a parameter lies here: replicas of a part have the same coordinates."""
    if not is_sharded(parameter):
        return ()
    mesh = parameter.device_mesh
    pairs = enumerate(parameter.placements)
    return tuple(-1 if place.is_replicate() else mesh.get_local_rank(i) for i, place in pairs)


def _options(group: Mapping[str, Any]) -> dict[str, str]:
    compared = [name for name, option in OPTIONS.items() if option.compared and option.kept]
    found = {name: _plain(group[name]) for name in compared}
    for what in ("constraint", "direction"):
        rules = group[what].describe().items()
        found[what] = ", ".join(f"{name}={_plain(value)}" for name, value in rules)
    return found


def _plain(value: object) -> str:
    """A value in words; the numbers of a tensor as a checksum."""
    if not isinstance(value, Tensor):
        return repr(value)
    if value.dim() == 0:
        return repr(value.item())
    return f"tensor of shape {tuple(value.shape)} with checksum {int(bit_sum(value)) % 2**32:08x}"


def refuse_differences(cards: Sequence[Card]) -> None:
    """Refuse processes that do not train replicas of one model; cards are in order of ranks."""
    first = cards[0]
    for card in cards[1:]:
        who = f"ranks {first['rank']} and {card['rank']}"
        different = _first_difference(first["parameters"], card["parameters"])
        if different:
            raise ValueError(f"{who} have different parameters: {different}; {PIPELINE}")
        if card["every"] != first["every"]:
            raise ValueError(
                f"{who} have different check_replicas: {first['every']} and {card['every']}"
            )
        _refuse_options(who, first["groups"], card["groups"])
        if card["given"] != first["given"] or (card["given"] and card["seeds"] != first["seeds"]):
            seeds = [card["seeds"][0] if card["given"] else None for card in (first, card)]
            raise ValueError(
                f"{who} were given different seeds, {seeds[0]} and {seeds[1]}: replicas need the "
                "same noise. Give one seed, or none; independent_chains=True if every rank is to "
                "be a chain of its own"
            )
    if first["every"]:
        _refuse_weights(cards)


def _first_difference(ones: Sequence[tuple[str, str]], others: Sequence[tuple[str, str]]) -> str:
    if len(ones) != len(others):
        return f"{len(ones)} and {len(others)} of them"
    pairs = zip(ones, others, strict=True)
    found = [f"{a[0]} ({a[1]}) and {b[0]} ({b[1]})" for a, b in pairs if a != b]
    return found[0] if found else ""


def _refuse_options(
    who: str, ones: Sequence[Mapping[str, str]], others: Sequence[Mapping[str, str]]
) -> None:
    if len(ones) != len(others):
        raise ValueError(f"{who} have different groups: {len(ones)} and {len(others)} of them")
    for index, (one, other) in enumerate(zip(ones, others, strict=True)):
        for name, value in one.items():
            if value != other[name]:
                raise ValueError(
                    f"{who} have different settings: in group {index} {name} is {value} and "
                    f"{other[name]}"
                )


def _refuse_weights(cards: Sequence[Card]) -> None:
    wrong: list[str] = []
    for index, (name, _) in enumerate(cards[0]["parameters"]):
        known: dict[tuple[int, ...], tuple[int, int]] = {}
        pairs = []
        for card in cards:
            where, found = card["sums"][index]
            rank, expected = known.setdefault(where, (card["rank"], found))
            if found != expected:
                pairs.append(f"rank {card['rank']} from rank {rank}")
        if pairs:
            wrong.append(f"{name} ({', '.join(pairs)})")
    if wrong:
        raise ReplicaError(_weights_differ(wrong))


def _weights_differ(wrong: Sequence[str]) -> str:
    return (
        f"replicas differ in {len(wrong)} parameters: {'; '.join(wrong[:5])}. Something has "
        "changed the weights of one process alone. Let all start from the same weights "
        "(DistributedDataParallel copies those of rank 0), or give independent_chains=True "
        "for one chain per rank; check_replicas=0 switches this check off"
    )
