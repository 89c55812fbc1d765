"""Every optimizer of the library, one line each: the contract suite runs on all of them.

A new optimizer takes one line of ``OPTIMIZERS``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

import colangevin as cl
from optimizer_cases import CONSTRAINTS, backward, constrained, network, parameters_of, values_of

STEP = 0.05
"""The step of every optimizer of the registry, where a test does not choose another."""

Make = Callable[[nn.Module, float, int], Optimizer]


@dataclass(frozen=True)
class OptimizerCase:
    """An optimizer for ``optimizer_cases.network``.

    Attributes:
        name: what the tests call it.
        build: makes it from a network, a step and the seed of its noise.
        closure: whether ``step`` needs a closure.
        grows: whether ``add_param_group`` is for it.
        plain: whether it is made of plain torch optimizers, which take what torch takes.
    """

    name: str
    build: Make
    closure: bool = False
    grows: bool = True
    plain: bool = False

    def make(self, model: nn.Module, seed: int = 1, step: float = STEP) -> Optimizer:
        return self.build(model, step, seed)

    def start(self, seed: int = 1) -> tuple[nn.Module, Optimizer]:
        """A network and its optimizer."""
        model = network()
        return model, self.make(model, seed)

    def train(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        steps: range,
        missing: tuple[str, ...] = (),
    ) -> None:
        """Make the steps; the parameters named in ``missing`` get no gradient."""
        for step in steps:

            def closure(step: int = step) -> Tensor:
                loss = backward(model, step)
                for name in missing:
                    model.get_parameter(name).grad = None
                return loss

            if self.closure:
                optimizer.step(closure)
            else:
                closure()
                optimizer.step()


def halves(model: nn.Module) -> list[dict[str, Any]]:
    """Two parts, with a circle and an orthogonal weight in the first."""
    rules = {"0.weight": cl.Circle(0.6), "2.weight": cl.Orthogonal()}
    return cl.partition(model, by="output", groups=cl.parameter_groups(model, rules))


def cola(constraint: str, **options: Any) -> Make:
    """CoLA with a constraint by its name."""
    settings = {"momentum": 0.8, "temperature": 1e-3, "weight_decay": 0.01, **options}

    def build(model: nn.Module, step: float, seed: int) -> Optimizer:
        groups = constrained(model, CONSTRAINTS[constraint]())
        return cl.CoLA(groups, lr=step, seed=seed, **settings)

    return build


def preset(method: Callable[..., Optimizer], **options: Any) -> Make:
    """A method of the thesis on the two halves of the network."""
    return lambda model, step, seed: method(halves(model), step_size=step, seed=seed, **options)


def two_rates(model: nn.Module, step: float, seed: int) -> Optimizer:
    """Multirate of CoLA: a circle and an orthogonal weight are slow."""
    slow, fast = halves(model)[:-1], halves(model)[-1:]
    options: dict[str, Any] = {"momentum": 0.8, "temperature": 1e-3}
    return cl.Multirate(
        cl.CoLA(fast, lr=step, seed=seed, **options),
        cl.CoLA(slow, lr=2 * step, seed=seed + 1, **options),
        period=3,
    )


def two_rates_of_sgd(drift: bool) -> Make:
    return lambda model, step, seed: cl.Multirate.sgd(
        *cl.last_layers_fast(model), lr=step, momentum=0.8, period=3, drift=drift
    )


def subsets(model: nn.Module, step: float, seed: int) -> Optimizer:
    groups = cl.random_subsets(model, {"*.weight": 0.4})
    return cl.SubsetMultirate(groups, lr=step, momentum=0.5, period=2, seed=seed)


OPTIMIZERS = [
    *(OptimizerCase(f"CoLA {name}", cola(name)) for name in CONSTRAINTS),
    OptimizerCase("CoLA overdamped", cola("circle", momentum=0.0)),
    OptimizerCase("CoLA BAOAB", cola("max-norm", scheme="BAOAB")),
    OptimizerCase("SGLD", preset(cl.SGLD, temperature=1e-3, decay_power=0.3)),
    OptimizerCase("Langevin", preset(cl.Langevin, friction=2.0, temperature=1e-3)),
    OptimizerCase(
        "LangevinInLayers",
        preset(cl.LangevinInLayers, friction={"hidden": 0.5, "output": 5.0}, temperature=1e-3),
    ),
    OptimizerCase("LOL", preset(cl.LOL, overdamped_temperature=1e-4)),
    OptimizerCase("DHSGD", preset(cl.DHSGD)),
    OptimizerCase("DHSGD contractive", preset(cl.DHSGD, contractive=True)),
    OptimizerCase("DHSGD Heun", preset(cl.DHSGD, contractive=True, heun=True), closure=True),
    OptimizerCase("AdaptiveLangevin", preset(cl.AdaptiveLangevin)),
    OptimizerCase("AdLaLa", preset(cl.AdLaLa)),
    OptimizerCase("Multirate of SGD", two_rates_of_sgd(True), grows=False, plain=True),
    OptimizerCase("Multirate at once", two_rates_of_sgd(False), grows=False, plain=True),
    OptimizerCase("Multirate of CoLA", two_rates, grows=False),
    OptimizerCase("SubsetMultirate", subsets),
]


# --- looking at an optimizer from outside ----------------------------------------------------


def snapshot(optimizer: Optimizer) -> dict[str, Any]:
    """Copies of all that a refusal must leave alone; compare with ``optimizer_cases.same``."""
    parameters = parameters_of(optimizer)
    return {
        "weights": values_of(optimizer),
        "asleep": [p.requires_grad for p in parameters],
        "state": [copy.deepcopy(dict(optimizer.state.get(p, {}))) for p in parameters],
        "options": [
            {name: copy.copy(value) for name, value in group.items() if plain(value)}
            for group in optimizer.param_groups
        ],
        "saved": copy.deepcopy(optimizer.state_dict()),
    }


def plain(value: Any) -> bool:
    """Whether an option is a value of its own (constraints are compared as ``saved``)."""
    return value is None or isinstance(value, (bool, int, float, str, Tensor))


def optimizers_within(state_dict: Any) -> Iterator[dict[str, Any]]:
    """Every state dict of an ordinary optimizer inside that of a composed one."""
    if isinstance(state_dict, dict):
        if {"state", "param_groups"} <= state_dict.keys():
            yield state_dict
        for value in state_dict.values():
            yield from optimizers_within(value)
