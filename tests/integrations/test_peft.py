"""LoRA adapters whose factors are constrained."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn

import colangevin as cl
from colangevin.integrations.peft import adapter_groups
from integrations.small import network, train


def adapted(**options: Any) -> nn.Module:
    model = get_peft_model(network(), LoraConfig(r=2, target_modules=["0"], **options))
    assert isinstance(model, nn.Module)
    return model


def factor(model: nn.Module, letter: str) -> Tensor:
    (found,) = [p for n, p in model.named_parameters() if f"lora_{letter}" in n]
    return found


def frozen(model: nn.Module) -> dict[str, Tensor]:
    return {n: p.clone() for n, p in model.named_parameters() if not p.requires_grad}


@pytest.mark.parametrize(
    ("a", "b", "swap"),
    [
        (cl.Orthogonal(), cl.Circle(0.5), False),
        (cl.Orthogonal(), cl.Sphere(0.5), False),
        (cl.Sphere(1.0, equality=True), None, False),
        (cl.Circle(0.5), cl.Circle(0.5), False),
        (None, cl.Orthogonal(), True),
        (cl.Circle(0.5), cl.Orthogonal(scale=0.5), True),
        (None, cl.Sphere(1.0, equality=True), True),
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 1e-5])
def test_constrained_factors(a: Any, b: Any, swap: bool, temperature: float) -> None:
    model = adapted()
    inputs = torch.randn(5, 4)
    start, base = model(inputs), frozen(model)
    groups = adapter_groups(model, a, b, swap=swap)
    optimizer = cl.CoLA(groups, lr=0.05, momentum=0.9, temperature=temperature, seed=0)
    assert torch.equal(model(inputs), start)  # begins at the pretrained network
    first, last = train(model, optimizer, 1), train(model, optimizer, 60)
    assert last < first
    assert max(violation.residual for violation in optimizer.violation()) < 1e-6
    assert all(torch.equal(value, base[name]) for name, value in frozen(model).items())


def test_factors_of_zeros_are_refused() -> None:
    model = adapted()
    before = {name: p.clone() for name, p in model.named_parameters()}
    refused = [
        (lambda: adapter_groups(model, b=cl.Orthogonal()), "lora_B.* is zero.* use swap=True"),
        (lambda: adapter_groups(model, b=cl.Sphere(1.0, equality=True)), "Sphere cannot hold"),
        (lambda: adapter_groups(model, a=cl.Orthogonal(), swap=True), "lora_A.* leave out swap"),
    ]
    for make, message in refused:
        with pytest.raises(ValueError, match=message):
            make()
    # The optimizer itself refuses it as well, whatever made the groups.
    groups = cl.parameter_groups(model, {"*lora_B*": cl.Orthogonal()})
    with pytest.raises(cl.ConstraintError, match="one of zeros"):
        cl.CoLA(groups, lr=0.1)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_learned_adapters_are_not_swapped() -> None:
    model = adapted()
    train(model, cl.CoLA(adapter_groups(model), lr=0.1), 2)
    with pytest.raises(ValueError, match=r"new adapters, but .*lora_B.* is not zero"):
        adapter_groups(model, b=cl.Orthogonal(), swap=True)
    with pytest.raises(ValueError, match="no LoRA factors A"):
        adapter_groups(network())


def test_random_factors_may_both_be_orthogonal() -> None:
    model = adapted(init_lora_weights=False)
    optimizer = cl.CoLA(adapter_groups(model, cl.Orthogonal(), cl.Orthogonal()), lr=0.05)
    train(model, optimizer, 5)
    a, b = factor(model, "A").detach(), factor(model, "B").detach()
    torch.testing.assert_close(a @ a.T, torch.eye(2), rtol=0.0, atol=1e-5)
    torch.testing.assert_close(b.T @ b, torch.eye(2), rtol=0.0, atol=1e-5)


def test_what_else_is_trained_is_in_a_group() -> None:
    model = adapted(modules_to_save=["2"])
    groups = adapter_groups(model, cl.Orthogonal())
    assert len(groups[2]["names"]) == 2
    assert all("modules_to_save" in name for name in groups[2]["names"])
    rules = {"*0.*weight": cl.Circle(0.01)}  # also matches the frozen base
    base = frozen(model)
    train(model, cl.CoLA(cl.parameter_groups(model, rules), lr=0.01), 2)
    assert all(torch.equal(value, base[name]) for name, value in frozen(model).items())
