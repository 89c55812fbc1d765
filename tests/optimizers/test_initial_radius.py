"""``radius="initial"``: every weight tensor has a radius from its own first weights."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from optimizer_cases import same, train, values_of

FACTOR = 2.0


def two_layers(seed: int = 0) -> nn.Sequential:
    """Two layers whose initial weights have different ranges."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)).double()
        with torch.no_grad():
            model[2].weight.mul_(0.1)
        return model


def largest(weight: Tensor) -> float:
    return float(weight.detach().abs().max())


def made(model: nn.Module, factor: float = FACTOR, **options: Any) -> cl.CoLA:
    groups = cl.parameter_groups(model, {"*.weight": cl.Circle(radius="initial", factor=factor)})
    return cl.CoLA(groups, **{"lr": 0.05, "momentum": 0.9, **options})


def pressed(model: nn.Module, optimizer: cl.CoLA, steps: int = 300) -> None:
    """Steps outwards, until the bound alone holds the weights."""
    for _ in range(steps):
        for parameter in model.parameters():
            push(parameter)
        optimizer.step()


def push(parameter: Tensor) -> None:
    """A gradient that points outwards and is of the size of the weights."""
    parameter.grad = -torch.full_like(parameter, largest(parameter))


def numbers_within(value: Any) -> list[float]:
    """Every number in a state dict."""
    if isinstance(value, Tensor):
        return value.reshape(-1).double().tolist()
    if isinstance(value, dict):
        return [n for item in value.values() for n in numbers_within(item)]
    if isinstance(value, (list, tuple)):
        return [n for item in value for n in numbers_within(item)]
    return [value] if isinstance(value, float) else []


@pytest.mark.parametrize("factor", [1.5, 2.0, 10.0])
def test_each_tensor_is_held_by_its_own_radius(factor: float) -> None:
    model = two_layers()
    radii = {i: factor * largest(model[i].weight) for i in (0, 2)}
    assert radii[0] > 2 * radii[2]
    before = copy.deepcopy(model.state_dict())
    optimizer = made(model, factor)
    assert same(model.state_dict(), before)  # all weights are within it, so none moves
    pressed(model, optimizer)
    for index, radius in radii.items():
        assert 0.99 * radius < largest(model[index].weight) <= radius * (1 + 1e-6)
    assert optimizer.violation()[0].residual < 1e-10


def test_a_state_dict_carries_the_radii() -> None:
    model = two_layers()
    radii = [FACTOR * largest(model[i].weight) for i in (0, 2)]
    found = numbers_within(made(model).state_dict())
    for radius in radii:
        assert any(math.isclose(radius, n, rel_tol=1e-6) for n in found)


def test_a_resumed_run_keeps_the_first_radii() -> None:
    """The weights of a checkpoint are no initial weights."""
    model = two_layers()
    radii = {i: FACTOR * largest(model[i].weight) for i in (0, 2)}
    optimizer = made(model)
    pressed(model, optimizer, steps=20)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    pressed(model, optimizer)

    resumed = two_layers(seed=9)
    resumed.load_state_dict(saved[0])
    second = made(resumed)
    second.load_state_dict(saved[1])
    pressed(resumed, second)
    assert same(values_of(second), values_of(optimizer))
    for index, radius in radii.items():
        assert largest(resumed[index].weight) <= radius * (1 + 1e-6)


def test_one_constraint_may_serve_two_networks() -> None:
    """It is resolved for each weight, and keeps nothing of it."""
    shared = cl.Circle(radius="initial", factor=FACTOR)
    small, large = nn.Parameter(torch.full((3,), 0.1)), nn.Parameter(torch.full((3,), 1.0))
    for weight in (small, large, small):
        radius = FACTOR * largest(weight)
        optimizer = cl.CoLA([weight], lr=0.05, momentum=0.9, constraint=shared)
        for _ in range(300):
            push(weight)
            optimizer.step()
        assert 0.99 * radius < largest(weight) <= radius


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_dtypes(dtype: torch.dtype) -> None:
    weight = nn.Parameter(torch.tensor([0.1, -0.3, 0.2], dtype=dtype))
    radius = FACTOR * largest(weight)
    optimizer = cl.CoLA(
        [weight], lr=0.05, momentum=0.9, constraint=cl.Circle(radius="initial", factor=FACTOR)
    )
    for _ in range(100):
        push(weight)
        optimizer.step()
    assert 0.95 * radius < largest(weight) <= radius


