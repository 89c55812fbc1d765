"""Bounds that hold to the last digit, for every radius, gradient and dtype; and let go again."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from registry import ids

INEQUALITIES: dict[str, Callable[[float], cl.Constraint]] = {
    "circle": cl.Circle,
    "sphere": cl.Sphere,
    "general": lambda r: cl.General(lambda w: w.square().sum() / r**2 - 1.0, inequality=True),
}
FLOATS = [torch.float32, torch.float64]
every_momentum = pytest.mark.parametrize("momentum", [0.0, 0.9])


def steps(
    optimizer: cl.CoLA, weight: nn.Parameter, gradient: Callable[[], Tensor], count: int
) -> None:
    for _ in range(count):
        weight.grad = gradient()
        optimizer.step()


# --- no weight above its bound (to the digit) ------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, torch.bfloat16, torch.float16], ids=ids)
@pytest.mark.parametrize("temperature", [0.0, 1e-3])
@every_momentum
def test_no_weight_is_above_its_radius_by_a_single_digit(
    momentum: float, temperature: float, dtype: torch.dtype
) -> None:
    """As a user would check it: ``w.abs().max() <= r``."""
    torch.manual_seed(0)
    above = []
    for radius in torch.rand(40, dtype=torch.float64).add(0.05).tolist():
        weight = nn.Parameter(((torch.rand(64) - 0.5) * radius).to(dtype))
        optimizer = cl.CoLA(
            [weight],
            lr=0.05,
            momentum=momentum,
            temperature=temperature,
            constraint=cl.Circle(radius),
        )
        steps(optimizer, weight, lambda: -5 * torch.rand(64).to(dtype), 25)
        if weight.detach().abs().max().item() > radius:
            above.append(radius)
        assert weight.detach().abs().max().item() > 0.9 * radius  # it is pressed against it
    assert not above


@every_momentum
def test_no_weight_is_above_its_own_radius(momentum: float) -> None:
    torch.manual_seed(0)
    radii = torch.rand(64).add(0.05)
    weight = nn.Parameter(0.1 * radii)
    optimizer = cl.CoLA([weight], lr=0.05, momentum=momentum, constraint=cl.Circle(radii))
    steps(optimizer, weight, lambda: -5 * torch.rand(64), 60)
    assert (weight.detach() <= radii).all()
    assert (weight.detach() > 0.9 * radii).any()


@pytest.mark.parametrize("dtype", FLOATS, ids=ids)
@pytest.mark.parametrize("temperature", [0.0, 1e-3])
@every_momentum
def test_no_row_is_longer_than_its_radius(
    momentum: float, temperature: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    for radius in torch.rand(10, dtype=torch.float64).add(0.05).tolist():
        weight = nn.Parameter((torch.rand(8, 6) - 0.5).to(dtype) * radius)
        optimizer = cl.CoLA(
            [weight],
            lr=0.05,
            momentum=momentum,
            temperature=temperature,
            constraint=cl.Sphere(radius),
        )
        steps(optimizer, weight, lambda: -5 * torch.rand(8, 6).to(dtype), 40)
        norms = weight.detach().double().norm(dim=1)
        assert norms.max().item() <= radius * (1 + 1e-6)
        assert norms.max().item() > 0.9 * radius


# --- weights that are pressed against it come back -------------------------------------------


@every_momentum
@pytest.mark.parametrize("kind", ["circle", "sphere"])
def test_a_pressed_weight_comes_back(kind: str, momentum: float) -> None:
    there_and_back(kind, momentum, torch.float32, lr=0.01, count=3000)


@every_momentum
@pytest.mark.parametrize("kind", ["circle", "sphere"])
def test_a_pressed_weight_of_float64_comes_back(kind: str, momentum: float) -> None:
    there_and_back(kind, momentum, torch.float64, lr=0.05, count=600)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_a_pressed_weight_of_a_general_constraint_comes_back(momentum: float) -> None:
    """Fewer and longer steps, which press as hard: each of them solves an equation."""
    there_and_back("general", momentum, torch.float32, lr=0.2, count=200)


def smallest_slack(optimizer: cl.CoLA, weight: nn.Parameter, kind: str) -> float:
    """A circle of radius 1 keeps the angle."""
    kept = optimizer.state[weight]["slack"]
    return float((kept.cos() if kind == "circle" else kept).abs().min())


def there_and_back(kind: str, momentum: float, dtype: torch.dtype, lr: float, count: int) -> None:
    weight = nn.Parameter(torch.tensor([[0.1]], dtype=dtype))
    constraint = INEQUALITIES[kind](1.0)
    optimizer = cl.CoLA([weight], lr=lr, momentum=momentum, constraint=constraint)
    steps(optimizer, weight, lambda: -torch.ones(1, 1, dtype=dtype), count)
    pressed = weight.item()
    assert 0.99 < pressed <= 1.0 + 1e-6
    assert smallest_slack(optimizer, weight, kind) >= 1e-8
    steps(optimizer, weight, lambda: torch.ones(1, 1, dtype=dtype), count)
    assert pressed - weight.item() > 0.1
    assert smallest_slack(optimizer, weight, kind) >= 1e-8
    assert optimizer.violation()[0].residual < 1e-5


# --- weights that somebody else has written --------------------------------------------------


@every_momentum
def test_writes_through_data_are_seen(momentum: float) -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(0.1 * torch.randn(6, 4))
    optimizer = cl.CoLA([weight], lr=0.01, momentum=momentum, constraint=cl.Circle(0.5))
    steps(optimizer, weight, lambda: torch.randn(6, 4), 3)
    weight.data.mul_(100)
    steps(optimizer, weight, lambda: torch.randn(6, 4), 1)
    assert weight.detach().abs().max().item() <= 0.5
    steps(optimizer, weight, lambda: torch.randn(6, 4), 20)
    assert optimizer.violation()[0].residual < 1e-3
    assert weight.detach().abs().max().item() <= 0.5


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=ids)
@pytest.mark.parametrize("kind", ["circle", "sphere"])
def test_weights_of_a_rounded_file_are_left_nearly_as_they_are(
    kind: str, half: torch.dtype
) -> None:
    """A model that was exported in half precision, and is loaded in float32."""
    torch.manual_seed(0)
    constraint = INEQUALITIES[kind](0.3)
    trained = nn.Parameter(0.1 * torch.randn(10, 20))
    optimizer = cl.CoLA([trained], lr=0.1, momentum=0.9, constraint=constraint)
    steps(optimizer, trained, lambda: torch.randn(10, 20) - 0.5, 300)
    loaded = nn.Parameter(trained.detach().to(half).float())
    before = loaded.detach().clone()
    cl.CoLA([loaded], lr=0.1, constraint=constraint)
    assert ((loaded.detach() - before).abs() <= 0.01 * before.abs()).all()


@pytest.mark.parametrize("excess", [1e-4, 2e-4, 2.6e-3])
def test_a_small_excess_costs_little(excess: float) -> None:
    weight = nn.Parameter(torch.tensor([0.1, -0.2, 0.5 * (1 + excess)]))
    before = weight.detach().clone()
    optimizer = cl.CoLA([weight], lr=0.1, momentum=0.9, constraint=cl.Circle(0.5))
    assert ((weight.detach() - before).abs() <= 0.01 * before.abs()).all()
    assert weight.detach().abs().max().item() <= 0.5
    assert optimizer.violation()[0].residual < 1e-5


def test_a_large_excess_is_still_scaled_as_a_whole() -> None:
    weight = nn.Parameter(torch.tensor([0.1, -0.2, 2.0]))
    cl.CoLA([weight], lr=0.1, constraint=cl.Circle(0.5))
    ratio = weight.detach() / torch.tensor([0.1, -0.2, 2.0])
    assert ratio.max().item() < 0.25
    torch.testing.assert_close(ratio, ratio[:1].expand(3))


# --- radii -----------------------------------------------------------------------------------


@every_momentum
def test_a_radius_that_is_changed_afterwards_changes_nothing(momentum: float) -> None:
    found = []
    for change in (1.0, 0.2):
        torch.manual_seed(0)
        radii = torch.full((4, 4), 0.5)
        weight = nn.Parameter(0.1 * torch.randn(4, 4))
        optimizer = cl.CoLA([weight], lr=0.05, momentum=momentum, constraint=cl.Circle(radii))
        radii.mul_(change)
        steps(optimizer, weight, lambda: torch.randn(4, 4), 50)
        assert optimizer.violation()[0].residual < 1e-5
        found.append((weight.detach().clone(), optimizer.state_dict()))
    assert torch.equal(found[0][0], found[1][0])
    constraint = found[1][1]["param_groups"][0]["constraint"]
    assert torch.equal(constraint["radius"], torch.full((4, 4), 0.5))


EXTREME: dict[str, Callable[[float], cl.Constraint]] = {
    "circle": cl.Circle,
    "circle of radii": lambda r: cl.Circle(torch.tensor([1.0, r], dtype=torch.float64)),
    "sphere": cl.Sphere,
    "unit-norm": lambda r: cl.Sphere(r, equality=True),
    "orthogonal": lambda r: cl.Orthogonal(scale=r),
}


@pytest.mark.parametrize("radius", [1e20, 1e30, 1e-22])
@pytest.mark.parametrize("kind", EXTREME)
def test_radii_whose_square_is_no_float32(kind: str, radius: float) -> None:
    """Refused by name where the weights are float32; float64 has room for them."""
    start = min(0.1, radius / 10) * torch.tensor([[1.0, 2.0], [2.0, -1.0]], dtype=torch.float64)
    weight = nn.Parameter(start.float())
    with pytest.raises(cl.ConstraintError, match=r"radius|radii|scale"):
        cl.CoLA([weight], lr=0.01, momentum=0.9, constraint=EXTREME[kind](radius))
    assert torch.equal(weight.detach(), start.float())

    wide = nn.Parameter(start.clone())
    optimizer = cl.CoLA([wide], lr=0.01, momentum=0.9, constraint=EXTREME[kind](radius))
    steps(optimizer, wide, lambda: 0.01 * wide.detach(), 5)
    assert wide.isfinite().all()
    assert optimizer.violation()[0].residual < 1e-10


# --- extreme gradients and temperatures ------------------------------------------------------


@pytest.mark.parametrize("huge", [1e15, 1e21, 1e30])
@pytest.mark.parametrize(
    "constraint",
    [cl.Circle(0.5), cl.Sphere(1.0), cl.Sphere(1.0, equality=True), cl.Orthogonal()],
    ids=["circle", "sphere", "unit-norm", "orthogonal"],
)
@pytest.mark.filterwarnings("ignore::colangevin.errors.ProjectionWarning")
def test_one_huge_gradient_is_survived(constraint: cl.Constraint, huge: float) -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(0.1 * torch.randn(4, 3))
    optimizer = cl.CoLA([weight], lr=0.1, momentum=0.9, constraint=constraint)
    steps(optimizer, weight, lambda: torch.ones(4, 3), 1)
    steps(optimizer, weight, lambda: torch.full((4, 3), huge), 1)
    assert weight.isfinite().all()
    steps(optimizer, weight, lambda: torch.randn(4, 3), 20)
    assert weight.isfinite().all()
    assert all(bool(t.isfinite().all()) for t in tensors_of(optimizer, weight))
    assert optimizer.violation()[0].residual < 1e-5


def tensors_of(optimizer: cl.CoLA, weight: nn.Parameter) -> list[Tensor]:
    return [t for t in optimizer.state[weight].values() if isinstance(t, Tensor)]


@every_momentum
@pytest.mark.parametrize("share", [1e29, 1e31])
def test_noise_is_drawn_at_any_temperature(share: float, momentum: float) -> None:
    lr = 0.05
    weight = nn.Parameter(torch.zeros(1000))
    optimizer = cl.CoLA([weight], lr=lr, momentum=momentum, temperature=share * lr)
    steps(optimizer, weight, lambda: torch.zeros(1000), 1)
    # Overdamped √(2τh); with momentum √(τ(1 − c²)) times h, which is √lr.
    width = math.sqrt(share * lr * lr * (1 - momentum**2) * (1 if momentum else 2))
    assert weight.isfinite().all()
    assert 0.9 * width < weight.detach().double().square().mean().sqrt().item() < 1.1 * width


# --- other mistakes of geometry --------------------------------------------------------------


def test_a_replaced_general_constraint_is_always_the_newest() -> None:
    """Also where Python gives a new constraint the place in memory of an old one."""
    torch.manual_seed(0)

    def ball(radius: float) -> cl.General:
        return cl.General(lambda w: w.square().sum() - radius**2)

    weight = nn.Parameter(torch.randn(6, 4))
    optimizer = cl.CoLA([weight], lr=1e-3, momentum=0.9, constraint=ball(1.0))
    wrong, places = [], set()
    for step in range(100):
        radius = 1 + 0.01 * step
        choice = [ball(radius) for _ in range(20)]
        newest = next((c for c in choice if id(c) in places), choice[0])
        places.add(id(newest))
        optimizer.param_groups[0]["constraint"] = newest
        del choice, newest
        steps(optimizer, weight, lambda: torch.randn(6, 4), 1)
        if abs(weight.detach().norm().item() - radius) > 1e-3:
            wrong.append(step)
    assert not wrong


def test_a_function_of_another_dtype_is_refused_at_once() -> None:
    weight = nn.Parameter(torch.full((3,), 0.5))
    doubled = cl.General(lambda w: w.double().square().sum() - 1.0)
    with pytest.raises(cl.ConstraintError, match="float64"):
        cl.CoLA([weight], lr=0.1, constraint=doubled)
    assert torch.equal(weight.detach(), torch.full((3,), 0.5))


@every_momentum
def test_a_free_weight_may_be_transposed_where_it_lies(momentum: float) -> None:
    found = []
    for make in (cl.CoLA, torch.optim.SGD):
        weight = nn.Parameter(torch.zeros(2, 2))
        optimizer = make([weight], lr=1.0, momentum=momentum)
        weight.grad = torch.zeros(2, 2)
        optimizer.step()
        weight.data = weight.data.t()
        weight.grad = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
        optimizer.step()
        found.append(weight.detach().clone())
    assert torch.equal(*found)
