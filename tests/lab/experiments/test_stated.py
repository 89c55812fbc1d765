"""The interpreter of stated claims, against records made by hand: each verdict, each edge."""

import math
from dataclasses import replace

import pytest

from colangevin.lab import kit
from colangevin.lab.kit import (
    NO,
    NOT_COMPARABLE,
    UNDECIDED,
    YES,
    Ahead,
    Apart,
    Inside,
    Most,
    Near,
    Of,
)

LOW, HIGH = [80.0, 82.0, 81.0, 83.0, 81.0], [90.0, 92.0, 90.0, 94.0, 91.0]
X = kit.Quantity("x", "accuracy, %", sign=1, digits=1)


def made(**runs):
    """Records of jobs with the values of x; ``_`` in the name of an argument is ``-``."""
    return kit.Records(
        kit.Record("e", name.replace("_", "-"), place, {"label": name.upper()}, final={"x": own})
        for place, (name, own) in enumerate(runs.items())
    )


def only(stated, records):
    (claim,) = stated(records)
    return claim


@pytest.mark.parametrize(
    ("best", "other", "sign", "verdict"),
    [
        (HIGH, LOW, 1, YES),
        (LOW, HIGH, 1, NO),
        (HIGH, LOW, -1, NO),
        (LOW, HIGH, -1, YES),
        (LOW, LOW, 1, UNDECIDED),
        (HIGH[:4], LOW[:4], 1, UNDECIDED),
    ],
)
def test_ahead_is_judged_in_the_direction_of_the_quantity(best, other, sign, verdict):
    claim = only(Ahead(replace(X, sign=sign), "a", over=("b",)), made(a=best, b=other))
    assert claim.order.verdict == verdict and claim.number is None
    assert claim.text == "accuracy, %" and claim.source == f"A {'>' if sign > 0 else '<'} B"
    assert ("n = 5" if len(best) == 5 else "n = 4") in claim.order.by
    assert bool(claim.why) == (verdict != YES)


def test_one_rival_that_is_ahead_is_enough_for_no_and_all_are_needed_for_yes():
    records = made(a=HIGH, b=LOW, c=[v + 10 for v in HIGH], d=[91.0, 91.5, 90.5, 93.0, 91.5])
    assert only(Ahead(X, "a", over=("b",)), records).order.verdict == YES
    assert only(Ahead(X, "a", over=("b", "c")), records).order.verdict == NO
    weak = only(Ahead(X, "a", over=("b", "d")), records)
    assert weak.order.verdict == UNDECIDED and weak.why.startswith("not shown to be ahead of D")


def test_methods_at_chance_decide_nothing():
    at_chance = replace(X, chance=95.0)
    assert only(Ahead(at_chance, "a", over=("b",)), made(a=HIGH, b=LOW)).order.verdict == (
        NOT_COMPARABLE
    )
    assert only(Ahead(replace(X, chance=85.0), "a", ("b",)), made(a=HIGH, b=LOW)).order.verdict == (
        YES
    )


def test_the_test_is_paired_or_of_means_or_of_signs():
    records = made(a=HIGH, b=LOW)
    tests = [
        only(Ahead(X, "a", ("b",), **own), records).order.by
        for own in ({}, {"shared": False}, {"exact": True})
    ]
    assert [by.partition(",")[0] for by in tests] == ["paired t", "Welch's t", "sign test"]
    assert only(Ahead(X, "a", ("b",), exact=True), records).order.verdict == UNDECIDED  # 5 of 5
    six = made(a=[*HIGH, 92.0], b=[*LOW, 80.0])
    assert only(Ahead(X, "a", ("b",), exact=True), six).order.verdict == YES


def test_a_run_that_diverged_is_behind_by_a_sign_test():
    claim = only(Ahead(X, "a", ("b",)), made(a=[*HIGH, 92.0], b=[*LOW, None]))
    assert claim.order.by.startswith("sign test, n = 6") and claim.order.verdict == YES


