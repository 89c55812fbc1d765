import math

import pytest
import torch
from torch import Size, Tensor, nn

from colangevin import CoLA, ConstraintError, ConvergenceError, General, State
from colangevin.constraints.general_solver import System
from registry import balanced, ball_and_slab, ellipse, normals, torus


def bound(constraint: General, *shapes: tuple[int, ...]) -> General:
    made = constraint.bind([Size(shape) for shape in shapes])
    assert isinstance(made, General)
    return made


def points(count: int, size: int, spread: float = 2.0) -> Tensor:
    return spread * normals(0)(torch.empty(count, size, dtype=torch.float64))


ANGLES = torch.linspace(0, 2 * math.pi, 200_001, dtype=torch.float64)
OUTLINE = torch.stack([1.5 * torch.cos(ANGLES), torch.sin(ANGLES)], dim=1)


def nearest(point: Tensor) -> Tensor:
    """The nearest point of the ellipse by search."""
    return OUTLINE[(OUTLINE - point).norm(dim=1).argmin()]


@pytest.mark.parametrize(("g", "size"), [(ellipse, 2), (torus, 3)])
def test_place_finds_the_constraint_from_anywhere(g: object, size: int) -> None:
    constraint = bound(General(g), (size,))
    for point in points(25, size):
        placed = constraint.place(point[None])[0]
        assert abs(float(g(placed))) <= 1e-12


def test_place_finds_the_nearest_point_from_nearby() -> None:
    constraint = bound(General(ellipse), (2,))
    for angle in torch.linspace(0.1, 6.0, 8, dtype=torch.float64):
        point = 1.1 * torch.stack([1.5 * torch.cos(angle), torch.sin(angle)])
        placed = constraint.place(point[None])[0]
        torch.testing.assert_close(placed, nearest(point), rtol=0.0, atol=1e-4)


def test_place_enters_an_inequality_and_leaves_alone_what_is_inside() -> None:
    constraint = bound(General(ball_and_slab, inequality=True), (4,))
    for point in points(10, 4):
        placed = constraint.place(point[None])
        assert bool((ball_and_slab(placed[0]) < 0).all())
        assert torch.equal(constraint.place(placed), placed)


def test_the_projections_are_along_the_old_normal_or_the_new_one() -> None:
    start = torch.tensor([1.5 * math.cos(1.0), math.sin(1.0)], dtype=torch.float64)
    proposal = start + torch.tensor([0.15, -0.2], dtype=torch.float64)

    def normal(q: Tensor) -> Tensor:
        return torch.stack([2 * q[0] / 2.25, 2 * q[1]])

    def across(taken: Tensor, direction: Tensor) -> float:
        return float(taken[0] * direction[1] - taken[1] * direction[0])

    found = {}
    for projection in ("oblique", "orthogonal"):
        constraint = bound(General(ellipse, projection=projection), (2,))
        q = constraint.project(State(start[None]), proposal[None], None).position[0]
        assert abs(float(ellipse(q))) <= 1e-14
        found[projection] = q
    assert across(proposal - found["oblique"], normal(start)) == pytest.approx(0.0, abs=1e-13)
    orthogonal = found["orthogonal"]
    assert across(proposal - orthogonal, normal(orthogonal)) == pytest.approx(0.0, abs=1e-12)
    torch.testing.assert_close(orthogonal, nearest(proposal), rtol=0.0, atol=1e-4)
    assert (orthogonal - found["oblique"]).norm() > 1e-3


def drifted(constraint: General, step: float) -> State:
    start = torch.tensor([[1.5, 0.0]], dtype=torch.float64)
    return constraint.drift(State(start, torch.tensor([[0.0, 1.0]], dtype=torch.float64)), step)


def test_the_tolerance_ends_the_iteration() -> None:
    errors = []
    for tolerance in (1e-2, 1e-5, None):
        constraint = bound(General(ellipse, tolerance=tolerance), (2,))
        state = drifted(constraint, 0.3)
        errors.append(float(constraint.residual(state).abs().max()))
    assert 1e-8 < errors[0] <= 2e-2
    assert 1e-12 < errors[1] <= 2e-5
    assert errors[2] <= 1e-15


def test_the_limit_of_iterations_ends_it_with_an_error() -> None:
    with pytest.raises(ConvergenceError, match="in 2 iterations"):
        drifted(bound(General(ellipse, max_iterations=2), (2,)), 0.3)


