"""Small orthogonal matrices by the C kernel: the same steps as by the formulas, and when not."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin import Circle, CoLA, ConvergenceError, Orthogonal
from colangevin.native import library as library_module
from colangevin.native import load, reason
from colangevin.optimizers.step import kernels as step_kernels
from registry import normals

MIXED = [(6, 3), (3, 6), (6, 3), (3, 2, 3), (4, 4)]


@pytest.fixture(autouse=True)
def kernels() -> None:
    if load("stiefel") is None or load() is None:
        pytest.skip(f"no kernels: {reason('stiefel') or reason()}")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many matrices the kernel has been asked to move, call by call."""
    found: list[int] = []
    structure, move = step_kernels.MatrixKernel.kind

    def spy(*arguments: Any) -> Any:
        results = move(*arguments)
        found.append(len(results) // 2)
        return results

    monkeypatch.setattr(step_kernels.MatrixKernel, "kind", (structure, spy))
    return found


def weights_of(shapes: Sequence[tuple[int, ...]], dtype: torch.dtype) -> list[nn.Parameter]:
    draw = normals(3)
    return [nn.Parameter(draw(torch.empty(shape, dtype=dtype))) for shape in shapes]


def train(
    weights: Sequence[nn.Parameter], optimizer: CoLA, steps: int, size: float = 1.0, seed: int = 7
) -> list[Tensor]:
    draw = normals(seed)
    for _ in range(steps):
        for weight in weights:
            weight.grad = size * draw(weight.detach())
        optimizer.step()
    return [weight.detach().clone() for weight in weights]


def both(
    shapes: Sequence[tuple[int, ...]],
    constraint: Orthogonal,
    steps: int = 20,
    size: float = 1.0,
    dtype: torch.dtype = torch.float64,
    **options: Any,
) -> tuple[CoLA, CoLA]:
    """With and without the kernel; the weights are compared."""
    found, optimizers = [], []
    settings = {"lr": 0.01, "momentum": 0.9, "seed": 5, **options}
    for fused in (None, False):
        weights = weights_of(shapes, dtype)
        optimizers.append(CoLA(weights, constraint=constraint, fused=fused, **settings))
        found.append(train(weights, optimizers[-1], steps, size))
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance * constraint.scale)
    return optimizers[0], optimizers[1]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("temperature", [0.0, 1e-3])
def test_tall_wide_and_kernels_of_one_group(
    runs: list[int], temperature: float, momentum: float
) -> None:
    """The first three share a batch, though one of them is wide."""
    both(MIXED, Orthogonal(), momentum=momentum, temperature=temperature)
    assert runs == [4, 1] * 20


@pytest.mark.filterwarnings("ignore::colangevin.ProjectionWarning")
@pytest.mark.parametrize(
    "constraint",
    [
        Orthogonal(tolerance=1e-3),
        Orthogonal(max_iterations=3),
        Orthogonal(scale=0.3),
        Orthogonal(batch_dims=1),
        Orthogonal(batch_dims=2),
    ],
    ids=repr,
)
def test_options_of_the_constraint_are_kept_to(runs: list[int], constraint: Orthogonal) -> None:
    """A coarse tolerance ends early: one matrix at a time, so that both end alike."""
    shape = (*[2, 2][: constraint.batch_dims], 5, 3)
    if constraint.tolerance is not None or constraint.max_iterations < 40:
        kernel, formulas = both([(5, 3)], constraint, size=0.3)
    else:
        kernel, formulas = both([shape, shape], constraint, temperature=1e-3)
    counts = [optimizer.param_groups[0]["iterations"] for optimizer in (kernel, formulas)]
    assert counts[0] == counts[1] and runs


@pytest.mark.parametrize("scheme", ["OBA", "BAOAB"])
def test_the_iterations_are_those_of_the_worst_projection(scheme: str) -> None:
    kernel, formulas = both([(6, 3)] * 3, Orthogonal(), scheme=scheme, lr=0.05, size=0.5)
    counts = [optimizer.param_groups[0]["iterations"] for optimizer in (kernel, formulas)]
    assert counts[0] == counts[1]


