"""Walls: weights that stop at them without noise and are reflected with it, whoever moves them."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.constraints import walls
from colangevin.constraints.orthogonal import polar_factor
from colangevin.constraints.simplex import first_face
from colangevin.constraints.spectral import spectrum
from colangevin.integrators.pieces import advance
from colangevin.integrators.recipe import Dynamics, stretch
from colangevin.integrators.scheme import Drift, Impulse, Overdamped, parse
from registry import normals


def stepped(optimizer: cl.CoLA, weight: nn.Parameter, gradient: Any, steps: int = 1) -> Tensor:
    for _ in range(steps):
        weight.grad = torch.as_tensor(gradient, dtype=weight.dtype).expand_as(weight).clone()
        optimizer.step()
    return weight.detach().clone()


def at(*numbers: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(numbers, dtype=torch.float64))


# --- boxes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["OBA", "BAOAB", "ABO"])
def test_a_weight_rests_on_the_wall_and_leaves_it_at_once(word: str) -> None:
    weight = at(0.9)
    optimizer = cl.CoLA([weight], lr=0.1, momentum=0.9, scheme=word, constraint=cl.Box(-1.0, 1.0))
    assert float(stepped(optimizer, weight, -1.0, 20)) == 1.0
    kept = optimizer.state[weight]["momentum_buffer"]
    assert abs(float(kept)) <= (0.0 if word == "OBA" else 1.0)  # at most the half kick that waits
    first = float(stepped(optimizer, weight, 1.0, 2))
    assert first < 0.95


def test_a_circle_keeps_what_it_presses_against_its_bound() -> None:
    """The trap that a box does not have."""
    left = []
    for constraint in (cl.Circle(1.0), cl.Box(-1.0, 1.0)):
        weight = at(0.9)
        optimizer = cl.CoLA([weight], lr=0.1, momentum=0.9, constraint=constraint)
        stepped(optimizer, weight, -1.0, 50)
        assert optimizer.violation()[0].at_bound == 1.0
        left.append(1.0 - float(stepped(optimizer, weight, 1.0, 5)))
    assert left[0] < 1e-2 and left[1] > 0.5


def test_at_a_temperature_walls_reflect_however_small_it_is() -> None:
    for temperature, expected in ((0.0, 0.0), (1e-30, 0.9)):
        weight = at(0.0)
        optimizer = cl.CoLA(
            [weight], lr=0.1, momentum=0.9, temperature=temperature, constraint=cl.NonNegative()
        )
        assert float(stepped(optimizer, weight, 9.0)) == pytest.approx(expected)


def test_a_drift_without_noise_is_not_cold() -> None:
    """Reversible moves of a sampler, and stretches of a slow group, have no noise in them."""
    state = cl.State(torch.tensor([0.5]), torch.tensor([1.0]))
    box = cl.Box(0.0, 1.0)
    found = advance(box, state.map(torch.clone), torch.zeros(1), [Drift(1.0)], None)
    assert found.position.tolist() == [0.5] and found.momentum.tolist() == [-1.0]  # type: ignore[union-attr]
    found = advance(box, state, torch.zeros(1), [Drift(1.0, cold=True)], None)
    assert found.position.tolist() == [1.0] and found.momentum.tolist() == [0.0]  # type: ignore[union-attr]


def test_a_correction_without_noise_is_not_cold() -> None:
    """Heun's method adds half of the change of the force, whatever the temperature is."""
    box, state = cl.Box(0.0, 1.0), cl.State(torch.tensor([0.9]))
    for cold, end in ((False, 0.8), (True, 1.0)):
        action = Overdamped(0.3, None, cold)
        found = advance(box, state.map(torch.clone), -torch.ones(1), [action], None)
        assert float(found.position) == pytest.approx(end)


def test_the_temperature_says_what_is_cold() -> None:
    for temperature in (0.0, 1e-9):
        for decay in (0.0, 0.5):
            actions = Dynamics(0.1, decay, temperature, parse("OBA")).actions(first=False)
            for parts in ([actions], [stretch(actions, i, 3) for i in range(3)]):
                marks = [a.cold for part in parts for a in part if not isinstance(a, Impulse)]
                assert marks and all(mark is (temperature == 0.0) for mark in marks)