def test_training_as_usual() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    radii = [FACTOR * largest(model[i].weight) for i in (0, 2)]
    optimizer = made(model, temperature=1e-3)
    train(model, optimizer, range(20))
    assert optimizer.violation()[0].residual < 1e-10
    for index, radius in zip((0, 2), radii, strict=True):
        assert largest(model[index].weight) <= radius


def test_members_of_an_ensemble_have_their_own_radii() -> None:
    seeds = [3, 4, 5]

    def factory() -> nn.Module:
        return nn.Linear(4, 3, bias=False).double()

    radii = []
    for seed in seeds:
        torch.manual_seed(seed)
        radii.append(FACTOR * largest(factory().weight))
    rules = {"weight": cl.Circle(radius="initial", factor=FACTOR)}
    ensemble = cl.Ensemble(factory, seeds, rules, compile=False, lr=0.1, momentum=0.9)
    inputs = torch.ones(3, 2, 4, dtype=torch.float64)
    for _ in range(200):
        ensemble.step(lambda outputs, _: -outputs.sum(), inputs, inputs)
    for index, radius in enumerate(radii):
        found = largest(ensemble.member(index).weight)
        assert 0.99 * radius < found <= radius * (1 + 1e-6)


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan, math.inf, "two"])
def test_a_factor_that_is_none(factor: Any) -> None:
    cl.Circle(radius="initial", factor=FACTOR)
    with pytest.raises((ValueError, TypeError), match="factor"):
        cl.Circle(radius="initial", factor=factor)


@pytest.mark.parametrize("radius", ["other", "auto", ""])
def test_another_word_is_refused(radius: str) -> None:
    with pytest.raises((ValueError, TypeError), match=r"radius.*initial"):
        cl.Circle(radius=radius)


def test_a_tensor_of_zeros_has_no_range() -> None:
    weight = nn.Parameter(torch.zeros(3))
    with pytest.raises(cl.ConstraintError, match=r"initial|zero"):
        cl.CoLA([weight], lr=0.1, constraint=cl.Circle(radius="initial", factor=FACTOR))


# --- spheres --------------------------------------------------------------------------------


def norms(weight: Tensor, dim: int = 0) -> Tensor:
    """Of the rows."""
    return weight.detach().movedim(dim, 0).flatten(1).norm(dim=1)


def test_a_bound_is_the_factor_times_the_largest_norm_of_a_row() -> None:
    model = two_layers()
    radii = {i: 2.0 * float(norms(model[i].weight).max()) for i in (0, 2)}
    before = copy.deepcopy(model.state_dict())
    groups = cl.parameter_groups(model, {"*.weight": cl.Sphere("initial")})
    optimizer = cl.CoLA(groups, lr=0.05, momentum=0.9)
    assert same(model.state_dict(), before)
    pressed(model, optimizer)
    for index, radius in radii.items():
        weight = model[index].weight
        assert float(optimizer.state[weight]["radius"]) == pytest.approx(radius)
        assert bool((norms(weight) > 0.99 * radius).all())
        assert bool((norms(weight) <= radius * (1 + 1e-6)).all())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_an_equality_keeps_the_norm_of_every_row(dtype: torch.dtype) -> None:
    """As they are: neither making the optimizer nor training changes a norm."""
    weight = nn.Parameter(torch.randn(4, 30, generator=seeded()).to(dtype))
    before = weight.detach().clone()
    optimizer = cl.CoLA(
        [weight], lr=0.05, momentum=0.9, constraint=cl.Sphere("initial", equality=True)
    )
    assert torch.equal(weight, before)
    assert optimizer.state[weight]["radius"].shape == (4,)
    for _ in range(20):
        push(weight)
        optimizer.step()
    assert float((weight.detach() - before).abs().max()) > 0.1
    tolerance = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(
        norms(weight.double()), norms(before.double()), rtol=tolerance, atol=0.0
    )


