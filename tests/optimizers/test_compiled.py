"""torch.compile: of the step, and of a whole training step, for every geometry and direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl

RULES: dict[str, cl.Constraint | None] = {
    "free": None,
    "circle": cl.Circle(0.4),
    "sphere": cl.Sphere(0.8),
    "unit sphere": cl.Sphere(0.8, equality=True),
    "orthogonal": cl.Orthogonal(),
    "general": cl.General(lambda weight: weight.square().sum() - 2.0),
    "below": cl.General(lambda weight: weight.square().sum() - 2.0, inequality=True),
}


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


DIRECTIONS: dict[str, Any] = {
    "sign": "sign",
    "adam": "adam",
    "polar": "polar",
    "relative": cl.Adam(relative=True),
}
NOISY = {"momentum": 0.9, "temperature": 1e-4, "seed": 1}


def run(
    rule: cl.Constraint | None, compiled: Callable[[Any], Any], whole: bool, **options: Any
) -> list[Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    rules = {} if rule is None else {"*.weight": rule}
    groups = cl.parameter_groups(model, rules)
    if options.get("direction") == "polar":  # which vectors have not
        vectors = [p for group in groups for p in group["params"] if p.dim() < 2]
        for group in groups:
            group["params"] = [p for p in group["params"] if p.dim() > 1]
            group.pop("names", None)
        groups = [g for g in groups if g["params"]] + [{"params": vectors, "direction": "adam"}]
    optimizer = cl.CoLA(groups, lr=0.01, **(options or NOISY))

    def train_step(inputs: Tensor, step: Callable[[], Any] = optimizer.step) -> Tensor:
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        step()
        return loss

    made = compiled(train_step) if whole else train_step
    step = optimizer.step if whole else compiled(optimizer.step)
    for number in range(4):
        inputs = torch.randn(6, 4, generator=torch.Generator().manual_seed(number))
        made(inputs) if whole else made(inputs, step)
    return [parameter.detach() for parameter in model.parameters()]


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.filterwarnings("ignore::UserWarning")  # the compiler's remarks on graph breaks
@pytest.mark.parametrize("whole", [False, True], ids=["step", "training step"])
@pytest.mark.parametrize("rule", list(RULES))
def test_equals_eager(rule: str, whole: bool) -> None:
    expected = run(RULES[rule], lambda function: function, whole)
    found = run(RULES[rule], lambda f: torch.compile(f, backend="aot_eager"), whole)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("direction", list(DIRECTIONS))
@pytest.mark.parametrize("rule", ["free", "circle", "unit sphere", "orthogonal"])
def test_directions_equal_eager(rule: str, direction: str) -> None:
    options = {"direction": DIRECTIONS[direction]}
    expected = run(RULES[rule], lambda function: function, True, **options)
    found = run(RULES[rule], lambda f: torch.compile(f, backend="aot_eager"), True, **options)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_network_is_one_graph_and_the_step_is_left_alone() -> None:
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append([str(node.target) for node in graph.graph.nodes])
        return graph

    run(cl.Circle(0.4), lambda f: torch.compile(f, backend=backend), True, direction="adam")
    calls = [name for graph in graphs for name in graph]
    assert any("linear" in name for name in calls)
    assert not any("lerp" in name or "sqrt" in name for name in calls)