@pytest.mark.parametrize("momentum", [0.9, 0.0])
@pytest.mark.parametrize(
    "constraint", [cl.Box(-0.2, 0.2), cl.Simplex(), cl.Spectral(0.5), cl.Spectral(0.5, True)]
)
def test_members_of_an_ensemble_have_walls_of_their_own_temperature(
    constraint: cl.Constraint, momentum: float
) -> None:
    """One member is cold and stops at its walls, the other is warm and is reflected."""

    def factory() -> nn.Module:
        return nn.Linear(3, 4, bias=False)

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return (output - target).square().mean()

    inputs = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    targets = 3.0 * inputs @ torch.ones(3, 4)
    temperatures = [0.0, 1e-3]
    together = cl.Ensemble(
        factory, [3, 4], {"weight": constraint}, lr=0.05, momentum=momentum, compile=False
    )
    together.set(temperature=temperatures)
    for _ in range(10):
        together.step(loss, inputs, targets, shared=True)
    for seed, temperature in zip([3, 4], temperatures, strict=True):
        torch.manual_seed(seed)
        model = factory()
        alone = cl.CoLA(
            cl.parameter_groups(model, {"weight": constraint}),
            lr=0.05,
            momentum=momentum,
            temperature=temperature,
            seed=seed,
        )
        for _ in range(10):
            alone.zero_grad()
            loss(model(inputs), targets).backward()
            alone.step()
        member = together.member(seed - 3).weight
        torch.testing.assert_close(member, model.weight, rtol=0.0, atol=1e-5)
    assert together.violation()[0].residual <= 1e-6


def test_members_may_have_boxes_of_their_own() -> None:
    one, other = cl.Box(-1.0, 1.0), cl.NonNegative()
    joined = one.for_members([one, other], dims=2)
    assert isinstance(joined, cl.Box)
    stacked = torch.full((2, 1, 1), -0.5)
    assert joined.place(stacked).flatten().tolist() == [-0.5, 0.0]
    assert joined.for_members([joined], dims=2) is joined
    same = cl.Box(0.0, 1.0)
    assert same.for_members([same, cl.Box(0.0, 1.0)], dims=2) is same


def test_first_weights_are_clipped_or_refused() -> None:
    weight = at(-1.0, 0.5, 3.0)
    cl.CoLA([weight], lr=0.1, constraint=cl.Box(0.0, 1.0))
    assert weight.tolist() == [0.0, 0.5, 1.0]
    with pytest.raises(cl.ConstraintError, match="off the manifold"):
        cl.CoLA([at(-1.0)], lr=0.1, constraint=cl.NonNegative(), strict=True)


def test_walls_that_float32_does_not_have_are_kept_to_the_last_digit() -> None:
    weight = nn.Parameter(torch.zeros(2))
    optimizer = cl.CoLA([weight], lr=0.1, constraint=cl.Box(-0.1, 0.1))
    stepped(optimizer, weight, torch.tensor([9.0, -9.0]))
    low, high = weight.double().tolist()
    assert -0.1 <= low < -0.0999999 and 0.0999999 < high <= 0.1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("temperature", [0.0, 0.1])
def test_half_precision_is_rounded_into_the_box(dtype: torch.dtype, temperature: float) -> None:
    weight = nn.Parameter(torch.zeros(200, dtype=dtype))
    optimizer = cl.CoLA(
        [weight],
        lr=0.1,
        momentum=0.5,
        temperature=temperature,
        constraint=cl.Box(-0.3, 0.7),
        seed=1,
    )
    stepped(optimizer, weight, torch.linspace(-1.0, 1.0, 200), 10)
    assert weight.double().min() >= -0.3 and weight.double().max() <= 0.7
    assert optimizer.violation()[0].residual == 0.0


def test_open_sides_and_walls_for_each_weight() -> None:
    low = torch.tensor([0.0, -torch.inf, 1.0])
    box = cl.Box(low, torch.tensor([1.0, 0.0, torch.inf]))
    weight = nn.Parameter(torch.tensor([[0.5, -1.0, 2.0], [0.5, -1.0, 2.0]]))
    optimizer = cl.CoLA([weight], lr=1.0, momentum=0.5, temperature=1.0, constraint=box, seed=0)
    for _ in range(100):
        stepped(optimizer, weight, 0.0)
        assert bool(((weight >= low) & (weight <= box.high)).all())