def test_without_its_records_there_is_no_claim():
    records = made(a=HIGH)
    statements = [
        Ahead(X, "a", over=("b",)),
        Ahead(X, "a", over=("*",)),  # itself is not its rival
        Ahead(X, "b", over=("a",)),
        Near(X, "b", "90"),
        Inside(X, "b", "high", low=80.0),
        Most(X, "b", "high", low=80.0),
        Apart(X, "a", "b", "the same", low=-1.0, high=1.0),
    ]
    assert [stated(records) for stated in statements] == [[]] * len(statements)


def test_patterns_name_all_jobs_but_the_best_itself():
    records = made(a=HIGH, b_1=LOW, b_2=LOW, c=LOW)
    assert only(Ahead(X, "a", over=("b-*",)), records).source == "A > B_1; B_2"
    assert only(Ahead(X, "a", over=("*",)), records).source == "A > B_1; B_2; C"
    with pytest.raises(ValueError, match=r"one job is needed, 'b-\*' names 2"):
        Ahead(X, "b-*", over=("a",))(records)


def test_jobs_are_pooled_named_and_the_strongest_is_found():
    records = made(a=HIGH, b_1=LOW, b_2=[v + 1 for v in LOW], b_3=[None] * 5)
    claim = only(Ahead(X, "a", over=(Of("b-*", strongest=True),)), records)
    assert claim.source == "A > B_2"
    falling = Ahead(replace(X, sign=-1), Of("b-*", strongest=True), over=("a",))
    assert only(falling, records).source == "B_1 < A"
    claim = only(Inside(X, Of(("b-1", "b-2"), pooled=True), "low", high=85.0), records)
    assert claim.ours.endswith("(10 runs)") and claim.order.verdict == YES
    assert only(Ahead(X, Of("a", label="ours"), ("b-1",)), records).source == "ours > B_1"


def test_two_quantities_of_one_job_can_be_compared():
    half = replace(X, factor=0.5)
    assert only(Ahead(X, "a", over=(Of("a", half, "half of A"),)), made(a=HIGH)).source == (
        "A > half of A"
    )


@pytest.mark.parametrize(
    ("stated", "runs", "verdict"),
    [
        ("91.4", HIGH, YES),
        ("91.9", HIGH, YES),  # within the interval
        ("80", HIGH, NO),
        ("91.4", HIGH[:4], UNDECIDED),
        ("91.4", [*HIGH, None], UNDECIDED),
        ("90", [91.0] * 5, NO),
        ("90", [90.4] * 5, YES),  # half a unit of the last digit
    ],
)
def test_a_number_is_near_or_not(stated, runs, verdict):
    claim = only(Near(X, "a", stated, text="of {label}", why="seeds"), made(a=runs))
    assert claim.number.verdict == verdict and claim.order is None
    assert claim.text == "of A" and claim.source == stated
    assert ("seeds" in claim.why) == (verdict != YES)


def test_a_reason_leaves_everything_undecided():
    for stated in (Near(X, "a", "91.4", reason="r"), Ahead(X, "a", ("b",), reason="r")):
        claim = only(stated, made(a=HIGH, b=LOW))
        assert [(one.verdict, one.by) for one in claim.answers] == [(UNDECIDED, "r")]


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (80.0, math.inf, YES),
        (-math.inf, 80.0, NO),
        (91.0, math.inf, UNDECIDED),
        (95.0, math.inf, NO),
        (85.0, 95.0, YES),
    ],
)
def test_a_mean_lies_inside_bounds_or_not(low, high, verdict):
    claim = only(Inside(X, "a", "words", low=low, high=high), made(a=HIGH))
    assert claim.order.verdict == verdict and claim.why.startswith("taken as ")


@pytest.mark.parametrize(("right", "verdict"), [(10, YES), (7, UNDECIDED), (1, NO)])
def test_most_runs_have_a_property_or_not(right, verdict):
    runs = [1.0] * right + [0.0] * (10 - right)
    assert only(Most(X, "a", "words", low=0.5), made(a=runs)).order.verdict == verdict


