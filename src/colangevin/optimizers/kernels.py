"""Compile a function of tensors into one kernel that serves every size."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from torch import Tensor

Kernel: TypeAlias = Callable[..., Any]


def compile_kernel(
    body: Kernel, inputs: Sequence[Tensor], options: dict[str, Any] | None = None
) -> Kernel:
    """Trace ``body`` with sizes as variables, give it to inductor and run it once.

    A call then costs about as much as one eager operation.

    Args:
        body: changes its tensors in place and returns nothing.
        inputs: tensors to trace and to try it with; equal sizes stay equal.
        options: settings of inductor.
    """
    # Imported here because it takes a second, which only those who fuse should wait.
    import torch._inductor as inductor
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(body, tracing_mode="symbolic")(*inputs)
    symbols = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    kernel: Kernel = inductor.compile(graph, symbols, options=options)
    kernel(*inputs)  # what does not run here is no kernel
    return kernel


def announce(error: Exception, instead: str) -> None:
    """Warn that there is no compiler to work with."""
    warnings.warn(
        f"fused=True, but the kernel could not be compiled ({type(error).__name__}: "
        f"{str(error)[:200]}); {instead}",
        RuntimeWarning,
        stacklevel=3,
    )
