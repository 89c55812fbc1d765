"""Kinetic and configurational temperature, and the friction variable."""

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl


def test_kinetic_temperature_is_in_physical_units_and_by_group() -> None:
    one, two = (nn.Parameter(torch.zeros(4, dtype=torch.float64)) for _ in range(2))
    groups = [{"params": [one], "step_size": 0.5}, {"params": [two], "step_size": 0.1}]
    optimizer = cl.CoLA([{**group, "friction": 1.0} for group in groups])
    assert cl.kinetic_temperature(optimizer) == [None, None]
    for parameter, p, h in ((one, 3.0, 0.5), (two, 2.0, 0.1)):
        optimizer.state[parameter]["momentum_buffer"] = torch.full_like(parameter, -p / h)
        optimizer.state[parameter]["step"].fill_(1)
    assert cl.kinetic_temperature(optimizer) == pytest.approx([9.0, 4.0])


def test_an_overdamped_group_has_none() -> None:
    parameter = nn.Parameter(torch.zeros(4))
    optimizer = cl.SGLD([parameter], 0.1, 1.0)
    parameter.grad = torch.zeros(4)
    optimizer.step()
    assert cl.kinetic_temperature(optimizer) == [None]
    assert cl.friction_variable(optimizer) == [None]


def energy_of(optimizer: cl.CoLA, parameter: nn.Parameter, constraint: cl.Constraint) -> Tensor:
    """½|v|², from the entries of the state."""
    entry, bound = optimizer.state[parameter], constraint.bind([parameter.shape])
    tensors = [parameter.detach(), entry["momentum_buffer"], entry.get("slack")]
    batches = [None if tensor is None else bound.to_batch(tensor) for tensor in tensors]
    return bound.kinetic_energy(cl.State(*batches))


@pytest.mark.parametrize(
    ("constraint", "freedom"),
    [(cl.Sphere(1.0, equality=True), 18), (cl.Orthogonal(), 14), (cl.Circle(1.0), 24)],
)
def test_kinetic_temperature_counts_the_degrees_of_freedom(
    constraint: cl.Constraint, freedom: int
) -> None:
    torch.manual_seed(0)
    parameter = nn.Parameter(torch.randn(6, 4, dtype=torch.float64))
    optimizer = cl.CoLA([parameter], lr=0.01, momentum=0.9, constraint=constraint)
    for _ in range(3):
        parameter.grad = torch.randn(6, 4, dtype=torch.float64)
        optimizer.step()
    energy = energy_of(optimizer, parameter, constraint)
    expected = 2 * 0.01 * energy.item() / freedom
    assert cl.kinetic_temperature(optimizer)[0] == pytest.approx(expected)


def test_configurational_temperature_of_a_quadratic() -> None:
    one = nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))
    two = nn.Parameter(torch.tensor([3.0], dtype=torch.float64))
    optimizer = cl.CoLA([{"params": [one]}, {"params": [two]}], lr=0.1)
    scales = torch.tensor([2.0, 4.0], dtype=torch.float64)

    def loss() -> torch.Tensor:
        return (scales * one.square()).sum() / 2 + 5 * two.square().sum() / 2

    first, second = cl.configurational_temperature(optimizer, loss)
    assert first is not None and second is not None
    assert (first.square, first.laplacian) == pytest.approx((4.0 + 64.0, 6.0))
    assert second.temperature == pytest.approx(225.0 / 5.0)
    assert one.grad is None and two.grad is None


def test_configurational_temperature_of_a_coupled_loss_is_unbiased() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(6, 6, dtype=torch.float64)
    matrix = matrix @ matrix.T
    parameter = nn.Parameter(torch.randn(6, dtype=torch.float64))
    optimizer = cl.CoLA([parameter], lr=0.1)
    (reading,) = cl.configurational_temperature(
        optimizer,
        lambda: parameter @ matrix @ parameter / 2,
        probes=3000,
        generator=torch.Generator().manual_seed(1),
    )
    assert reading is not None
    assert reading.laplacian == pytest.approx(float(matrix.trace()), rel=0.05)


def test_configurational_temperature_leaves_out_constrained_and_linear_parts() -> None:
    one, two = (nn.Parameter(torch.full((2,), 0.5)) for _ in range(2))
    groups = [{"params": [one], "constraint": cl.Circle(1.0)}, {"params": [two]}]
    optimizer = cl.CoLA(groups, lr=0.1)
    first, second = cl.configurational_temperature(optimizer, lambda: one.sum() + 2 * two.sum())
    assert first is None
    assert second == (8.0, 0.0)
    with pytest.raises(ValueError, match="probes must be at least 1, got 0"):
        cl.configurational_temperature(optimizer, lambda: one.sum(), probes=0)


@pytest.mark.statistical
def test_both_temperatures_agree_at_equilibrium() -> None:
    """An anharmonic target sampled by BAOAB; the sums are divided, not the quotients averaged."""
    parameter = nn.Parameter(torch.zeros(300, dtype=torch.float64))
    optimizer = cl.Langevin([parameter], 0.2, 1.0, temperature=0.5, seed=3)

    def loss() -> torch.Tensor:
        return (parameter.square() / 2 + parameter**4 / 8).sum()

    square = laplacian = kinetic = 0.0
    for step in range(1500):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        if step >= 100 and step % 5 == 0:
            (reading,) = cl.configurational_temperature(optimizer, loss)
            assert reading is not None
            square, laplacian = square + reading.square, laplacian + reading.laplacian
            kinetic += float(cl.kinetic_temperature(optimizer)[0] or 0.0) / 280
    assert square / laplacian == pytest.approx(0.5, rel=0.03)
    assert kinetic == pytest.approx(0.5, rel=0.03)


def test_weight_decay_belongs_to_what_is_sampled():
    """As if it were a term of the loss."""
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5]))
    plain, decayed = cl.CoLA([weight], lr=0.1), cl.CoLA([weight], lr=0.1, weight_decay=3.0)
    (ours,) = cl.configurational_temperature(decayed, lambda: weight.pow(4).sum())
    (theirs,) = cl.configurational_temperature(
        plain, lambda: weight.pow(4).sum() + 1.5 * weight.square().sum()
    )
    assert ours == pytest.approx(theirs)


def test_frozen_parameters_and_losses_without_curvature_have_readings():
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    optimizer = cl.CoLA([weight, frozen], lr=0.1)
    (reading,) = cl.configurational_temperature(optimizer, lambda: weight.square().sum())
    assert reading == (20.0, 4.0)
    (flat,) = cl.configurational_temperature(optimizer, lambda: weight.sum())
    assert flat.temperature == float("inf")
