"""torch.distributed.checkpoint: saved on some processes, loaded on others, continued exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import checkpoint_cases as cases
import pytest
import shard_cases
import torch
from test_shards import distance
from world import CaseError, World

KINDS: dict[str, dict[str, Any]] = {
    "langevin": {},
    "adaptive": {"momentum": None, "thermostat": "adaptive", "scheme": "BACDEDCAB"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shard", [True, False], ids=["sharded", "plain"])
def test_saved_on_two_and_loaded_on_one_two_and_three(
    one: World, two: World, three: World, tmp_path: Path, shard: bool, kind: str
) -> None:
    folder, options = str(tmp_path / "checkpoint"), KINDS[kind]
    expected = two.run(cases.train_and_save, folder, shard, options)[0]
    for world, cut in ((one, True), (one, False), (two, True), (three, True)):
        for found in world.run(cases.resume, folder, cut, options):
            assert distance(found, expected) < 1e-12, (world.size, cut)


def test_state_entries_know_the_whole(three: World) -> None:
    found = three.run(cases.entries)
    assert found[0] == found[1] == found[2]
    state = found[0]
    assert state["tall.weight"]["momentum_buffer"] == ((7, 5), "(Shard(dim=0),)")
    assert state["wide.weight"]["momentum_buffer"] == ((4, 6), "(Shard(dim=1),)")
    assert state["circle.weight"]["slack"] == ((6, 7), "(Shard(dim=0),)")
    assert state["sphere.weight"]["slack"] == ((5,), "(Shard(dim=0),)")
    assert state["columns.weight"]["slack"] == ((4,), "(Replicate(),)")
    assert state["above.weight"]["slack"] == ((1, 1), "(Replicate(),)")
    assert all(entry["step"] == ((), "None") for entry in state.values())


def test_a_state_dict_without_shards_is_cut(two: World) -> None:
    model = shard_cases.network(torch.float64)
    optimizer = shard_cases.optimizer_of(model)
    shard_cases.train(model, optimizer, 6)
    state, weights = optimizer.state_dict(), {k: v.clone() for k, v in model.state_dict().items()}
    shard_cases.train(model, optimizer, 6, first=6)
    expected = shard_cases.whole(model)
    for found in two.run(cases.plain_state, state, weights):
        assert distance(found, expected) < 1e-12


def test_parameters_that_are_exchanged_take_their_state_along(two: World) -> None:
    model = shard_cases.network(torch.float64)
    optimizer = shard_cases.optimizer_of(model)
    shard_cases.train(model, optimizer, 6)
    for found in two.run(cases.exchanged):
        assert distance(found, shard_cases.whole(model)) < 1e-12


def test_a_process_that_is_killed_costs_nothing_but_time(two: World, tmp_path: Path) -> None:
    expected = two.run(cases.long_run, str(tmp_path / "whole"), 12, None)[0]
    folder = str(tmp_path / "killed")
    victim = World(2)
    with pytest.raises(CaseError, match="rank 1 has died"):
        victim.run(cases.long_run, folder, 12, 7)
    saved = sorted(path.parent.name for path in Path(folder).glob("*/.metadata"))
    assert saved == ["4"]
    found = two.run(cases.long_run, folder, 12, None)[0]
    assert distance(found, expected) < 1e-12


@pytest.mark.parametrize("flat", [False, True], ids=["nested", "flat"])
@pytest.mark.parametrize("name", cases.RATES)
def test_multirate_is_saved_on_two_and_loaded_on_one_and_two(
    one: World, two: World, tmp_path: Path, name: str, flat: bool
) -> None:
    expected, other = two.run(cases.multirate_saved, str(tmp_path), name, flat)
    assert all(map(torch.equal, expected, other))
    for world, ddp in ((one, False), (two, True)):
        for rank in world.run(cases.multirate_resumed, str(tmp_path), name, flat, ddp):
            for stop, found in zip(cases.STOPS, rank, strict=True):
                assert all(map(torch.equal, found, expected)), (world.size, stop)


@pytest.mark.parametrize("name", ["sgd", "three rates", "at once", "subsets"])
def test_a_checkpoint_before_the_first_step_changes_nothing(one: World, name: str) -> None:
    assert one.run(cases.saved_at_the_start, name) == [True]
