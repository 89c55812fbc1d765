import math

import pytest
import torch
from torch import Tensor, nn

from colangevin import Circle, CoLA, ConstraintError, State
from colangevin.constraints.angles import LONG
from colangevin.constraints.sums import ALONE
from registry import normals


def test_place_keeps_the_shape_of_an_out_of_range_tensor() -> None:
    circle = Circle(0.5)
    weight = torch.tensor([0.1, -2.0, 0.7])
    placed = circle.place(weight)
    assert bool((placed.abs() < 0.5).all())
    ratio = placed / weight
    torch.testing.assert_close(ratio, ratio[:1].expand(3))
    inside = torch.tensor([0.1, -0.4999])
    assert torch.equal(circle.place(inside), inside)


@pytest.mark.parametrize("value", [0.5, -0.5, 0.50001, 7.0])
def test_place_never_puts_a_weight_on_the_boundary(value: float) -> None:
    placed = Circle(0.5).place(torch.tensor([value, 0.0]))
    assert 0.0 < float(placed[0] * math.copysign(1.0, value)) < 0.5


def test_place_with_radii_of_their_own() -> None:
    radius = torch.tensor([[0.1], [10.0]])
    placed = Circle(radius).place(torch.tensor([[0.2, 0.0], [5.0, -1.0]]))
    assert bool((placed.abs() < radius).all())
    torch.testing.assert_close(placed[0, 0] / 0.2, placed[1, 0] / 5.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("start", [0.5, -0.5])
def test_a_weight_on_the_boundary_leaves_it_without_noise(start: float, dtype: torch.dtype) -> None:
    weight = nn.Parameter(torch.tensor([start, 0.1], dtype=dtype))
    optimizer = CoLA([weight], step_size=0.1, friction=0.1, constraint=Circle(0.5))
    for _ in range(250):
        weight.grad = torch.tensor([math.copysign(1.0, start), 0.0], dtype=dtype)
        optimizer.step()
        if abs(float(weight[0].detach())) < 0.25:
            return
    raise AssertionError("it is still there")


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6])
def test_lift_is_accurate_near_the_boundary(gap: float) -> None:
    """r² − θ² would lose half of the digits."""
    theta = torch.tensor([1.0 - gap], dtype=torch.float32)
    exact = torch.asin(theta.double())
    torch.testing.assert_close(Circle(1.0).lift(theta).double(), exact, rtol=1e-7, atol=0.0)


def turned(angle: Tensor, dtype: torch.dtype) -> tuple[State, State]:
    """(θ, ξ) after a drift by these angles, and the same rotation by complex numbers."""
    radius = 0.7
    generator = torch.Generator().manual_seed(0)
    theta = radius * (2 * torch.rand(angle.shape, dtype=torch.float64, generator=generator) - 1)
    circle = Circle(radius)
    start = State(theta.to(dtype), angle.to(dtype), circle.lift(theta.to(dtype)))
    moved = circle.drift(start.map(torch.clone), 1.0)
    at = start.slack.double()
    z = radius * torch.complex(at.sin(), at.cos()) * torch.exp(-1j * start.momentum.double())
    # A slack is never 0: without noise a weight could not leave the boundary.
    floor = radius * math.sqrt(torch.finfo(dtype).eps)
    exact = State(z.real, None, torch.copysign(z.imag.abs().clamp_min(floor), z.imag))
    return moved._replace(slack=radius * moved.slack.double().cos()), exact


