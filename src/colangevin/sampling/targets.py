"""What is sampled: a loss on data or a potential, the number of data points and the Bayes τ.

The density is exp(−U(q)/τ) with respect to the surface measure (4.8). For a loss that is a mean of
negative log-likelihoods over N points, U is the loss and τ = 1/N gives the Bayes posterior; for a
sum, τ = 1.
"""

from __future__ import annotations

import copy
import math
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call

from colangevin import checks
from colangevin.ensemble import Ensemble
from colangevin.ensemble.data import batch_orders
from colangevin.ensemble.gradients import OF_WEIGHTS, Loss
from colangevin.ensemble.members import make
from colangevin.random import key_of
from colangevin.threads import multiply_adds_of

Factory: TypeAlias = Callable[..., nn.Module]
Potential: TypeAlias = "Callable[[dict[str, Tensor]], Tensor]"
APART = 1.0
"""Jitter from which on copies of one module are far from each other: as large as its weights."""
FEW = 256
"""Points that show whether a loss is a mean or a sum."""


class Points(NamedTuple):
    """A batch: of each chain, [chains, batch, ...], or of all chains together, [batch, ...]."""

    inputs: Tensor
    targets: Tensor
    shared: bool


class Source:
    """Batches by the count of steps: a pure function of it, so that a run can be resumed."""

    points: int = 0
    """N, the number of data points."""
    whole: bool = True
    """Whether every batch is all data, so that the potential is a function of the weights."""

    def at(self, step: int) -> Points:
        """The batch of a step."""
        raise NotImplementedError


