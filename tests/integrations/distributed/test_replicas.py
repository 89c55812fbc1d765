"""DDP: replicas draw the same noise and stay the same; those that do not are reported."""

from __future__ import annotations

import ddp_cases
from world import World


def test_replicas_stay_equal_to_the_bit(two: World) -> None:
    ones, others = two.run(ddp_cases.every_rule)
    assert len(ones) == 7 * 2 * 2
    assert [name for name in ones if ones[name] != others[name]] == []
    assert len({tuple(weights) for weights in ones.values()}) == len(ones)


def test_seeds(two: World) -> None:
    ones, others = two.run(ddp_cases.seeds)
    assert ones["given"] == others["given"] and ones["given"][1] == 5
    assert ones["default"] == others["default"]
    assert ones["default"][0] != ones["given"][0]
    assert ones["chains"][0] != others["chains"][0]
    assert ones["chains"][1] == others["chains"][1] == 5  # what is saved is the same


MESSAGES = {
    "temperature": "ValueError: ranks 0 and 1 have different settings: in group 0 temperature is",
    "lr": "ValueError: ranks 0 and 1 have different settings: in group 0 lr is 0.1 and 0.2",
    "scheme": "ValueError: ranks 0 and 1 have different settings: in group 0 scheme is 'OBA'",
    "radius": "radius=0.3, keeps='angle' and kind='Circle', radius=0.4",
    "radii": "constraint is kind='Circle', radius=tensor of shape (6, 1) with checksum",
    "kind": "constraint is kind='Sphere', radius=1.0, equality=False, dim=0 and kind='Orthogonal'",
    "seed": "were given different seeds, 0 and 1",
    "one seed": "were given different seeds, 3 and None",
    "every": "have different check_replicas: 100 and 50",
    "weights": "ReplicaError: replicas differ in 4 parameters: 0.weight (rank 1 from rank 0)",
    "shape": "have different parameters: weight ((2, 3), torch.float32)",
}


def test_ranks_that_differ_are_told_so_on_every_rank(two: World) -> None:
    ones, others = two.run(ddp_cases.mistakes)
    assert ones == others
    assert ones.pop("not compared") is None
    assert ones.keys() == MESSAGES.keys()
    for name, message in MESSAGES.items():
        assert message in str(ones[name]), (name, ones[name])


def test_a_replica_that_waits_for_a_chain_is_told_so() -> None:
    """It waits as long as the process group allows; the chain knows nothing of it."""
    world = World(2)
    try:
        chain, replica = world.run(ddp_cases.some_chains)
    finally:
        world.stop(kill=True)
    assert chain is None
    assert "Give independent_chains=True to all processes or to none" in str(replica)


def test_a_tampered_replica_is_reported_on_every_rank(two: World) -> None:
    ones, others = two.run(ddp_cases.tampered)
    assert ones == others
    steps, message = ones["every 10"]
    assert steps == 8  # 13 made before: looked at before step 21, told before step 22
    assert "ReplicaError: replicas differ in 1 parameters: module.2.weight" in message
    assert "(rank 1 from rank 0)" in message
    assert ones["never"] == (12, None) and ones["chains"] == (12, None)


def test_uneven_inputs(two: World) -> None:
    """The comparison was a collective operation, which a process that had ended did not know.

    In later epochs the process with fewer batches has made fewer steps, and compares no more.
    """
    (one, weights, first), (other, same, second) = two.run(ddp_cases.uneven)
    assert (one, other) == (None, None)
    assert weights == same
    assert (first, second) == (0, 1)


def test_a_step_left_out_is_reported(two: World) -> None:
    """Whoever comes second finds the difference, or that it is behind."""
    found = two.run(ddp_cases.skipped)
    errors = {message for message, _ in found if message is not None}
    assert len(errors) + sum(said for _, said in found) >= 1
    assert all("ReplicaError: replicas differ in 4 parameters" in error for error in errors)


def test_the_store_does_not_grow(two: World) -> None:
    assert max(two.run(ddp_cases.notes)) < 12


def test_multirate_under_ddp(two: World) -> None:
    (ones, message), (others, _) = two.run(ddp_cases.multirate)
    assert ones == others
    assert message is None or "find_unused_parameters" in message


def test_zero_redundancy_optimizer_resumes(two: World) -> None:
    found = two.run(ddp_cases.zero)
    for result in found:
        assert result["expected"] == result["resumed"]
        assert "independent_chains=True" in result["wrong"]
    assert found[0]["expected"] == found[1]["expected"]
