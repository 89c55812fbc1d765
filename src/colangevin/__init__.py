"""Constrained, partitioned and multirate Langevin dynamics for training PyTorch networks.

Example:
    >>> import torch, colangevin as cl
    >>> model = torch.nn.Linear(4, 2)
    >>> groups = cl.constrain_(model, {"weight": cl.Orthogonal()})
    >>> optimizer = cl.CoLA(groups, lr=0.1, momentum=0.9)
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from colangevin.names import *  # noqa: F403
else:
    # The first use of a name imports the library, and torch with it: some seconds that no one
    # has to wait for who asks the program ``cola`` for help.

    def __getattr__(name: str) -> Any:
        if name == "__all__" or not name.startswith("__"):
            if importlib.util.find_spec(f"{__name__}.{name}"):
                return importlib.import_module(f"{__name__}.{name}")
            _import_names()
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        _import_names()
        return sorted(globals())

    def _import_names() -> None:
        from colangevin import names

        globals().update({name: getattr(names, name) for name in names.__all__})
        globals()["__all__"] = list(names.__all__)
