"""What importing the package costs and shows."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import pkgutil
import subprocess
import sys

import pytest

import colangevin as cl

PROBE = """
import json, sys
import torch
before = set(sys.modules)
import colangevin
print(json.dumps(sorted(set(sys.modules) - before)))
"""


APART = ("lab", "__main__", "integrations")
"""Imported by those who want them: what they need may not be there."""
OWN = {"colangevin", *sys.stdlib_module_names}


def test_importing_brings_the_library_and_nobody_else() -> None:
    """No plots, no command line, no compiler: all of that is imported where it is needed."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, timeout=120
    )
    modules = json.loads(done.stdout.splitlines()[-1])
    assert "colangevin.optimizers.cola" in modules
    foreign = {name for name in modules if name.partition(".")[0] not in OWN}
    assert not foreign
    assert "colangevin.lab" not in modules


def test_every_public_name_exists() -> None:
    assert all(hasattr(cl, name) for name in cl.__all__)
    assert len(set(cl.__all__)) == len(cl.__all__)


def test_no_module_hides_behind_a_function_of_its_name() -> None:
    """``import package.x as x`` gives whatever the package calls x."""
    names = [found.name for found in pkgutil.walk_packages(cl.__path__, "colangevin.")]
    library = [name for name in names if name.split(".")[1] not in APART]
    assert "colangevin.optimizers.partitions" in library
    for name in library:
        module = importlib.import_module(name)
        package, _, own = name.rpartition(".")
        assert getattr(importlib.import_module(package), own) is module, name


def test_the_version_is_that_of_the_distribution() -> None:
    try:
        installed = importlib.metadata.version("colangevin")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is used from its source folder")
    assert cl.__version__ == installed


def test_errors_can_be_caught_by_their_kind() -> None:
    assert issubclass(cl.ConstraintError, ValueError)
    assert issubclass(cl.ConvergenceError, RuntimeError)
    assert issubclass(cl.ConstraintError, cl.ColangevinError)
    assert issubclass(cl.ConvergenceError, cl.ColangevinError)
    assert issubclass(cl.ProjectionWarning, UserWarning)
