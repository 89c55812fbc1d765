"""The members' losses and gradients as one computation.

It is written for a single member, and ``vmap`` makes it that of all. A long training compiles it
with ``torch.compile``.
"""

from __future__ import annotations

import copy
import itertools
import math
import types
import warnings
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from colangevin.native import turned
from colangevin.threads import multiply_adds_of, threads_for

Loss: TypeAlias = Callable[[Any, Any], Tensor]
Tensors: TypeAlias = "dict[str, Tensor]"
Penalty: TypeAlias = Callable[[Tensors], Tensor]
Names: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...]]"
"""Of the parameters that are trained, and of the other parameters and the buffers."""

OF_WEIGHTS = "_of_weights"
"""Attribute of a module whose output is a function of its parameters by name, and this function."""
PATIENCE = 500
"""Steps of a training after which it is taken for a long one.

The count is of the training, not of the process: a resumed one must round in the same way."""
KEPT = 8
"""Functions that are kept, one for each loss and shape of batches."""
FEW = 4
"""Inputs of a layer up to which its product is written out: a library call costs more, and
nothing can be fused with it."""


class Found(NamedTuple):
    """What one evaluation gives, for all members.

    Attributes:
        gradients: by the parameters' names.
        buffers: as the forward pass leaves them.
        losses: one per member.
    """

    gradients: Tensors
    buffers: Tensors
    losses: Tensor


class Gradients:
    """Evaluates losses and gradients, eagerly at first and compiled once that pays.

    Args:
        template: the module whose forward pass all members share.
        penalty: added to the loss.
        compile: whether to compile; None does so in a long training.
        seed: of the numbers that the module itself draws.
    """

    def __init__(
        self, template: nn.Module, penalty: Penalty | None, compile: bool | None, seed: int
    ) -> None:
        self._template, self._penalty, self.compile = template, penalty, compile
        self._buffers = {name for name, _ in template.named_buffers()}
        self._functions: OrderedDict[tuple[object, ...], Callable[..., Any]] = OrderedDict()
        self._last: tuple[Loss, tuple[object, ...], Callable[..., Any]] | None = None
        # Whether the module draws numbers: unknown until the first step of a training.
        self.random: bool | None = None
        self.random_state = torch.Generator().manual_seed(seed).get_state()
        self._work: float | None = None

    def __call__(
        self,
        loss: Loss,
        learned: Mapping[str, Tensor],
        rest: Mapping[str, Tensor],
        inputs: Tensor,
        targets: Tensor,
        step: int,
        shared: bool = False,
    ) -> Found:
        """Losses and gradients of a batch of each member.

        Args:
            loss: of one member's outputs and targets.
            learned: the stacked parameters that are trained.
            rest: the stacked other parameters, and buffers.
            inputs: [members, batch, ...], or [batch, ...] if all members share them.
            targets: likewise.
            step: how many steps the training has made.
            shared: whether all members have the same batch.
        """
        tensors = (*learned.values(), *rest.values(), inputs, targets)
        compiling = self._wants_compiling(step)
        kind = (inputs.shape, inputs.dtype, targets.shape, targets.dtype, compiling, shared)
        if self._last is None or self._last[0] is not loss or self._last[1] != kind:
            # A function that is compiled notices by itself what else has changed in a loss.
            names = (tuple(learned), tuple(rest))
            self._last = loss, kind, self._function(loss, names, tensors, compiling, shared)
        gradients, buffers, losses = self._call(self._last[2], tensors)
        kept = [name for name in rest if name in self._buffers] if rest else ()
        return Found(
            dict(zip(learned, gradients, strict=True)),
            dict(zip(kept, buffers, strict=True)),
            losses,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Without the functions that were made, which are made anew."""
        return {**self.__dict__, "_functions": OrderedDict(), "_last": None}

    def forget(self) -> None:
        """The tensors are elsewhere now: what was compiled for them is of no use."""
        self._functions.clear()

    def threads(
        self, inputs: Tensor, members: int, shared: bool = False
    ) -> AbstractContextManager[None]:
        """One thread of torch where the members' forward pass is little work.

        Args:
            inputs: a batch of each member, or of all.
            members: how many there are.
            shared: all members have the same batch.
        """
        if torch.get_num_threads() == 1 or inputs.device.type != "cpu":
            return nullcontext()
        if self._work is None:
            self._work = _work_of(self._template, inputs, shared)
        total = self._work * inputs.numel() * (members if shared else 1)
        return nullcontext() if math.isinf(total) else threads_for(int(total))

    def _wants_compiling(self, step: int) -> bool:
        # The first step shows whether the module draws random numbers, which must be eager.
        if self.random is not False:
            return False
        return step >= PATIENCE if self.compile is None else self.compile

    def _function(
        self, loss: Loss, names: Names, tensors: Sequence[Tensor], compiling: bool, shared: bool
    ) -> Callable[..., Any]:
        shapes = tuple((tensor.shape, tensor.dtype) for tensor in tensors[-2:])
        key = (_identity(loss), len(tensors[0]), shapes, compiling, shared)
        if key not in self._functions:
            made = _eager(self._template, loss, self._penalty, names, shared)
            if compiling:
                made = self._compiled(loss, names, tensors, shared) or made
            self._functions[key] = made
            while len(self._functions) > KEPT:
                self._functions.popitem(last=False)
        self._functions.move_to_end(key)
        return self._functions[key]

    def _compiled(
        self, loss: Loss, names: Names, tensors: Sequence[Tensor], shared: bool
    ) -> Callable[..., Any] | None:
        """The compiled function; None, announced once, where there is no compiler."""
        model = with_small_products(self._template)
        narrow = narrow_weights(model)
        eager = _with_own_code(_vectorised(model, loss, self._penalty, names, narrow, shared))
        places = [i for i, name in enumerate(names[0]) if name in narrow]
        try:
            options = _options(model)
            whole = torch.compile(eager, dynamic=False, fullgraph=True, options=options)
            made = _turning(whole, places) if places else whole
            made(*tensors)
        except Exception as error:
            self.compile = False
            warnings.warn(
                f"the step could not be compiled ({type(error).__name__}: {str(error)[:200]}); "
                "the ensemble's steps stay eager",
                RuntimeWarning,
                stacklevel=5,
            )
            return None
        return made

    def _call(self, function: Callable[..., Any], tensors: Sequence[Tensor]) -> Any:
        """Call with the ensemble's own random numbers, for modules with dropout and such."""
        if self.random is False:
            return function(*tensors)
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.random_state)
            result = function(*tensors)
            after = torch.get_rng_state()
        self.random = bool((after != self.random_state).any())
        self.random_state = after
        return result


