import math

import pytest
import torch
from torch import Size, Tensor, nn

from colangevin import CoLA, ConstraintError, Sphere, State
from registry import normals, norms


def weight_of(*shape: int) -> Tensor:
    return normals(0)(torch.empty(shape, dtype=torch.float64))


def placed(sphere: Sphere, weight: Tensor) -> Tensor:
    bound = sphere.bind([weight.shape])
    return bound.from_batch(bound.place(bound.to_batch(weight)), weight.shape)


@pytest.mark.parametrize(
    ("shape", "dim", "rows"),
    [((3, 4), 0, 3), ((3, 4), 1, 4), ((3, 4), -1, 4), ((5, 2, 3, 3), 0, 5), ((5, 2, 3, 3), 1, 2)],
)
def test_dim_counts_the_rows(shape: tuple[int, ...], dim: int, rows: int) -> None:
    sphere = Sphere(2.0, equality=True, dim=dim)
    weight = placed(sphere, weight_of(*shape))
    assert norms(weight, dim % len(shape)).tolist() == pytest.approx([2.0] * rows)
    assert sphere.degrees_of_freedom([Size(shape)]) == math.prod(shape) - rows


def test_a_vector_is_one_row() -> None:
    sphere = Sphere(2.0, equality=True)
    assert float(placed(sphere, weight_of(6)).norm()) == pytest.approx(2.0)
    assert sphere.degrees_of_freedom([Size([6])]) == 5


def test_place_touches_only_the_rows_that_are_out_of_range() -> None:
    weight = torch.tensor([[0.3, 0.4], [3.0, 4.0], [0.0, 1.0]])
    inside = placed(Sphere(1.0), weight)
    assert torch.equal(inside[0], weight[0])
    assert bool((inside.norm(dim=1) < 1.0).all())
    torch.testing.assert_close(inside[1] / inside[1].norm(), torch.tensor([0.6, 0.8]))


def test_a_row_of_zeros_has_no_place_on_the_sphere_but_one_in_the_ball() -> None:
    with pytest.raises(ConstraintError, match="row of zeros"):
        placed(Sphere(1.0, equality=True), torch.zeros(2, 3))
    assert torch.equal(placed(Sphere(1.0), torch.zeros(2, 3)), torch.zeros(2, 3))


def test_lift_completes_the_norm() -> None:
    sphere, weight = Sphere(3.0), 0.4 * weight_of(2, 4)
    slack = sphere.lift(weight)
    torch.testing.assert_close(
        weight.square().sum(dim=1) + slack.square(), torch.full_like(slack, 9.0)
    )
    assert Sphere(3.0, equality=True).lift(weight) is None


def test_half_a_turn_ends_at_the_antipode_and_a_whole_one_at_the_start() -> None:
    sphere = Sphere(2.0, equality=True)
    start = State(
        torch.tensor([[2.0, 0.0, 0.0]]).double(), torch.tensor([[0.0, 3.0, 4.0]]).double()
    )
    half = math.pi * 2.0 / 5.0
    there = sphere.drift(start.map(torch.clone), half)
    torch.testing.assert_close(there.position, -start.position, rtol=0.0, atol=1e-14)
    torch.testing.assert_close(there.momentum, -start.momentum, rtol=0.0, atol=1e-14)
    back = sphere.drift(there.map(torch.clone), half)
    torch.testing.assert_close(back.position, start.position, rtol=0.0, atol=1e-14)


@pytest.mark.parametrize("speed", [0.0, 1e-300, 1e-12])
def test_drift_at_rest_stays(speed: float) -> None:
    sphere = Sphere(1.0, equality=True)
    q = torch.tensor([[0.6, 0.8]], dtype=torch.float64)
    start = State(q, speed * q.flip(1) * torch.tensor([1.0, -1.0]))
    moved = sphere.drift(start.map(torch.clone), 0.1)
    torch.testing.assert_close(moved.position, start.position, rtol=0.0, atol=1e-12)
    assert bool(moved.momentum.isfinite().all())


def test_every_row_may_have_its_own_radius() -> None:
    radius = torch.tensor([0.5, 1.0, 4.0], dtype=torch.float64)
    weight = nn.Parameter(weight_of(3, 5))
    optimizer = CoLA(
        [weight], step_size=0.1, friction=1.0, constraint=Sphere(radius, equality=True)
    )
    for _ in range(20):
        weight.grad = torch.sin(weight.detach())
        optimizer.step()
    torch.testing.assert_close(weight.detach().norm(dim=1), radius, rtol=1e-12, atol=0.0)