@pytest.mark.parametrize(
    ("dtype", "largest", "tolerance"), [(torch.float32, 10.0, 2e-6), (torch.float64, 50.0, 1e-13)]
)
def test_drift_turns_by_the_angle(dtype: torch.dtype, largest: float, tolerance: float) -> None:
    moved, exact = turned(torch.linspace(-largest, largest, 201, dtype=torch.float64), dtype)
    torch.testing.assert_close(moved.position.double(), exact.position, rtol=0.0, atol=tolerance)
    torch.testing.assert_close(moved.slack.double(), exact.slack, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_drift_by_any_angle_stays_on_the_circle(dtype: torch.dtype) -> None:
    angle = torch.logspace(-8, 5, 200, dtype=torch.float64)
    moved, _ = turned(torch.cat([angle, -angle]), dtype)
    length = (moved.position.double() ** 2 + moved.slack.double() ** 2).sqrt() / 0.7
    assert float((length - 1.0).abs().max()) <= (1e-6 if dtype == torch.float32 else 1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_angles_stay_within_half_a_turn(dtype: torch.dtype) -> None:
    """An angle that grew without end would lose its digits."""
    circle = Circle(0.3)
    turn = torch.linspace(-20.0, 20.0, 101, dtype=dtype)
    state = State(torch.zeros_like(turn), turn, torch.zeros_like(turn))
    for _ in range(3):
        state = circle.drift(state, 1.0)
        assert float(state.slack.abs().max()) <= float(torch.tensor(math.pi, dtype=dtype))
    exact = 0.3 * torch.sin(3 * turn.double())
    assert float((state.position.double() - exact).abs().max()) <= 2e-6


def test_a_weight_that_is_written_to_keeps_the_side_of_its_slack() -> None:
    circle, old = Circle(0.5), torch.tensor([0.2, 3.0, -2.0, -0.3])
    theta = torch.tensor([0.1, 0.1, 0.4, -0.2])
    angle = circle.lift_again(theta, old)
    torch.testing.assert_close(0.5 * angle.sin(), theta)
    assert torch.equal(angle.cos().sign(), old.cos().sign())
    assert float(angle.abs().max()) <= math.pi


def test_rounding_does_not_add_up() -> None:
    """20,000 float32 rotations."""
    circle = Circle(0.3)
    theta = 0.3 * (2 * torch.rand(64) - 1)
    state = State(theta, 3.0 * normals(0)(theta), circle.lift(theta))
    for _ in range(20_000):
        state = circle.drift(state, 0.05)
    length = state.position.double() ** 2 + (0.3 * state.slack.double().cos()) ** 2
    assert float((length / 0.09 - 1.0).abs().max()) <= 1e-6


def test_overdamped_weights_keep_their_sign() -> None:
    """arctan(ξ/θ) in the place of atan2 would make every weight positive."""
    circle, theta = Circle(1.0), torch.tensor([-0.9, -0.1, 0.4])
    state = State(theta, slack=circle.lift(theta))
    moved = circle.project(state.map(torch.clone), theta, circle.slack_of(state))
    torch.testing.assert_close(moved.position, theta)


def test_a_radius_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ConstraintError, match="does not broadcast"):
        Circle(torch.ones(3)).bind([torch.Size([3, 4])])
    assert Circle(torch.ones(4)).bind([torch.Size([3, 4])]) is not None


@pytest.mark.parametrize(
    ("shape", "options", "radius"),
    [
        ((5, 4), {}, 0.5),
        ((8, 3, 3, 3), {"factor": 3.0}, 3 / 27**0.5),
        ((6, 9), {"blocks": 3}, 1 / 3),
    ],
)
def test_the_fan_in_of_the_shape_is_the_bound(shape, options, radius) -> None:
    bound = Circle("fan_in", **options).bind([torch.Size(shape)])
    assert bound.radius == pytest.approx(radius, rel=1e-15)


def test_layers_of_one_group_have_their_own_fan_in() -> None:
    weights = [torch.nn.Parameter(torch.zeros(3, 4)), torch.nn.Parameter(torch.zeros(2, 100))]
    optimizer = CoLA(weights, lr=0.1, momentum=0.9, constraint=Circle("fan_in"))
    for _ in range(100):
        for weight in weights:
            weight.grad = -torch.ones_like(weight)
        optimizer.step()
    assert [round(float(w.detach().max()), 3) for w in weights] == [0.5, 0.1]


def test_the_fan_in_of_a_vector_is_not_known() -> None:
    with pytest.raises(ConstraintError, match=r"fan_in.*2 dimensions.*\(7,\)"):
        CoLA([torch.nn.Parameter(torch.zeros(7))], lr=0.1, constraint=Circle("fan_in"))


def long_state(largest: float) -> tuple[Circle, State]:
    """More weights than torch's sine is asked for, one of which is at an angle of this size."""
    angle = largest * (2 * torch.rand(LONG, generator=torch.Generator().manual_seed(2)) - 1)
    angle[7] = largest
    circle = Circle(0.7)
    return circle, State(0.7 * angle.sin(), torch.zeros(LONG), angle)


@pytest.mark.parametrize("largest", [0.3, 0.699, 0.701, 1.499, 1.501, 3.0])
def test_polynomials_of_many_angles_are_right_to_rounding(largest: float) -> None:
    circle, state = long_state(largest)
    exact = state.map(torch.Tensor.double)
    assert exact.slack is not None
    kick = circle.impulse(state, torch.ones(LONG), 1.0, 0.0, None).main
    torch.testing.assert_close(kick.double(), exact.slack.cos() / 0.7, rtol=0.0, atol=3e-7)
    moved = circle.drift(state, 0.1).position
    torch.testing.assert_close(moved.double(), 0.7 * exact.slack.sin(), rtol=2e-7, atol=1e-10)


def test_the_bits_of_a_part_do_not_depend_on_its_size() -> None:
    circle, state = long_state(0.3)
    part = circle.part(torch.Size([LONG]), [0], [LONG], ALONE)
    whole = part.drift(state.map(torch.clone), 0.1).position
    half = part.drift(state.map(lambda t: t[: LONG // 2].clone()), 0.1).position
    assert torch.equal(whole[: LONG // 2], half)
