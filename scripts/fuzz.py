"""Draw settings at random, and hold `CoLA` to what the library promises.

    python scripts/fuzz.py --draws 400             # print the table; some minutes
    python scripts/fuzz.py --draws 4000 --write    # and put it into docs/reliability.md

A draw is a number from which everything follows: weights, constraints, direction, scheme, step,
temperature, dtype and gradients. `--first 17 --draws 1` repeats draw 17. Every promise is tried on
every draw that it is about. The exit status is 1 if one is broken.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import math
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import colangevin as cl  # noqa: E402
from colangevin.optimizers.options import OPTIONS  # noqa: E402
from optimizer_cases import contents, same  # noqa: E402
from registry import CASES, RUNS, TOLERANCE, Case  # noqa: E402

PAGE, RECORD = ROOT / "docs" / "reliability.md", ROOT / "benchmarks" / "results" / "fuzz.json"
LONG = ROOT / "benchmarks" / "results" / "million_steps.json"
TEMPERATURE = 0.05  # of the million steps
STEPS = 12
SINGLE = [case for case in CASES if len(case.shapes) == 1]
"""Constraints of one weight each, so that any number of them can be in one optimizer."""
GEOMETRIES_THAT_FAIL = ("orthogonal.py", "diagonal_gram.py", "general.py", "general_solver.py")
NEVER = 1_000_000_000
SHARE_OF_SOLVERS = 0.1
"""Of the draws: general constraints solve equations in every step."""


@dataclass(frozen=True)
class Setting:
    """What a draw has come to.

    Attributes:
        draw: its number.
        cases: the constraint of each weight.
        dtype: of all weights.
        together: whether equal constraints share a group.
        options: those of the optimizer.
        size: of the gradients.
    """

    draw: int
    cases: tuple[Case, ...]
    dtype: torch.dtype
    together: bool
    options: dict[str, Any]
    size: float

    def __str__(self) -> str:
        names = ", ".join(case.name for case in self.cases)
        return f"draw {self.draw}: {names}; {self.dtype}; {self.options}; gradients {self.size:.3g}"


def draw(number: int) -> Setting:
    """The setting of a number."""
    dice = random.Random(number)
    plain = [case for case in SINGLE if not case.name.startswith("general")]
    pool = SINGLE if dice.random() < SHARE_OF_SOLVERS else plain
    run = dice.choice(RUNS)
    options: dict[str, Any] = {
        "seed": dice.randrange(100),
        "weight_decay": dice.choice([0.0, 0.01]),
    }
    options["lr"] = 10.0 ** dice.uniform(-4.0, -1.3)
    if not run.overdamped:
        options |= {"momentum": dice.choice([0.5, 0.9, 0.99]), "scheme": run.word}
        options["delayed_gradient"] = run.delayed
    if dice.random() < 0.5:
        options["temperature"] = 10.0 ** dice.uniform(-8.0, -2.0)
    elif dice.random() < 0.5:
        options["direction"] = dice.choice(["adam", "sign"])
    if dice.random() < 0.5:
        options["fused"] = False
    return Setting(
        number,
        drawn_cases(pool, dice),
        dice.choice(list(TOLERANCE)),
        dice.random() < 0.5,
        options,
        10.0 ** dice.uniform(-2.0, 0.5),
    )


def drawn_cases(pool: list[Case], dice: random.Random) -> tuple[Case, ...]:
    """One to four constraints; equal ones are next to each other."""
    found: list[Case] = []
    for _ in range(dice.choice([1, 1, 2])):
        found += [dice.choice(pool)] * dice.choice([1, 2])
    return tuple(found)


class Run:
    """Weights and their optimizer, and gradients that depend on the step alone."""

    def __init__(self, setting: Setting, **others: Any) -> None:
        self.setting = setting
        made = [
            (case, case.weights(setting.dtype, seed)[0]) for seed, case in enumerate(setting.cases)
        ]
        self.names = [f"{case.name}.{index}" for index, (case, _) in enumerate(made)]
        self.weights = [nn.Parameter(weight.clone()) for _, weight in made]
        groups: list[dict[str, Any]] = []
        before = None
        for name, case, weight in zip(self.names, setting.cases, self.weights, strict=True):
            if not (setting.together and case is before):
                groups.append({"constraint": case.make(), "params": []})
            groups[-1]["params"].append((name, weight))
            before = case
        with quiet():
            self.optimizer = cl.CoLA(groups, **{**setting.options, **others})

    def gradients(self, step: int) -> None:
        generator = torch.Generator().manual_seed(1000 * self.setting.draw + step)
        for weight in self.weights:
            normal = torch.randn(weight.shape, dtype=torch.float64, generator=generator)
            weight.grad = (self.setting.size * normal).to(weight.dtype)

    def steps(self, steps: range) -> None:
        for step in steps:
            self.gradients(step)
            with quiet():
                self.optimizer.step()

    def contents(self) -> dict[str, Any]:
        return contents(self.optimizer)


class quiet(warnings.catch_warnings):
    """Without the warnings of rough settings."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.simplefilter("ignore")


