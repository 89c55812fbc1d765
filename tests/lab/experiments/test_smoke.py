"""Every experiment of the registry at its smallest scale: records, and what is made of them."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import small_data
from colangevin.lab.experiments.registry import EXPERIMENTS
from colangevin.lab.report.results import Results, results_of
from colangevin.lab.runner import job_log
from colangevin.lab.runner.experiment import VERDICTS
from colangevin.lab.runner.records import Records, read_records
from colangevin.lab.runner.tasks import Task, carry_out
from colangevin.lab.runner.values import pack, unpack
from smoke_runs import NEEDS, small_files


@pytest.fixture(params=EXPERIMENTS)
def name(request: pytest.FixtureRequest) -> str:
    """Every experiment in turn: a new one is tested with its line in the registry."""
    return str(request.param)


def results(records: Records, seed: int | None = None) -> Results:
    """As if they were of the full scale, so that claims are weighed and not put aside.

    With a seed the records are those of another run, as it were: see ``shaken``.
    """
    chance = None if seed is None else random.Random(seed)
    whole = [
        replace(
            record,
            settings={**record.settings, "scale": "full"},
            history=shaken(record.history, chance),
            final=shaken(record.final, chance),
        )
        for record in records.values()
    ]
    return results_of(Records(whole, records.directory))


CHOSEN = ("lr", "best_lr")
"""What a job has chosen, and has not measured."""


def shaken(value: Any, chance: random.Random | None) -> Any:
    """A result whose measured numbers are smaller by up to 40 %; counts and steps stay.

    Of packed tensors, numbers are smaller, too, and bytes are the other way round.
    """
    if isinstance(value, dict):
        return {k: own if k in CHOSEN else shaken(own, chance) for k, own in value.items()}
    if isinstance(value, list):
        return [shaken(own, chance) for own in value]
    if chance is None:
        return value
    if isinstance(value, str) and value.startswith(("uint8:", "float16:")):
        tensor = unpack(value)
        if tensor.is_floating_point():
            return pack(chance.uniform(0.6, 1.0) * tensor)
        return pack(255 - tensor) if int(tensor.max()) > 1 else value
    return chance.uniform(0.6, 1.0) * value if isinstance(value, float) else value


def drawn(figure: Figure) -> dict[int, tuple[str, list[float]]]:
    """The title of each panel of a figure that is shown, and all numbers in it."""
    found: dict[int, tuple[str, list[float]]] = {}
    for place, axis in enumerate(figure.axes):
        arrays = [np.asarray(line.get_ydata(), dtype=float) for line in axis.get_lines()]
        bars = [patch for patch in axis.patches if isinstance(patch, Rectangle)]
        arrays.append(np.array([bar.get_height() for bar in bars]))
        arrays += [np.asarray(one.get_array(), dtype=float).ravel() for one in axis.images]
        for one in axis.collections:
            if one.get_array() is not None:
                arrays.append(np.ma.asarray(one.get_array(), dtype=float).filled(np.nan).ravel())
            arrays += [np.asarray(path.vertices, dtype=float)[:, 1] for path in one.get_paths()]
            arrays.append(np.asarray(one.get_offsets(), dtype=float).ravel())
        values = np.concatenate([array.ravel() for array in arrays])
        shown = values[np.isfinite(values)].tolist()
        if axis.axison or shown:
            found[place] = axis.get_title(), shown
    return found


def test_every_job_makes_a_whole_record(name, smoke):
    records, experiment = smoke(name), EXPERIMENTS[name]
    planned = experiment.plan(experiment.settings("smoke", None, 0))
    assert list(records) == [job.name for job in planned]
    for job, record in zip(planned, records.values(), strict=True):
        assert record.complete and record.experiment == name
        assert record.settings["seed"] == job.settings["seed"] == 0


def test_records_make_a_table_and_verdicts(name, smoke):
    found = results(smoke(name))
    assert found.claims and found.table.rows
    assert all(any(cell for cell in row) for row in found.table.rows)
    for claim in found.claims:
        assert claim.text and claim.source and claim.ours
        for answer in claim.answers:
            assert answer.verdict in VERDICTS and (answer.by or answer.verdict == "undecided")
    half = Records(list(smoke(name).values())[: len(smoke(name)) // 2] or [*smoke(name).values()])
    few = results(half)
    assert len(few.claims) <= len(found.claims)


COUNTED = ("boundary-digits", "grokking")
"""What these show is counted, in classes and steps, which have no fraction: see their own tests."""


def test_pictures_show_the_numbers_of_the_records(name, smoke):
    """Every panel has finite data, and other numbers in the records are other ones in it."""
    before, after = results(smoke(name)).figures(), results(smoke(name), seed=0).figures()
    assert before and before.keys() == after.keys()
    for title, figure in before.items():
        shown, other = drawn(figure), drawn(after[title])
        assert shown.keys() == other.keys()
        assert not [panel for panel, numbers in shown.values() if not numbers], title
        if name not in COUNTED:
            assert shown != other, f"{title} does not depend on what was measured"


def test_the_table_shows_the_numbers_of_the_records(name, smoke):
    before, after = results(smoke(name)), results(smoke(name), seed=0)
    assert before.table.columns == after.table.columns
    if name not in COUNTED:
        assert before.table.rows != after.table.rows
        assert [c.ours for c in before.claims] != [c.ours for c in after.claims]


CLOCK = ("seconds", "times")
"""What no second run has again."""


def kept(value: Any) -> Any:
    """A result without times of the clock, NaN as None."""
    if isinstance(value, dict):
        return {k: kept(own) for k, own in value.items() if not any(word in k for word in CLOCK)}
    return [kept(own) for own in value] if isinstance(value, list) else value


@pytest.mark.parametrize("place", [0, -1])
def test_a_job_that_is_killed_twice_gives_the_record_of_a_whole_run(
    name, place, smoke, tmp_path, monkeypatch
):
    """The first and the last job of each experiment: they are of other kinds in most."""
    experiment, whole = EXPERIMENTS[name], list(smoke(name).values())[place]
    monkeypatch.setattr(job_log, "REPORT_SECONDS", -1.0)
    small_data.save_always(monkeypatch)
    job = experiment.plan(experiment.settings("smoke", None, 0))[place]
    directory = tmp_path / name
    directory.mkdir()
    for needed in NEEDS.get(name, ()):  # networks that it finds beside its own records
        (tmp_path / needed).symlink_to(smoke(needed).directory, target_is_directory=True)
    task = Task(experiment.run, job, whole.order, directory, smoke.data, threads=1)
    with small_files():
        for calls in (2, 3):
            with contextlib.suppress(ProcessLookupError):
                carry_out(task, small_data.killed_after(calls))
                break  # a short job has come to its end
        else:
            assert carry_out(task, lambda done: True)
    (found,) = read_records(directory).values()
    assert found.complete and found.settings == whole.settings
    assert kept(found.final) == kept(whole.final)
    assert kept(found.history) == kept(whole.history)
