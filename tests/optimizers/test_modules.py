"""Layers of torch under constraints: each trains, and its weights hold their rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import colangevin as cl

RULES: dict[str, Callable[[], cl.Constraint]] = {
    "circle": lambda: cl.Circle(0.5),
    "sphere": lambda: cl.Sphere(1.0),
    "unit rows": lambda: cl.Sphere(1.0, equality=True),
    "orthogonal": cl.Orthogonal,
}


def image(*shape: int) -> Callable[[nn.Module], Tensor]:
    return lambda layer: layer(torch.randn(*shape))


def sequence(layer: nn.Module) -> Tensor:
    found: Tensor = layer(torch.randn(5, 2, 4))[0]
    return found


LAYERS: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module], Tensor]]] = {
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3), image(2, 4, 8)),
    "Conv2d": (lambda: nn.Conv2d(4, 6, 3), image(2, 4, 8, 8)),
    "Conv3d": (lambda: nn.Conv3d(2, 4, 2), image(2, 2, 4, 4, 4)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 6, 3), image(2, 4, 8, 8)),
    "grouped": (lambda: nn.Conv2d(4, 8, 3, groups=2), image(2, 4, 8, 8)),
    "depthwise": (lambda: nn.Conv2d(4, 4, 3, groups=4), image(2, 4, 8, 8)),
    "Bilinear": (
        lambda: nn.Bilinear(3, 3, 4),
        lambda layer: layer(torch.randn(2, 3), torch.randn(2, 3)),
    ),
    "RNN": (lambda: nn.RNN(4, 4), sequence),
    "GRU": (lambda: nn.GRU(4, 4), sequence),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0),
        image(5, 2, 4),
    ),
}


def steps(optimizer: cl.CoLA, loss: Callable[[], Tensor], count: int = 8) -> None:
    for _ in range(count):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, rule: str) -> None:
    torch.manual_seed(0)
    make, run = LAYERS[name]
    layer = make()
    matrices = {n: p for n, p in layer.named_parameters() if p.dim() > 1}
    rules = dict.fromkeys(matrices, RULES[rule]())
    groups = cl.parameter_groups(layer, rules)
    optimizer = cl.CoLA(groups, lr=0.02, momentum=0.9, temperature=1e-5, seed=0)
    before = {n: p.detach().clone() for n, p in matrices.items()}
    steps(optimizer, lambda: run(layer).square().mean())
    assert all(not torch.equal(matrices[n], before[n]) for n in matrices)
    assert max(found.residual for found in optimizer.violation()) < 2e-6


@pytest.mark.parametrize(
    "wrap",
    [parametrizations.orthogonal, parametrizations.spectral_norm, parametrizations.weight_norm],
)
def test_parametrized_layers(wrap: Callable[[nn.Module], nn.Module]) -> None:
    """The parameter has another name, so the rule of a plain layer matches nothing."""
    torch.manual_seed(0)
    model = nn.Sequential(wrap(nn.Linear(4, 4)), nn.Linear(4, 2))
    with pytest.raises(ValueError, match=r"0\.weight"):
        cl.parameter_groups(model, {"0.weight": cl.Circle(0.5)})
    groups = cl.parameter_groups(model, {"1.weight": cl.Circle(0.5)})
    optimizer = cl.CoLA(groups, lr=0.05, momentum=0.9)
    before = [p.detach().clone() for p in model.parameters()]
    steps(optimizer, lambda: model(torch.randn(6, 4)).square().mean())
    assert not any(map(torch.equal, before, model.parameters()))
    assert model[1].weight.abs().max() <= 0.5


def test_a_row_of_padding() -> None:
    embedding = nn.Embedding(5, 3, padding_idx=2)
    optimizer = cl.CoLA([embedding.weight], lr=0.1, momentum=0.9, constraint=cl.Sphere(1.0))
    steps(optimizer, lambda: (embedding(torch.arange(5)) - 1.0).square().mean())
    assert not embedding.weight[2].any()
    with pytest.raises(cl.ConstraintError, match="row of zeros"):
        cl.CoLA([embedding.weight], lr=0.1, constraint=cl.Sphere(1.0, equality=True))


def test_sparse_gradients_are_refused() -> None:
    embedding = nn.Embedding(5, 3, sparse=True)
    optimizer = cl.CoLA([embedding.weight], lr=0.1)
    before = embedding.weight.detach().clone()
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises((TypeError, RuntimeError, ValueError), match="sparse"):
        optimizer.step()
    assert torch.equal(embedding.weight, before)


def test_tied_weights_and_gradients_of_functions() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    groups = cl.parameter_groups(model, {"1.weight": cl.Orthogonal()})
    optimizer = cl.CoLA(groups, lr=0.05, momentum=0.9)
    data = torch.randn(6, 4)

    def loss(weights: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(model, weights, (data,)).square().mean()

    before = model[0].weight.detach().clone()
    for _ in range(5):
        weights = dict(model.named_parameters())
        for name, gradient in torch.func.grad(loss)(weights).items():
            weights[name].grad = gradient
        optimizer.step()
    assert not torch.equal(model[0].weight, before)
    assert model[0].weight is model[1].weight
    assert optimizer.violation()[0].residual < 1e-6
