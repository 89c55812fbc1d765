"""What runs on every rank of a world: ensembles whose members are shared out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from world import failure

import colangevin as cl

mse = nn.functional.mse_loss
SEEDS = [5, 3, 4, 8, 1, 9, 7]
POINTS = torch.randn(24, 3, generator=torch.Generator().manual_seed(0))
TARGETS = POINTS.sum(dim=1, keepdim=True)
RULES = {
    "0.weight": cl.Orthogonal(),
    "2.weight": [cl.Circle(0.5 + 0.1 * i) for i in range(len(SEEDS))],
}
RATES = [0.1, 0.05, 0.02, 0.1, 0.03, 0.1, 0.05]
SETTINGS = {"lr": RATES, "momentum": 0.9, "temperature": 1e-3}
FIT: dict[str, Any] = {
    "batch_size": 5,
    "every": 2,
    "metrics": {"loss on all": lambda e: e.evaluate(mse, POINTS, TARGETS)},
}


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))


def compare(rank: int) -> dict[str, bool]:
    """Whether all results are those of one process, to the bit."""
    torch.manual_seed(rank)  # of no importance
    alone = cl.Ensemble(network, SEEDS, RULES, **SETTINGS)
    shared = cl.ShardedEnsemble(network, SEEDS, RULES, **SETTINGS)
    expected = alone.fit(mse, POINTS, TARGETS, epochs=5, **FIT)
    found = shared.fit(mse, POINTS, TARGETS, epochs=5, **FIT)
    members = zip(alone, map(shared.member, range(len(SEEDS))), strict=True)
    same = [
        torch.equal(p, q)
        for one, other in members
        for p, q in zip(one.parameters(), other.parameters(), strict=True)
    ]
    own = torch.stack([POINTS + i for i in range(len(SEEDS))])
    return {
        "epochs": expected.epochs == found.epochs == [2, 4, 5],
        "history": all(torch.equal(expected[name], found[name]) for name in expected.values),
        "members": all(same) and len(same) == 4 * len(SEEDS),
        "evaluate": torch.equal(
            alone.evaluate(mse, POINTS, TARGETS), shared.evaluate(mse, POINTS, TARGETS)
        ),
        "per member": torch.equal(
            alone.evaluate(lambda y, _: y, own, per_member=True),
            shared.evaluate(lambda y, _: y, own, per_member=True),
        ),
        "violation": alone.violation() == shared.violation(),
        "violation of members": [one.members for one in alone.violation()]
        == [one.members for one in shared.violation()],
        "length": len(shared) == len(alone) == len(SEEDS),
        "local": shared.local.seeds == SEEDS[rank :: shared.world],
    }


def resume(rank: int, folder: str) -> tuple[bool, str | None]:
    """A run in two parts, and what another name of the same checkpoint says."""
    whole = cl.ShardedEnsemble(network, SEEDS, RULES, **SETTINGS)
    expected = whole.fit(mse, POINTS, TARGETS, epochs=4, **FIT)
    path = Path(folder, "run.pt")
    for epochs in (2, 4):
        part = cl.ShardedEnsemble(network, SEEDS, RULES, **SETTINGS)
        found = part.fit(mse, POINTS, TARGETS, epochs=epochs, checkpoint=path, **FIT)
    if rank == 0:
        Path(folder, "other.pt.rank0of9").touch()
    part.violation()  # every rank waits for the file
    other = Path(folder, "other.pt")
    wrong = failure(lambda: part.fit(mse, POINTS, TARGETS, epochs=5, checkpoint=other, **FIT))
    return torch.equal(expected["loss"], found["loss"]), wrong


def diverge(rank: int) -> tuple[list[float], list[int], int]:
    """One rank loses its only member; the others go on."""
    rates = [0.01, 1e30, 0.01]
    shared = cl.ShardedEnsemble(network, [1, 2, 3], lr=rates)
    found = shared.fit(mse, POINTS, TARGETS, epochs=4, batch_size=5)
    losses = found["loss"]
    return losses[-1].isnan().tolist(), list(losses.shape), len(shared)


def wrong(rank: int) -> dict[str, str | None]:
    """What is said on this rank; every one of these ends quickly."""

    def make(seeds: Any = SEEDS, **options: Any) -> cl.ShardedEnsemble:
        return cl.ShardedEnsemble(network, seeds, **{"lr": 0.1, **options})

    def broken() -> nn.Module:
        raise OSError("no network here") if rank == 1 else ValueError("none here either")

    def fit(shift: float = 0.0, **settings: Any) -> Any:
        settings = {"epochs": 1, "batch_size": 5, **settings}
        return make().fit(mse, POINTS + shift, TARGETS, **settings)

    def only_here(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if rank == 1:
            raise ArithmeticError("a bad loss")
        return mse(outputs, targets)

    return {
        "seeds": failure(lambda: make([rank, 7, 8])),
        "count": failure(lambda: make(range(2 + rank))),
        "twice": failure(lambda: make([1, 1])),
        "lr": failure(lambda: make(lr=0.1 * (1 + rank))),
        "few": failure(lambda: make([1])),
        "values": failure(lambda: make(lr=[0.1, 0.2])),
        "data": failure(lambda: fit(shift=float(rank))),
        "epochs": failure(lambda: fit(epochs=1 + rank)),
        "factory": failure(lambda: cl.ShardedEnsemble(broken, SEEDS, lr=0.1)),
        "loss": failure(lambda: make().fit(only_here, POINTS, TARGETS, epochs=1, batch_size=5)),
        "index": failure(lambda: make().member(7)),
    }
