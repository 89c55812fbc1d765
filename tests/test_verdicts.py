"""All verdicts are recomputed from the records, and the pages have the same."""

import importlib.util
import re
import time
from pathlib import Path

import pytest

from colangevin.lab.experiments.registry import EXPERIMENTS
from colangevin.lab.report.results import read_results
from colangevin.lab.report.verdict_totals import KINDS, split, totals
from colangevin.lab.runner.experiment import NO, YES

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def found():
    return read_results(ROOT / "results")


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("verdicts", ROOT / "scripts" / "verdicts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_recomputes_all_verdicts_in_under_a_minute(script, found, capsys):
    start = time.process_time()
    assert script.main([]) == 0
    assert time.process_time() - start < 60
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(found) + 2
    for line, (kind, word) in zip(printed[-2:], KINDS.items(), strict=True):
        counts = totals(found, kind)
        assert line.startswith(f"{word}: ")
        assert all(f"{counts[verdict]} {verdict}" in line for verdict in counts)


def test_the_picture_has_the_totals_of_the_records(found):
    text = (ROOT / "docs" / "reproduction" / "totals.svg").read_text(encoding="utf-8")
    for some in split(found):
        for kind in KINDS:
            for verdict, count in totals(some, kind).items():
                assert f"<title>{count} {verdict}</title>" in text


def test_every_yes_and_no_has_its_runs_and_its_p_or_says_that_there_is_no_chance(found):
    for results in found:
        for claim in results.claims:
            for answer in claim.answers:
                tested = re.search(r"n = (\d+), p [=<] ", answer.by)
                reason = ("computed, no chance", "averages of", "one is enough")
                if answer.verdict in (YES, NO):
                    assert tested or answer.by.startswith(reason), (claim.text, answer)
                if answer.verdict in (YES, NO) and tested:
                    assert int(tested[1]) >= 5


def test_no_number_is_judged_at_a_reduced_scale(found):
    reduced = [results for results in found if results.reduction]
    assert reduced
    assert set(totals(reduced, "number")) == {"not comparable"}


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_every_experiment_says_what_is_claimed_and_what_is_ours(experiment):
    assert experiment.claimed and experiment.ours and experiment.settings_stated
    assert experiment.own_scale in ("", *experiment.scales)
    assert experiment.reduction("laptop"), "a laptop's scale is the source's"
