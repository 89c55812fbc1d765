"""FSDP2 and its checkpoints: every direction under every geometry, on two processes."""

from __future__ import annotations

from pathlib import Path

import direction_cases
import pytest
from world import World

from along import PAIRS
from registry import DIRECTIONS

CLOSE = 1e-8
"""Sums over processes are made in another order, which Newton–Schulz steps enlarge."""


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_saved_path_on_two_processes_is_that_without_shards(
    two: World, tmp_path: Path, direction: str
) -> None:
    names = [name for name, own in PAIRS if own == direction]
    for found in two.run(direction_cases.gaps, str(tmp_path), direction, names):
        assert found.keys() == set(names)
        assert {name: gap for name, gap in found.items() if not gap < CLOSE} == {}
