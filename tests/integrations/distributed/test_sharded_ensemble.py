"""Members of an ensemble on several ranks: the results of one process, to the bit."""

from __future__ import annotations

import pytest
import sharded_cases
from world import World

import colangevin as cl


@pytest.mark.parametrize("name", ["one", "two", "three"])
def test_the_results_are_those_of_one_process(name: str, request: pytest.FixtureRequest) -> None:
    world: World = request.getfixturevalue(name)
    for rank, found in enumerate(world.run(sharded_cases.compare)):
        assert {what for what, good in found.items() if not good} == set(), f"rank {rank}"


def test_a_run_is_resumed_with_as_many_ranks(two: World, tmp_path) -> None:
    for same, wrong in two.run(sharded_cases.resume, str(tmp_path)):
        assert same
        assert "other.pt.rank0of9 is of another number of ranks, this is 2" in wrong
    assert sorted(path.name for path in tmp_path.glob("run.pt*")) == [
        "run.pt.rank0of2",
        "run.pt.rank1of2",
    ]


def test_a_rank_without_members_left_does_not_stop_the_others(three: World) -> None:
    for gone, shape, left in three.run(sharded_cases.diverge):
        assert gone == [False, True, False]
        assert shape == [4, 3]
        assert left == 2


MESSAGES = {
    "seeds": ("ValueError: ranks 0 and 1 have different seeds: [0, 7, 8] and [1, 7, 8]",) * 2,
    "count": ("ValueError: ranks 0 and 1 have different seeds: [0, 1] and [0, 1, 2]",) * 2,
    "twice": ("ValueError: seeds must differ, got 1 more than once",) * 2,
    "lr": ("ValueError: ranks 0 and 1 have different lr: 0.1 and 0.2",) * 2,
    "few": ("ValueError: there are 1 seeds for 2 ranks",) * 2,
    "values": ("ValueError: lr has 2 values for 7 members",) * 2,
    "data": ("ValueError: ranks 0 and 1 have different inputs: (24, 3) with sum",) * 2,
    "epochs": ("ValueError: ranks 0 and 1 have different epochs: 1 and 2",) * 2,
    "factory": ("ValueError: none here either", "OSError: no network here"),
    "loss": (
        "RuntimeError: rank 1 raised ArithmeticError: a bad loss",
        "ArithmeticError: a bad loss",
    ),
    "index": ("IndexError: there are 7 members, got index 7",) * 2,
}


def test_what_is_wrong_is_said_on_every_rank(two: World) -> None:
    found = two.run(sharded_cases.wrong)
    for name, expected in MESSAGES.items():
        for rank in range(2):
            assert str(found[rank][name]).startswith(expected[rank]), (name, rank)
    assert found[0].keys() == MESSAGES.keys()


def test_without_a_process_group() -> None:
    with pytest.raises(RuntimeError, match="there is no process group: start the program with"):
        cl.ShardedEnsemble(sharded_cases.network, range(3), lr=0.1)
