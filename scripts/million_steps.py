"""A million steps of ``CoLA`` at a temperature above 0: do constraint, temperature and memory hold?

One parameter on each geometry, in float32, with BAOAB and otherwise default arguments, so with
the C kernels where there are some. The potential is U(θ) = |θ − c|²/2, whose gradient is written by
hand. At equilibrium the kinetic temperature pᵀp/N is τ: a step of h = 0.05 shifts it by less than
h²/4 = 0.06 %.

    python scripts/million_steps.py
    python scripts/million_steps.py --cases circle,torus --minutes 15

The record has, for each geometry, the largest residual of the whole run, the mean kinetic
temperature with its Monte Carlo standard error, and the resident memory at 10 % and at the end. A
run that was stopped, or that ``--minutes`` ended, goes on where it was when it is started again.
The exit status is 1 if a limit is exceeded, and 2 if a run is not complete.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import colangevin as cl  # noqa: E402
from colangevin.lab.machine import circumstances  # noqa: E402
from registry import TOLERANCE, Case, beyond, beyond_norm, not_orthonormal, off_torus  # noqa: E402
from registry import torus as torus_equation  # noqa: E402

RECORD = ROOT / "benchmarks" / "results" / "million_steps.json"
CASES = {
    case.name: case
    for case in (
        Case("circle", lambda: cl.Circle(0.5), ((64, 64),), beyond(0.5)),
        Case("sphere", lambda: cl.Sphere(1.0), ((16, 16),), beyond_norm(1.0)),
        Case("orthogonal", cl.Orthogonal, ((16, 8),), not_orthonormal()),
        Case("torus", lambda: cl.General(torus_equation), ((3,),), off_torus),
    )
}
STEP_SIZE, FRICTION, TEMPERATURE, SEED = 0.05, 1.0, 0.05, 0
BLOCK, READING, CHECK = 1_000, 10, 500
"""Steps in a block, between two readings of the temperature, and between two of the residual."""
LIMITS = {"residual": TOLERANCE[torch.float32], "standard_errors": 4.0, "growth_mb": 4.0}
BATCHES = 50
SAVE_SECONDS = 20.0


class Block(NamedTuple):
    """What was measured in a block of steps."""

    temperature: float
    residual: float
    weights: float
    rss_mb: float
    grown_mb: float
    seconds: float


class Chain:
    """A parameter on a manifold with its optimizer; it can be saved and loaded."""

    def __init__(self, case: Case) -> None:
        self.case = case
        weight = case.weights(torch.float32, SEED)[0]
        self.weight = torch.nn.Parameter(weight)
        generator = torch.Generator().manual_seed(SEED)
        self.centre = 0.3 * torch.randn(weight.shape, generator=generator)
        self.weight.grad = torch.zeros_like(weight)
        self.optimizer = cl.CoLA(
            [self.weight],
            step_size=STEP_SIZE,
            friction=FRICTION,
            temperature=TEMPERATURE,
            scheme="BAOAB",
            constraint=case.make(),
            seed=SEED,
        )

    @torch.no_grad()
    def run(self, steps: int, fresh: bool) -> Block:
        """Make a block of steps; in a ``fresh`` process memory may still grow."""
        began, before = time.perf_counter(), resident_mb()
        readings: list[float] = []
        residual = weights = 0.0
        for step in range(1, steps + 1):
            torch.sub(self.weight, self.centre, out=self.weight.grad)
            self.optimizer.step()
            if step % min(READING, steps) == 0:
                readings.append(cl.kinetic_temperature(self.optimizer)[0] or math.nan)
            if step % min(CHECK, steps) == 0:
                residual = worse(residual, self.optimizer.violation()[0].residual)
                weights = worse(weights, float(self.case.violated(self.weight.double())))
        rss = resident_mb()
        grown = 0.0 if fresh else rss - before
        seconds = time.perf_counter() - began
        return Block(statistics.fmean(readings), residual, weights, rss, grown, seconds)

    def state(self) -> dict[str, Any]:
        return {"weight": self.weight.detach(), "optimizer": self.optimizer.state_dict()}

    @torch.no_grad()
    def load(self, state: dict[str, Any]) -> None:
        self.weight.copy_(state["weight"])
        self.optimizer.load_state_dict(state["optimizer"])


def worse(one: float, other: float) -> float:
    """The larger of two, where not a number is the worst."""
    return math.nan if math.isnan(one) or math.isnan(other) else max(one, other)


def resident_mb() -> float:
    """Resident memory of this process in MB; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def walk(case: Case, steps: int, checkpoint: Path, minutes: float | None) -> list[Block]:
    """Make the steps of a case from its checkpoint on, until they or the minutes are over."""
    chain, blocks, size = Chain(case), [], block_size(steps)
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        chain.load(saved["chain"])
        blocks = [Block(*row) for row in saved["blocks"]]
    began = last = time.perf_counter()
    fresh = True
    while len(blocks) * size < steps:
        blocks.append(chain.run(size, fresh))
        fresh, now = False, time.perf_counter()
        over = minutes is not None and now - began > 60 * minutes
        done = over or len(blocks) * size >= steps
        if done or now - last > SAVE_SECONDS:
            save(checkpoint, {"chain": chain.state(), "blocks": [list(b) for b in blocks]})
            print(progress(case.name, blocks, steps), flush=True)
            last = now
        if over:
            break
    return blocks


