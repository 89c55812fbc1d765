"""From one optimizer to another: positions, momenta in their units, slack, friction."""

import math

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl


def weight(*shape: int, seed: int = 0) -> nn.Parameter:
    generator = torch.Generator().manual_seed(seed)
    return nn.Parameter(0.3 * torch.randn(*shape, dtype=torch.float64, generator=generator))


def slope(parameter: Tensor) -> Tensor:
    return parameter.detach() - 0.1


def walk(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter], steps: int) -> None:
    for _ in range(steps):
        for parameter in parameters:
            parameter.grad = slope(parameter)
        optimizer.step()


def test_cola_goes_on_as_sgd_would() -> None:
    """OBA at τ = 0 is SGD, so a hand-over at the same lr changes nothing at all."""
    one, other = weight(4), weight(4)
    first = torch.optim.SGD([one], lr=0.04, momentum=0.9)
    walk(first, [one], 5)
    walk(cl.hand_over(first, cl.CoLA([one], lr=0.04, momentum=0.9)), [one], 5)
    walk(torch.optim.SGD([other], lr=0.04, momentum=0.9), [other], 10)
    assert torch.allclose(one, other, rtol=0, atol=1e-15)


def test_sgd_goes_on_as_cola_would() -> None:
    one, other = weight(4), weight(4)
    first = cl.CoLA([one], lr=0.04, momentum=0.9)
    walk(first, [one], 5)
    walk(cl.hand_over(first, torch.optim.SGD([one], lr=0.04, momentum=0.9)), [one], 5)
    walk(torch.optim.SGD([other], lr=0.04, momentum=0.9), [other], 10)
    assert torch.allclose(one, other, rtol=0, atol=1e-15)


@pytest.mark.parametrize("constraint", [None, cl.Circle(0.9), cl.Sphere(2.0), cl.Orthogonal()])
def test_the_same_settings_go_on_exactly(constraint: cl.Constraint | None) -> None:
    def make(parameter: nn.Parameter) -> cl.CoLA:
        return cl.CoLA(
            [parameter], step_size=0.1, friction=0.5, scheme="BAOAB", constraint=constraint
        )

    one, other = weight(4, 3), weight(4, 3)
    first, second = make(one), make(one)
    walk(first, [one], 7)
    walk(cl.hand_over(first, second), [one], 7)
    walk(make(other), [other], 14)
    assert torch.allclose(one, other, rtol=0, atol=1e-14)


def test_the_physical_momentum_is_kept_when_the_step_changes() -> None:
    parameter = weight(4)
    first = cl.Langevin([parameter], 0.2, friction=0.5, temperature=0.0)
    walk(first, [parameter], 5)
    before = cl.kinetic_temperature(first)[0]
    second = cl.Langevin([parameter], 0.05, friction=0.5, temperature=0.0)
    cl.hand_over(first, second)
    assert cl.kinetic_temperature(second)[0] == pytest.approx(before, rel=1e-12)


def test_momenta_can_be_left_behind() -> None:
    parameter = weight(4)
    first = cl.CoLA([parameter], lr=0.04, momentum=0.9)
    walk(first, [parameter], 5)
    second = cl.hand_over(first, cl.CoLA([parameter], lr=0.04, momentum=0.9), momenta=False)
    assert not second.state[parameter]["momentum_buffer"].any()
    assert int(second.state[parameter]["step"]) == 0  # so that its next call is its first


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD([p], lr=0.1),
        lambda p: torch.optim.Adam([p], lr=0.1),
        lambda p: cl.SGLD([p], 0.1, 0.0),
    ],
)
def test_methods_without_momenta_start_from_the_positions(make) -> None:
    parameter = weight(4)
    first = cl.CoLA([parameter], lr=0.04, momentum=0.9)
    walk(first, [parameter], 5)
    here = parameter.detach().clone()
    second = cl.hand_over(first, make(parameter))
    assert torch.equal(parameter, here)
    fresh = nn.Parameter(here.clone())
    walk(second, [parameter], 3)
    walk(make(fresh), [fresh], 3)
    assert torch.equal(parameter, fresh)


