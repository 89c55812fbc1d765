"""A whole run: works in, record out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from types import ModuleType
from typing import Any

import torch

import colangevin
from colangevin import checks
from colangevin.lab.bench import bars, sampling_rates, scaling, seeds
from colangevin.lab.bench.measuring import Environment, measure
from colangevin.lab.bench.record import Record
from colangevin.lab.bench.sampling_rates import SamplingWork
from colangevin.lab.bench.timing import Effort, Tick
from colangevin.lab.bench.training_steps import work_e
from colangevin.lab.bench.works import Sizes, Work, work_a, work_b, work_c, work_d, work_one
from colangevin.lab.machine import circumstances, threads

LETTERS: dict[str, Callable[[Sizes], Sequence[Work | SamplingWork]]] = {
    "a": lambda sizes: [work_a(sizes)],
    "b": lambda sizes: [work_b(sizes)],
    "c": lambda sizes: [work_c(sizes), work_one(sizes)],
    "d": lambda sizes: [work_d(sizes)],
    "e": work_e,
    "f": scaling.work_f,
    "g": seeds.work_g,
    sampling_rates.LETTER: sampling_rates.work_s,
}
STEPS = tuple(letter for letter in LETTERS if letter != sampling_rates.LETTER)
"""The works about steps, which a run makes if it is not asked for others."""

PACKAGES = ("geoopt", "geotorch", "pogo-torch")
"""Peers whose versions the record keeps."""
SAMPLERS = ("mici", "geoopt", "posteriors", "blackjax", "numpyro", "jax")
"""The same for the work about sampling."""
LARGEST_SEED = 2**31 - 1


@dataclass(frozen=True)
class Settings:
    """What a run is asked for.

    Attributes:
        works: letters of the works.
        effort: how much time goes into what.
        sizes: how large the works are.
        threads: of torch; None for its own choice.
        seed: of weights, gradients and noise.

    Raises:
        ValueError, TypeError: naming the bad value.
    """

    works: Sequence[str] = STEPS
    effort: Effort = field(default_factory=Effort)
    sizes: Sizes = field(default_factory=Sizes)
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [letter for letter in self.works if letter not in LETTERS]
        if unknown or not self.works:
            names = ", ".join(LETTERS)
            raise ValueError(f"works must be some of {names}, got {', '.join(unknown) or 'none'}")
        checks.count("rounds", self.effort.rounds)
        if self.threads is not None:
            checks.count("threads", self.threads)
        if not 0 <= self.seed <= LARGEST_SEED:
            raise ValueError(f"seed must lie between 0 and {LARGEST_SEED}, got {self.seed}")


def ticks(settings: Settings) -> int:
    """How often ``run`` calls its ``tick``, at most."""
    total = 0
    for letter in settings.works:
        for work in LETTERS[letter](settings.sizes):
            total += 2 * len(work.entries) + _effort(settings.effort, letter).rounds
    return total


def run(
    settings: Settings,
    reference: ModuleType | None,
    tick: Tick,
    save: Callable[[Record], None] = lambda record: None,
) -> Record:
    """Run the works; an interruption ends the run with what is done.

    Args:
        settings: which works, how large, how long.
        reference: module of the literal formulas, or None.
        tick: called whenever a little work is done.
        save: given the record so far after every work, so that a crash costs one work at most.
    """
    start = time.perf_counter()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with threads(settings.threads), warnings.catch_warnings():
        # What peers warn of is theirs, and what the library warns of becomes a note.
        warnings.simplefilter("ignore")
        record = Record(_machine(device), asdict(settings), complete=False)
        try:
            for letter in settings.works:
                begun = time.perf_counter()
                _run_letter(letter, settings, reference, device, record, tick)
                record.work_seconds[letter] = round(time.perf_counter() - begun, 1)
                if letter == sampling_rates.LETTER:
                    record.settings["samplers"] = circumstances(device, SAMPLERS)
                _judge(record, start)
                save(record)
            record.complete = True
        except KeyboardInterrupt:
            pass
    _judge(record, start)
    return record


def _judge(record: Record, start: float) -> None:
    record.slopes = scaling.slopes(record.rows)
    record.bars = bars.judge(record)
    record.seconds = round(time.perf_counter() - start, 1)


def _machine(device: torch.device) -> dict[str, Any]:
    return {"colangevin": colangevin.__version__, **circumstances(device, PACKAGES)}


def _run_letter(
    letter: str,
    settings: Settings,
    reference: ModuleType | None,
    device: torch.device,
    record: Record,
    tick: Tick,
) -> None:
    effort = _effort(settings.effort, letter)
    environment = Environment(effort, device, reference, settings.seed)
    for work in LETTERS[letter](settings.sizes):
        if isinstance(work, SamplingWork):
            record.rows += sampling_rates.measure(work, settings.seed, tick)
        else:
            record.rows += measure(work, environment, partial(_named, tick, work))
        record.works[letter] = work.title
        if device.type == "cuda":
            torch.cuda.empty_cache()


def _named(tick: Tick, work: Work, what: str) -> None:
    size = "" if work.x is None else f" {work.x:,.0f}"
    tick(f"({work.letter}) {work.series}{size} {what}")


def _effort(effort: Effort, letter: str) -> Effort:
    return scaling.shorter(effort) if letter in "fg" else effort


def quick(effort: Effort) -> Effort:
    """Enough to see that everything works, too little to believe the figures."""
    return replace(
        effort,
        rounds=min(effort.rounds, 2),
        round_seconds=min(effort.round_seconds, 0.02),
        seconds=min(effort.seconds, 0.5),
        patience=min(effort.patience, 1.0),
        settling=min(effort.settling, 50),
        ours_seconds=min(effort.ours_seconds, 1.0),
        peers_seconds=min(effort.peers_seconds, 0.2),
    )


def full(effort: Effort) -> Effort:
    """All steps, and slow peers as well, if it takes a quarter of an hour."""
    return replace(effort, seconds=12.0, patience=60.0, ours_seconds=240.0, peers_seconds=10.0)