@pytest.mark.parametrize(
    ("walls", "error", "words"),
    [
        ((1.0, 0.0), ValueError, "low must be below high"),
        ((1.0, 1.0), ValueError, "low must be below high"),
        ((None, None), ValueError, "low or high must be given"),
        ((float("nan"), 1.0), ValueError, "low must be a number"),
        (("0", 1.0), TypeError, "low must be a number"),
        ((0.0, torch.tensor([1, 2])), TypeError, "high must be a floating-point tensor"),
        ((torch.tensor([0.0, 2.0]), 1.0), ValueError, "everywhere"),
        ((torch.tensor([0.0, torch.nan]), 1.0), ValueError, "low must not have NaN"),
    ],
)
def test_bad_walls_are_refused(walls: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        cl.Box(*walls)


def test_walls_that_do_not_fit_a_weight_are_refused() -> None:
    with pytest.raises(cl.ConstraintError, match=r"high of shape \(3,\) does not broadcast"):
        cl.CoLA([at(0.0, 0.0)], lr=0.1, constraint=cl.Box(None, torch.ones(3)))
    with pytest.raises(cl.ConstraintError, match=r"no number of torch\.float32 between"):
        weight = nn.Parameter(torch.ones(1))
        cl.CoLA([weight], lr=0.1, constraint=cl.Box(1.0 + 1e-9, 1.0 + 2e-9))


def test_a_part_of_a_weight_has_its_part_of_the_walls() -> None:
    low = torch.arange(6.0).view(3, 2)
    box = cl.Box(low, None)
    part = box.part(torch.Size([3, 2]), (1, 0), (2, 1), box.over)
    assert isinstance(part, cl.Box) and torch.equal(part.low, low[1:, :1].double())  # type: ignore[arg-type]


def test_long_vectors_with_a_wall_for_each_weight_move_in_one_piece() -> None:
    """Blocks of a long vector would have the walls of another block."""
    count = 200_000
    high = torch.linspace(0.1, 1.0, count)
    for constraint in (cl.Box(None, high), cl.Circle(high)):
        weight = nn.Parameter(torch.zeros(count))
        optimizer = cl.CoLA([weight], lr=0.1, momentum=0.9, constraint=constraint, fused=False)
        stepped(optimizer, weight, -1.0, 8)
        assert bool((weight <= high).all()) and float(weight[-1]) > 0.5


# --- all of them ------------------------------------------------------------------------------

GEOMETRIES: dict[str, tuple[cl.Constraint, float]] = {
    "box": (cl.Box(-0.2, 0.2), 0.3),
    "non-negative": (cl.NonNegative(), 0.3),
    "simplex": (cl.Simplex(), 0.3),
    "spectral": (cl.Spectral(0.7), 0.3),
    "spectral equality": (cl.Spectral(0.7, equality=True), 0.3),
    "diagonal gram": (cl.DiagonalGram(), 0.5),
}
every_geometry = pytest.mark.parametrize("name", GEOMETRIES)


def first(name: str) -> nn.Parameter:
    _, spread = GEOMETRIES[name]
    return nn.Parameter(spread * normals(3)(torch.zeros(5, 4, dtype=torch.float64)))


@every_geometry
@pytest.mark.parametrize(
    "direction",
    [
        "sign",
        "adam",
        "polar",
        cl.Sign(relative=True),
        cl.Adam(relative=True),
        cl.Polar(relative=True),
    ],
    ids=str,
)
def test_directions_stay_inside_and_go_down(name: str, direction: Any) -> None:
    weight, (constraint, _) = first(name), GEOMETRIES[name]
    target = normals(4)(weight)
    optimizer = cl.CoLA([weight], lr=0.02, direction=direction, constraint=constraint)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = (weight - target).square().sum()
        loss.backward()
        losses.append(float(loss))
        optimizer.step()
    assert losses[-1] < losses[0]
    assert optimizer.violation()[0].residual <= 1e-12


@every_geometry
def test_a_saved_run_goes_on_as_it_would_have(name: str) -> None:
    constraint, _ = GEOMETRIES[name]
    ends = []
    for interrupted in (False, True):
        weight = first(name)
        options: dict[str, Any] = {"lr": 0.05, "momentum": 0.9, "temperature": 1e-2, "seed": 1}
        optimizer = cl.CoLA([weight], constraint=constraint, **options)
        stepped(optimizer, weight, 0.3, 4)
        if interrupted:
            file = io.BytesIO()
            torch.save(optimizer.state_dict(), file)
            file.seek(0)
            optimizer = cl.CoLA([weight], constraint=constraint, **options)
            optimizer.load_state_dict(torch.load(file, weights_only=True))
        ends.append(stepped(optimizer, weight, 0.3, 4))
    assert torch.equal(*ends)


@every_geometry
@pytest.mark.parametrize("temperature", [0.0, 1e-3])
def test_slow_groups_of_a_multirate_keep_it(name: str, temperature: float) -> None:
    torch.manual_seed(0)
    constraint, _ = GEOMETRIES[name]
    model = nn.Sequential(nn.Linear(4, 5, bias=False), nn.Tanh(), nn.Linear(5, 2))
    options: dict[str, Any] = {"lr": 0.05, "momentum": 0.9, "temperature": temperature}
    rules = {"weight": constraint}
    optimizer = cl.Multirate(
        cl.CoLA(model[2].parameters(), **options),
        cl.CoLA(cl.parameter_groups(model[0], rules), **options),
        period=3,
    )
    inputs = torch.randn(16, 4)
    for _ in range(9):
        optimizer.zero_grad()
        (5.0 * model(inputs).square().mean()).backward()
        optimizer.step()
    assert optimizer.slow.violation()[0].residual <= 1e-6


@every_geometry
def test_the_soft_form_is_zero_where_the_hard_one_holds(name: str) -> None:
    constraint, _ = GEOMETRIES[name]
    layer = nn.Linear(4, 5, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(2.0 * first(name))
    soft = cl.penalty(layer, {"weight": constraint}, strength=1.0)
    soft.backward()
    assert float(soft) > 0.0 and float(layer.weight.grad.abs().max()) > 0.0
    cl.constrain_(layer, {"weight": constraint})
    assert float(cl.penalty(layer, {"weight": constraint}, strength=1.0)) <= 1e-20


@every_geometry
@pytest.mark.parametrize("temperature", [0.0, 1e-2])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_gradient_that_is_not_finite_is_seen(
    name: str, temperature: float, momentum: float
) -> None:
    """Nothing hides it: the weight is NaN, or the step is refused and nothing has changed."""
    weight, (constraint, _) = first(name), GEOMETRIES[name]
    optimizer = cl.CoLA(
        [weight], lr=0.1, momentum=momentum, temperature=temperature, constraint=constraint
    )
    before = weight.detach().clone()
    try:
        stepped(optimizer, weight, torch.nan)
    except cl.ConvergenceError:
        assert torch.equal(weight, before)
        return
    assert bool(weight.isnan().any())
    assert not optimizer.violation()[0].residual < 1.0


# --- what is at its bound ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constraint", "weight", "share"),
    [
        (cl.Circle(1.0), [[0.5, 0.985]], 0.5),
        (cl.Box(-1.0, 1.0), [[-0.985, 0.97]], 0.5),
        (cl.Box(0.0, 1.0), [[0.009, 0.02, 0.5, 0.995]], 0.5),
        (cl.NonNegative(), [[0.0, 1e-6, 3.0, 0.0]], 0.5),
        (cl.Sphere(1.0), [[0.6, 0.79], [0.1, 0.1]], 0.5),
        (cl.Sphere(1.0, equality=True), [[0.6, 0.8], [1.0, 0.0]], 0.0),
        (cl.Simplex(), [[0.5, 0.5, 0.0, 0.0]], 0.5),
        (cl.Spectral(2.0), [[1.99, 0.0], [0.0, 0.5]], 0.5),
        (cl.Orthogonal(), [[1.0, 0.0], [0.0, 1.0]], 0.0),
        (None, [[1.0]], 0.0),
    ],
    ids=str,
)
def test_the_share_at_the_bound(constraint: Any, weight: list[Any], share: float) -> None:
    parameter = nn.Parameter(torch.tensor(weight))
    optimizer = cl.CoLA([parameter], lr=1e-12, constraint=constraint)
    stepped(optimizer, parameter, 0.0)
    assert optimizer.violation()[0].at_bound == pytest.approx(share)


def test_the_share_is_that_of_all_weights_of_a_group_and_of_all_members() -> None:
    weights = [at(0.0, 0.0, 1.0), at(2.0)]
    optimizer = cl.CoLA(weights, lr=0.1, constraint=cl.NonNegative())
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    assert optimizer.violation()[0].at_bound == 0.5

    def factory() -> nn.Module:
        layer = nn.Linear(2, 2, bias=False)
        nn.init.constant_(layer.weight, 0.0)
        return layer

    ensemble = cl.Ensemble(factory, [1, 2], {"weight": cl.NonNegative()}, lr=0.1)
    assert ensemble.violation()[0].at_bound == 1.0


# --- simplices ---------------------------------------------------------------------------------


def test_a_simplex_finds_the_nearest_point_and_zeros_come_back() -> None:
    weight = at(0.25, 0.25, 0.25, 0.25)
    optimizer = cl.CoLA([weight], lr=0.05, momentum=0.9, constraint=cl.Simplex())
    for wanted, nearest in (
        ([0.6, 0.5, -0.1, -0.3], [0.55, 0.45, 0.0, 0.0]),
        ([-1.0, -1.0, 0.3, 0.3], [0.0, 0.0, 0.5, 0.5]),
    ):
        for _ in range(400):
            stepped(optimizer, weight, weight.detach() - torch.tensor(wanted).double())
        torch.testing.assert_close(
            weight.detach(), torch.tensor(nearest).double(), rtol=0, atol=1e-6
        )
    assert optimizer.violation()[0].at_bound == 0.5


def test_a_simplex_needs_two_weights_and_its_dimension() -> None:
    with pytest.raises(cl.ConstraintError, match="2 weights or more"):
        cl.CoLA([nn.Parameter(torch.ones(3, 1))], lr=0.1, constraint=cl.Simplex())
    with pytest.raises(cl.ConstraintError, match="dim 2 is not a dimension"):
        cl.CoLA([nn.Parameter(torch.ones(3, 2))], lr=0.1, constraint=cl.Simplex(dim=2))
    with pytest.raises(TypeError, match="dim must be an integer"):
        cl.Simplex(dim=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("dim", [0, 1, -1, -3])
def test_each_dimension_can_sum_to_one(dim: int) -> None:
    weight = nn.Parameter(torch.rand(3, 4, 2, generator=torch.Generator().manual_seed(0)))
    optimizer = cl.CoLA(
        [weight], lr=0.01, momentum=0.9, temperature=0.01, constraint=cl.Simplex(dim), seed=0
    )
    stepped(optimizer, weight, 0.5, 5)
    torch.testing.assert_close(weight.sum(dim=dim), torch.ones_like(weight.sum(dim=dim)))
    assert bool((weight >= 0.0).all())


# --- reflections -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "constraint", [cl.Box(-0.2, 0.2), cl.Simplex(), cl.Spectral(0.5)], ids=repr
)
def test_paths_with_many_reflections_come_back(constraint: cl.Constraint) -> None:
    shape = torch.Size([4, 3])
    bound = constraint.bind([shape])
    position = bound.place(bound.to_batch(0.4 + 0.1 * normals(1)(torch.zeros(shape).double())))
    position = 0.9 * position + 0.1 * bound.place(torch.zeros_like(position))
    start = bound.sample_momentum(cl.State(position), 1.0, normals(2))
    there = bound.drift(start.map(torch.clone), 1.5)
    assert start.momentum is not None and there.momentum is not None
    assert float((there.position - start.position).abs().max()) > 0.05
    assert float((there.momentum - start.momentum).abs().max()) > 0.1  # it has met walls
    energy = start.momentum.square().sum()
    torch.testing.assert_close(there.momentum.square().sum(), energy, rtol=1e-12, atol=0.0)
    back = bound.drift(there._replace(momentum=-there.momentum), 1.5)
    torch.testing.assert_close(back.position, start.position, rtol=0.0, atol=1e-9)
    torch.testing.assert_close(back.momentum, -start.momentum, rtol=0.0, atol=1e-9)  # type: ignore[arg-type]


def test_a_path_with_too_many_reflections_is_not_gone() -> None:
    position, momentum = torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, -1.0]])
    for step, end, speed in ((0.75, 0.75, -1.0), (1000.0, 0.5, -1.0)):
        found = walls.reflected(position, momentum, torch.tensor([step]), first_face, 10)
        assert found[0][0, 0] == pytest.approx(end) and found[1][0, 0] == pytest.approx(speed)