def test_an_equality_with_a_factor_rescales_every_row() -> None:
    weight = nn.Parameter(torch.randn(4, 3, generator=seeded()))
    before = norms(weight)
    cl.CoLA([weight], lr=0.1, constraint=cl.Sphere("initial", equality=True, factor=3.0))
    torch.testing.assert_close(norms(weight), 3.0 * before)


SPHERES: dict[str, tuple[cl.Sphere, tuple[int, ...], list[int]]] = {
    "bound": (cl.Sphere("initial"), (6, 4), []),
    "rows": (cl.Sphere("initial", equality=True), (6, 4), [6]),
    "columns": (cl.Sphere("initial", equality=True, dim=1), (6, 4), [4]),
    "kernels": (cl.Sphere("initial", equality=True, dim=-3), (5, 4, 3, 3), [4]),
    "vector": (cl.Sphere("initial", equality=True), (6,), [1]),
    "one row": (cl.Sphere("initial"), (1, 6), []),
    "blocks": (cl.Sphere("initial", blocks=2), (6, 4), [2]),
    "blocks of rows": (cl.Sphere("initial", equality=True, blocks=2), (6, 4), [6]),
    "blocks of columns": (cl.Sphere("initial", dim=1, blocks=2), (6, 4), [2]),
    "columns of blocks": (cl.Sphere("initial", equality=True, dim=1, blocks=2), (6, 4), [8]),
    "parts of a vector": (cl.Sphere("initial", equality=True, blocks=2), (6,), [2]),
}
every_sphere = pytest.mark.parametrize("name", SPHERES)


