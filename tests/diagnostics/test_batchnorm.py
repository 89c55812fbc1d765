"""Networks with BatchNorm: what is measured is right, and the network stays as it was."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.diagnostics import (
    gradient_norms,
    loss_surface,
    point_effects,
    weight_distributions,
)

INPUTS = torch.randn(16, 3, generator=torch.Generator().manual_seed(0)).double() * 2 + 1


def normalised() -> nn.Sequential:
    """In training mode, with statistics that are not those of a fresh network."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)).double()
    model(3 * INPUTS)
    return model


def copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean()


def on_a_surface(model: nn.Module) -> object:
    other = copied(normalised())
    return loss_surface(model, other, other, other, lambda m: m(INPUTS).sum(), points=2)


@pytest.mark.parametrize(
    "measure",
    [
        lambda model: gradient_norms(model, lambda: model(INPUTS).square().mean()),
        lambda model: point_effects(model, squared, INPUTS, INPUTS[:, :1]),
        lambda model: weight_distributions(model),
        lambda model: cl.penalty(model, {nn.Linear: cl.Orthogonal()}, 1.0).backward,
        on_a_surface,
    ],
)
def test_a_network_in_training_stays_as_it_was(measure: Callable[[nn.Module], object]) -> None:
    model = normalised()
    model(INPUTS).sum().backward()
    before, gradients = copied(model), [p.grad.clone() for p in model.parameters()]
    measure(model)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(
        torch.equal(old, p.grad) for old, p in zip(gradients, model.parameters(), strict=True)
    )
    assert all(module.training for module in model.modules())


def test_gradient_norms_are_those_of_training_mode() -> None:
    """The bias before BatchNorm has no gradient: the mean of the batch is subtracted."""
    model = normalised()

    def loss() -> Tensor:
        return model(INPUTS).square().mean()

    found = gradient_norms(model, loss, "*")
    loss().backward()
    expected = {name: float(p.grad.square().mean().sqrt()) for name, p in model.named_parameters()}
    assert found == pytest.approx(expected)
    assert found["0.bias"] == pytest.approx(0.0, abs=1e-12)


def test_gradient_norms_leave_no_trace_of_an_error_or_of_nan() -> None:
    model = normalised()
    before = copied(model)
    assert all(
        map(math.isnan, gradient_norms(model, lambda: model(INPUTS * math.nan).sum()).values())
    )

    def stepping() -> Tensor:
        model(INPUTS).sum().backward()
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        gradient_norms(model, stepping)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_effects_are_those_of_evaluation_mode() -> None:
    model, targets = normalised(), INPUTS[:, :1]
    found = point_effects(model, squared, INPUTS, targets)
    model.eval()
    for index in range(3):
        loss = squared(model(INPUTS[index : index + 1]), targets[index : index + 1])
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        expected = math.sqrt(sum(float(g.square().sum()) for g in gradients))
        assert float(found[index]) == pytest.approx(expected)


def test_a_surface_has_the_statistics_of_each_point() -> None:
    """With given weights, the running mean m shifts the output of BatchNorm by −m/√v."""
    model = nn.Sequential(nn.BatchNorm1d(1, eps=1e-12, affine=False)).double()
    states = [
        {**copied(model), "0.running_mean": torch.tensor([mean]).double()}
        for mean in (0.0, 1.0, 3.0)
    ]
    ones = torch.ones(4, 1).double()
    surface = loss_surface(model, *states, lambda m: m(ones).mean(), points=3)
    for a, alpha in enumerate((0.0, 0.5, 1.0)):
        for b, beta in enumerate((0.0, 0.5, 1.0)):
            assert float(surface.losses[a, b]) == pytest.approx(
                1 - alpha * (beta * 1.0 + (1 - beta) * 3.0)
            )
    anew = loss_surface(
        model, *states, lambda m: m(ones).mean(), points=2, statistics=[2 * INPUTS[:, :1]]
    )
    mean, variance = 2 * INPUTS[:, 0].mean(), 4 * INPUTS[:, 0].var()
    torch.testing.assert_close(anew.losses, ((1 - mean) / variance.sqrt()).expand(2, 2))


def test_weights_of_batchnorm_count_and_its_statistics_do_not() -> None:
    found = weight_distributions(normalised())
    assert [name for name in found if name.startswith("1.")] == ["1.weight", "1.bias"]
    assert (found["1.weight"].mean, found["1.bias"].largest) == (1.0, 0.0)


def test_a_penalty_on_the_scales_of_batchnorm() -> None:
    model = normalised()
    model[1].weight.data.copy_(torch.tensor([2.0, 0.5, 1.0, -3.0]))
    found = cl.penalty(model, {"1.weight": cl.Circle(1.0)}, 0.5)
    assert float(found.detach()) == pytest.approx(0.5 * (3.0**2 + 8.0**2))
