"""From a trace to ArviZ, and back."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch
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


def read(data: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The posterior and the statistics of what ArviZ has, [chains, draws, ...] by name.

    Raises:
        ValueError, TypeError: if there are no draws of chains.
    """
    try:
        groups = [data["posterior"], data.get("sample_stats", {})]
    except (KeyError, TypeError, AttributeError, IndexError):
        raise TypeError(
            f"data must have a group 'posterior', as ArviZ makes it, got {type(data).__name__}"
        ) from None
    posterior, statistics = (
        {str(name): torch.tensor(group[name].values) for name in group if _is_drawn(group[name])}
        for group in groups
    )
    if not posterior:
        raise ValueError("the posterior has no numbers with the dimensions chain and draw")
    return posterior, statistics


def _is_drawn(values: Any) -> bool:
    """Whether a variable has numbers for each chain and draw."""
    return tuple(values.dims[:2]) == ("chain", "draw") and values.dtype.kind in "fiub"