# --- spectral norms ----------------------------------------------------------------------------


def test_a_cold_spectral_ball_clips_singular_values_and_lets_them_come_back() -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(6, 4).double())
    wanted = 3.0 * torch.randn(6, 4).double()
    optimizer = cl.CoLA([weight], lr=0.1, momentum=0.9, constraint=cl.Spectral(1.0))
    for target in (wanted, 0.1 * wanted / torch.linalg.svdvals(wanted)[0]):
        for _ in range(400):
            stepped(optimizer, weight, weight.detach() - target)
        left, values, right = torch.linalg.svd(target, full_matrices=False)
        nearest = left @ torch.diag(values.clamp_max(1.0)) @ right
        torch.testing.assert_close(weight.detach(), nearest, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("temperature", [0.0, 1e-3])
def test_the_largest_singular_value_stays(temperature: float) -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 8, kernel_size=3)
    rules = {"weight": cl.Spectral(2.0, equality=True)}
    optimizer = cl.CoLA(
        cl.parameter_groups(conv, rules), lr=0.05, momentum=0.9, temperature=temperature, seed=0
    )
    for _ in range(30):
        optimizer.zero_grad()
        conv(torch.randn(4, 3, 8, 8)).square().mean().backward()
        optimizer.step()
    largest = torch.linalg.svdvals(conv.weight.detach().flatten(1).double())[0]
    assert float(largest) == pytest.approx(2.0, rel=1e-6)


