"""Worlds of 1, 2 and 3 processes, which all tests of a run share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # spawned processes import cases by name

from world import World


def worlds(size: int) -> Iterator[World]:
    world = World(size)
    yield world
    world.stop()


@pytest.fixture(scope="session")
def one() -> Iterator[World]:
    yield from worlds(1)


@pytest.fixture(scope="session")
def two() -> Iterator[World]:
    yield from worlds(2)


@pytest.fixture(scope="session")
def three() -> Iterator[World]:
    yield from worlds(3)
