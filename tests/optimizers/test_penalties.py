"""Soft penalties: their closed forms, and the limit to the hard constraint."""

import math

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl


def model_with(weight: list[list[float]]) -> nn.Linear:
    values = torch.tensor(weight, dtype=torch.float64)
    model = nn.Linear(values.shape[1], values.shape[0], bias=False).double()
    model.weight.data.copy_(values)
    return model


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (cl.Circle(1.0), 3.0**2 + 8.0**2),  # 4 − 1 and 9 − 1; inside it costs nothing
        (cl.Circle(torch.tensor([[1.0, 3.0]])), 3.0**2),
        (cl.Sphere(2.0), (4.25 - 4) ** 2 + (9.25 - 4) ** 2),
        (cl.Sphere(3.0, equality=True), (4 + 0.25 - 9) ** 2 + (0.25 + 9 - 9) ** 2),
        (cl.General(lambda w: w.sum().reshape(1) - 1.0), 5.0**2),
        (cl.General(lambda w: 1.0 - w.sum().reshape(1), inequality=True), 0.0),
        (cl.General(lambda w: w[0] - 1.0, batch_dims=1), 1.0**2 + 0.5**2),
        (None, 0.0),
    ],
)
def test_closed_forms(rule: cl.Constraint | None, expected: float) -> None:
    model = model_with([[2.0, 0.5], [0.5, 3.0]])
    assert float(cl.penalty(model, {"weight": rule}, 0.5).detach()) == pytest.approx(0.5 * expected)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 2, 3, 3), (30, 2, 3, 3)])
def test_orthogonal_is_that_of_the_smaller_side(shape: tuple[int, ...]) -> None:
    if len(shape) == 2:
        model: nn.Module = nn.Linear(shape[1], shape[0], bias=False)
    else:
        model = nn.Conv2d(shape[1], shape[0], shape[2], bias=False)
    model.double()
    matrix = model.get_parameter("weight").detach().flatten(1)
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    excess = tall.T @ tall - torch.eye(tall.shape[1])
    found = cl.penalty(model, {"weight": cl.Orthogonal()}, 2.0)
    assert float(found.detach()) == pytest.approx(2 * float(excess.square().sum()))
    cl.constrain_(model, {"weight": cl.Orthogonal()})
    assert float(cl.penalty(model, {"weight": cl.Orthogonal()}, 2.0).detach()) < 1e-12


def test_its_gradient_reaches_the_weights() -> None:
    model = model_with([[2.0, 0.5]])
    cl.penalty(model, {"weight": cl.Circle(1.0)}, 1.0).backward()
    torch.testing.assert_close(model.weight.grad, torch.tensor([[24.0, 0.0]]).double())


def test_equations_of_several_parameters() -> None:
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)).double()
    for layer, value in zip(model, (2.0, 3.0), strict=True):
        layer.weight.data.fill_(value)
    rule = cl.General(lambda a, b: (a * b).reshape(1) - 1.0)
    assert float(cl.penalty(model, {"*": rule}, 1.0).detach()) == pytest.approx(25.0)


def soft_minimum(strength: float) -> Tensor:
    """arg min of ½‖w − (2, 1)‖² + strength (‖w‖² − 1)², by Newton's method."""
    model = model_with([[2.0, 1.0]])
    target = torch.tensor([[2.0, 1.0]], dtype=torch.float64)
    rules = {"weight": cl.Sphere(1.0, equality=True)}
    optimizer = torch.optim.LBFGS(
        model.parameters(),
        max_iter=500,
        tolerance_grad=1e-13,
        tolerance_change=1e-16,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (model.weight - target).square().sum() / 2 + cl.penalty(model, rules, strength)
        loss.backward()
        return loss

    optimizer.step(closure)
    return model.weight.detach().squeeze(0)


def test_the_soft_minimum_goes_to_the_hard_one_as_one_over_the_strength() -> None:
    """On the ray of the target, w = t u: t − √5 + 4 s t (t² − 1) = 0, so t ≈ 1 + (√5 − 1)/8s."""
    hard = torch.tensor([2.0, 1.0], dtype=torch.float64) / math.sqrt(5.0)
    for strength in (1e2, 1e3, 1e4):
        found = soft_minimum(strength)
        distance = float((found - hard).norm())
        assert distance * strength == pytest.approx((math.sqrt(5) - 1) / 8, rel=3 / strength**0.5)
    constrained = model_with([[0.6, -0.8]])
    groups = cl.parameter_groups(constrained, {"weight": cl.Sphere(1.0, equality=True)})
    optimizer = cl.CoLA(groups, lr=0.2, momentum=0.5)
    for _ in range(200):
        optimizer.zero_grad()
        ((constrained.weight - 5**0.5 * hard).square().sum() / 2).backward()
        optimizer.step()
    torch.testing.assert_close(constrained.weight.detach().squeeze(0), hard, atol=1e-8, rtol=0)


@pytest.mark.parametrize(("strength", "stable"), [(0.9, True), (1.1, False)])
def test_stiffness_limits_the_step(strength: float, stable: bool) -> None:
    """Across the circle the curvature is 8 · strength, so SGD needs lr < 2/(8 · strength)."""
    model = model_with([[1.01, 0.0]])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    errors = []
    for _ in range(40):
        optimizer.zero_grad()
        cl.penalty(model, {"weight": cl.Sphere(1.0, equality=True)}, strength).backward()
        optimizer.step()
        errors.append(abs(float(model.weight.detach().norm()) - 1))
    assert (errors[-1] < 1e-3) is stable


@pytest.mark.parametrize(
    "rule",
    [
        cl.Circle(1.0),
        cl.Sphere(1.0),
        cl.Orthogonal(),
        cl.General(lambda w: w.sum().reshape(1) - 1.0, inequality=True),
    ],
)
def test_nan_passes_through_as_in_any_loss(rule: cl.Constraint) -> None:
    """What watches a training for NaN must see it; an inequality must not clamp it away."""
    model = model_with([[math.nan, 2.0]])
    assert cl.penalty(model, {"weight": rule}, 1.0).isnan()


class NoSoftForm(cl.Sphere):
    violated = cl.Constraint.violated


def test_bad_penalties_are_refused() -> None:
    model = model_with([[1.0, 2.0]])
    with pytest.raises(ValueError, match="strength must be at least 0"):
        cl.penalty(model, {"weight": cl.Circle(1.0)}, -1.0)
    with pytest.raises(ValueError, match="'wieght' matches no parameter"):
        cl.penalty(model, {"wieght": cl.Circle(1.0)}, 1.0)
    with pytest.raises(ValueError, match="radius='initial' has no soft form"):
        cl.penalty(model, {"weight": cl.Circle("initial")}, 1.0)
    with pytest.raises(TypeError, match="NoSoftForm has no soft form"):
        cl.penalty(model, {"weight": NoSoftForm()}, 1.0)
    with pytest.raises(ValueError, match="model must have parameters, got ReLU"):
        cl.penalty(nn.ReLU(), {}, 1.0)
    with pytest.raises(TypeError, match="must be a constraint"):
        cl.penalty(model, {"weight": 3.0}, 1.0)
