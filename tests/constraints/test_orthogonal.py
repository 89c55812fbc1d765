import math
import warnings

import pytest
import torch
from torch import Size, Tensor, nn

import reference as ref
from colangevin import CoLA, ConstraintError, ConvergenceError, Orthogonal, ProjectionWarning, State
from colangevin.constraints import Outcome
from colangevin.constraints.orthogonal import largest, polar_factor, quasi_newton
from colangevin.integrators import Dynamics, advance, parse
from registry import normals


def matrix(*shape: int, seed: int = 0) -> Tensor:
    return normals(seed)(torch.empty(shape, dtype=torch.float64))


def moved_from(step: float) -> tuple[Tensor, Tensor]:
    """A point of the manifold, and a proposal a tangent step away."""
    q = torch.linalg.qr(matrix(5, 3)).Q
    return q, q + step * ref.orthogonal_project(q, matrix(5, 3, seed=1))


def project(q: Tensor, proposal: Tensor, constraint: Orthogonal | None = None) -> Tensor:
    constraint = constraint or Orthogonal()
    return constraint.project(State(q[None]), proposal[None].clone(), None).position[0]


def test_place_is_the_nearest_matrix() -> None:
    """Nearer than any other orthonormal matrix in its neighbourhood, and than that of QR."""
    weight = matrix(6, 3)
    placed = Orthogonal().place(weight[None])[0]
    torch.testing.assert_close(placed.T @ placed, torch.eye(3).double(), rtol=0.0, atol=1e-14)
    distance = (placed - weight).norm()
    assert distance < (torch.linalg.qr(weight).Q - weight).norm()
    for seed in range(20):
        other = torch.linalg.qr(placed + 0.1 * matrix(6, 3, seed=seed)).Q
        signs = torch.sign(torch.diagonal(other.T @ placed))
        assert distance < (other * signs - weight).norm()


def test_badly_conditioned_weights_are_no_weights_without_full_rank() -> None:
    left, right = (torch.linalg.qr(matrix(60, 60, seed=seed)).Q for seed in (1, 2))
    values = torch.logspace(0, -6, 60, dtype=torch.float64)
    weight = (left * values @ right).float()
    gram = Orthogonal().place(weight[None])[0].double()
    assert float((gram.T @ gram - torch.eye(60)).abs().max()) <= 1e-5
    with pytest.raises(ConstraintError, match="full rank"):
        Orthogonal().place(torch.cat([weight[:, :59], weight[:, :1]], dim=1)[None])


def test_placed_float32_matrices_are_orthonormal_to_rounding() -> None:
    placed = polar_factor(torch.randn(1, 400, 200, generator=torch.Generator().manual_seed(0)))
    gram = placed[0].double().T @ placed[0].double()
    assert float((gram - torch.eye(200)).abs().max()) <= 1e-6


def test_the_small_iteration_is_the_literal_one() -> None:
    q, proposal = moved_from(0.2)
    literal = ref.orthogonal_quasi_newton(proposal, q, 60)
    torch.testing.assert_close(project(q, proposal), literal, rtol=0.0, atol=1e-14)
    multiplier, residual, error, count = quasi_newton(
        (q.T @ proposal)[None], (proposal.T @ proposal)[None], 1e-14, 60
    )
    assert largest(residual) == error <= 1e-14
    assert 5 < count < 60
    torch.testing.assert_close(multiplier, multiplier.mT, rtol=0.0, atol=1e-15)
    torch.testing.assert_close(proposal - q @ multiplier[0], literal, rtol=0.0, atol=1e-14)


def test_the_projection_approaches_the_polar_factor_with_the_third_power_of_the_step() -> None:
    """Along the old normals or to the nearest point: both are on the manifold."""
    gaps = []
    for step in (0.1, 0.05):
        q, proposal = moved_from(step)
        gaps.append(float((project(q, proposal) - polar_factor(proposal)).abs().max()))
    assert math.log2(gaps[0] / gaps[1]) == pytest.approx(3.0, abs=0.3)


def test_large_steps_fall_back_to_the_polar_factor() -> None:
    q, proposal = moved_from(4.0)
    state = Orthogonal().project(State(q[None]), proposal[None].clone(), None)
    assert state.outcome == Outcome(Orthogonal().max_iterations, 1)
    again = state._replace(position=q[None])
    assert Orthogonal().project(again, proposal[None].clone(), None).outcome.fallbacks == 2
    torch.testing.assert_close(state.position[0], polar_factor(proposal), rtol=0.0, atol=1e-13)