class AllData(Source):
    """All points in every step, shared by all chains."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self._all = Points(inputs, targets, shared=True)
        self.points = len(inputs)

    def at(self, step: int) -> Points:
        return self._all


class Batches(Source):
    """Mini-batches of tensors, each chain in its own order; an incomplete last one is left out."""

    whole = False

    def __init__(self, inputs: Tensor, targets: Tensor, size: int, seeds: Sequence[int]) -> None:
        self._inputs, self._targets, self._size = inputs, targets, size
        self._seeds, self.points = list(seeds), len(inputs)
        self._epoch, self._orders = -1, torch.zeros(0, dtype=torch.int64)

    def at(self, step: int) -> Points:
        epoch, place = divmod(step, self.points // self._size)
        if epoch != self._epoch:
            self._epoch, self._orders = epoch, batch_orders(self._seeds, epoch, self.points)
        index = self._orders[:, place * self._size : (place + 1) * self._size]
        index = index.to(self._inputs.device)
        return Points(self._inputs[index], self._targets[index], shared=False)


class Loader(Source):
    """The batches of a ``DataLoader``, shared by all chains.

    The order of an epoch depends on the seed and the epoch alone: torch's generator, and the
    loader's own if it has one, are seeded before each.
    """

    whole = False

    def __init__(self, loader: Any, points: int, seed: int) -> None:
        self._loader, self.points, self._seed = loader, points, seed
        self._next, self._epoch = 0, -1
        self._iterator: Iterator[Any] | None = None
        self._last: Points | None = None

    def at(self, step: int) -> Points:
        if not self._next - 1 <= step <= self._next:
            self._seek(step)
        while self._next <= step:
            batch = None if self._iterator is None else next(self._iterator, None)
            self._last = Points(*_pair(self._open() if batch is None else batch), shared=True)
            self._next += 1
        assert self._last is not None
        return self._last

    def _seek(self, step: int) -> None:
        """Go to the epoch of a step, or to the first if the loader has no length."""
        length = len(self._loader) if hasattr(self._loader, "__len__") else step + 1
        self._epoch = step // length - 1
        self._next, self._iterator = step // length * length, None

    def _open(self) -> Any:
        """Start an epoch, and return its first batch: samplers draw when they are asked first."""
        self._epoch += 1
        seed = key_of(self._seed, self._epoch) >> 2
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            own = getattr(self._loader, "generator", None)
            if isinstance(own, torch.Generator):
                own.manual_seed(seed)
            self._iterator = iter(self._loader)
            first = next(self._iterator, None)
        if first is None:
            raise ValueError("data has no batches: the DataLoader is empty")
        return first


def _pair(batch: Any) -> tuple[Tensor, Tensor]:
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        inputs, targets = batch
        if isinstance(inputs, Tensor) and isinstance(targets, Tensor):
            return inputs, targets
    raise TypeError(
        "data must give pairs of tensors (inputs, targets), got a batch of type "
        f"{type(batch).__name__}"
    )


def source_of(data: Any, batch_size: int | None, seeds: Sequence[int], seed: int) -> Source:
    """Read ``data``: a pair of tensors, or a DataLoader.

    Raises:
        ValueError, TypeError: naming what is wrong; an unknown N among it.

    Example:
        >>> source_of((torch.zeros(10, 2), torch.zeros(10)), 4, [0, 1], 0).at(0).inputs.shape
        torch.Size([2, 4, 2])
    """
    if isinstance(data, (tuple, list)):
        inputs, targets = _pair(data)
        if inputs.dim() == 0 or targets.dim() == 0 or len(inputs) != len(targets):
            raise ValueError(
                "data=(inputs, targets) must have as many points, got shapes "
                f"{tuple(inputs.shape)} and {tuple(targets.shape)}"
            )
        if len(inputs) == 0:
            raise ValueError("data must have at least one point, got none")
        if batch_size is None:
            return AllData(inputs, targets)
        size = checks.count("batch_size", batch_size)
        if size > len(inputs):
            raise ValueError(f"batch_size must be at most {len(inputs)}, the points; got {size}")
        return Batches(inputs, targets, size, seeds)
    if batch_size is not None:
        raise ValueError("batch_size is for tensors; a DataLoader has its own")
    return Loader(data, _length(data), seed)


def _length(loader: Any) -> int:
    if not hasattr(loader, "__iter__"):
        raise TypeError(
            "data must be (inputs, targets), a DataLoader or None (a potential without data), "
            f"got {type(loader).__name__}"
        )
    try:
        return len(loader.dataset)
    except (AttributeError, TypeError):
        raise ValueError(
            "the number of data points N is unknown: data has no dataset with a length; the Bayes "
            "posterior of a mean loss is at τ = 1/N. Give a DataLoader over a dataset with "
            "__len__, or tensors"
        ) from None


@dataclass(frozen=True)
class Target:
    """What the chains sample.

    Attributes:
        factory: makes the module of a chain from its seed.
        loss: of one chain's outputs and targets.
        source: the batches.
        unit: the τ of the Bayes posterior, or None if the loss does not tell.
        reduction: "mean", "sum", "potential" or "unknown".
        work: multiply-adds of the forward pass of a step, of all chains.
        one_start: whether all chains start near one point.
    """

    factory: Factory
    loss: Loss
    source: Source
    unit: float | None
    reduction: str
    work: int
    one_start: bool


class NoData(AllData):
    """A potential needs no data; the engine is given nothing."""

    def __init__(self) -> None:
        super().__init__(torch.zeros(0), torch.zeros(0))
        self.points = 1


def value_itself(outputs: Tensor, targets: Tensor) -> Tensor:
    """The loss of a potential: what the forward pass returns."""
    return outputs


def target_of(
    model: nn.Module | Factory | Ensemble,
    loss: Any,
    data: Any,
    batch_size: int | None,
    seeds: Sequence[int],
    seed: int,
    jitter: float,
    starts: Any = None,
) -> Target:
    """Read model, loss and data.

    Raises:
        ValueError, TypeError: naming the argument.
    """
    if not callable(loss):
        raise TypeError(f"loss must be a function, got {loss!r}")
    factory = factory_of(members_of(model, seeds) if isinstance(model, Ensemble) else model, jitter)
    if starts is not None:
        factory = started(model, starts, seeds)
    one_start = isinstance(model, nn.Module) and starts is None and jitter < APART
    if data is None:
        if batch_size is not None:
            raise ValueError("batch_size needs data; a potential without data has no batches")
        held = lambda own: _holding(make(factory, own), loss)  # noqa: E731
        _value(held(seeds[0]), value_itself, NoData().at(0))
        work = _work(held(seeds[0]), value_itself, NoData()) * len(seeds)
        return Target(held, value_itself, NoData(), 1.0, "potential", work, one_start)
    source = source_of(data, batch_size, seeds, seed)
    quiet = lambda own: make(factory, own).eval()  # noqa: E731
    reduction = reduction_of(quiet(seeds[0]), loss, source.at(0))
    if reduction == "sum" and not source.whole:
        raise ValueError(
            "loss is a sum over the batch, so that mini-batches are another potential than all "
            "data; return a mean"
        )
    unit = {"mean": 1.0 / source.points, "sum": 1.0}.get(reduction)
    work = _work(quiet(seeds[0]), loss, source) * len(seeds)
    return Target(quiet, loss, source, unit, reduction, work, one_start)


def factory_of(model: nn.Module | Factory, jitter: float) -> Factory:
    """A function from a seed to a chain's module.

    A module becomes copies, each with noise of its own on the weights that learn: ``jitter`` times
    the root mean square of each tensor (times 1 where that is 0).
    """
    if not isinstance(model, nn.Module):
        if not callable(model):
            raise TypeError(f"model must be a module or a function that makes one, got {model!r}")
        return model
    original = model

    def jittered(seed: int) -> nn.Module:
        module = copy.deepcopy(original)
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.requires_grad and parameter.numel() and jitter:
                    size = float(parameter.square().mean().sqrt()) or 1.0
                    parameter.add_(torch.randn_like(parameter), alpha=jitter * size)
        return module

    return jittered


def members_of(ensemble: Ensemble, seeds: Sequence[int]) -> Factory:
    """A function from the seed of a chain to a member of a trained ensemble.

    Raises:
        ValueError: if there are fewer members than chains.
    """
    if len(ensemble) < len(seeds):
        raise ValueError(f"chains must be at most {len(ensemble)}, the members; got {len(seeds)}")
    places = dict(zip(seeds, ensemble.active, strict=False))
    return lambda seed: ensemble.member(places[seed])


def started(model: nn.Module | Factory | Ensemble, starts: Any, seeds: Sequence[int]) -> Factory:
    """A function from the seed of a chain to a module with the weights that it is to start from.

    Args:
        model: a module, or a function that makes one.
        starts: modules or state dicts, one per chain.
        seeds: of the chains.

    Raises:
        ValueError, TypeError: if they are no weights of the model, or not as many as chains.
    """
    if isinstance(model, Ensemble):
        raise ValueError("starts: chains already start from the members of the ensemble")
    if not isinstance(starts, (list, tuple)):
        raise TypeError(
            "starts must be a list of modules or state dicts, one per chain; a function that makes "
            f"modules is given as model. Got {type(starts).__name__}"
        )
    if len(starts) != len(seeds):
        raise ValueError(f"starts has {len(starts)} entries for {len(seeds)} chains")
    factory, places = factory_of(model, 0.0), {own: i for i, own in enumerate(seeds)}

    def placed(seed: int) -> nn.Module:
        module, index = make(factory, seed), places[seed]
        start = starts[index]
        try:
            module.load_state_dict(start.state_dict() if isinstance(start, nn.Module) else start)
        except Exception as error:  # whatever torch says of what is no state dict
            raise ValueError(f"starts[{index}] has no weights of the model: {error}") from None
        return module

    for own in seeds:
        placed(own)
    return placed


def _holding(module: nn.Module, potential: Potential) -> nn.Module:
    """A module whose forward pass is the potential of its parameters."""
    if not any(p.requires_grad for p in module.parameters()):
        raise ValueError("model has no parameters to sample")

    def forward(own: nn.Module, nothing: Tensor) -> Tensor:
        return potential(dict(own.named_parameters()))

    module.forward = types.MethodType(forward, module)
    setattr(module, OF_WEIGHTS, potential)
    return module


def _value(module: nn.Module, loss: Loss, points: Points) -> float:
    """The loss of a batch, which must be one number."""
    batch = _first(points)
    with torch.no_grad():
        found = loss(functional_call(module, {}, (batch.inputs,)), batch.targets)
    name = "potential" if loss is value_itself else "loss"
    if not isinstance(found, Tensor):
        raise TypeError(f"{name} must return a tensor with one number, got {found!r}")
    if found.dim() != 0:
        raise ValueError(
            f"{name} must return one number, got a tensor of shape {tuple(found.shape)}; "
            "take the mean over the data"
        )
    if not math.isfinite(float(found)):
        raise ValueError(f"{name} must be finite at the start, got {float(found)}")
    return float(found)


def _work(module: nn.Module, loss: Loss, source: Source) -> int:
    """Multiply-adds of the loss of one chain in a step: at least one of each weight and point."""
    batch = _first(source.at(0))
    numbers = sum(parameter.numel() for parameter in module.parameters())
    counted = multiply_adds_of(
        lambda: loss(functional_call(module, {}, (batch.inputs,)), batch.targets)
    )
    return max(numbers * max(1, len(batch.inputs)), counted)


def _first(points: Points) -> Points:
    """The batch of the first chain."""
    return points if points.shared else Points(points.inputs[0], points.targets[0], True)


def reduction_of(module: nn.Module, loss: Loss, points: Points) -> str:
    """Whether a loss is a mean or a sum: it is asked for a batch, and for the batch twice.

    Example:
        >>> points = Points(torch.randn(4, 2), torch.randn(4, 1), shared=True)
        >>> reduction_of(nn.Linear(2, 1), nn.MSELoss(reduction="sum"), points)
        'sum'
    """
    batch = _first(points)
    batch = Points(batch.inputs[:FEW], batch.targets[:FEW], shared=True)
    once = _value(module, loss, batch)
    twice = _value(
        module,
        loss,
        Points(torch.cat([batch.inputs] * 2), torch.cat([batch.targets] * 2), shared=True),
    )
    near = 1e-3 * abs(once)
    if once == 0.0:
        return "unknown"
    if abs(twice - once) <= near:
        return "mean"
    return "sum" if abs(twice - 2.0 * once) <= near else "unknown"