@pytest.mark.parametrize(("by", "verdict"), [(0.0, YES), (3.0, NO), (1.0, UNDECIDED)])
def test_two_methods_are_the_same_within_bounds_or_not(by, verdict):
    wobble = [0.1, -0.2, 0.0, 0.2, -0.1]
    other = [v + by + w for v, w in zip(LOW, wobble, strict=True)]
    claim = only(Apart(X, "b", "a", "same", low=-1.0, high=1.0), made(a=LOW, b=other))
    assert claim.order.verdict == verdict and claim.why == "taken as within 1"


def test_a_statement_is_made_for_each_value_in_braces():
    records = made(a_2=HIGH, b_2=LOW, a_4=LOW, b_4=HIGH)
    stated = Ahead(X, "a-{depth}", ("b-{depth}",), text="{depth} layers", each={"depth": (2, 3, 4)})
    found = stated(records)
    assert [(claim.text, claim.order.verdict) for claim in found] == [
        ("2 layers", YES),
        ("4 layers", NO),
    ]


def test_braces_are_filled_in_keys_and_labels_too():
    record = kit.Record("e", "map", 0, {"label": "M"}, final={"at": {"0.1": LOW, "1e-06": HIGH}})
    key = replace(X, key="at/{tau}")
    stated = Near(
        key, Of("map", label="τ = {tau}"), "91", text="{label}", each={"tau": (0.1, 1e-6)}
    )
    assert [claim.text for claim in stated(kit.Records([record]))] == ["τ = 0.1", "τ = 1e-06"]
    assert [claim.number.verdict for claim in stated(kit.Records([record]))] == [NO, YES]


def test_a_quantity_is_read_by_a_function_of_its_own():
    best = replace(X, read=lambda record, key: [max(record.values(key))])
    assert only(Inside(best, "a", "high", low=0.0), made(a=HIGH)).ours == "94.0 (1 run)"


def test_an_experiment_judges_data_and_functions_and_has_default_pictures():
    experiment = kit.Experiment(
        name="e",
        title="",
        source="",
        scales={"full": {"runs": 5}},
        jobs={"a": {"label": "A"}, "b": {"label": "B", "tau": 0.5}},
        run=lambda job, log: None,
        table=[kit.METHOD, kit.Column("τ", "tau"), X],
        figures={"curves": kit.Curves([kit.Quantity("loss", "test loss")])},
        claims=[Ahead(X, "a", ("b",)), lambda records: [kit.computed("f", "s", "o", holds=True)]],
    )
    assert [(job.name, job.settings["runs"]) for job in experiment.plan({"runs": 5})] == [
        ("a", 5),
        ("b", 5),
    ]
    records = made(a=HIGH, b=LOW)
    assert [claim.text for claim in experiment.judge(records)] == ["accuracy, %", "f"]
    assert experiment.tabulate(records).rows[1] == ["B", "–", "81.4 ± 1.1 (5 runs)"]
    history = {"epoch": [1, 2], "loss": [[2.0, 3.0], [1.0, 2.0]]}
    drawn = experiment.draw(kit.Records([replace(records["a"], history=history)]))
    (line,) = drawn["curves"].axes[0].lines
    assert list(line.get_ydata()) == [2.5, 1.5] and line.get_label() == "A"
    nothing = replace(experiment, figures={"curves": kit.Curves([X], {"": ("c",)})})
    assert nothing.draw(records) == {}


def test_a_path_leads_into_results_that_lie_in_one_another():
    record = kit.Record("e", "a", 0, {}, final={"paths": {"adam": {"top": [1, None]}}, "a/b": 2})
    first, second = record.values("paths/adam/top")
    assert first == 1.0 and math.isnan(second)
    assert record.values("a/b") == [2.0]
    with pytest.raises(KeyError):
        record.values("paths/sgd/top")
