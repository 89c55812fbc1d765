"""The only file that uses interfaces of torch which are not public, each with a way without it."""

from __future__ import annotations

import operator
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


def add_one(counts: Sequence[Tensor]) -> None:
    """Add 1 to many tensors; ``torch._foreach_add_`` does it in one call, as in ``torch.optim``."""
    together = getattr(torch, "_foreach_add_", None)
    if together is not None and len(counts) > 1:
        together(counts, 1)
        return
    for count in counts:
        count.add_(1)


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is a ``DTensor``, without an import of ``torch.distributed.tensor``."""
    return hasattr(tensor, "_local_tensor")


def local_of(tensor: Tensor) -> Tensor:
    """The numbers of a tensor that lie in this process: all of them, unless it is a ``DTensor``.

    ``DTensor._local_tensor`` is the same object each time; the public ``to_local`` makes a view.
    """
    local: Tensor | None = getattr(tensor, "_local_tensor", None)
    return tensor if local is None else local


def shared_store() -> Any:
    """The store by which the processes of a training found each other; None without one.

    Only ``torch.distributed.distributed_c10d`` gives the store of the default process group.
    """
    from torch.distributed import distributed_c10d

    try:
        return distributed_c10d._get_default_store()
    except Exception:  # no process group, or one that has no store
        return None


def stamp(parameter: Tensor) -> tuple[object, ...]:
    """What changes when a parameter is written to, or gets other memory (``p.data = ...``).

    ``Tensor._version`` counts what is written to a tensor. Without it, only other memory is
    noticed.
    """
    version = getattr(parameter, "_version", 0)
    return version, parameter.data_ptr(), parameter.dtype, parameter.stride()


version_of = operator.attrgetter("_version" if hasattr(Tensor, "_version") else "ndim")
"""How often a tensor has been written to, as ``stamp`` has it."""


def never_compiled(function: Function) -> Function:
    """Let torch's compiler leave a function alone.

    ``torch.compiler.disable`` imports the compiler at once, which takes as long as torch itself.
    ``torch._disable_dynamo``, which ``torch.optim`` uses, does so in the first call.
    """
    disable = getattr(torch, "_disable_dynamo", torch.compiler.disable)
    left_alone: Function = disable(function)
    return left_alone


STEPS_CAN_BE_COMPILED = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13)
"""Whether torch's compiler can follow a step. That of 2.6 cannot; those between were not tried."""


def fused_adam(
    gradients: Sequence[Tensor],
    means: Sequence[Tensor],
    squares: Sequence[Tensor],
    steps: Sequence[int],
    betas: tuple[float, float],
    eps: float,
) -> list[Tensor] | None:
    """Adam's updates in one pass over memory, where torch has a kernel for that; else None.

    The kernel moves weights: those of 0 by lr = −1 become the updates.
    """
    first = gradients[0]
    plain = all(type(g) is Tensor and g.is_contiguous() for g in gradients)
    if not (plain and first.is_cpu and hasattr(torch, "_fused_adam_")):
        return None
    updates = [torch.zeros_like(gradient) for gradient in gradients]
    counts = [torch.tensor(float(step)) for step in steps]
    torch._fused_adam_(
        updates,
        list(gradients),
        list(means),
        list(squares),
        [],
        counts,
        lr=-1.0,
        beta1=betas[0],
        beta2=betas[1],
        weight_decay=0.0,
        eps=eps,
        amsgrad=False,
        maximize=False,
    )
    return updates