def test_weights_without_a_largest_singular_value_are_refused() -> None:
    with pytest.raises(cl.ConstraintError, match="no largest singular value"):
        cl.CoLA([nn.Parameter(torch.zeros(2, 2))], lr=0.1, constraint=cl.Spectral(1.0, True))
    with pytest.raises(cl.ConstraintError, match="at least 2 dimensions"):
        cl.CoLA([nn.Parameter(torch.zeros(2))], lr=0.1, constraint=cl.Spectral(1.0))
    with pytest.raises(ValueError, match="radius must be positive"):
        cl.Spectral(0.0)


def test_singular_values_are_those_of_the_decomposition() -> None:
    matrix = normals(0)(torch.zeros(3, 7, 5).double())
    found = spectrum(matrix)
    values = torch.linalg.svdvals(matrix).flip(-1)
    torch.testing.assert_close(found.values, values, rtol=0.0, atol=1e-12)
    top = torch.linalg.svd(matrix, full_matrices=False)
    torch.testing.assert_close(found.top, top[0][..., :1] @ top[2][:, :1], rtol=0.0, atol=1e-10)
    broken = torch.stack([torch.eye(2), torch.full((2, 2), torch.nan)])
    assert spectrum(broken).values.isnan().tolist() == [[False, False], [True, True]]