class TestWhatTheKernelLeaves:
    @pytest.mark.filterwarnings("ignore::colangevin.ProjectionWarning")
    @pytest.mark.parametrize("momentum", [0.0, 0.9])
    @pytest.mark.parametrize("temperature", [0.0, 1e-3])
    @pytest.mark.parametrize("batch_dims", [0, 1])
    def test_fallbacks_are_counted_and_follow_the_formulas(
        self, runs: list[int], batch_dims: int, temperature: float, momentum: float
    ) -> None:
        """Steps so large that some projections fail, some go far and some succeed."""
        shapes = [(3, 6, 3)] if batch_dims else [(6, 3), (3, 6), (6, 3)]
        options = {"lr": 0.3, "momentum": momentum, "temperature": temperature}
        kernel, formulas = both(
            shapes, Orthogonal(batch_dims=batch_dims), steps=4, size=1.5, **options
        )
        counts = [optimizer.param_groups[0]["fallbacks"] for optimizer in (kernel, formulas)]
        assert counts[0] == counts[1] > 0
        assert runs == [3] * 4

    def test_it_warns(self) -> None:
        weights = weights_of([(6, 3)], torch.float64)
        optimizer = CoLA(weights, lr=0.3, momentum=0.9, constraint=Orthogonal())
        with pytest.warns(cl.ProjectionWarning):
            train(weights, optimizer, 4, 3.0)
        assert optimizer.violation()[0].residual < 1e-12

    @pytest.mark.parametrize("value", [math.nan, math.inf, 1e20])
    def test_a_number_that_may_overflow_leaves_all_as_it_was(
        self, runs: list[int], value: float
    ) -> None:
        shapes = [(6, 3), (3, 6), (5, 2)]
        weights = weights_of(shapes, torch.float32)
        free = nn.Parameter(torch.ones(4))
        groups = [{"params": [free]}, {"params": weights, "constraint": Orthogonal()}]
        optimizer = CoLA(groups, lr=0.01, momentum=0.9, temperature=1e-3, seed=5)
        train([free, *weights], optimizer, 2)
        count = len(runs)
        before = copy.deepcopy(optimizer.state_dict()), [w.clone() for w in (free, *weights)]
        assert weights[1].grad is not None
        weights[1].grad[0, 0] = value
        if math.isfinite(value):
            with pytest.warns(cl.ProjectionWarning):
                optimizer.step()
            assert all(bool(w.isfinite().all()) for w in weights)
            assert len(runs) > count
            return
        with pytest.raises(ConvergenceError):
            optimizer.step()
        for weight, old in zip((free, *weights), before[1], strict=True):
            assert torch.equal(weight, old)
        after = optimizer.state_dict()
        for index, entry in before[0]["state"].items():
            for key, old in entry.items():
                assert torch.equal(after["state"][index][key], old)


class TestMemory:
    @pytest.mark.parametrize("fused", [(None, None), (None, False), (False, None)], ids=str)
    def test_a_run_goes_on_from_a_state_dict(self, fused: tuple[Any, Any]) -> None:
        options = {"lr": 0.01, "momentum": 0.9, "temperature": 1e-3, "constraint": Orthogonal()}
        weights = weights_of(MIXED, torch.float64)
        optimizer = CoLA(weights, fused=fused[0], seed=5, **options)
        middle = train(weights, optimizer, 5)
        saved = copy.deepcopy(optimizer.state_dict())
        expected = train(weights, optimizer, 5, seed=8)
        others = [nn.Parameter(w.clone()) for w in middle]
        other = CoLA(others, fused=fused[1], seed=6, **options)
        other.load_state_dict(saved)
        for found, wanted in zip(train(others, other, 5, seed=8), expected, strict=True):
            if fused[0] is fused[1]:
                assert torch.equal(found, wanted)
            else:
                torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)

    def test_new_memory_is_noticed(self, runs: list[int]) -> None:
        found = []
        for fused in (None, False):
            weights = weights_of([(6, 3), (3, 6)], torch.float64)
            optimizer = CoLA(
                weights, lr=0.01, momentum=0.9, constraint=Orthogonal(), fused=fused, seed=5
            )
            train(weights, optimizer, 3)
            for weight in weights:
                weight.data = weight.detach().clone()
                old = optimizer.state[weight]["momentum_buffer"]
                optimizer.state[weight]["momentum_buffer"] = 0.5 * old
            found.append(train(weights, optimizer, 3))
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
        assert runs == [2] * 6

    def test_a_parameter_without_gradient_rests(self, runs: list[int]) -> None:
        found = []
        for fused in (None, False):
            weights = weights_of([(6, 3), (3, 6), (6, 3)], torch.float64)
            options = {"lr": 0.01, "momentum": 0.9, "temperature": 1e-3, "seed": 5}
            optimizer = CoLA(weights, constraint=Orthogonal(), fused=fused, **options)
            for resting in (0, 1, 2, 1):
                train(weights, optimizer, 1)
                weights[resting].grad = None
                optimizer.step()
            found.append([w.detach() for w in weights])
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
        assert runs == [3, 2] * 4

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_gradients_of_any_layout_are_read(self, runs: list[int], dtype: torch.dtype) -> None:
        found = []
        for turned in (True, False):
            weights = weights_of([(6, 3)], dtype)
            optimizer = CoLA(weights, lr=0.01, momentum=0.9, constraint=Orthogonal())
            slope = normals(2)(weights[0].detach())
            weights[0].grad = slope.T.contiguous().T if turned else slope
            optimizer.step()
            found.append(weights[0].detach())
        assert torch.equal(*found) and runs == [1, 1]