@pytest.mark.parametrize(
    ("projection", "gradient"), [("oblique", [0.0, -3e3]), ("orthogonal", [1.5, 0.0])]
)
def test_a_step_beyond_reach_is_refused_and_changes_nothing(
    projection: str, gradient: list[float]
) -> None:
    """The old normal does not meet the ellipse again; its centre has no nearest point."""
    weight = nn.Parameter(torch.tensor([1.5, 0.0], dtype=torch.float64))
    constraint = General(ellipse, projection=projection)
    optimizer = CoLA([weight], step_size=1.0, friction=math.inf, constraint=constraint)
    weight.grad = torch.tensor(gradient, dtype=torch.float64)
    with pytest.raises(ConvergenceError, match="smaller steps"):
        optimizer.step()
    assert weight.tolist() == [1.5, 0.0]
    weight.grad = torch.tensor([0.0, -0.1], dtype=torch.float64)
    optimizer.step()
    assert optimizer.violation()[0].residual <= 1e-14


def test_a_small_step_takes_few_jacobians(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one at the start, which serves as long as the error falls quickly."""
    calls = []
    original = System.linearise
    monkeypatch.setattr(
        System, "linearise", lambda self, point: calls.append(0) or original(self, point)
    )
    drifted(bound(General(ellipse), (2,)), 0.01)
    assert len(calls) == 1


def test_rows_are_solved_as_one_batch_and_as_each_alone() -> None:
    rows = bound(General(ellipse, batch_dims=1), (3, 2))
    single = bound(General(ellipse), (2,))
    position = rows.place(points(3, 2))
    draw = normals(3)
    state = rows.sample_momentum(State(position), 1.0, draw)
    moved = rows.drift(state.map(torch.clone), 0.1)
    for k in range(3):
        alone = single.drift(State(position[k : k + 1], state.momentum[k : k + 1]), 0.1)
        torch.testing.assert_close(moved.position[k], alone.position[0], rtol=0.0, atol=1e-13)
        torch.testing.assert_close(moved.momentum[k], alone.momentum[0], rtol=0.0, atol=1e-12)


def test_a_joint_constraint_moves_a_parameter_without_gradient() -> None:
    u = nn.Parameter(torch.ones(2, 2, dtype=torch.float64))
    v = nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = CoLA([u, v], step_size=0.1, friction=1.0, constraint=General(balanced))
    before = v.detach().clone()
    for _ in range(3):
        u.grad = torch.arange(4.0, dtype=torch.float64).reshape(2, 2)
        optimizer.step()
    assert float(balanced(u.detach(), v.detach()).abs().max()) <= 1e-14
    assert float(u.detach().square().sum()) == pytest.approx(2.0)
    assert torch.equal(v.detach().sign(), before.sign())


def test_degrees_of_freedom_follow_the_shapes() -> None:
    def unit_rows(w: Tensor) -> Tensor:
        return w.square().sum(dim=1) - 1.0

    shapes = [Size([3, 4]), Size([5, 2])]
    assert General(unit_rows).degrees_of_freedom(shapes) == 12 - 3 + 10 - 5
    assert General(unit_rows, inequality=True).degrees_of_freedom(shapes) == 22
    assert General(balanced).degrees_of_freedom([Size([2, 2]), Size([3])]) == 5
    assert General(ellipse, batch_dims=1).degrees_of_freedom([Size([7, 2])]) == 7
    joint = General(lambda u, v: (u.square().sum() - v.square().sum()).reshape(1), batch_dims=1)
    assert joint.degrees_of_freedom([Size([7, 2]), Size([7, 3])]) == 7 * (2 + 3 - 1)


def test_dependent_equations_are_refused() -> None:
    def twice(w: Tensor) -> Tensor:
        return torch.stack([ellipse(w), 2 * ellipse(w)])

    with pytest.raises(ConstraintError, match="rank 1 for 2 equations"):
        bound(General(twice), (2,)).place(torch.tensor([[1.5, 0.0]], dtype=torch.float64))


def test_parameters_of_one_g_must_have_as_many_copies() -> None:
    joint = General(lambda u, v: (u.square().sum() - v.square().sum()).reshape(1), batch_dims=1)
    with pytest.raises(ConstraintError, match=r"must agree, got shapes \(7, 2\), \(6, 2\)"):
        joint.bind([Size([7, 2]), Size([6, 2])])
