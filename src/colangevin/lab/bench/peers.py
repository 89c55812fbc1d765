"""Other people's optimizers as contestants; each is optional.

A peer that knows orthogonal weights only leaves the others to fused SGD with momentum, and
bounded weights are unbounded everywhere but here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.optim import Optimizer

from colangevin.lab.bench import arithmetic
from colangevin.lab.bench.contestant import (
    Contestant,
    Setting,
    Unavailable,
    Weight,
    bytes_of,
    orthogonality,
)
from colangevin.lab.bench.muon import MuonIn

Build = Callable[[Setting], Contestant]
Make = Callable[[list[nn.Parameter]], Optimizer]
Laid = tuple[nn.Parameter, Tensor, Tensor]
"""A parameter; its values, and its gradient, in the shape of the weight's matrix."""


def need(module: str, package: str | None = None) -> ModuleType:
    """Import an optional package.

    Raises:
        Unavailable: naming what to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise Unavailable(f"{package or module} is not installed") from None


def torch_optimizer(name: str, **options: Any) -> Build:
    """One of ``torch.optim`` on all weights; conv kernels as matrices where it wants that."""

    def build(setting: Setting) -> Contestant:
        make = getattr(torch.optim, name, None)
        if make is None:
            raise Unavailable(f"torch {torch.__version__} has no {name}")
        return _assemble(setting, lambda ps: make(ps, lr=setting.lr, **options), _plain, "all")

    return build


def sgd(momentum: bool) -> Build:
    """Fused SGD."""

    def build(setting: Setting) -> Contestant:
        beta = setting.momentum if momentum else 0.0
        return _assemble(setting, lambda ps: _sgd(ps, setting.lr, beta), _plain, "all")

    return build


def muon(setting: Setting) -> Contestant:
    """Muon on the orthogonal weights, read as matrices."""
    make: Any = getattr(torch.optim, "Muon", None)
    if make is None:
        raise Unavailable(f"torch {torch.__version__} has no Muon")
    if setting.device.type == "cpu" and not arithmetic.products_work("bfloat16"):
        raise Unavailable("not run: products in bfloat16 do not work on this processor")
    options = {"lr": setting.lr, "momentum": setting.momentum, "weight_decay": 0.0}
    return _muon(setting, lambda ps: make(ps, **options))


def muon_float32(setting: Setting) -> Contestant:
    """The same with its products in float32, for processors where bfloat16 is slow."""
    return _muon(setting, lambda ps: MuonIn(torch.float32, ps, setting.lr, setting.momentum))


def _muon(setting: Setting, make: Make) -> Contestant:
    found = _assemble(setting, make, _matrix, "orthogonal")
    found.constrained = False  # it orthogonalises updates, not weights
    return found


def geoopt(canonical: bool) -> Build:
    """RiemannianSGD on the Stiefel manifold, with the canonical or the Euclidean metric."""

    def build(setting: Setting) -> Contestant:
        package: Any = need("geoopt")
        manifold = package.CanonicalStiefel() if canonical else package.EuclideanStiefel()

        def lay(weight: Weight, initial: Tensor) -> Laid:
            return _turned(weight, initial, lambda t: package.ManifoldParameter(t, manifold), 2)

        def make(parameters: list[nn.Parameter]) -> Optimizer:
            made: Optimizer = package.optim.RiemannianSGD(
                parameters, lr=setting.lr, momentum=setting.momentum
            )
            return made

        return _assemble(setting, make, lay, "orthogonal")

    return build


def pogo(lr: float | None = None) -> Build:
    """POGO over SGD with momentum; a stacked weight is one batch, others go one by one."""

    def build(setting: Setting) -> Contestant:
        package: Any = need("pogo", "pogo-torch")
        base: Any = need("pogo.base", "pogo-torch")

        def make(parameters: list[nn.Parameter]) -> Optimizer:
            inner = base.SGD(momentum=setting.momentum)
            made: Optimizer = package.POGO(parameters, inner, setting.lr if lr is None else lr)
            return made

        return _assemble(setting, make, _wide, "orthogonal")

    return build


def parametrized(library: str) -> Build:
    """A reparametrisation (``torch`` or ``geotorch``), its backward pass, and fused SGD."""

    def build(setting: Setting) -> Contestant:
        package: Any = parametrizations if library == "torch" else need(library)
        holders, gradients = [], []
        for weight, initial in zip(setting.weights, setting.initial, strict=True):
            holder = nn.Module()
            flat = initial.clone() if weight.stacked else initial.clone().flatten(1)
            holder.register_parameter("weight", nn.Parameter(flat))
            holder = package.orthogonal(holder, "weight")
            holders.append(holder)
            gradients.append(torch.zeros_like(flat))
        parameters = [p for holder in holders for p in holder.parameters()]
        for parameter in parameters:
            # geotorch leaves views, which fused SGD on a CPU silently does not move.
            parameter.data = parameter.detach().contiguous()
        optimizer = _sgd(parameters, setting.lr, setting.momentum)

        def values() -> list[Tensor]:
            return [holder.weight for holder in holders]

        def step() -> None:
            optimizer.zero_grad()
            torch.autograd.backward(values(), gradients)
            optimizer.step()

        return Contestant(
            step=step,
            gradients=gradients,
            parameters=setting.parameters,
            state_bytes=lambda: bytes_of([optimizer]) + _surplus(holders, setting.parameters),
            values=values,
            violation=lambda: orthogonality(setting.weights, values()),
            constrained=True,
        )

    return build


def _surplus(holders: Sequence[nn.Module], parameters: int) -> int:
    """Bytes of a reparametrisation's own parameters and buffers beyond the weights."""
    tensors = [t for h in holders for t in (*h.parameters(), *h.buffers())]
    return sum(t.numel() * t.element_size() for t in tensors) - 4 * parameters