# --- orthogonal columns of free lengths --------------------------------------------------------


def test_lengths_are_learnt_and_columns_stay_orthogonal() -> None:
    torch.manual_seed(0)
    factor = torch.linalg.qr(torch.randn(6, 3).double())[0]
    wanted = factor * torch.tensor([3.0, 1.0, 0.5]).double()
    weight = nn.Parameter(wanted + 0.3 * torch.randn(6, 3).double())
    optimizer = cl.CoLA([weight], lr=0.05, momentum=0.9, constraint=cl.DiagonalGram())
    for _ in range(400):
        stepped(optimizer, weight, weight.detach() - wanted)
    torch.testing.assert_close(weight.detach(), wanted, rtol=0.0, atol=1e-6)
    assert optimizer.violation()[0].fallbacks == 0


def test_a_first_weight_goes_to_a_nearest_one() -> None:
    """No small turn of it brings it nearer, which a single polar factor would not reach."""
    start = normals(5)(torch.zeros(1, 6, 3).double()) * torch.tensor([3.0, 1.0, 0.3]).double()
    found = cl.DiagonalGram().place(start)
    distance = float((found - start).norm())
    for seed in range(50):
        skew = 1e-3 * normals(seed)(torch.zeros(6, 6).double())
        turned = torch.linalg.matrix_exp(skew - skew.T) @ found
        lengths = (turned * start).sum(1, keepdim=True) / turned.square().sum(1, keepdim=True)
        assert float((turned * lengths - start).norm()) > distance - 1e-9
    once = polar_factor(start)
    assert float((once * (once * start).sum(1, keepdim=True) - start).norm()) > distance + 1e-3


