"""Hold every constraint for 100,000 steps with random gradients, and measure how well.

Every case of ``tests/registry.py`` runs with every scheme in float32 and float64, at
temperature 0 and above it at once: two copies of the weights, of which one gets no noise. The
integrators are driven directly, because the optimizer's own work would be most of the time.

    python scripts/long_run.py --out long_run.jsonl --workers 2

Each result is a line of ``--out``. What is there already is not run again, so a run that was
stopped goes on where it was. The exit status is 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from colangevin import ColangevinError, Constraint, General, State  # noqa: E402
from colangevin.integrators import advance  # noqa: E402
from registry import CASES, RUNS, TOLERANCE, Case, Run  # noqa: E402

SCHEMES = {run.name: run for run in RUNS if run.name in ("overdamped", "OBA", "ABO", "BAOAB")}
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in TOLERANCE}
TEMPERATURE = 0.02
MEASUREMENTS = 50


class Job(NamedTuple):
    """One run: a case with a scheme and a dtype, for a number of steps."""

    case: str
    scheme: str
    dtype: str
    steps: int


class Copies:
    """Two copies of a case's weights in one batch: the first cold, the second hot."""

    def __init__(self, case: Case, dtype: torch.dtype) -> None:
        self.case, self.constraint = case, case.bound()
        trace(self.constraint)
        position = self._both(case.join(self.constraint, case.weights(dtype)))
        slack = self.constraint.lift(position)
        bare = slack is None or self.constraint.elementwise
        zeros = torch.zeros_like(position), None if bare else torch.zeros_like(slack)
        self.state = State(position, zeros[0], slack, zeros[1])
        self.generator = torch.Generator().manual_seed(0)

    def _both(self, one: Tensor) -> Tensor:
        return torch.stack([one, one]) if self.constraint.elementwise else torch.cat([one, one])

    def normals(self, like: Tensor) -> Tensor:
        """Standard normals, for gradients."""
        return torch.randn(like.shape, dtype=like.dtype, generator=self.generator)

    def noise(self, like: Tensor) -> Tensor:
        """Standard normals for the hot copy only."""
        drawn = self.normals(like)
        drawn[: len(drawn) // 2] = 0.0
        return drawn

    def measure(self) -> list[dict[str, float]]:
        """Residual, cotangency and violation of the raw weights, for the cold and the hot copy."""
        state = self.state
        if self.constraint.double_safe:
            state = state.map(Tensor.double)
        residual = self.constraint.residual(state)
        cotangency = self.constraint.cotangency(self.constraint.close(state))
        return [
            {
                "residual": _worst(residual, half),
                "cotangency": _worst(cotangency, half),
                "weights": self._violated(state.position, half),
            }
            for half in (0, 1)
        ]

    def _violated(self, position: Tensor, half: int) -> float:
        one = position[half] if self.constraint.elementwise else position.chunk(2)[half]
        weights = [weight.double() for weight in self.case.split(self.constraint, one)]
        return float(self.case.violated(*weights))


def trace(constraint: Constraint) -> None:
    """Let a general constraint evaluate g and its Jacobian as graphs of plain operations.

    They are what vmap and jacrev do, without the cost of asking them anew in every step.
    """
    if not isinstance(constraint, General):
        return
    system = constraint.system
    for name in ("values", "linearise"):
        object.__setattr__(system, name, Traced(getattr(system, name)))


class Traced:
    """A function of a batch that is traced once for a shape."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._graphs: dict[Any, Any] = {}
        self._single = True

    def _listed(self, batch: Tensor) -> list[Tensor]:
        found = self._function(batch)
        self._single = isinstance(found, Tensor)
        return [found] if self._single else list(found)

    def __call__(self, batch: Tensor) -> Any:
        key = batch.shape, batch.dtype
        if key not in self._graphs:
            body = lambda points: self._listed(points)  # noqa: E731 (a tracer takes no method)
            self._graphs[key] = make_fx(body)(batch)
        found = self._graphs[key](batch.contiguous())
        return found[0] if self._single else tuple(found)


def _worst(values: Tensor, half: int) -> float:
    return float((values.chunk(2)[half] if values.dim() else values).abs().max())


def run(job: Job) -> dict[str, Any]:
    """Make one run and return its result, the largest of each measure over the run."""
    torch.set_num_threads(1)
    case = next(case for case in CASES if case.name == job.case)
    scheme: Run = SCHEMES[job.scheme]
    began = time.perf_counter()
    copies = Copies(case, DTYPES[job.dtype])
    worst = [dict.fromkeys(("residual", "cotangency", "weights"), 0.0) for _ in range(2)]
    error = None
    try:
        for _ in _measured_steps(copies, scheme, job.steps):
            for total, now in zip(worst, copies.measure(), strict=True):
                total.update({name: max(total[name], value) for name, value in now.items()})
    except ColangevinError as failure:
        error = str(failure)
    return {
        **job._asdict(),
        "cold": worst[0],
        "hot": worst[1],
        "error": error,
        "seconds": round(time.perf_counter() - began, 1),
    }


def _measured_steps(copies: Copies, scheme: Run, steps: int) -> Any:
    """Make the steps, and yield whenever it is time to measure."""
    dynamics = scheme.dynamics(0.03 if scheme.overdamped else 0.1, 1.0, TEMPERATURE)
    first, later = dynamics.actions(first=True), dynamics.actions(first=False)
    constraint: Constraint = copies.constraint
    every = max(1, steps // MEASUREMENTS)
    with torch.no_grad():
        for step in range(1, steps + 1):
            gradient = copies.normals(copies.state.position)
            actions = first if step == 1 else later
            copies.state = advance(constraint, copies.state, gradient, actions, copies.noise)
            if step % every == 0 or step == steps:
                yield step


def passed(result: dict[str, Any]) -> bool:
    """Whether a run has kept within its dtype's limit."""
    limit = TOLERANCE[DTYPES[result["dtype"]]]
    values = [*result["cold"].values(), *result["hot"].values()]
    return result["error"] is None and all(value <= limit for value in values)


def key(result: dict[str, Any]) -> Job:
    """What a result is the result of."""
    return Job(*(result[name] for name in Job._fields))


def read(path: Path) -> dict[Job, dict[str, Any]]:
    """Results so far; a last line that was cut off is ignored."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            result = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[key(result)] = result
    return found


def table(results: list[dict[str, Any]]) -> str:
    """One line a run: the largest violation at temperature 0 and above it."""
    head = f"{'case':20}{'scheme':12}{'dtype':9}{'max |g|, 0':>12}{'max |g|, τ':>12}"
    lines = [f"{head}{'cotangent':>11}{'weights':>10}{'seconds':>9}"]
    for result in results:
        cold, hot = result["cold"], result["hot"]
        both = {name: max(cold[name], hot[name]) for name in cold}
        verdict = "" if passed(result) else f"  FAILED {result['error'] or ''}"
        lines.append(
            f"{result['case']:20}{result['scheme']:12}{result['dtype']:9}"
            f"{cold['residual']:12.1e}{hot['residual']:12.1e}{both['cotangency']:11.1e}"
            f"{both['weights']:10.1e}{result['seconds']:9.1f}{verdict}"
        )
    return "\n".join(lines)


def main() -> int:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=Path("long_run.jsonl"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    arguments = parser.parse_args()
    wanted = [
        Job(case.name, scheme, dtype, arguments.steps)
        for case in CASES
        for scheme in SCHEMES
        for dtype in DTYPES
        if arguments.only in case.name
    ]
    done = read(arguments.out)
    missing = [job for job in wanted if job not in done]
    print(f"{len(wanted)} runs of {arguments.steps} steps, {len(missing)} to do", flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    pool = ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn"))
    with pool, arguments.out.open("a", encoding="utf-8") as file:
        for count, future in enumerate(as_completed([pool.submit(run, j) for j in missing]), 1):
            result = future.result()
            done[key(result)] = result
            print(json.dumps(result), file=file, flush=True)
            mark = "" if passed(result) else "  FAILED"
            print(
                f"{count}/{len(missing)} {result['case']} {result['scheme']} {result['dtype']} "
                f"{result['seconds']} s{mark}",
                flush=True,
            )
    results = [done[job] for job in wanted]
    print(table(results))
    failures = sum(not passed(result) for result in results)
    print(f"{len(results) - failures} of {len(results)} runs within the limits")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