def test_fallbacks_are_counted_and_warned_of_once_by_each_optimizer() -> None:
    constraint = Orthogonal()
    for _ in range(2):  # the geometry is shared, and has no memory
        weight = nn.Parameter(torch.eye(6, 3))
        optimizer = CoLA([weight], constraint=constraint, lr=1.0)
        with pytest.warns(ProjectionWarning, match="polar factor") as caught:
            for _ in range(3):
                weight.grad = 1e3 * normals(6)(weight)
                optimizer.step()
        assert len(caught) == 1
        assert optimizer.violation()[0].fallbacks == 3
        assert optimizer.violation()[0].iterations == constraint.max_iterations


def test_only_the_matrices_that_fail_fall_back() -> None:
    q, near = moved_from(0.1)
    far = moved_from(4.0)[1]
    both = Orthogonal().project(State(torch.stack([q, q])), torch.stack([near, far]), None)
    assert both.outcome.fallbacks == 1
    torch.testing.assert_close(both.position[0], project(q, near), rtol=0.0, atol=1e-14)
    torch.testing.assert_close(both.position[1], polar_factor(far), rtol=0.0, atol=1e-13)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_towards_a_matrix_without_full_rank_are_made(momentum: float) -> None:
    """It has several polar factors; a step that failed here would have moved other weights."""
    free, weight = nn.Parameter(torch.ones(2)), nn.Parameter(torch.eye(4, 3))
    groups = [{"params": [free]}, {"params": [weight], "constraint": Orthogonal()}]
    optimizer = CoLA(groups, lr=0.5, momentum=momentum)
    weight.grad, free.grad = (weight.detach() - 3.0) / 0.5, torch.ones(2)
    with pytest.warns(ProjectionWarning):
        optimizer.step()
    assert optimizer.violation()[1].fallbacks == 1
    assert optimizer.violation()[1].residual < 1e-6
    assert torch.equal(free, torch.full((2,), 0.5))


def residual(q: Tensor) -> float:
    return float((q.T @ q - torch.eye(q.shape[1])).abs().max())


def test_the_tolerance_ends_the_iteration() -> None:
    q, proposal = moved_from(0.3)
    errors = [residual(project(q, proposal, Orthogonal(tolerance=t))) for t in (1e-2, 1e-6, 1e-14)]
    assert 1e-10 < errors[0] <= 1e-2
    assert 1e-13 < errors[1] <= 1e-6
    assert errors[2] <= 1e-14


def test_the_limit_of_iterations_ends_it_too() -> None:
    q, proposal = moved_from(0.3)
    outcomes = [
        kind.project(State(q[None]), proposal[None].clone(), None).outcome
        for kind in (Orthogonal(max_iterations=2), Orthogonal(max_iterations=2, tolerance=0.1))
    ]
    assert [outcome.fallbacks for outcome in outcomes] == [1, 0]
    assert max(outcome.iterations for outcome in outcomes) == 2


@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (4, 4), (4, 2, 3, 3)])
def test_scale_is_the_singular_value(shape: tuple[int, ...]) -> None:
    weight = nn.Parameter(matrix(*shape))
    optimizer = CoLA(
        [weight], step_size=0.1, friction=1.0, temperature=0.1, constraint=Orthogonal(scale=3.0)
    )
    for _ in range(20):
        weight.grad = torch.sin(weight.detach())
        optimizer.step()
    values = torch.linalg.svdvals(weight.detach().reshape(shape[0], -1))
    torch.testing.assert_close(values, torch.full_like(values, 3.0), rtol=1e-12, atol=0.0)


def test_far_proposals_do_not_lose_digits_in_float32() -> None:
    """The s × s iteration sums terms of the size of Q̄ᵀQ̄."""
    for seed in range(50):
        q = torch.linalg.qr(matrix(4, 2, seed=seed)).Q.float()
        proposal = q + 2.0 * matrix(4, 2, seed=100 + seed).float()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ProjectionWarning)
            found = project(q, proposal).double()
        assert residual(found) <= 1e-6


def test_a_step_that_is_not_finite_changes_nothing() -> None:
    weight = nn.Parameter(matrix(4, 2))
    optimizer = CoLA([weight], step_size=0.1, friction=1.0, constraint=Orthogonal())
    before = weight.detach().clone()
    weight.grad = torch.full_like(weight, math.nan)
    with pytest.raises(ConvergenceError):
        optimizer.step()
    assert torch.equal(weight.detach(), before)


def test_degrees_of_freedom() -> None:
    shapes = [Size([6, 3]), Size([3, 6]), Size([4, 4]), Size([4, 2, 2, 2])]
    assert [Orthogonal().degrees_of_freedom([s]) for s in shapes] == [12, 12, 6, 22]
    assert Orthogonal(batch_dims=1).degrees_of_freedom([Size([7, 6, 3])]) == 7 * 12
    assert Orthogonal().degrees_of_freedom(shapes[:2]) == 24