class TestWhoMayUseIt:
    @pytest.mark.parametrize(
        "make",
        [
            lambda: (torch.randn(200, 200), Orthogonal()),
            lambda: (torch.randn(6, 3).bfloat16(), Orthogonal()),
            lambda: (torch.randn(3, 6).T, Orthogonal()),
            lambda: (torch.randn(6, 3), type("Own", (Orthogonal,), {})()),
        ],
        ids=["large", "half", "strided", "subclass"],
    )
    def test_others_go_by_the_formulas(self, runs: list[int], make: Any) -> None:
        tensor, constraint = make()
        weight = nn.Parameter(tensor)
        optimizer = CoLA([weight], lr=0.01, momentum=0.9, constraint=constraint)
        train([weight], optimizer, 2)
        assert not runs

    def test_it_is_built_only_where_there_is_such_a_parameter(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And without it the formulas serve, silently."""
        asked = []
        find = library_module._find

        def watched(name: str) -> Any:
            asked.append(name)
            broken = None, "no compiler"
            return broken if name == "stiefel" else find(name)

        monkeypatch.setattr(library_module, "_find", watched)
        free = nn.Parameter(torch.ones(6, 3))
        train([free], CoLA([free], lr=0.01, momentum=0.9, constraint=Circle(2.0)), 2)
        large = nn.Parameter(torch.randn(200, 200))
        train([large], CoLA([large], lr=0.01, constraint=Orthogonal()), 2)
        assert "stiefel" not in asked
        weights = weights_of([(6, 3)], torch.float64)
        optimizer = CoLA(weights, lr=0.01, momentum=0.9, constraint=Orthogonal(), seed=5)
        found = train(weights, optimizer, 3)
        assert "stiefel" in asked
        others = weights_of([(6, 3)], torch.float64)
        options = {"lr": 0.01, "momentum": 0.9, "constraint": Orthogonal(), "seed": 5}
        wanted = train(others, CoLA(others, fused=False, **options), 3)
        assert torch.equal(found[0], wanted[0])


def test_groups_with_other_geometries(runs: list[int]) -> None:
    found = []
    for fused in (None, False):
        free, bounded, *matrices = weights_of([(3,), (4, 2), (6, 3), (3, 6)], torch.float64)
        groups = [
            {"params": [free]},
            {"params": [bounded], "constraint": Circle(3.0)},
            {"params": matrices, "constraint": Orthogonal()},
        ]
        options = {"lr": 0.01, "momentum": 0.9, "temperature": 1e-3}
        optimizer = CoLA(groups, fused=fused, seed=5, **options)
        found.append(train([free, bounded, *matrices], optimizer, 20))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
    assert runs == [2] * 20


@pytest.mark.filterwarnings("ignore::colangevin.ProjectionWarning")
@pytest.mark.parametrize("size", [0.01, 60.0], ids=["calm", "with fallbacks"])
@pytest.mark.parametrize("temperatures", [(1e-3, 1e-3), (0.0, 1e-2)], ids=["same", "own"])
def test_members_of_an_ensemble_follow_cola_alone(
    runs: list[int], temperatures: tuple[float, float], size: float
) -> None:
    seeds, options = [3, 8], {"lr": 0.05, "momentum": 0.9}
    inputs = normals(1)(torch.empty(2, 16, 5, dtype=torch.float64))
    targets = 0.01 * inputs
    targets[1] = size * inputs[1]

    def make(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, 8), nn.Linear(8, 5)).double()

    loss = nn.functional.mse_loss
    rules = {("0.weight", "1.weight"): Orthogonal()}
    ensemble = cl.Ensemble(make, seeds, rules, temperature=list(temperatures), **options)
    for _ in range(10):
        ensemble.step(loss, inputs, targets)
    assert runs == [4] * 10
    for index, seed in enumerate(seeds):
        model = make(seed)
        groups = cl.parameter_groups(model, rules)
        own = {**options, "temperature": temperatures[index], "seed": seed}
        optimizer = CoLA(groups, fused=False, **own)
        for _ in range(10):
            optimizer.zero_grad()
            loss(model(inputs[index]), targets[index]).backward()
            optimizer.step()
        failed = sum(group["fallbacks"] for group in optimizer.param_groups)
        assert (failed > 0) == (index == 1 and size > 1.0)
        pairs = zip(ensemble.member(index).parameters(), model.parameters(), strict=True)
        for found, wanted in pairs:
            torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shapes", [[(3, 6, 3)], [(6, 3), (3, 6), (6, 3)]], ids=str)
def test_the_formulas_are_asked_only_for_what_is_left(
    monkeypatch: pytest.MonkeyPatch, shapes: list[tuple[int, ...]]
) -> None:
    """The second of three matrices has a gradient that throws it far; its noise is its own."""
    moved = []
    advance = step_kernels.advance

    def spy(constraint: Any, state: Any, *arguments: Any) -> Any:
        moved.append(len(state.position))
        return advance(constraint, state, *arguments)

    monkeypatch.setattr(step_kernels, "advance", spy)
    constraint = Orthogonal(batch_dims=len(shapes[0]) - 2)
    options = {"lr": 0.01, "momentum": 0.9, "temperature": 1e-2, "weight_decay": 0.1, "seed": 5}
    found = []
    for fused in (None, False):
        weights = weights_of(shapes, torch.float64)
        optimizer = CoLA(weights, constraint=constraint, fused=fused, **options)
        train(weights, optimizer, 1)
        (weights[0].grad[1] if len(shapes) == 1 else weights[1].grad).mul_(200.0)
        with pytest.warns(cl.ProjectionWarning):
            optimizer.step()
        found.append([weight.detach() for weight in weights])
    assert moved == [1]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
