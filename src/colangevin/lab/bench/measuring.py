"""From a work to its rows: who takes part, times, memory, violation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from colangevin.lab.bench.contestant import (
    Contestant,
    Setting,
    Unavailable,
    Weight,
    draw_initial,
    draw_pool,
)
from colangevin.lab.bench.record import Row
from colangevin.lab.bench.timing import (
    Effort,
    Tick,
    interleave,
    run_on,
    scratch_bytes,
    synchronize,
    warm_up,
)
from colangevin.lab.bench.works import Entry, Work

MANY = 10**7
"""From this number of weights on, one set of gradients has to do."""
PROBE = 50.0
"""Times are scaled up from a matrix that is at least so many times cheaper than the largest."""

Pool = Sequence[Sequence[Tensor]]


@dataclass(frozen=True)
class Environment:
    """Where and how a run takes place.

    Attributes:
        effort: how much time goes into what.
        device: where the weights are.
        reference: module of the literal formulas, if there is one.
        seed: of weights, gradients and noise.
    """

    effort: Effort
    device: torch.device
    reference: ModuleType | None = None
    seed: int = 0


@dataclass
class Player:
    """A contestant that takes part, with its row and what it was made from."""

    entry: Entry
    row: Row
    setting: Setting
    pool: Pool
    contestant: Contestant


def measure(work: Work, environment: Environment, tick: Tick) -> list[Row]:
    """All rows of a work, in the order of its entries."""
    effort, device = environment.effort, environment.device
    generator = torch.Generator().manual_seed(environment.seed)
    setting = Setting(
        work.weights,
        draw_initial(work.weights, generator, device),
        lr=work.lr,
        reference=environment.reference,
        seed=environment.seed,
        device=device,
    )
    pool = draw_pool(work.weights, 1 if setting.parameters >= MANY else 4, generator, device)
    rows, players = [], []
    for entry in work.entries:
        row = Row(work.letter, entry.label, entry.ours, work.series, work.x)
        rows.append(row)
        player = _admit(entry, row, setting, pool, effort)
        if player is not None:
            players.append(player)
        tick(entry.label)
    times = interleave([player.contestant for player in players], effort, device, tick)
    for player, found in zip(players, times, strict=True):
        player.row.rounds = found
        player.row.seconds = min(found)
        player.row.first = player.contestant.first
    for player in players:
        _inspect(player, effort)
        tick(player.entry.label)
    _relate(work.entries, rows)
    return rows


def _admit(entry: Entry, row: Row, setting: Setting, pool: Pool, effort: Effort) -> Player | None:
    """Build a contestant and let it make its first steps; what fails is noted in the row."""
    if entry.stacked:
        setting = setting.stacked()
        pool = [[torch.stack(list(gradients))] for gradients in pool]
    try:
        if entry.cubic:
            row.seconds = _expected(entry, setting, pool, effort)
            if row.seconds > effort.patience:
                row.estimated = True
                row.note = "not run: scaled up from one matrix"
                return None
        contestant = _ready(entry, setting, pool, effort)
    except Unavailable as missing:
        row.note = str(missing)
        return None
    except Exception as error:  # a peer that fails must not end the run
        lines = str(error).splitlines() or [""]
        row.seconds = None
        row.note = f"failed: {type(error).__name__}: {lines[0][:120]}"
        return None
    return Player(entry, row, setting, pool, contestant)


def _ready(entry: Entry, setting: Setting, pool: Pool, effort: Effort) -> Contestant:
    contestant = entry.build(setting)
    contestant.feed(pool)
    warm_up(contestant, effort, setting.device)
    return contestant


def _expected(entry: Entry, setting: Setting, pool: Pool, effort: Effort) -> float:
    """Seconds of a step on all matrices, scaled up from one of the smaller ones."""
    costs = {
        index: weight.products
        for index, weight in enumerate(setting.weights)
        if weight.kind == "orthogonal"
    }
    cheap = [index for index, cost in costs.items() if cost * PROBE <= max(costs.values())]
    probe = max(cheap, key=costs.__getitem__) if cheap else min(costs, key=costs.__getitem__)
    contestant = _ready(entry, setting.only([probe]), [[g[probe]] for g in pool], effort)
    return contestant.pace * sum(costs.values()) / costs[probe]


def _inspect(player: Player, effort: Effort) -> None:
    """Memory and violation."""
    contestant, row, device = player.contestant, player.row, player.setting.device
    row.state = contestant.state_bytes() / 4 / contestant.parameters
    # A whole training step allocates activations, which say nothing about the optimizer.
    scratch = scratch_bytes(contestant, device) if player.setting.weights else None
    if scratch is not None:
        scratch += contestant.kept_bytes()
        row.scratch = scratch / 4 / contestant.parameters
        row.scratch_share = scratch / 4 / contestant.bucket if contestant.bucket else None
    _go_on(player, effort)
    row.note = contestant.note()
    synchronize(device)


def _go_on(player: Player, effort: Effort) -> None:
    """Read the violation after more steps, of all weights or of one of each shape."""
    contestant, row = player.contestant, player.row
    row.steps = contestant.taken
    if not contestant.constrained:
        return
    limit = effort.ours_seconds if player.entry.ours else effort.peers_seconds
    some = _one_of_each(player.setting.weights)
    whole = sum(weight.products for weight in player.setting.weights if weight.kind != "free")
    part = sum(player.setting.weights[i].products for i in some)
    needed = contestant.pace * effort.steps
    shown = 0.0
    if needed > limit and part < 0.5 * whole:
        shown = contestant.violation() or 0.0  # what the whole has shown so far counts as well
        pool = [[gradients[i] for i in some] for gradients in player.pool]
        contestant = _ready(player.entry, player.setting.only(some), pool, effort)
        row.sampled = True
    row.steps = run_on(contestant, effort.steps, limit)
    row.violation = max(shown, contestant.violation() or 0.0)


def _one_of_each(weights: Sequence[Weight]) -> list[int]:
    """Indices of the first constrained weight of each kind and matrix shape."""
    first: dict[tuple[object, ...], int] = {}
    for index, weight in enumerate(weights):
        if weight.kind != "free":
            first.setdefault((weight.kind, weight.radius, *weight.matrix), index)
    return sorted(first.values())


def _relate(entries: Sequence[Entry], rows: Sequence[Row]) -> None:
    """Divide times by those of the baselines."""
    seconds = {row.label: row.seconds for row in rows if row.seconds and not row.estimated}
    for entry, row in zip(entries, rows, strict=True):
        row.baseline = next((label for label in entry.baselines if label in seconds), None)
        base = seconds.get(row.baseline) if row.baseline is not None else None
        row.ratio = row.seconds / base if row.seconds is not None and base else None
