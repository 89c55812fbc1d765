"""What records say about the run that made them."""

import pytest

from colangevin.lab.experiments.records import Record, Records
from colangevin.lab.experiments.registry import find
from colangevin.lab.experiments.results import results_of


def results(name, scale, runs):
    """Records of all jobs, without results."""
    experiment = find(name)
    jobs = experiment.jobs(experiment.settings(scale, runs, 7))
    return results_of(
        Records(Record(name, job.name, i, dict(job.settings)) for i, job in enumerate(jobs))
    )


@pytest.mark.parametrize(
    ("name", "scale", "runs", "words"),
    [
        ("spiral-gradients", "full", None, "full --seed 7"),
        ("spiral-gradients", "full", 50, "full --runs 50 --seed 7"),
        ("fashion-circle", "full", None, "full --seed 7 --data DIR"),
        ("fashion-circle", "grid", None, "grid --seed 7 --data DIR"),
        ("fashion-circle", "grid", 3, "grid --runs 3 --seed 7 --data DIR"),
        ("cifar-orthogonal", "long", None, "long --seed 7 --data DIR"),
        ("residual-paths", "imagenet", None, "imagenet --seed 7 --data DIR"),
    ],
)
def test_the_command_makes_the_records(name, scale, runs, words):
    found = results(name, scale, runs)
    assert found.command == f"cola reproduce {name} --scale {words}"
    assert set(found.missing) == set(found.records)  # none of them is complete


def test_jobs_without_a_record_are_missing():
    whole = results("fashion-circle", "full", None)
    some = results_of(Records(list(whole.records.values())[2:]))
    assert set(some.missing) == set(whole.records)