def _work_of(model: nn.Module, inputs: Tensor, shared: bool) -> float:
    """Multiply-adds of a forward pass for each number of the input; infinity if it fails."""
    # Recurrent and attention layers of one call have no count: take every weight once a row.
    weights = sum(parameter.numel() for parameter in model.parameters())
    try:
        batch = inputs if shared else inputs[0]
        with evaluating(model), torch.random.fork_rng(devices=[]):
            counted = multiply_adds_of(lambda: model(batch))
        return max(counted, weights * len(batch)) / batch.numel()
    except Exception:  # the step itself says what is wrong
        return math.inf


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, and every part of it back into its own afterwards.

    Example:
        >>> model = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
        >>> with evaluating(model):
        ...     pass
        >>> model[0].training, model[1].training
        (True, False)
    """
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def _identity(function: Any) -> tuple[object, ...]:
    """What distinguishes functions: a lambda that a loop makes anew is the same one every time."""
    code = getattr(function, "__code__", None)
    if code is None:
        return (function,)
    cells = getattr(function, "__closure__", None) or ()
    values = [cell.cell_contents for cell in cells]
    values += list(getattr(function, "__defaults__", None) or ())
    values += list((getattr(function, "__kwdefaults__", None) or {}).values())
    values.append(getattr(function, "__self__", None))
    # What is kept under this key keeps the function, and so these objects.
    return (code, *map(id, values))


_numbers = itertools.count()


def _with_own_code(function: Any) -> Callable[..., Any]:
    """The function with a code object that no other has.

    The compiler keeps its results by code object: without checks of the model, that of another
    model with parameters of the same shapes would serve.
    """
    code = function.__code__.replace(co_name=f"members_{next(_numbers)}")
    return types.FunctionType(code, function.__globals__, closure=function.__closure__)


def _options(model: nn.Module) -> Any:
    """Options of the compiler: no checks of torch itself, and of a model that nobody else has.

    Looking at all of their attributes before every call takes longer than a small step.
    """
    if not hasattr(torch.compiler, "skip_guard_on_all_nn_modules_unsafe"):
        return None  # torch before 2.8 makes all checks

    def wanted(guards: Sequence[Any]) -> list[bool]:
        own = [guard.name for guard in guards if guard.has_value and guard.value is model]
        own += ["__import_torch_dot_", "__import__('torch')", "__builtins_dict__"]
        return [
            guard.guard_type != "FUNCTORCH_STACK_MATCH"
            and not any(name in guard.name for name in own)
            for guard in guards
        ]

    return {"guard_filter_fn": wanted}


def _objective(
    model: nn.Module,
    loss: Loss,
    penalty: Penalty | None,
    names: Names,
    narrow: Collection[str] = (),
) -> Callable[..., Any]:
    """The value of one member, and its buffers afterwards, as a function of lists of tensors."""
    learned, rest = names
    kept = {name for name, _ in model.named_buffers()}
    parameters = [name for name, _ in model.named_parameters()]
    direct = getattr(model, OF_WEIGHTS, None)

    def forward(weights: Tensors, inputs: Any) -> Any:
        if direct is None:
            return functional_call(model, weights, (inputs,))
        return direct({name: weights[name] for name in parameters})

    def objective(position: tuple[Tensor, ...], others: Any, inputs: Any, targets: Any) -> Any:
        own = {n: t.mT if n in narrow else t for n, t in zip(learned, position, strict=True)}
        # Buffers may be changed by the forward pass.
        fixed = {n: t.clone() if n in kept else t for n, t in zip(rest, others, strict=True)}
        value = _one(loss(forward({**own, **fixed}, inputs), targets), "loss")
        value = value if penalty is None else value + _one(penalty(own), "penalty")
        return value, tuple(tensor for name, tensor in fixed.items() if name in kept)

    return objective


def _eager(
    model: nn.Module, loss: Loss, penalty: Penalty | None, names: Names, shared: bool
) -> Callable[..., Any]:
    """The function of flat lists of tensors, of which autograd has the gradients.

    Members do not touch each other, so the gradient of the sum is that of each. Its steps back
    are then plain ones, without the layers of ``grad`` under ``vmap``, which take longer than
    small tensors do.
    """
    count, dim = len(names[0]), None if shared else 0
    together = vmap(
        _objective(model, loss, penalty, names), in_dims=(0, 0, dim, dim), randomness="different"
    )

    def everyone(*tensors: Tensor) -> Any:
        position = tuple(tensor.detach().requires_grad_() for tensor in tensors[:count])
        with torch.enable_grad():
            values, buffers = together(position, tensors[count:-2], tensors[-2], tensors[-1])
            if not values.requires_grad:  # of no parameter
                gradients = tuple(map(torch.zeros_like, position))
            else:
                gradients = torch.autograd.grad(
                    values, position, torch.ones_like(values), materialize_grads=True
                )
        return gradients, tuple(own.detach() for own in buffers), values.detach()

    return everyone


def _vectorised(
    model: nn.Module,
    loss: Loss,
    penalty: Penalty | None,
    names: Names,
    narrow: Collection[str] = (),
    shared: bool = False,
) -> Callable[..., Any]:
    """The function of flat lists of tensors for the compiler: a call then has few checks to make.

    The parameters in ``narrow`` and their gradients are turned, columns before rows.
    """
    count, dim = len(names[0]), None if shared else 0
    objective = _objective(model, loss, penalty, names, narrow)

    def one(position: Any, others: Any, inputs: Any, targets: Any) -> Any:
        found = grad_and_value(objective, has_aux=True)(position, others, inputs, targets)
        gradients, (value, buffers) = found
        return gradients, buffers, value

    def everyone(*tensors: Tensor) -> Any:
        given = (tensors[:count], tensors[count:-2], tensors[-2], tensors[-1])
        return vmap(one, in_dims=(0, 0, dim, dim), randomness="different")(*given)

    return everyone


def _one(value: Any, name: str) -> Tensor:
    """What a function of the user has returned, if it is one number.

    Raises:
        ValueError, TypeError: naming the function.
    """
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must return a tensor with one number, got {type(value).__name__}")
    if value.dim():
        raise ValueError(
            f"{name} must return one number for a batch, got a tensor of the shape "
            f"{tuple(value.shape)}: take its .mean(), for example"
        )
    return value


# --- small products -------------------------------------------------------------------------


def with_small_products(model: nn.Module) -> nn.Module:
    """A copy whose linear layers of few inputs multiply and add without a library call.

    Example:
        >>> model, points = nn.Linear(2, 5), torch.randn(3, 2)
        >>> bool((with_small_products(model)(points) - model(points)).abs().max() < 1e-6)
        True
    """
    made = copy.deepcopy(model)
    for layer in _small_layers(made):
        layer.forward = types.MethodType(_small_product, layer)  # type: ignore[method-assign]
    return made


def _small_layers(model: nn.Module) -> list[nn.Linear]:
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return [layer for layer in layers if type(layer) is nn.Linear and layer.in_features <= FEW]


def _small_product(layer: nn.Linear, inputs: Tensor) -> Tensor:
    """Σ_k x_k w_k over the columns of the weight.

    They come from ``unbind``, whose gradient is a stack; that of a slice is padded with zeros.
    """
    columns = zip(inputs.unbind(-1), layer.weight.mT.unbind(0), strict=True)
    total: Any = sum(part.unsqueeze(-1) * column for part, column in columns)
    return total if layer.bias is None else total + layer.bias


def narrow_weights(model: nn.Module) -> frozenset[str]:
    """The weights of two and more columns in small products.

    A vector instruction takes neighbours: their columns must lie in one piece.

    Example:
        >>> sorted(narrow_weights(nn.Sequential(nn.Linear(2, 50), nn.ReLU(), nn.Linear(50, 1))))
        ['0.weight']
    """
    found = {id(layer.weight) for layer in _small_layers(model) if layer.in_features > 1}
    return frozenset(name for name, p in model.named_parameters() if id(p) in found)


def _turning(function: Callable[..., Any], places: Sequence[int]) -> Callable[..., Any]:
    """A function of turned parameters as one of the parameters as they are."""

    def run(*tensors: Tensor) -> Any:
        given = list(tensors)
        for place in places:
            given[place] = turned(given[place])
        gradients, *others = function(*given)
        found = list(gradients)
        for place in places:
            found[place] = found[place].mT  # the kernels take it as it lies
        return found, *others

    return run