def started(setting: Setting, steps: int = STEPS, **others: Any) -> Run | None:
    """A run after some steps; None where a projection failed, which the library may say."""
    run = Run(setting, **others)
    try:
        run.steps(range(steps))
    except cl.ConvergenceError:
        return None
    return run


# --- promises: each returns how often it was tried, and raises AssertionError where it is broken


def on_the_manifold(setting: Setting, dice: random.Random) -> int:
    """After steps of any length weights are finite and on their constraint."""
    run = started(setting)
    if run is None:
        return 0
    for case, weight in zip(setting.cases, run.weights, strict=True):
        off = float(case.violated(weight.detach().double()))
        assert off <= 10.0 * TOLERANCE[setting.dtype], f"{case.name} is off by {off:.2g}"
    return STEPS


def failure_changes_nothing(setting: Setting, dice: random.Random) -> int:
    """A step that raises leaves weights, state and options as they were, and names the weight."""
    run = started(setting, strict=True)
    if run is None:
        return 0
    run.gradients(STEPS)
    place = dice.randrange(len(run.weights))
    bad = run.weights[place]
    bad.grad.view(-1)[dice.randrange(bad.numel())] = dice.choice([math.nan, math.inf, -math.inf])
    before = run.contents()
    try:
        with quiet():
            run.optimizer.step()
    except (ValueError, cl.ColangevinError) as error:
        assert run.names[place] in str(error), f"{run.names[place]} is not named: {error}"
        assert same(before, run.contents()), f"{type(error).__name__} changed something"
        return 1
    raise AssertionError("strict=True took a gradient that is not finite")


