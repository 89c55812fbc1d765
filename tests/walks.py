"""A small experiment for tests of the framework: random walks with checkpoints.

Processes that a test starts import it by name. Run as a program, it is ``cola`` with this
experiment among the others.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from colangevin.lab.experiments import registry
from colangevin.lab.runner.experiment import Answer, Claim, Experiment, Job, Table
from colangevin.lab.runner.job_log import Log, pack, unpack
from colangevin.lab.runner.records import Records

NAME = "walks"
STEPS = 200
PAUSE = "WALKS_PAUSE"
"""Environment variable: seconds to sleep in every step, so that there is time to interfere."""


def jobs(settings: dict) -> list[Job]:
    widths = {"wide": 1.0, "narrow": 0.1, "middle": 0.3}
    return [Job(NAME, name, {**settings, "width": width}) for name, width in widths.items()]


def run(job: Job, log: Log) -> None:
    settings = job.settings
    generator = torch.Generator().manual_seed(settings["seed"])
    state = log.load()
    if state is None:
        state = {"step": 0, "x": torch.zeros(settings["runs"])}
    else:
        generator.set_state(state["generator"])
    x: Tensor = state["x"]
    for step in range(state["step"], settings["steps"]):
        x = x + settings["width"] * torch.randn(len(x), generator=generator)
        time.sleep(float(os.environ.get(PAUSE, "0")))
        if (step + 1) % 5 == 0:
            log.append(step=step + 1, x=x)
        going = log.keep_going((step + 1) / settings["steps"])
        if (step + 1) % 20 == 0 or not going:
            log.save({"step": step + 1, "x": x, "generator": generator.get_state()})
        if not going and step + 1 < settings["steps"]:
            return
    log.finish(distance=x.abs(), path=pack(x))


def figures(records: Records) -> dict:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3, 2))
    axes = figure.add_subplot()
    for name, record in records.items():
        axes.plot(record.history["step"], record.series("x"), label=name)
        assert len(unpack(record.final["path"])) == record.settings["runs"]
    return {"where-they-went": figure}


def table(records: Records) -> Table:
    rows = [[name, records.text(name, "distance", 2)] for name in records]
    return Table(["walk", "|distance|"], rows)


def claims(records: Records) -> list[Claim]:
    if "wide" not in records:
        return []
    ours = records.text("wide", "distance")
    return [
        Claim("distance <wide>", "1 | 2", ours, number=Answer("yes", "t, n = 5, p = 0.5")),
        Claim("narrow | wide", "narrow < wide", "wide", order=REVERSED, why="no & reason"),
    ]


REVERSED = Answer("no", "reversed: paired t, n = 5, p = 0.01")
WALKS = Experiment(
    name=NAME,
    title="random walks",
    source="figure 0",
    scales={
        "smoke": {"runs": 2, "steps": STEPS},
        "laptop": {"runs": 4, "steps": STEPS},
    },
    jobs=jobs,
    run=run,
    figures=figures,
    table=table,
    claims=claims,
    claimed="the narrow walk is shorter",
    ours="the generator",
    settings_stated=(("steps", "many", "{steps} steps"),),
    reduced={"laptop": "4 of 90 walks"},
    note="the paper walks further",
    times={"smoke": "1 s"},
)


@contextmanager
def alone() -> Iterator[dict[str, Experiment]]:
    """Make this the only experiment that there is; yields the registry, to add more."""
    before = dict(registry.EXPERIMENTS)
    registry.EXPERIMENTS.clear()
    registry.EXPERIMENTS[NAME] = WALKS
    try:
        yield registry.EXPERIMENTS
    finally:
        registry.EXPERIMENTS.clear()
        registry.EXPERIMENTS.update(before)


def main() -> None:
    """Run ``cola``; a module of this name has the experiment, __main__ cannot be imported."""
    from colangevin.lab.cli.main import run as run_program

    registry.EXPERIMENTS[NAME] = importlib.import_module(NAME).WALKS
    run_program()


if __name__ == "__main__":
    main()
