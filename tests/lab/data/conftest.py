"""Keeps the tests of this folder away from the data and the cache of whoever runs them."""

import importlib.util

import pytest


@pytest.fixture(autouse=True)
def nothing_but_the_tests_own_files(tmp_path, monkeypatch):
    monkeypatch.delenv("COLA_DATA", raising=False)
    if importlib.util.find_spec("pooch"):
        monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
