"""From a trace to ArviZ."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from torch import Tensor


def convert(
    posterior: Mapping[str, Tensor], statistics: Mapping[str, Tensor], settings: Mapping[str, Any]
) -> Any:
    """InferenceData for ArviZ before 1, else a DataTree.

    Raises:
        ImportError: naming the extra.
    """
    groups = {
        "posterior": {name: values.numpy() for name, values in posterior.items()},
        "sample_stats": {name: values.numpy() for name, values in statistics.items()},
    }
    try:
        arviz: Any = importlib.import_module("arviz")
        if int(arviz.__version__.split(".")[0]) < 1:
            return arviz.from_dict(**groups)
    except ImportError:
        pass
    try:
        base: Any = importlib.import_module("arviz_base")
    except ImportError:
        raise ImportError(
            "to_arviz needs ArviZ: pip install 'colangevin[sampling]', or arviz itself"
        ) from None
    return base.from_dict(groups)