class Failure:
    """Raises an error at the nth line that is executed inside a geometry that can fail."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        """Count a line."""
        if Path(frame.f_code.co_filename).name not in GEOMETRIES_THAT_FAIL:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def a_step_or_nothing(setting: Setting, dice: random.Random) -> int:
    """A step that is interrupted at any line of a geometry that can fail is not made at all."""
    run, whole = started(setting), started(setting)
    if run is None or whole is None:
        return 0
    run.gradients(STEPS)
    whole.gradients(STEPS)
    before = run.contents()
    counter = Failure(NEVER)
    try:
        sys.settrace(counter)
        whole.optimizer.step()
    except cl.ConvergenceError:
        return 0
    finally:
        sys.settrace(None)
    if counter.left == NEVER:  # a kernel, or a geometry that cannot fail
        return 0
    try:
        sys.settrace(Failure(dice.randint(1, NEVER - counter.left)))
        run.optimizer.step()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    assert same(run.contents(), before), "half a step was made"
    return 1


def exact_resume(setting: Setting, dice: random.Random) -> int:
    """A run that goes on from a saved state makes the same steps, to the bit."""
    half = dice.randrange(1, STEPS)
    whole, first = started(setting), started(setting, half)
    if whole is None or first is None:
        return 0
    file = io.BytesIO()
    torch.save([[w.detach() for w in first.weights], first.optimizer.state_dict()], file)
    file.seek(0)
    weights, state = torch.load(file, weights_only=True)
    second = Run(setting)
    with torch.no_grad():
        for weight, saved in zip(second.weights, weights, strict=True):
            weight.copy_(saved)
    second.optimizer.load_state_dict(state)
    second.steps(range(half, STEPS))
    assert same(whole.contents()["parameters"], second.contents()["parameters"]), (
        f"from step {half}"
    )
    assert same(whole.contents()["state"], second.contents()["state"]), "the state differs"
    return 1


def bad_states_are_refused(setting: Setting, dice: random.Random) -> int:
    """A state with a tensor of another shape, or without an option, is refused; nothing changes."""
    run = started(setting)
    if run is None:
        return 0
    damaged = copy.deepcopy(run.optimizer.state_dict())
    what = damage(damaged, dice)
    before = run.contents()
    try:
        run.optimizer.load_state_dict(damaged)
    except (ValueError, TypeError, KeyError):
        assert same(before, run.contents()), f"a refused state ({what}) changed something"
        return 1
    raise AssertionError(f"a damaged state was taken: {what}")


def damage(state: dict[str, Any], dice: random.Random) -> str:
    """Damage a state dict in place, and say how."""
    tensors = [
        (key, name)
        for key, entry in state["state"].items()
        for name, value in entry.items()
        if isinstance(value, Tensor) and value.dim()
    ]
    ways = ["option", "value", "groups"] + ["shape", "text"] * bool(tensors)
    way = dice.choice(ways)
    group = dice.choice(state["param_groups"])
    if way == "option":
        name = dice.choice(["lr", "temperature", "weight_decay", "scheme", "constraint"])
        del group[name]
        return f"without {name}"
    if way == "value":
        name, value = dice.choice(BAD_VALUES)
        group[name] = value
        return f"{name}={value!r}"
    if way == "groups":
        state["param_groups"].append(group)
        return "a group more"
    key, name = dice.choice(tensors)
    old = state["state"][key][name]
    state["state"][key][name] = (
        "text" if way == "text" else torch.cat([old.flatten(), old.flatten()])
    )
    return f"{name} of another {way}"


BAD_VALUES: list[tuple[str, Any]] = [
    *(
        (name, value)
        for name in ("lr", "temperature", "weight_decay")
        for value in (-1.0, math.nan)
    ),
    *((name, "fast") for name in ("lr", "temperature", "weight_decay", "momentum")),
    *(("scheme", value) for value in ("XYZ", 3, "")),
    *(("direction", value) for value in ("east", 3)),
    ("momentum", 1.5),
    ("rounding", "up"),
    ("thermostat", "tropical"),
]


def bad_options_are_named(setting: Setting, dice: random.Random) -> int:
    """A bad option is refused by its name, at the beginning and when it is written to a group."""
    name, value = dice.choice(BAD_VALUES)
    assert name in OPTIONS
    try:
        Run(setting, **{name: value})
    except (ValueError, TypeError) as error:
        assert name in str(error), f"{name}={value!r} is not named: {error}"
    else:
        raise AssertionError(f"{name}={value!r} was taken at the beginning")
    run = started(setting)
    if run is None:
        return 1
    dice.choice(run.optimizer.param_groups)[name] = value
    run.gradients(STEPS)
    before = run.contents()
    try:
        run.optimizer.step()
    except (ValueError, TypeError) as error:
        assert name in str(error), f"{name}={value!r} is not named: {error}"
    else:
        raise AssertionError(f"{name}={value!r} was taken in a group")
    assert same(before, run.contents()), f"{name}={value!r} changed something"
    return 2


def kernels_and_formulas_agree(setting: Setting, dice: random.Random) -> int:
    """Kernels and formulas in torch operations make the same steps, up to rounding."""
    runs = [started(setting, 3, fused=fused) for fused in (None, False)]
    if runs[0] is None or runs[1] is None:
        return 0
    tolerance = 1e-3 if setting.dtype == torch.float32 else 1e-9
    for case, one, other in zip(setting.cases, runs[0].weights, runs[1].weights, strict=True):
        error = float(((one - other).abs().max() / (1.0 + other.abs().max())).detach())
        assert error <= tolerance, f"{case.name} differs by {error:.2g}"
    return 1


PROMISES: dict[str, tuple[Callable[[Setting, random.Random], int], str]] = {
    "weights stay on their constraint": (on_the_manifold, "steps"),
    "a step that fails changes nothing": (failure_changes_nothing, "failing steps"),
    "an interrupted step changes nothing": (a_step_or_nothing, "interrupts in a projection"),
    "a resumed run makes the same steps, bit for bit": (exact_resume, "resumed runs"),
    "a damaged state is refused": (bad_states_are_refused, "damaged states"),
    "a bad option is refused by its name": (bad_options_are_named, "bad options"),
    "kernels and formulas agree": (kernels_and_formulas_agree, "pairs of runs"),
}


@dataclass
class Outcome:
    """How often each promise was tried, and what broke one."""

    tried: Counter[str]
    broken: list[tuple[str, str]]


def hold(numbers: range, said: Callable[[str], None] = lambda line: None) -> Outcome:
    """Try every promise on every draw."""
    outcome = Outcome(Counter(), [])
    for number in numbers:
        setting = draw(number)
        for name, (promise, _) in PROMISES.items():
            try:
                outcome.tried[name] += promise(setting, random.Random(f"{number} {name}"))
            except AssertionError as error:
                outcome.broken.append((name, f"{setting}: {error}"))
                said(f"{name}: {outcome.broken[-1][1]}")
            except Exception as error:
                text = "".join(traceback.format_exception(error)[-3:])
                outcome.broken.append((name, f"{setting}: {type(error).__name__}: {error}"))
                said(f"{name}: {setting}\n{text}")
    return outcome


def table(record: dict[str, Any]) -> str:
    """The record as Markdown, with how it was made."""
    rows = ["| promise | tried | broken |", "| --- | --- | --- |"]
    for name, (_, unit) in PROMISES.items():
        rows.append(f"| {name} | {record['tried'][name]:,} {unit} | {record['broken'][name]} |")
    made = f"draws {record['first']} to {record['last']}; {record['made with']}"
    return "\n".join([*rows, "", f"`{record['command']}` ({made}).", ""])


def long_runs() -> str:
    """The record of a million steps as Markdown."""
    cases = json.loads(LONG.read_text(encoding="utf-8"))["cases"]
    rows = [
        "| geometry | steps | largest residual | kinetic temperature / τ | memory |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, case in cases.items():
        ratio = case["temperature"] / TEMPERATURE
        error = case["temperature_standard_error"] / TEMPERATURE
        rows.append(
            f"| {name} | {case['steps']:,} | {case['residual']:.1e} | {ratio:.5f} ± {error:.5f} "
            f"| {case['growth_mb']:+.1f} MB |"
        )
    return "\n".join([*rows, ""])


def write(record: dict[str, Any]) -> None:
    """Renew the record, and the tables on the page."""
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    for name, text in (("fuzz", table(record)), ("long", long_runs())):
        start, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
        before, rest = page.split(start)
        page = f"{before}{start}{text}{end}{rest.split(end)[1]}"
    PAGE.write_text(page, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Draw, print the table, and with --write put it on the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--write", action="store_true", help="renew docs/reliability.md")
    chosen = parser.parse_args(arguments)
    began = time.perf_counter()
    numbers = range(chosen.first, chosen.first + chosen.draws)
    outcome = hold(numbers, print)
    record = {
        "command": f"python scripts/fuzz.py --draws {chosen.draws}",
        "first": numbers[0],
        "last": numbers[-1],
        "made with": f"colangevin {cl.__version__}, torch {torch.__version__}",
        "tried": {name: outcome.tried[name] for name in PROMISES},
        "broken": {name: [n for n, _ in outcome.broken].count(name) for name in PROMISES},
    }
    print(table(record))
    print(f"{time.perf_counter() - began:.0f} s")
    if chosen.write:
        write(record)
    return 1 if outcome.broken else 0


if __name__ == "__main__":
    sys.exit(main())
