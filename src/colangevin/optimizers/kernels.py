"""Compile a function of tensors into one kernel that serves every size."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

Kernel: TypeAlias = Callable[..., Any]

OPTIONS: dict[str, object] = {
    "cpp.enable_floating_point_contract_flag": "fast",
    "size_asserts": False,
}
"""Multiply and add in one instruction; no checks of sizes that the caller has made."""
THREADS: dict[bool, dict[str, object]] = {
    True: {"cpp.dynamic_threads": True},
    False: {"cpp.threads": 1},
}
"""As many threads as torch has when the kernel is called, or one."""


FEW = 4
"""Terms of a sum of outer products up to which it is written out."""


def compile_kernel(body: Kernel, inputs: Sequence[Tensor]) -> Kernel:
    """Trace ``body`` with sizes as variables, give it to inductor and run it once.

    A call then costs about as much as one eager operation.

    Args:
        body: changes its tensors in place and returns nothing.
        inputs: tensors to trace and to try it with; equal sizes stay equal.
    """
    graph = _trace(body, inputs)
    return _compile(graph, _symbols(graph), inputs, threaded=True)


def compile_with_numbers(
    body: Kernel, numbers: Tensor, inputs: Sequence[Tensor], threaded: bool
) -> tuple[Kernel, Kernel]:
    """The same for a body whose first argument is a list of numbers.

    What depends on them alone would be computed anew for every few weights. It is taken out of
    the kernel, into a function that makes the kernel's first argument of the numbers.

    Args:
        body: as above.
        numbers: its first argument.
        inputs: the others.
        threaded: whether to divide the work; waking a thread takes longer than a small tensor.

    Returns:
        The kernel, and that function.
    """
    graph = _trace(body, [numbers, *inputs])
    prepare = _take_out(graph.graph)
    taken = prepare(numbers)
    _, *symbols = _symbols(graph)
    first = symbols[0].new_empty(taken.shape)
    return _compile(graph, [first, *symbols], [taken, *inputs], threaded), prepare


def compile_static(body: Kernel, inputs: Sequence[Tensor]) -> Kernel:
    """Compile ``body`` for the shapes and strides of ``inputs`` alone, which it may overwrite."""
    from torch.fx.experimental.proxy_tensor import make_fx

    small = {torch.ops.aten.bmm.default: small_products}
    graph = make_fx(body, decomposition_table=small)(*inputs)
    return _compile(graph, list(inputs), inputs, threaded=True)


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


def _trace(body: Kernel, inputs: Sequence[Tensor]) -> Any:
    # Imported here because it takes a second, which only those who fuse should wait.
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(body, tracing_mode="symbolic")(*inputs)


def _symbols(graph: Any) -> list[Any]:
    """The arguments of a graph as they were traced, with symbols for their sizes."""
    return [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]


def _compile(graph: Any, symbols: list[Any], inputs: Sequence[Tensor], threaded: bool) -> Kernel:
    import torch._inductor as inductor

    kernel: Kernel = inductor.compile(graph, symbols, options={**OPTIONS, **THREADS[threaded]})
    # Inductor wraps its kernel to keep it from being compiled again; the wrapper costs more
    # than the call.
    bare: Kernel = getattr(kernel, "_torchdynamo_orig_callable", kernel)
    bare(*inputs)  # what does not run here is no kernel
    return bare


def _take_out(graph: Any) -> Kernel:
    """Move the nodes that depend on the first argument alone into a graph of their own."""
    from torch.fx import Graph, GraphModule

    numbers, *nodes = graph.nodes
    own = [numbers]
    for node in nodes:
        if node.all_input_nodes and all(source in own for source in node.all_input_nodes):
            own.append(node)
    outside = Graph()
    copies: dict[Any, Any] = {}
    for node in own:
        copies[node] = outside.node_copy(node, copies.__getitem__)
    needed = [node for node in own if any(user not in own for user in node.users)]
    made = outside.call_function(torch.stack, ([copies[node] for node in needed],))
    outside.output(made)
    for index, node in enumerate(needed):
        with graph.inserting_after(numbers):
            number = graph.call_function(torch.ops.aten.select.int, (numbers, 0, index))
        node.replace_all_uses_with(number, delete_user_cb=lambda user: user not in own)
    for node in reversed(own[1:]):
        graph.erase_node(node)
    graph.owning_module.recompile()
    return GraphModule({}, outside)


def announce(error: Exception, instead: str, wish: str = "fused=True") -> None:
    """Warn that there is no compiler to work with."""
    warnings.warn(
        f"{wish}, but the kernel could not be compiled ({type(error).__name__}: "
        f"{str(error)[:200]}); {instead}",
        RuntimeWarning,
        stacklevel=3,
    )
