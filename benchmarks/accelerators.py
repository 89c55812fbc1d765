"""What a step asks of an accelerator: how many operations it begins, and how often it waits.

    python benchmarks/accelerators.py            # print the table
    python benchmarks/accelerators.py --write    # and put it into docs/accelerators.md

No accelerator is needed. The weights are on torch's device "meta", which takes every path that is
not for a CPU and has no numbers: what a step reads from there, it would wait for. Operations are
those of the dispatcher on such tensors, without views and allocations. An operation on a list of
tensors (``torch._foreach_*``) counts as one. The weights are those of a 6-layer transformer of
width 64, all in one group; up to width 511, where the largest have 2²⁰ entries, the counts are the
same.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import colangevin as cl
from colangevin.lab.bench.page_words import put
from colangevin.torch_compat import stamp

PAGE = Path(__file__).resolve().parents[1] / "docs" / "accelerators.md"
WIDTH, LAYERS = 64, 6
DIRECTIONS = ("gradient", "sign", "adam", "polar")
GEOMETRIES: dict[str, cl.Constraint] = {
    "free": cl.Unconstrained(),
    "circle": cl.Circle(1.0),
    "box": cl.Box(-1.0, 1.0),
    "norms of rows at most 1": cl.Sphere(1.0),
    "rows of norm 1": cl.Sphere(1.0, equality=True),
    "norm of the matrix": cl.Sphere("initial", equality=True, dim=None),
    "orthogonal": cl.Orthogonal(),
}
MAKES = ("aten.empty", "aten.new_empty", "aten.detach", "aten.alias", "aten.lift_fresh")
"""What begins nothing on the device."""


class Asked(NamedTuple):
    """What a step has asked of the device."""

    operations: int
    waits: int


class Counter(TorchDispatchMode):
    """Counts operations on the device "meta", and what is copied between it and the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = self.waits = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        target = str(kwargs.get("device") or "")
        here = any(tensor.is_meta for tensor in given)
        name = str(function)
        if name.startswith("aten._local_scalar_dense") and here:
            self.waits += 1
            return 0.0
        if here and name.startswith("aten._to_copy") and target == "cpu":
            self.waits += 1
            return torch.zeros(given[0].shape, dtype=kwargs.get("dtype") or given[0].dtype)
        made = function(*args, **kwargs)
        if not here and target == "meta" and given:
            self.waits += not kwargs.get("non_blocking", False)
        elif here and not _is_view(function) and not name.startswith(MAKES):
            self.operations += 1
        return made


def _is_view(function: Any) -> bool:
    infos = [found.alias_info for found in function._schema.returns]
    return any(info is not None and not info.is_write for info in infos)


def shapes() -> list[tuple[int, int]]:
    """Of the matrices."""
    return [*[(WIDTH, WIDTH)] * 4, (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)] * LAYERS


def weights(sizes: list[tuple[int, int]]) -> list[nn.Parameter]:
    """Matrices with gradients, on the CPU."""
    draw = torch.Generator().manual_seed(0)
    found = [nn.Parameter(0.02 * torch.randn(size, generator=draw)) for size in sizes]
    for weight in found:
        weight.grad = 1e-3 * torch.randn(weight.shape, generator=draw)
    return found


@torch.no_grad()
def exchange(optimizer: cl.CoLA) -> None:
    """Put the weights of an optimizer, and its state, on the device "meta"."""
    for group in optimizer.param_groups:
        new = [nn.Parameter(own.detach().to("meta")) for own in group["params"]]
        for own, other in zip(group["params"], new, strict=True):
            other.grad = torch.empty_like(other)
            entry = optimizer.state.pop(own)
            # Radii of "initial" stay on the CPU, and counts, unless a graph is to capture the step.
            counts = {key for key, value in entry.items() if not value.dim()}
            stays = {"radius"} if optimizer._capturable else {"radius", *counts}
            optimizer.state[other] = {
                key: value if key in stays else value.to("meta") for key, value in entry.items()
            }
            optimizer._held[other] = optimizer._held.pop(own)
            optimizer._marks[other] = stamp(other)  # they are on their manifold
        group["params"] = new
    optimizer._calls = 4  # between two of the rare looks for NaN


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing is said of weights that are put on their manifold."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def asked_by(
    direction: str, constraint: cl.Constraint, sizes: list[tuple[int, int]], **options: Any
) -> Asked:
    """What the second step of an optimizer asks after its weights came to the device."""
    with quiet():
        own = weights(sizes)
        optimizer = cl.CoLA(own, lr=0.01, direction=direction, constraint=constraint, **options)
    exchange(optimizer)
    with Counter():  # a plan is made in the first one
        optimizer.step()
    with Counter() as found:
        optimizer.step()
    return Asked(found.operations, found.waits)


def asked_by_torch(**options: Any) -> Asked:
    """The same of torch's AdamW."""
    own = [nn.Parameter(weight.detach().to("meta")) for weight in weights(shapes())]
    for weight in own:
        weight.grad = torch.empty_like(weight)
    optimizer = torch.optim.AdamW(own, lr=0.01, **options)
    with Counter():
        optimizer.step()
    with Counter() as found:
        optimizer.step()
    return Asked(found.operations, found.waits)


def table() -> str:
    """Rows by geometry, columns by direction."""
    peers = asked_by_torch(foreach=True), asked_by_torch(foreach=False)
    count = len(shapes())
    rows = [
        f"Operations in a step of {count} matrices, of a 6-layer transformer of width {WIDTH}, and "
        "in brackets how often it waits for the device, if it does (`python "
        f"benchmarks/accelerators.py`). torch's AdamW: {peers[0].operations} with `foreach=True`, "
        f"{peers[1].operations} with `foreach=False`, no waits.",
        "",
        f"| Constraint | {' | '.join(DIRECTIONS)} | gradient with momentum, τ > 0 | adam, "
        "`capturable=True` |",
        "| --- " + "| ---: " * (len(DIRECTIONS) + 2) + "|",
    ]
    assert peers[0].waits == peers[1].waits == 0
    for name, constraint in GEOMETRIES.items():
        found = [asked_by(direction, constraint, shapes()) for direction in DIRECTIONS]
        noisy = {"momentum": 0.9, "temperature": 1e-4, "seed": 0}
        found.append(asked_by("gradient", constraint, shapes(), **noisy))
        found.append(asked_by("adam", constraint, shapes(), capturable=True))
        cells = [f"{own.operations}{f' ({own.waits})' * (own.waits > 0)}" for own in found]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    """Count, print, and maybe keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    arguments = parser.parse_args()
    found = table()
    print(found)
    if arguments.write:
        put(PAGE, "accelerators", found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