@pytest.mark.parametrize(("shape", "batch_dims"), [((5,), 0), ((), 0), ((3, 5), 1)])
def test_vectors_are_refused(shape: tuple[int, ...], batch_dims: int) -> None:
    with pytest.raises(ConstraintError, match="at least 2 dimensions"):
        Orthogonal(batch_dims=batch_dims).bind([Size(shape)])


@pytest.mark.parametrize("step", [0.05, 0.2, 4.0])
def test_rare_looks_at_the_residual_give_the_same_multiplier(step: float) -> None:
    """As on an accelerator, where every look has to be waited for."""
    q, proposal = moved_from(step)
    given = (q.T @ proposal)[None], (proposal.T @ proposal)[None]
    often, rarely = (
        quasi_newton(given[0], given[1].clone(), 1e-14, 40, look_every=every) for every in (1, 12)
    )
    assert rarely[3] >= often[3]
    assert (rarely[3] % 12 == 0) or rarely[3] == 40
    if step < 1.0:
        torch.testing.assert_close(rarely[0], often[0], rtol=0.0, atol=1e-13)
    else:
        assert not rarely[2] <= 1e-14 and not often[2] <= 1e-14


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_matrix_that_diverges_does_not_disturb_its_neighbours(momentum: float) -> None:
    draw = normals(7)
    start = polar_factor(draw(torch.empty(16, 16, dtype=torch.float64)))
    slope = draw(torch.empty(16, 16, dtype=torch.float64))
    found = []
    for company in ([], [nn.Parameter(start.clone())]):
        tame = nn.Parameter(start.clone())
        weights = [tame, *company]
        optimizer = CoLA(weights, constraint=Orthogonal(), lr=0.1, momentum=momentum)
        for weight, factor in zip(weights, (1.0, 10.0), strict=False):
            weight.grad = factor * slope
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ProjectionWarning)
            optimizer.step()
        assert optimizer.violation()[0].fallbacks == len(company)
        found.append(tame.detach())
    torch.testing.assert_close(*found, rtol=0.0, atol=1e-14)


def test_a_warning_that_is_an_error_comes_after_the_whole_step() -> None:
    found = []
    for action in ("ignore", "error"):
        weights = [nn.Parameter(torch.eye(6, 3)), nn.Parameter(torch.eye(4))]
        optimizer = CoLA(weights, constraint=Orthogonal(), lr=0.1, momentum=0.9)
        for weight, factor in zip(weights, (1.0, 1e3), strict=True):
            weight.grad = factor * normals(8)(weight)
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            try:
                optimizer.step()
            except ProjectionWarning:
                assert action == "error"
        found += [w.detach() for w in weights]
    assert torch.equal(found[0], found[2]) and torch.equal(found[1], found[3])


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_step_can_be_differentiated(momentum: float) -> None:
    draw = normals(9)
    constraint = Orthogonal()
    position = polar_factor(draw(torch.empty(1, 5, 3, dtype=torch.float64)))
    old = draw(position) if momentum else None
    actions = Dynamics(0.05, momentum, 0.0, parse("OBA")).actions(first=False)

    def moved(gradient: Tensor) -> Tensor:
        state = State(position, old).map(torch.clone)
        return advance(constraint, state, gradient, actions, None).position

    gradient = draw(position).requires_grad_()
    assert torch.autograd.gradcheck(moved, gradient, eps=1e-6, atol=1e-6)


def test_the_scale_of_a_shape() -> None:
    """Of each block, wide or tall; a bound geometry has the number."""
    for shape, blocks, expected in (((8, 2), 1, 2.0), ((2, 8), 1, 0.5), ((6, 12), 2, 0.5)):
        own = Orthogonal(scale="rms", blocks=blocks).bind([torch.Size(shape)])
        assert isinstance(own, Orthogonal) and own.scale == expected
        placed = own.place(own.to_batch(torch.randn(shape)))
        assert torch.allclose(torch.linalg.svdvals(placed), torch.tensor(expected), atol=1e-5)


def test_a_scale_that_is_no_number() -> None:
    with pytest.raises(ValueError, match=r"scale must be .*'rms'.*, got 'mean'"):
        Orthogonal(scale="mean")


def test_the_scale_behind_a_relu_keeps_the_mean_square() -> None:
    torch.manual_seed(0)
    weight = Orthogonal(scale="relu").place(torch.randn(1, 64, 64))[0]
    assert Orthogonal(scale="relu").describe()["scale"] == math.sqrt(2.0)
    inputs = torch.randn(4000, 64)
    found = (inputs.relu() @ weight.T).square().mean(dim=1)
    error = float(found.std()) / math.sqrt(len(found))
    assert abs(float(found.mean()) - 1.0) < 4.0 * error
