"""What a page may ask for: ranges, and errors that name the setting."""

import math

import pytest

from colangevin.lab.explorer.presets import PRESETS
from colangevin.lab.explorer.spec import (
    LIVE,
    METHODS,
    MOST_WEIGHTS,
    RUN,
    USED,
    changed,
    parse,
    parse_changes,
    weights_of,
)


def test_defaults_are_within_their_own_ranges() -> None:
    spec = parse({})
    assert spec.b is None
    assert spec.seeds == [0]
    assert parse(spec.plain()) == spec


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_valid_and_compare_two_runs(name: str) -> None:
    assert parse(PRESETS[name].spec).b is not None


def test_every_method_names_settings_that_exist() -> None:
    assert set(USED) == set(METHODS)
    assert {name for used in USED.values() for name in used} <= set(RUN)
    assert set(LIVE) <= set(RUN)


def test_a_direction_has_no_temperature_and_says_so() -> None:
    run = {"method": "cola", "direction": "adam"}
    assert parse({"a": run}).a["direction"] == "adam"
    words = r"b\.tau must be 0 where b\.direction is 'adam': only steps along the gradient"
    with pytest.raises(ValueError, match=words):
        parse({"b": {**run, "tau": 1e-4}})
    with pytest.raises(ValueError, match=words.replace(r"b\.", r"a\.")):
        changed(parse({"a": run}), "a", {"tau": 1e-4})
    assert parse({"a": {"method": "sgld", "direction": "adam", "tau": 1e-4}}).a["tau"] == 1e-4


BAD = {
    "no object": [1, 2],
    "unknown section": {"x": {}},
    "section of another type": {"data": 3},
    "unknown setting": {"data": {"path": "/etc/passwd"}},
    "unknown kind": {"data": {"kind": "file"}},
    "too many turns": {"data": {"turns": 5}},
    "text for a number": {"data": {"turns": "2"}},
    "not a number": {"a": {"h": math.nan}},
    "infinite": {"a": {"h": math.inf}},
    "huge integer": {"a": {"h": 10**400}},
    "true for a number": {"a": {"h": True}},
    "half a layer": {"network": {"depth": 1.5}},
    "too deep": {"network": {"depth": 9}},
    "no layer": {"network": {"depth": 0}},
    "too wide": {"network": {"width": 501}},
    "too many points": {"data": {"train": 1001}},
    "too many seeds": {"training": {"members": 10}},
    "negative seed": {"training": {"seed": -1}},
    "null": {"a": {"method": None}},
    "list": {"a": {"method": ["sgd"]}},
    "number for a flag": {"a": {"overdamped": 1}},
    "one class": {"data": {"kind": "drawn", "points": [[0, 0, 1]]}},
    "far point": {"data": {"kind": "drawn", "points": [[0, 9, 1], [0, 0, 0]]}},
    "short point": {"data": {"kind": "drawn", "points": [[0, 1]]}},
    "third class": {"data": {"kind": "drawn", "points": [[0, 0, 2], [0, 0, 0]]}},
    "many points": {"data": {"kind": "drawn", "points": [[0, 0, 1]] * 601}},
    "too many weights": {"network": {"depth": 8, "width": 500}, "training": {"members": 9}},
}


@pytest.mark.parametrize("request_", BAD.values(), ids=BAD)
def test_bad_requests_are_refused(request_: object) -> None:
    with pytest.raises(ValueError, match=r"must|no setting|no section|at most"):
        parse(request_)


def test_an_error_names_setting_value_and_range() -> None:
    with pytest.raises(ValueError, match=r"data\.turns must be a number from 1 to 4, got 7"):
        parse({"data": {"turns": 7}})


def test_the_bound_on_weights_counts_members_and_runs() -> None:
    one = {"network": {"depth": 3, "width": 400}}
    assert weights_of(parse(one)) <= MOST_WEIGHTS
    with pytest.raises(ValueError, match="weights"):
        parse({**one, "b": {}})


def test_only_live_settings_change_in_mid_training() -> None:
    spec = parse({"a": {"method": "cola"}})
    assert changed(spec, "a", {"h": 0.1, "input": "circle"})["input"] == "circle"
    with pytest.raises(ValueError, match="reset it"):
        changed(spec, "a", {"method": "sgd"})
    with pytest.raises(ValueError, match="run must be one of a"):
        changed(spec, "b", {"h": 0.1})
    with pytest.raises(ValueError, match="must be an object"):
        changed(spec, "a", 3)


@pytest.mark.parametrize(
    "changes",
    [
        3,
        [3],
        [{"step": 1}],
        [{"step": -1, "run": "a", "values": {}}],
        [{"step": 5, "run": "a", "values": {}}, {"step": 4, "run": "a", "values": {}}],
        [{"step": 5, "run": "a", "values": {"method": "lol"}}],
        [{"step": 5, "run": "a", "values": {}}] * 501,
    ],
)
def test_bad_scripts_are_refused(changes: object) -> None:
    with pytest.raises(ValueError, match=r"must|reset"):
        parse_changes(parse({}), changes)
