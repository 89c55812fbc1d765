"""What records say about the run that made them."""

from dataclasses import replace
from pathlib import Path

import pytest

from colangevin.lab.experiments.registry import find
from colangevin.lab.report.reproduction_page import page
from colangevin.lab.report.results import results_of
from colangevin.lab.runner.experiment import Answer, Claim
from colangevin.lab.runner.records import Record, Records


def results(name, scale, runs):
    """Records of all jobs, without results."""
    experiment = find(name)
    jobs = experiment.plan(experiment.settings(scale, runs, 7))
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


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("residual-paths", "reduced (16 to 128 channels, 10,000 of 50,000 images"),
        ("spiral-temperature", "paper, 100 runs, 10,000 epochs"),
    ],
)
def test_the_scale_has_the_runs_of_all_jobs(name, scale):
    found = results(name, "full", None).scale
    assert found.startswith(scale)
    assert name != "residual-paths" or found.endswith(", 1 to 9 runs, 18 epochs")


def test_a_scale_without_words_is_compared_with_that_of_the_source():
    experiment = find("spiral-curvature")
    assert experiment.reduction("laptop") == "runs 10 of 100, epochs 2,000 of 10,000"
    assert experiment.reduction("full") == ""
    assert find("fashion-circle").reduction("grid") == "", "adds to the records of full"
    assert results("spiral-curvature", "laptop", None).scale.startswith("reduced (runs 10 of 100")


def test_the_overview_says_what_is_claimed():
    """The same is measured twice; a long list of methods ends early."""
    whole = results("spiral-gradients", "full", None)
    long = "C-SGD > " + "; ".join(f"SGD, h = 0.{n}" for n in range(10))
    sure = Answer("yes", "paired t, n = 5, p = 0.01")
    found = [Claim("accuracy, %", stated, "1", order=sure) for stated in ("C > D", long)]
    experiment = replace(whole.experiment, claims=lambda records: found)
    records = [replace(record, complete=True) for record in whole.records.values()]
    made = replace(whole, experiment=experiment, records=Records(records))
    (row,) = [
        one for one in page([made], Path("results"), Path("page.md")).splitlines() if "C > D" in one
    ]
    assert "| accuracy, %: C > D | 1 |" in row and row.endswith("| – | 2 yes |")
    made = replace(made, experiment=replace(experiment, claims=lambda records: found[1:]))
    text = page([made], Path("results"), Path("page.md"))
    assert "| accuracy, %: C-SGD > SGD, h = 0.0; SGD, h = 0.1;" in text
    assert " … | 1 | – | 1 yes |" in text and long not in text