def seeded(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def steps(weight: nn.Parameter, optimizer: cl.CoLA, count: range) -> None:
    for step in count:
        slope = torch.randn(weight.shape, dtype=weight.dtype, generator=seeded(step))
        weight.grad = weight.detach() * 0.3 + slope
        optimizer.step()


@every_sphere
def test_a_run_of_spheres_is_resumed_exactly(name: str) -> None:
    sphere, shape, kept = SPHERES[name]
    options: dict[str, Any] = {"lr": 0.02, "momentum": 0.9, "temperature": 1e-3, "seed": 5}
    weight = nn.Parameter(torch.randn(shape, dtype=torch.float64, generator=seeded()))
    before = weight.detach().clone()
    optimizer = cl.CoLA([weight], constraint=sphere, **options)
    assert torch.equal(weight, before)
    assert list(optimizer.state[weight]["radius"].shape) == kept
    steps(weight, optimizer, range(5))
    assert optimizer.violation()[0].residual < 1e-12
    saved = copy.deepcopy(optimizer.state_dict())
    again = nn.Parameter(weight.detach().clone())
    second = cl.CoLA([again], constraint=sphere, **options)
    second.load_state_dict(saved)
    steps(weight, optimizer, range(5, 10))
    steps(again, second, range(5, 10))
    assert torch.equal(again, weight)
    assert same(values_of(second), values_of(optimizer))


@every_sphere
def test_members_have_the_spheres_of_their_own_weights(name: str) -> None:
    sphere, shape, _ = SPHERES[name]

    class Loose(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(shape, dtype=torch.float64))

        def forward(self, inputs: Tensor) -> Tensor:
            return self.weight.flatten() * inputs

    inputs = torch.randn(math.prod(shape), dtype=torch.float64, generator=seeded())
    options: dict[str, Any] = {"lr": 0.05, "momentum": 0.9, "temperature": 1e-3}
    rules, seeds = {"weight": sphere}, [3, 4]
    ensemble = cl.Ensemble(Loose, seeds, rules, compile=False, **options)
    alone, optimizers = [], []
    for seed in seeds:
        torch.manual_seed(seed)
        alone.append(Loose())
        optimizers.append(cl.CoLA(cl.parameter_groups(alone[-1], rules), seed=seed, **options))
    for _ in range(4):
        ensemble.step(lambda found, _: (found - 1.0).square().sum(), inputs, inputs, shared=True)
        for model, optimizer in zip(alone, optimizers, strict=True):
            optimizer.zero_grad()
            (model(inputs) - 1.0).square().sum().backward()
            optimizer.step()
    for index, model in enumerate(alone):
        torch.testing.assert_close(
            ensemble.member(index).weight, model.weight, rtol=0.0, atol=1e-12
        )
    assert max(found.residual for found in ensemble.violation()) < 1e-12


def test_members_share_radii_that_are_given() -> None:
    """A tensor with one number for each row."""
    radius = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    ensemble = cl.Ensemble(
        lambda: nn.Linear(4, 3, bias=False).double(),
        [1, 2],
        {"weight": cl.Sphere(radius, equality=True)},
        compile=False,
        lr=0.1,
    )
    inputs = torch.ones(2, 4, dtype=torch.float64)
    ensemble.step(lambda found, _: found.square().sum(), inputs, inputs, shared=True)
    for index in range(2):
        torch.testing.assert_close(norms(ensemble.member(index).weight), radius)


def test_a_part_of_a_weight_has_the_radii_of_its_rows() -> None:
    weight = torch.randn(6, 4, generator=seeded()).double()
    own = cl.Sphere("initial", equality=True).for_weight(weight, {}).bind([weight.shape])
    part = own.part(weight.shape, (2, 0), (3, 4), own.over)
    assert isinstance(part, cl.Sphere)
    torch.testing.assert_close(part.radius, norms(weight)[2:5])


@pytest.mark.parametrize("other", [{"factor": 1.5}, {"equality": True}, {"radius": 1.0}])
def test_a_state_dict_of_another_sphere_is_refused(other: dict[str, Any]) -> None:
    weight = nn.Parameter(torch.randn(3, 4))
    saved = cl.CoLA([weight], lr=0.1, constraint=cl.Sphere("initial")).state_dict()
    second = cl.CoLA([weight], lr=0.1, constraint=cl.Sphere(**{"radius": "initial", **other}))
    with pytest.raises(ValueError, match="constraint"):
        second.load_state_dict(saved)


def test_what_a_sphere_cannot_take_from_its_first_weights() -> None:
    weight = nn.Parameter(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    before = weight.detach().clone()
    with pytest.raises(cl.ConstraintError, match=r"radius='initial' needs the norm of every"):
        cl.CoLA([weight], lr=0.1, constraint=cl.Sphere("initial", equality=True))
    with pytest.raises(cl.ConstraintError, match="dim 2 is not a dimension"):
        cl.CoLA([weight], lr=0.1, constraint=cl.Sphere("initial", dim=2))
    with pytest.raises(cl.ConstraintError, match="blocks=3 must divide"):
        cl.CoLA([weight], lr=0.1, constraint=cl.Sphere("initial", blocks=3))
    assert torch.equal(weight, before)
    optimizer = cl.CoLA([weight], lr=0.1, constraint=cl.Sphere("initial"))
    assert float(optimizer.state[weight]["radius"]) == 10.0  # a row of zeros may grow
    with pytest.raises(cl.ConstraintError, match="the largest norm of an initial row"):
        cl.CoLA([nn.Parameter(torch.zeros(2, 2))], lr=0.1, constraint=cl.Sphere("initial"))
    with pytest.raises(ValueError, match=r"radius.*initial"):
        cl.Sphere("wide")
    with pytest.raises(ValueError, match="factor"):
        cl.Sphere("initial", factor=0.0)
