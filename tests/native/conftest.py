"""Kernels are compiled once for all tests, into the cache of the user."""

import pytest

from colangevin import native


@pytest.fixture
def kernels() -> None:
    """For tests that need compiled kernels."""
    if native.load() is None:
        pytest.skip(f"no kernels: {native.reason()}")