# --- layouts: a parameter as a peer wants it, and its gradient as the weight has it ----------


def _plain(weight: Weight, initial: Tensor) -> Laid:
    parameter = nn.Parameter(initial.clone())
    parameter.grad = torch.zeros_like(parameter)
    return parameter, parameter.detach(), parameter.grad


def _matrix(weight: Weight, initial: Tensor) -> Laid:
    parameter = nn.Parameter(initial.flatten(1).clone())
    parameter.grad = torch.zeros_like(parameter)
    return parameter, parameter.detach(), parameter.grad


def _turned(
    weight: Weight,
    initial: Tensor,
    make: Callable[[Tensor], nn.Parameter],
    dims: int,
    tall: bool = True,
) -> Laid:
    """A tall, or a wide, matrix of the given number of dimensions."""
    matrix = initial.flatten(2 if weight.stacked else 1)
    turn = (matrix.shape[-2] < matrix.shape[-1]) == tall and matrix.shape[-2] != matrix.shape[-1]
    laid = (matrix.mT if turn else matrix).clone(memory_format=torch.contiguous_format)
    parameter = make(laid if laid.dim() >= dims else laid.unsqueeze(0))
    gradient = torch.zeros_like(laid)
    parameter.grad = gradient.view(parameter.shape)
    values = parameter.detach().view(laid.shape)
    return parameter, values.mT if turn else values, gradient.mT if turn else gradient


def _wide(weight: Weight, initial: Tensor) -> Laid:
    return _turned(weight, initial, nn.Parameter, 3, tall=False)


def _sgd(parameters: Sequence[Tensor], lr: float, momentum: float) -> Optimizer:
    return torch.optim.SGD(parameters, lr=lr, momentum=momentum, fused=True)


def _assemble(
    setting: Setting, make: Make, lay: Callable[[Weight, Tensor], Laid], kind: str
) -> Contestant:
    """An optimizer on the weights of a kind, and fused SGD on the rest."""
    ours: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    values, gradients = [], []
    for weight, initial in zip(setting.weights, setting.initial, strict=True):
        special = kind in ("all", weight.kind)
        parameter, value, gradient = (lay if special else _plain)(weight, initial)
        (ours if special else rest).append(parameter)
        values.append(value)
        gradients.append(gradient)
    optimizers = [make(ours)]
    if rest:
        optimizers.append(_sgd(rest, setting.lr, setting.momentum))

    def step() -> None:
        for optimizer in optimizers:
            optimizer.step()

    return Contestant(
        step=step if rest else optimizers[0].step,
        gradients=gradients,
        parameters=setting.parameters,
        state_bytes=lambda: bytes_of(optimizers),
        values=lambda: values,
        violation=lambda: orthogonality(setting.weights, values),
        constrained=kind == "orthogonal",
    )
