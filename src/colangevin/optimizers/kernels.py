"""Compile a function of tensors into one kernel that serves every size."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

Kernel: TypeAlias = Callable[..., Any]

OPTIONS = {
    "cpp.enable_floating_point_contract_flag": "fast",
    "cpp.dynamic_threads": True,
    "size_asserts": False,
}
"""Multiply and add in one instruction; as many threads as torch has when it is called; no checks
of sizes that the caller has made."""

FEW = 4
"""Terms of a sum of outer products up to which it is written out."""


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

    small = {torch.ops.aten.bmm.default: small_products}
    return _inductor(make_fx(body, decomposition_table=small)(*inputs), inputs)


def small_products(x: Tensor, y: Tensor) -> Tensor:
    """A batch of matrix products, as sums of outer products where those are few.

    A library call for each tiny product costs more than the product, and cannot be fused.

    Example:
        >>> x, y = torch.randn(3, 4, 2), torch.randn(3, 2, 5)
        >>> bool((small_products(x, y) - x @ y).abs().max() < 1e-5)
        True
    """
    if x.shape[2] > FEW or x.device.type != "cpu":
        return NotImplemented
    columns, rows = x.unbind(dim=2), y.unbind(dim=1)
    total = columns[0].unsqueeze(2) * rows[0].unsqueeze(1)
    for column, row in zip(columns[1:], rows[1:], strict=True):
        total = total + column.unsqueeze(2) * row.unsqueeze(1)
    return total


def _inductor(graph: Any, inputs: Sequence[Any]) -> Kernel:
    import torch._inductor as inductor

    kernel: Kernel = inductor.compile(graph, list(inputs), options=OPTIONS)
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