def test_a_large_step_uses_the_nearest_weight_and_says_so() -> None:
    weight = nn.Parameter(torch.randn(6, 3, generator=torch.Generator().manual_seed(0)))
    optimizer = cl.CoLA([weight], lr=50.0, momentum=0.9, constraint=cl.DiagonalGram())
    with pytest.warns(cl.ProjectionWarning):
        stepped(optimizer, weight, torch.linspace(-1, 1, 18).view(6, 3))
    found = optimizer.violation()[0]
    assert found.fallbacks == 1 and found.residual <= 1e-6


def test_columns_without_full_rank_are_refused() -> None:
    with pytest.raises(cl.ConstraintError, match="full rank"):
        cl.CoLA([nn.Parameter(torch.ones(3, 2))], lr=0.1, constraint=cl.DiagonalGram())


# --- sampling ------------------------------------------------------------------------------------


class Point(nn.Module):
    """Three numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64))


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning")
@pytest.mark.parametrize("adjust", [False, True])
@pytest.mark.parametrize(
    ("constraint", "second"),
    [
        (cl.NonNegative(), 1.0),  # of half a Gaussian, as of a whole one
        (cl.Box(-1.0, 1.0), 0.29112510),
        (cl.Simplex(), None),
    ],
    ids=repr,
)
def test_chains_sample_between_walls(
    constraint: cl.Constraint, second: float | None, adjust: bool
) -> None:
    """E w² of exp(−|w|²/2) in a set, with and without a Metropolis test.

    On the simplex the density is one of its two dimensions, which is added up on a grid.
    """
    if second is None:
        grid = (torch.arange(400, dtype=torch.float64) + 0.5) / 400
        x, y = torch.meshgrid(grid, grid, indexing="ij")
        inside = x + y < 1.0
        x, y = x[inside], y[inside]
        density = torch.exp(-(x**2 + y**2 + (1 - x - y) ** 2) / 2)
        second = float((x**2 * density).sum() / density.sum())
    trace = cl.sample(
        Point(),
        lambda own: own["w"].square().sum() / 2,
        rules={"w": constraint},
        chains=500,
        warmup=80,
        draws=10,
        thin=4,
        step_size=0.1,
        friction=1.0,
        adjust=adjust,
        seed=2,
    )
    found = trace["w"].double().square().mean(dim=(1, 2))
    error = float(found.std()) / len(found) ** 0.5
    assert abs(float(found.mean()) - second) <= 4.0 * error
    assert error < 0.05 * second
    assert bool((constraint.residual(cl.State(trace["w"].flatten(0, 1).double())) <= 1e-9).all())


# --- convolutions ------------------------------------------------------------------------------


def operator_norm(conv: nn.Conv2d, size: int) -> float:
    """The largest singular value of a convolution as a linear map of images."""
    count = conv.in_channels * size * size
    basis = torch.eye(count, dtype=conv.weight.dtype).view(count, conv.in_channels, size, size)
    with torch.no_grad():
        return float(torch.linalg.matrix_norm(conv(basis).flatten(1), ord=2))


@pytest.mark.parametrize(
    ("kernel", "stride", "factor"), [((3, 3), 1, 3.0), ((3, 2), 1, 6**0.5), ((3, 3), 3, 1.0)]
)
def test_the_norm_of_a_convolution(kernel: tuple[int, int], stride: int, factor: float) -> None:
    """At most the root of the number of windows that a pixel is in, times that of its kernel."""
    torch.manual_seed(0)
    # Circular padding by half of an even kernel would put pixels into more windows.
    mode = "circular" if kernel == (3, 3) else "zeros"
    options: dict[str, Any] = {"bias": False, "stride": stride, "padding_mode": mode}
    padding = (kernel[0] // 2, kernel[1] // 2) if stride == 1 else 0
    conv = nn.Conv2d(2, 4, kernel, padding=padding, **options).double()
    for constraint in (cl.Orthogonal(), cl.Spectral(1.0, equality=True)):
        nn.init.normal_(conv.weight)
        cl.constrain_(conv, {"weight": constraint})
        found = operator_norm(conv, 6)
        assert found <= factor + 1e-9
        assert found > 1.0 + 1e-3 or factor == 1.0
    mean = nn.Conv2d(1, 1, kernel, padding=padding, **options).double()
    nn.init.constant_(mean.weight, (kernel[0] * kernel[1]) ** -0.5)  # one row of norm 1
    if kernel == (3, 3):  # where the bound is reached
        assert operator_norm(mean, 6) == pytest.approx(factor)
