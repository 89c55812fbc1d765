"""What importing the package costs and shows."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
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
colangevin.CoLA
print(json.dumps(sorted(set(sys.modules) - before)))
"""

FIRST_USES = [
    "import colangevin as cl; cl.CoLA",
    "import colangevin as cl; cl.optimizers.CoLA",
    "from colangevin import CoLA",
    "from colangevin import *; CoLA",
    "import colangevin as cl; 'CoLA' in dir(cl) or 1 / 0; cl.CoLA",
    "import colangevin as cl; 'CoLA' in cl.__all__ or 1 / 0",
    "import colangevin.optimizers; colangevin.Ensemble",
    "from colangevin import checks; checks.count('n', 1)",
    "import pickle, colangevin as cl; pickle.loads(pickle.dumps(cl.Circle(0.5)))",
]


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


def test_importing_alone_waits_for_nobody() -> None:
    """The help of the program needs the package, but not torch."""
    program = "import sys, colangevin as cl; cl.__version__; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


FORK = """
import os, sys, traceback
import torch
for use in sys.argv[1:]:
    child = os.fork()
    if not child:
        try:
            exec(use, {})
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_every_way_to_the_names_works_first() -> None:
    """Each in a process that has imported torch alone, which takes seconds."""
    done = subprocess.run(
        [sys.executable, "-c", FORK, *FIRST_USES], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "0\n" * len(FIRST_USES), done.stderr


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'colangevin' has no attribute 'Colla'"):
        cl.Colla  # noqa: B018
    assert not hasattr(cl, "__wrapped__")


def test_every_public_name_exists() -> None:
    assert all(hasattr(cl, name) for name in cl.__all__)
    assert len(set(cl.__all__)) == len(cl.__all__)


@pytest.mark.parametrize("name", cl.__all__)
def test_every_public_name_has_an_example(name: str) -> None:
    """The API reference shows it; the doctests run it."""
    assert ">>>" in (getattr(cl, name).__doc__ or "")


def test_no_module_hides_behind_a_function_of_its_name() -> None:
    """``import package.x as x`` gives whatever the package calls x."""
    names = [found.name for found in pkgutil.walk_packages(cl.__path__, "colangevin.")]
    library = [name for name in names if name.split(".")[1] not in APART]
    assert "colangevin.optimizers.partitioned.partition" in library
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
