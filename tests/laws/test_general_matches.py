"""``General`` given the equations of a built-in constraint follows that constraint."""

import math

import pytest
import torch
from torch import Tensor, nn

from colangevin import Circle, CoLA, Constraint, General, Orthogonal, Sphere, State
from colangevin.integrators import advance
from registry import RUNS, Run, ids, normals

TOLERANCE = 1e-8
WORDS = [run for run in RUNS if not run.overdamped]


def circle_g(w: Tensor) -> Tensor:
    return w.square() - 0.25


def rows_inside(w: Tensor) -> Tensor:
    return w.square().sum(dim=1) - 0.64


def rows_on(w: Tensor) -> Tensor:
    return w.square().sum(dim=1) - 1.69


def orthonormal(w: Tensor) -> Tensor:
    """The upper triangle: every independent equation once."""
    i, j = torch.triu_indices(w.shape[1], w.shape[1])
    return (w.T @ w - torch.eye(w.shape[1], dtype=w.dtype))[i, j]


PAIRS = {
    "circle": (Circle(0.5), circle_g, True, (2, 3)),
    "sphere": (Sphere(0.8), rows_inside, True, (2, 3)),
    "sphere_equality": (Sphere(1.3, equality=True), rows_on, False, (2, 3)),
}


def gradient_of(weight: Tensor) -> Tensor:
    """Of a loss that couples the entries and depends on where it is."""
    draw = normals(5)
    matrix = draw(torch.empty(weight.shape[0], weight.shape[0], dtype=torch.float64))
    return matrix @ weight.detach() + torch.sin(3.0 * weight.detach()) - draw(weight.detach())


def start_of(constraint: Constraint, shape: tuple[int, ...]) -> Tensor:
    raw = 0.3 * normals(4)(torch.empty(shape, dtype=torch.float64))
    batch = constraint.bind([raw.shape]).to_batch(raw)
    return constraint.from_batch(constraint.place(batch), raw.shape).contiguous()


def trajectories(
    constraints: tuple[Constraint, Constraint], start: Tensor, steps: int, **options: object
) -> tuple[Tensor, Tensor]:
    """Where two optimizers with the same noise bring the same weight."""
    ends = []
    for constraint in constraints:
        weight = nn.Parameter(start.clone())
        optimizer = CoLA([weight], constraint=constraint, seed=6, **options)
        for _ in range(steps):
            weight.grad = gradient_of(weight)
            optimizer.step()
        ends.append(weight.detach())
    assert (ends[0] - start).abs().max() > 1e-3
    return ends[0], ends[1]


def assert_close(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=0.0, atol=TOLERANCE)


@pytest.mark.parametrize("temperature", [0.0, 0.02])
@pytest.mark.parametrize("name", PAIRS)
def test_overdamped_general_goes_to_the_nearest_point(name: str, temperature: float) -> None:
    """On circles and spheres the nearest point is what the closed form gives, at any step."""
    constraint, g, inequality, shape = PAIRS[name]
    general = General(g, inequality=inequality, projection="orthogonal")
    start = start_of(constraint, shape)
    options = {"step_size": 0.05, "friction": math.inf, "temperature": temperature}
    assert_close(*trajectories((constraint, general), start, 15, **options))


@pytest.mark.parametrize("run", WORDS, ids=ids)
@pytest.mark.parametrize("name", PAIRS)
def test_general_follows_the_geodesics_at_small_steps(name: str, run: Run) -> None:
    """RATTLE turns by asin(ωh), the exact flow by ωh: they meet as the step goes to 0."""
    constraint, g, inequality, shape = PAIRS[name]
    start = start_of(constraint, shape)
    options = run.options(step_size=2e-3, friction=1.0)
    assert_close(
        *trajectories((constraint, General(g, inequality=inequality)), start, 50, **options)
    )


@pytest.mark.parametrize("temperature", [0.0, 0.05])
@pytest.mark.parametrize("run", RUNS, ids=ids)
def test_general_is_orthogonal_at_any_step(run: Run, temperature: float) -> None:
    pair = (Orthogonal(), General(orthonormal))
    options = run.options(step_size=0.02 if run.overdamped else 0.1, friction=1.0)
    start = start_of(Orthogonal(), (4, 2))
    assert_close(*trajectories(pair, start, 15, temperature=temperature, **options))


def test_noise_on_the_circle_is_the_projected_noise() -> None:
    """One normal a weight, R, has the effect of two, R(ξ, −θ)/r, that General projects."""
    circle, general = Circle(0.5), General(circle_g, inequality=True)
    start = start_of(circle, (3,))
    general = general.bind([start.shape])
    angle, zero = circle.lift(start), torch.zeros_like(start)
    left, slack = State(start, zero, angle).map(torch.clone), 0.5 * angle.cos()
    right = State(*[t.unsqueeze(0).clone() for t in (start, zero, slack, zero)])
    actions = RUNS[1].dynamics(1e-3, 1.0, 0.1).actions(first=False)
    fresh = normals(7)
    for _ in range(25):
        noise, gradient = fresh(start), gradient_of(left.position[:, None])[:, 0]
        along = [noise * right.slack / 0.5, -noise * right.position / 0.5]
        left = advance(circle, left, gradient, actions, lambda like, r=noise: r)
        right = advance(general, right, gradient[None], actions, lambda like, q=along: q.pop(0))
    assert (left.position - start).abs().max() > 1e-3
    assert_close(left.position, right.position[0])
    assert_close(0.5 * left.slack.cos(), right.slack[0])
