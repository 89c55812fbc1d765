"""The only file that uses interfaces of torch which are not public, each with a way without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])


def copy_all(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy many tensors; ``torch._foreach_copy_`` does it in one call, as in ``torch.optim``."""
    together = getattr(torch, "_foreach_copy_", None)
    if together is not None and len(targets) > 1:
        together(list(targets), list(sources))
        return
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


def stamp(parameter: Tensor) -> tuple[object, ...]:
    """What changes when a parameter is written to, or gets other memory (``p.data = ...``).

    ``Tensor._version`` counts what is written to a tensor. Without it, only other memory is
    noticed.
    """
    version = getattr(parameter, "_version", 0)
    return version, parameter.data_ptr(), parameter.dtype, parameter.stride()


def never_compiled(function: Function) -> Function:
    """Let torch's compiler leave a function alone.

    ``torch.compiler.disable`` imports the compiler at once, which takes as long as torch itself.
    ``torch._disable_dynamo``, which ``torch.optim`` uses, does so in the first call.
    """
    disable = getattr(torch, "_disable_dynamo", torch.compiler.disable)
    left_alone: Function = disable(function)
    return left_alone