def save(path: Path, content: dict[str, Any]) -> None:
    """Write so that a kill leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    torch.save(content, draft)
    draft.replace(path)


def block_size(steps: int) -> int:
    """Steps of a block: what divides a run into at least 20 equal parts."""
    size = max(1, min(BLOCK, steps // 20))
    if steps % size:
        raise ValueError(f"steps must be a multiple of {size} here, got {steps}")
    return size


def progress(name: str, blocks: Sequence[Block], steps: int) -> str:
    """One line on the way."""
    done = len(blocks) * block_size(steps)
    worst = max(max(block.residual, block.weights) for block in blocks)
    mean = statistics.fmean(block.temperature for block in blocks)
    spent = sum(block.seconds for block in blocks)
    return (
        f"{name}: {done:,} of {steps:,} steps, {spent:.0f} s, residual {worst:.1e}, "
        f"temperature {mean:.5f}, {blocks[-1].rss_mb:.0f} MB"
    )


def standard_error(values: Sequence[float]) -> float:
    """Monte Carlo standard error of a mean, by means of at most 50 batches."""
    count = min(BATCHES, len(values))
    if count < 2:
        return math.nan
    size = len(values) // count
    tail = values[len(values) - count * size :]
    means = [statistics.fmean(tail[i * size : (i + 1) * size]) for i in range(count)]
    centre = statistics.fmean(means)
    return math.sqrt(sum((mean - centre) ** 2 for mean in means) / (count - 1) / count)


def summary(blocks: Sequence[Block], wanted: int, temperature: float) -> dict[str, Any]:
    """What a run shows, and whether it keeps every limit.

    The first tenth of the blocks is left out of the temperature, as the run starts at rest, and of
    the growth of memory.
    """
    tenth = len(blocks) // 10
    readings = [block.temperature for block in blocks[tenth:]]
    mean, error = statistics.fmean(readings), standard_error(readings)
    found = {
        "steps": len(blocks) * block_size(wanted),
        "steps_wanted": wanted,
        "residual": _largest(block.residual for block in blocks),
        "weights_beyond": _largest(block.weights for block in blocks),
        "temperature": mean,
        "temperature_standard_error": error,
        "temperature_deviation": (mean - temperature) / error if error else math.inf,
        "rss_mb_at_10_percent": round(blocks[tenth].rss_mb, 1),
        "rss_mb_at_end": round(blocks[-1].rss_mb, 1),
        "growth_mb": round(sum(block.grown_mb for block in blocks[tenth + 1 :]), 1),
        "seconds": round(sum(block.seconds for block in blocks), 1),
    }
    return {**found, **verdicts(found)}


def _largest(values: Any) -> float:
    found = 0.0
    for value in values:
        found = worse(found, value)
    return found


def verdicts(found: dict[str, Any]) -> dict[str, bool]:
    """Whether the limits are kept; not a number keeps none."""
    kept = {
        "on_manifold": found["residual"] <= LIMITS["residual"]
        and found["weights_beyond"] <= LIMITS["residual"],
        "temperature_right": abs(found["temperature_deviation"]) <= LIMITS["standard_errors"],
        "memory_flat": found["growth_mb"] <= LIMITS["growth_mb"],
    }
    return {
        **kept,
        "complete": found["steps"] == found["steps_wanted"],
        "passed": all(kept.values()),
    }


def describe(name: str, found: dict[str, Any]) -> str:
    """One line of a result."""
    less = "" if found["complete"] else f" of {found['steps_wanted']:,} wanted: out of time"
    return (
        f"{name}: {'passed' if found['passed'] else 'FAILED'}, {found['steps']:,} steps{less}; "
        f"residual {found['residual']:.1e}; temperature {found['temperature']:.6f} ± "
        f"{found['temperature_standard_error']:.6f} ({found['temperature_deviation']:+.1f} "
        f"standard errors from {TEMPERATURE}); memory {found['rss_mb_at_10_percent']:.0f} MB at "
        f"10 %, {found['rss_mb_at_end']:.0f} MB at the end; {found['seconds']:.0f} s"
    )


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--cases", default=",".join(CASES), help="names with commas between them")
    parser.add_argument("--out", type=Path, default=RECORD, help="the record, a JSON file")
    parser.add_argument("--work", type=Path, default=ROOT / "out" / "million-steps")
    parser.add_argument("--minutes", type=float, help="the most that this call gives to a case")
    options = parser.parse_args(given)
    unknown = sorted(set(options.cases.split(",")) - set(CASES))
    if unknown:
        parser.error(f"--cases: unknown {', '.join(unknown)}; there are {', '.join(CASES)}")
    if options.steps < 40 or options.steps % min(BLOCK, options.steps // 20):
        parser.error(f"--steps must be a multiple of {BLOCK}, or of 20 below that")
    return options


def main(given: Sequence[str] | None = None) -> int:
    """Run the cases and write the record after each."""
    options = arguments(given)
    torch.set_num_threads(1)
    record: dict[str, Any] = {"cases": {}}
    if options.out.exists():
        record = json.loads(options.out.read_text(encoding="utf-8"))
    for name in options.cases.split(","):
        checkpoint = options.work / f"{name}-{options.steps}.pt"
        blocks = walk(CASES[name], options.steps, checkpoint, options.minutes)
        found = summary(blocks, options.steps, TEMPERATURE)
        shape = list(CASES[name].shapes[0])
        made = circumstances(torch.device("cpu"), ["colangevin"])
        record["cases"][name] = {"shape": shape, **found, "circumstances": made}
        write(options.out, record)
        print(describe(name, found), flush=True)
    chosen = [record["cases"][name] for name in options.cases.split(",")]
    if not all(found["passed"] for found in chosen):
        return 1
    return 0 if all(found["complete"] for found in chosen) else 2


def write(path: Path, record: dict[str, Any]) -> None:
    """Write the record with its settings."""
    settings = {
        "dtype": "float32",
        "scheme": "BAOAB",
        "step_size": STEP_SIZE,
        "friction": FRICTION,
        "temperature": TEMPERATURE,
        "potential": "|θ − c|²/2",
        "seed": SEED,
        "steps_between_readings_of_the_temperature": READING,
        "steps_between_readings_of_the_residual": CHECK,
        "growth_mb": "of resident memory while steps are made; saving a checkpoint is not counted",
        "limits": LIMITS,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"settings": settings, "cases": record["cases"]}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
