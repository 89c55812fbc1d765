"""Compile a function of tensors into one kernel that serves every size."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from torch import Tensor

Kernel: TypeAlias = Callable[..., Any]

OPTIONS = {
    "cpp.enable_floating_point_contract_flag": "fast",
    "cpp.dynamic_threads": True,
    "size_asserts": False,
}
"""Multiply and add in one instruction; as many threads as torch has when it is called; no checks
of sizes that the caller has made."""


def compile_kernel(body: Kernel, inputs: Sequence[Tensor]) -> Kernel:
    """Trace ``body`` with sizes as variables, give it to inductor and run it once.

    A call then costs about as much as one eager operation.

    Args:
        body: changes its tensors in place and returns nothing.
        inputs: tensors to trace and to try it with; equal sizes stay equal.
    """
    # Imported here because it takes a second, which only those who fuse should wait.
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(body, tracing_mode="symbolic")(*inputs)
    symbols = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    kernel = _inductor(graph, symbols)
    kernel(*inputs)  # what does not run here is no kernel
    return kernel


def compile_static(body: Kernel, inputs: Sequence[Tensor]) -> Kernel:
    """Compile ``body`` for the shapes and strides of ``inputs`` alone; it is not run."""
    from torch.fx.experimental.proxy_tensor import make_fx

    return _inductor(make_fx(body)(*inputs), inputs)


def _inductor(graph: Any, inputs: Sequence[Any]) -> Kernel:
    import torch._inductor as inductor

    kernel: Kernel = inductor.compile(graph, inputs, options=OPTIONS)
    # Inductor wraps its kernel to keep it from being compiled again; the wrapper costs more
    # than the call.
    bare: Kernel = getattr(kernel, "_torchdynamo_orig_callable", kernel)
    return bare


def announce(error: Exception, instead: str, wish: str = "fused=True") -> None:
    """Warn that there is no compiler to work with."""
    warnings.warn(
        f"{wish}, but the kernel could not be compiled ({type(error).__name__}: "
        f"{str(error)[:200]}); {instead}",
        RuntimeWarning,
        stacklevel=3,
    )
