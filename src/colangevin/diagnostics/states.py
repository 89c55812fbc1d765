"""Points between the states of a model: state dicts that are checked, mixed and put in a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

from colangevin.optimizers.naming.matching import listed, named_tensors, select

States: TypeAlias = Mapping[str, Any]
"""A state dict: tensors by name, and what modules keep besides."""


def checked(model: nn.Module, state: States, argument: str) -> dict[str, Any]:
    """A state dict of this model, on its device.

    Args:
        model: the model.
        state: the state dict.
        argument: what to call it in an error.

    Raises:
        TypeError: if it is no state dict.
        ValueError: if it has other names or shapes, or numbers that are not finite.

    Example:
        >>> model = nn.Linear(2, 1)
        >>> list(checked(model, model.state_dict(), "start"))
        ['weight', 'bias']
        >>> checked(model, nn.Linear(3, 1).state_dict(), "start")
        Traceback (most recent call last):
        ...
        ValueError: start must have 'weight' of shape (1, 2), as the model has, got (1, 3)
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"{argument} must be a state dict, got {type(state).__name__}")
    own = model.state_dict()
    for what, names in (("lacks", set(own) - set(state)), ("has also", set(state) - set(own))):
        if names:
            raise ValueError(
                f"{argument} must have the names of the model's state dict; it {what} "
                f"{listed(sorted(names))}"
            )
    found = {}
    for name, tensor in own.items():
        value = state[name]
        if isinstance(tensor, Tensor):
            value = _tensor(value, tensor, f"{argument} must have {name!r}")
        found[name] = value
    return found


def _tensor(value: Any, own: Tensor, beginning: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"{beginning} as a tensor, got {type(value).__name__}")
    if value.shape != own.shape:
        shapes = f"{tuple(own.shape)}, as the model has, got {tuple(value.shape)}"
        raise ValueError(f"{beginning} of shape {shapes}")
    if value.is_floating_point() and not bool(value.isfinite().all()):
        raise ValueError(f"{beginning} with finite numbers, got NaN or infinity")
    return value.detach().to(own.device).clone()


def moving(model: nn.Module, only: object) -> set[str]:
    """Names of the parameters and buffers that move along a path: those of a pattern, or all.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        >>> sorted(moving(model, "1.running*"))
        ['1.running_mean', '1.running_var']
    """
    entries = named_tensors(model)
    chosen = entries if only is None else select(only, entries, prefix="only: ")
    return {name for entry in chosen for name in entry.names}


def mixed(
    states: Iterable[tuple[float, Mapping[str, Any]]], end: Mapping[str, Any], names: set[str]
) -> dict[str, Any]:
    """Σ weight · state for the floating-point tensors of these names; all else is as in ``end``.

    Example:
        >>> start, end = {"w": torch.zeros(2), "n": 1}, {"w": torch.ones(2), "n": 2}
        >>> mixed([(0.75, start), (0.25, end)], end, {"w", "n"})
        {'w': tensor([0.2500, 0.2500]), 'n': 2}
    """
    weighted = list(states)
    return {
        name: sum(weight * state[name] for weight, state in weighted)
        if name in names and isinstance(value, Tensor) and value.is_floating_point()
        else value
        for name, value in end.items()
    }


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """A model in evaluation mode; each of its modules is put back into its own mode in the end.

    Example:
        >>> model = nn.Sequential(nn.Dropout().eval(), nn.Dropout())
        >>> with evaluating(model):
        ...     print([module.training for module in model])
        [False, False]
        >>> [module.training for module in model]
        [False, True]
    """
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def borrowed(model: nn.Module) -> Iterator[None]:
    """Put a model's state and its modes back in the end, whatever happens.

    Example:
        >>> model = nn.Linear(1, 1)
        >>> with borrowed(model), torch.no_grad():
        ...     _ = model.weight.fill_(7.0)
        >>> bool(model.weight == 7.0)
        False
    """
    before = {
        name: value.clone() if isinstance(value, Tensor) else value
        for name, value in model.state_dict().items()
    }
    with evaluating(model):
        try:
            yield
        finally:
            model.load_state_dict(before)


@contextmanager
def looked_at(model: nn.Module) -> Iterator[None]:
    """Put a model's buffers and gradients back in the end, whatever happens; modes stay.

    For losses that are computed as in training: BatchNorm then changes its statistics.

    Example:
        >>> model = nn.BatchNorm1d(2).train()
        >>> with looked_at(model):
        ...     _ = model(torch.ones(4, 2))
        >>> model.running_mean.tolist(), int(model.num_batches_tracked)
        ([0.0, 0.0], 0)
    """
    buffers = [
        (module, name, tensor, tensor.detach().clone())
        for module in model.modules()
        for name, tensor in module._buffers.items()
        if tensor is not None
    ]
    gradients = [
        (p, p.grad, None if p.grad is None else p.grad.clone()) for p in model.parameters()
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for module, name, tensor, before in buffers:
                module._buffers[name] = tensor.copy_(before)
            for parameter, gradient, values in gradients:
                parameter.grad = gradient
                if parameter.grad is not None and values is not None:
                    parameter.grad.copy_(values)


def put(model: nn.Module, state: Mapping[str, Any], statistics: Iterable[Any] | None) -> None:
    """Give a model a state; with batches of inputs, measure the statistics of BatchNorm anew."""
    model.load_state_dict(state)
    if statistics is not None:
        with torch.no_grad():
            update_bn(statistics, model)
