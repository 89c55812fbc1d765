"""The work (s): effective samples per second on laws with known answers, with their bias."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from colangevin.lab.bench import constrained_samplers as constrained
from colangevin.lab.bench import free_samplers as free
from colangevin.lab.bench import known_laws as laws
from colangevin.lab.bench import posterior_laws as posteriors
from colangevin.lab.bench.contestant import Unavailable
from colangevin.lab.bench.known_laws import Law
from colangevin.lab.bench.record import Row
from colangevin.lab.bench.samplers import Amount, Draw, ours
from colangevin.lab.bench.timing import Tick
from colangevin.lab.bench.works import Sizes
from colangevin.lab.machine import threads
from colangevin.sampling.convergence import ess

LETTER = "s"
TITLE = "sampling: effective samples per second"
TUNED = "cl.sample"
TESTED = "cl.sample, adjust=True"
MICI = "mici"
OLLA = "OLLA"
NUTS = "NUTS"
UNBIASED = 0.05
"""Bias up to which rows are compared, in standard deviations, or else within two errors of it."""


@dataclass(frozen=True)
class Sampler:
    """A contestant of a sampling work.

    Attributes:
        label: its name; what it begins with says whose it is.
        draw: draws.
        ours: whether it is this library's.
    """

    label: str
    draw: Draw
    ours: bool = False


@dataclass(frozen=True)
class SamplingWork:
    """A law, and who samples it.

    Attributes:
        make: makes the law, which takes some quadrature.
        entries: the contestants.
        sizes: how much they draw.
        series: the law's name.
    """

    make: Callable[[], Law]
    entries: Sequence[Sampler]
    sizes: Sizes
    series: str = ""
    letter: str = LETTER
    title: str = TITLE
    x: float | None = None


LIBRARY = (Sampler(TUNED, ours(), True), Sampler(TESTED, ours(adjust=True), True))
NO_METRIC = Sampler("cl.sample, metric=None", ours(metric=None), True)
AT_ONE_SPEED = Sampler("cl.sample, microcanonical", ours(dynamics="microcanonical"), True)
LONG_CHAINS, LONG_WARMUP, LONG = 32, 1500, 4500
"""Of the posteriors, whose figures per gradient are of single chains."""
OWN_STEP = 5e-4
"""Of OLLA's experiments in two dimensions."""


def olla_rows(steps: Sequence[float]) -> list[Sampler]:
    """OLLA-H at some steps, and the samplers of its repository at a step of their kind."""
    names = [("OLLA-H", step) for step in steps]
    names += [("OLLA", 0.01), ("CLangevin", 0.01), ("CHMC", 0.1), ("CGHMC", 0.1)]
    return [Sampler(_named(name, step), constrained.olla(name, step)) for name, step in names]


def _named(name: str, step: float) -> str:
    whose = name if "OLLA" in name else f"{name} of OLLA's repository"
    return f"{whose}, step {step:g}"


LAWS = (
    "von_mises_fisher", "torus", "stiefel", "circle", "quartic", "two_lobes", "planes", "gaussian",
    "logistic", "german_credit", "brownian", "item_response",
)  # fmt: skip
"""Functions of ``known_laws`` and ``posterior_laws``."""


def work_s(sizes: Sizes) -> list[SamplingWork]:
    """One work per law."""
    mici = Sampler(MICI, constrained.mici)
    rhmc = Sampler("geoopt RHMC, step 0.02, 10 leaps", constrained.geoopt(0.02, 10))
    flat = olla_rows((OWN_STEP, 0.005, 0.04))
    nuts = [
        Sampler(f"{NUTS} of blackjax", free.blackjax),
        Sampler(f"{NUTS} of NumPyro", free.numpyro),
    ]
    sghmc = Sampler("posteriors SGHMC, lr 0.1", free.posteriors(0.1))
    made: list[tuple[Callable[[], Law], Sequence[Sampler]]] = [
        (laws.von_mises_fisher, [*LIBRARY, mici, *flat, rhmc]),
        (laws.torus, [*LIBRARY, mici, *flat]),
        (laws.stiefel, [*LIBRARY, mici, *flat, rhmc]),
        (laws.circle, [*LIBRARY, mici, *flat, rhmc]),
        (laws.quartic, [*LIBRARY[1:], mici, *flat]),
        (laws.two_lobes, [*LIBRARY[1:], *flat]),
        (laws.planes, [*LIBRARY[1:], *olla_rows((0.01, 0.04))[:2]]),
        (laws.gaussian, [*LIBRARY, NO_METRIC, AT_ONE_SPEED, *nuts, sghmc]),
        (laws.logistic, [*LIBRARY, NO_METRIC, AT_ONE_SPEED, *nuts, sghmc]),
        (posteriors.german_credit, [LIBRARY[0], AT_ONE_SPEED]),
        (posteriors.brownian, [LIBRARY[0], AT_ONE_SPEED]),
        (posteriors.item_response, [LIBRARY[0], AT_ONE_SPEED]),
    ]
    chosen = [(law, entries) for law, entries in made if law.__name__ in (sizes.laws or LAWS)]
    return [SamplingWork(law, entries, sizes) for law, entries in chosen]