def test_adam_has_no_momenta_to_give() -> None:
    parameter = weight(4)
    first = torch.optim.Adam([parameter], lr=0.1)
    walk(first, [parameter], 3)
    second = cl.hand_over(first, cl.CoLA([parameter], lr=0.04, momentum=0.9))
    assert not second.state[parameter]["momentum_buffer"].any()
    assert int(second.state[parameter]["step"]) == 0  # so that its next call is its first


def test_a_new_constraint_places_the_weight_and_projects_the_momentum() -> None:
    parameter = weight(5, 3)
    second = cl.CoLA([parameter], lr=0.01, momentum=0.9, constraint=cl.Orthogonal())
    first = cl.CoLA([parameter], lr=0.01, momentum=0.9)
    walk(first, [parameter], 5)
    assert (parameter.T @ parameter - torch.eye(3)).abs().max() > 1e-3
    cl.hand_over(first, second)
    violation = second.violation()[0]
    assert violation.residual < 1e-12 and violation.cotangency < 1e-12
    assert second.state[parameter]["momentum_buffer"].abs().max() > 0


def test_a_circle_gives_the_momentum_of_its_weights() -> None:
    parameter = weight(6)
    first = cl.CoLA([parameter], lr=0.01, momentum=0.9, constraint=cl.Circle(0.9))
    walk(first, [parameter], 20)
    state = first.state[parameter]
    speed = state["momentum_buffer"] * 0.9 * state["slack"].cos()
    second = cl.hand_over(first, cl.CoLA([parameter], lr=0.01, momentum=0.9))
    assert torch.allclose(second.state[parameter]["momentum_buffer"], speed)


def test_an_earlier_use_of_the_target_is_forgotten() -> None:
    parameter, other = weight(4), weight(4)
    target = cl.CoLA([parameter], lr=0.04, momentum=0.9)
    walk(target, [parameter], 3)
    with torch.no_grad():
        parameter.copy_(other)
    walk(cl.hand_over(torch.optim.SGD([parameter], lr=0.1), target), [parameter], 4)
    walk(cl.CoLA([other], lr=0.04, momentum=0.9), [other], 4)
    assert torch.equal(parameter, other)


def test_the_friction_variable_passes_between_adaptive_groups() -> None:
    parameters = [weight(3), weight(4, seed=1)]
    first = cl.AdaptiveLangevin(parameters, 0.1, temperature=0.1)
    walk(first, parameters, 10)
    second = cl.hand_over(first, cl.AdaptiveLangevin(parameters, 0.2, temperature=0.2))
    assert cl.friction_variable(second) == cl.friction_variable(first)
    lone = cl.hand_over(first, cl.AdaptiveLangevin(parameters[:1], 0.2, temperature=0.2))
    assert cl.friction_variable(lone) == cl.friction_variable(first)
    fixed = cl.Langevin(parameters, 0.1, 0.7, 0.1)
    other = cl.hand_over(fixed, cl.AdaptiveLangevin(parameters, 0.2, temperature=0.2))
    assert cl.friction_variable(other) == [0.0]


def test_the_hybrid_of_the_thesis_runs() -> None:
    """DHSGD first, then SGD (figure 3.15)."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
    inputs = torch.randn(64, 2)
    targets = inputs.prod(dim=1, keepdim=True)
    optimizer: torch.optim.Optimizer = cl.DHSGD(cl.partition(model, by="output"), 0.1)
    losses = []
    for step in range(200):
        if step == 100:
            last = torch.optim.SGD(model.parameters(), lr=0.05)
            optimizer = cl.hand_over(optimizer, last)
        optimizer.zero_grad()
        loss = (model(inputs) - targets).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[100] and math.isfinite(losses[-1])


def test_strangers_are_refused() -> None:
    first, second = (cl.CoLA([weight(2)], lr=0.1) for _ in range(2))
    with pytest.raises(ValueError, match="source and target share no parameter"):
        cl.hand_over(first, second)


def test_a_radius_of_the_initial_weights_is_kept() -> None:
    weight = nn.Parameter(torch.tensor([0.3, -0.9]))
    source = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    target = cl.CoLA([weight], lr=0.1, momentum=0.9, constraint=cl.Circle("initial"))
    cl.hand_over(source, target)
    assert float(target.state[weight]["radius"]) == pytest.approx(1.8)