def test_the_ball_lets_rows_move_inside_and_holds_them_at_the_edge() -> None:
    weight = nn.Parameter(torch.tensor([[0.1, 0.0], [0.0, 0.1]]).double())
    optimizer = CoLA([weight], step_size=0.1, friction=1.0, constraint=Sphere(1.0))
    lengths = []
    for _ in range(300):
        weight.grad = -torch.ones(2, 2, dtype=torch.float64)
        optimizer.step()
        lengths.append(float(weight.detach().norm(dim=1).max()))
    assert max(lengths) <= 1.0 + 1e-12
    assert min(lengths[:3]) < 0.5
    torch.testing.assert_close(
        weight.detach(), torch.full((2, 2), 0.5**0.5).double(), rtol=0.0, atol=1e-2
    )


def test_the_whole_weight_is_one_row() -> None:
    sphere = Sphere(2.0, equality=True, dim=None)
    weight = placed(sphere, weight_of(3, 4, 2))
    assert float(weight.norm()) == pytest.approx(2.0)
    assert sphere.degrees_of_freedom([Size([3, 4, 2])]) == 23
    torch.testing.assert_close(weight / 2.0, weight_of(3, 4, 2) / weight_of(3, 4, 2).norm())


def test_each_block_and_each_matrix_of_a_stack_has_its_norm() -> None:
    radius = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    stack = placed(Sphere(radius, equality=True, dim=None, batch_dims=1), weight_of(3, 4, 2))
    torch.testing.assert_close(stack.flatten(1).norm(dim=1), radius)
    blocks = placed(Sphere(radius, equality=True, dim=None, blocks=3), weight_of(6, 2))
    torch.testing.assert_close(blocks.reshape(3, -1).norm(dim=1), radius)


@pytest.mark.parametrize("options", [{}, {"blocks": 2}, {"batch_dims": 1}])
@pytest.mark.parametrize(("equality", "factor"), [(True, 1.0), (False, 2.0)])
def test_the_first_norm_of_a_whole_weight_is_its_radius(
    equality: bool, factor: float, options: dict[str, int]
) -> None:
    weight = nn.Parameter(weight_of(2, 3, 2))
    start = weight.detach().clone()
    sphere = Sphere("initial", equality, dim=None, **options)
    optimizer = CoLA([weight], lr=0.1, momentum=0.9, constraint=sphere)
    torch.testing.assert_close(weight.detach(), start, rtol=1e-15, atol=1e-15)
    copies = start.reshape(2, -1) if options else start.reshape(1, -1)
    norms = factor * copies.norm(dim=1)
    torch.testing.assert_close(optimizer.state[weight]["radius"], norms)
    for _ in range(200):
        weight.grad = -start
        optimizer.step()
    found = weight.detach().reshape(len(copies), -1).norm(dim=1)
    torch.testing.assert_close(found, norms, rtol=1e-12 if equality else 1e-3, atol=0.0)


def test_options_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match="batch_dims=1 needs dim=None, got dim=0"):
        Sphere(1.0, batch_dims=1)
    with pytest.raises(TypeError, match="dim must be an integer or None, got 'all'"):
        Sphere(1.0, dim="all")
    with pytest.raises(ConstraintError, match="batch_dims=3 is more than"):
        Sphere(1.0, dim=None, batch_dims=3).bind([Size([2, 3])])
    with pytest.raises(ConstraintError, match="a weight of zeros"):
        placed(Sphere(1.0, equality=True, dim=None), torch.zeros(2, 3))
    with pytest.raises(ConstraintError, match="norm of the initial weight"):
        CoLA([nn.Parameter(torch.zeros(2, 3))], lr=0.1, constraint=Sphere("initial", dim=None))


@pytest.mark.parametrize(
    ("sphere", "shape"),
    [
        (Sphere(torch.ones(4), dim=None), (3, 4)),
        (Sphere(1.0, dim=2), (3, 4)),
        (Sphere(1.0, dim=-3), (3, 4)),
        (Sphere(1.0, equality=True), (3, 1)),
        (Sphere(torch.ones(4)), (3, 4)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(sphere: Sphere, shape: tuple[int, ...]) -> None:
    with pytest.raises(ConstraintError):
        sphere.bind([Size(shape)])