def amount_for(law: Law, sizes: Sizes, seed: int) -> Amount:
    """How much is drawn: of a posterior whose moments are known, fewer and longer chains."""
    amount = Amount(
        sizes.chains, sizes.warmup, sizes.draws, sizes.few_chains, sizes.few_draws, seed
    )
    if not posteriors.is_one(law) or sizes.draws < Sizes.draws:
        return amount
    return replace(amount, chains=LONG_CHAINS, warmup=LONG_WARMUP, draws=LONG)


def measure(work: SamplingWork, seed: int, tick: Tick) -> list[Row]:
    """All rows of a law, each of one call on one thread; what fails is noted in its row."""
    try:
        law = work.make()
    except Unavailable as missing:
        label, name = work.entries[0].label, work.make.__name__.replace("_", " ")
        return [Row(work.letter, label, work.entries[0].ours, name, note=str(missing))]
    amount = amount_for(law, work.sizes, seed)
    rows = []
    with threads(1):
        for entry in work.entries:
            row = Row(work.letter, entry.label, entry.ours, law.name)
            rows.append(row)
            _fill(row, entry, law, amount)
            tick(f"{law.name} {entry.label}")
    _relate(rows)
    return rows


def _fill(row: Row, entry: Sampler, law: Law, amount: Amount) -> None:
    try:
        _prepare(entry, law, amount)  # imports and compilers' work come before the clock runs
        start = time.process_time()  # of the processor: a shared machine stops a clock at will
        draws = entry.draw(law, amount)
        row.seconds = time.process_time() - start
        read(row, law, draws)
    except Unavailable as missing:
        row.note = str(missing)
    except Exception as error:  # a peer that fails must not end the run
        lines = str(error).splitlines() or [""]
        row.seconds = None
        row.note = f"failed: {type(error).__name__}: {lines[0][:120]}"


def _prepare(entry: Sampler, law: Law, amount: Amount) -> None:
    """A call beforehand: the same for what is compiled for its sizes, else a short one."""
    short = replace(amount, chains=4, warmup=40, draws=4, few=1, few_draws=4)
    entry.draw(law, amount if entry.label.startswith(NUTS) else short)


def read(row: Row, law: Law, draws: Tensor) -> None:
    """Effective sample size, bias with its error, and violation of draws [chains, draws, n]."""
    if not bool(draws.isfinite().all()):
        row.note = "diverged"
        return
    values = law.averaged(draws.double())
    mean = values.flatten(0, 1).mean(dim=0)
    plain = ess(values, ranked=False)
    bias = ((mean - law.means) / law.deviations).abs()
    worst = int(bias.argmax())
    row.ess = float(ess(values).min())
    row.bias = float(bias[worst])
    row.bias_error = 1.0 / math.sqrt(float(plain[worst]))
    row.chains, row.draws = draws.shape[0], draws.shape[1]
    row.violation = law.violation(draws.double().flatten(0, 1))
    row.note = posteriors.note_of(law, values)


def rate(row: Row) -> float | None:
    """Effective samples per second."""
    return None if row.ess is None or not row.seconds else row.ess / row.seconds


def is_fair(row: Row) -> bool:
    """Whether a row has no bias that matters: at most a limit, or within two errors of 0."""
    if row.bias is None or row.bias_error is None or not math.isfinite(row.bias):
        return False
    return row.bias <= max(UNBIASED, 2.0 * row.bias_error)


def best(rows: Sequence[Row]) -> Row | None:
    """The fastest row among those without bias."""
    known = [row for row in rows if rate(row) is not None and is_fair(row)]
    return max(known, key=lambda row: rate(row) or 0.0, default=None)


def _relate(rows: Sequence[Row]) -> None:
    """Rates over that of the fastest row of this library."""
    first = best([row for row in rows if row.ours])
    base = None if first is None else rate(first)
    for row in rows:
        own = rate(row)
        if own is not None and base and first is not None:
            row.ratio, row.baseline = own / base, first.label


def whose(row: Row, name: str) -> bool:
    """Whether a row is of a peer: by how its label begins."""
    return row.label.startswith(name) and not row.ours
