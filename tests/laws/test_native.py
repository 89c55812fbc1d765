"""The native kernels make the steps of the formulas: same weights, same noise, same state."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from colangevin import Circle, CoLA, Constraint, General, Orthogonal, Sphere, State, Unconstrained
from laws.test_reference import FRICTION, Loss, follow, size_of
from registry import CASES, RUNS, Case, Run, ids

STEPS = 20
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
MATRICES = {torch.float32: 1e-5, torch.float64: 1e-10}
"""The kernel ends the iteration for each matrix, the formulas for a whole batch at once."""


def reason_to_skip() -> str | None:
    if os.environ.get("COLANGEVIN_NATIVE") == "0":
        return "COLANGEVIN_NATIVE=0 switches the kernels off"
    compilers = (os.environ.get("CC"), "cc", "gcc", "clang")
    if not any(name and shutil.which(name) for name in compilers):
        return "there is no C compiler"
    return None


REASON = reason_to_skip()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

STRIDED = ("sphere_inner", "sphere_columns", "sphere_blocks")
"""Their rows do not lie one after the other."""
KINDS = (Unconstrained, Circle, Sphere, Orthogonal)
FUSED = [case for case in CASES if type(case.make()) in KINDS and case.name not in STRIDED]
every_case = pytest.mark.parametrize("case", FUSED, ids=ids)
every_run = pytest.mark.parametrize("run", RUNS, ids=ids)


def trained(
    case: Case, run: Run, dtype: torch.dtype, fused: bool, **options: Any
) -> tuple[list[Tensor], CoLA]:
    """Weights after some steps, with the library's own noise."""
    start = case.weights(dtype)
    weights = [nn.Parameter(w.clone()) for w in start]
    settings = {**run.options(size_of(run), FRICTION), **options}
    optimizer = CoLA(weights, constraint=case.make(), fused=fused, seed=5, **settings)
    loss = Loss(start)
    for _ in range(STEPS):
        gradients = loss.gradients([w.detach() for w in weights])
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient
        optimizer.step()
    return [w.detach() for w in weights], optimizer


@pytest.mark.parametrize("temperature", [0.0, 0.05])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=ids)
@every_run
@every_case
def test_the_kernel_makes_the_steps_of_the_formulas(
    case: Case, run: Run, dtype: torch.dtype, weight_decay: float, temperature: float
) -> None:
    options = {"weight_decay": weight_decay, "temperature": temperature}
    matrices = isinstance(case.make(), Orthogonal)
    tolerance = (MATRICES if matrices else TOLERANCE)[dtype]
    found, kernel = trained(case, run, dtype, True, **options)
    expected, formulas = trained(case, run, dtype, False, **options)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)
    assert (
        max(float((w - s).abs().max()) for w, s in zip(found, case.weights(dtype), strict=True))
        > 1e-2
    )
    if matrices:  # their momenta are kept modulo the normal space
        close_momenta(kernel, case.bound())
        close_momenta(formulas, case.bound())
    assert_same_state(kernel, formulas, tolerance)
    assert kernel.violation()[0].residual <= TOLERANCE[dtype]


def close_momenta(optimizer: CoLA, constraint: Constraint) -> None:
    """Bring the momenta to the cotangent space."""
    for weight, entry in optimizer.state.items():
        if "momentum_buffer" in entry:
            momentum = constraint.to_batch(entry["momentum_buffer"])
            state = State(constraint.to_batch(weight.detach()), momentum)
            closed = constraint.close(state).momentum
            assert closed is not None
            entry["momentum_buffer"] = constraint.from_batch(closed, weight.shape)


def assert_same_state(one: CoLA, other: CoLA, tolerance: float) -> None:
    """Momenta are of the size of 1/h, so they are compared relative to themselves."""
    entries = zip(one.state.values(), other.state.values(), strict=True)
    for found, expected in entries:
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            if isinstance(value, Tensor) and value.is_floating_point():
                scale = 1.0 + float(value.abs().max()) if value.numel() else 1.0
                torch.testing.assert_close(found[name], value, rtol=0, atol=tolerance * scale)
            else:
                assert found[name] == value


@every_run
@every_case
def test_the_kernel_follows_the_reference(case: Case, run: Run) -> None:
    follow(case, run, 200, checks=4, fused=True)


@pytest.mark.parametrize("temperature", [0.0, 0.05])
@pytest.mark.parametrize("size", [1, 7, 1000, 200_001])
def test_every_size(size: int, temperature: float) -> None:
    """Short ones, and those that are cut into blocks or shared by threads."""
    found = []
    for fused in (True, False):
        weight = nn.Parameter(torch.linspace(-0.4, 0.4, size))
        optimizer = CoLA(
            [weight],
            lr=0.01,
            momentum=0.9,
            temperature=temperature,
            constraint=Circle(0.5),
            fused=fused,
            seed=5,
        )
        for _ in range(3):
            weight.grad = weight.detach() - 0.1
            optimizer.step()
        found.append(weight.detach())
    torch.testing.assert_close(*found, rtol=0, atol=1e-5)


@pytest.mark.parametrize("start", [(True, False), (False, True)], ids=["to formulas", "to kernel"])
def test_a_run_may_go_on_without_or_with_the_kernel(start: tuple[bool, bool]) -> None:
    """Kernel and formulas read and write one state."""
    weight = nn.Parameter(torch.linspace(-0.4, 0.4, 50))
    options: dict[str, Any] = {"lr": 0.01, "momentum": 0.9, "temperature": 0.05, "seed": 5}
    optimizer = CoLA([weight], constraint=Circle(0.5), fused=start[0], **options)
    twin = nn.Parameter(weight.detach().clone())
    other = CoLA([twin], constraint=Circle(0.5), fused=start[0], **options)
    for part in range(2):
        for _ in range(5):
            for w, o in ((weight, optimizer), (twin, other)):
                w.grad = w.detach() - 0.1
                o.step()
        if part == 0:
            saved = other.state_dict()
            other = CoLA([twin], constraint=Circle(0.5), fused=start[1], **options)
            other.load_state_dict(saved)
    torch.testing.assert_close(weight, twin, rtol=0, atol=1e-5)


class Own(Orthogonal):
    """A subclass may be another geometry."""


@pytest.mark.parametrize(
    "constraint",
    [
        Sphere(1.0, dim=1),
        Sphere(1.0, equality=True, dim=1),
        Own(),
        General(lambda w: w.square().sum() - 1.0),
    ],
    ids=["sphere", "unit-norm", "subclass", "general"],
)
def test_where_there_is_no_kernel_it_is_said(constraint: Any) -> None:
    weight = nn.Parameter(torch.eye(3))
    with pytest.raises(RuntimeError, match="fused"):
        optimizer = CoLA([weight], lr=0.1, constraint=constraint, fused=True)
        weight.grad = torch.ones(3, 3)
        optimizer.step()


def test_radii_run_or_are_refused() -> None:
    """A radius for each weight: a kernel that holds each of them, or a word about it."""
    radii = torch.linspace(0.1, 1.0, 20)
    found = []
    for fused in (False, True):
        weight = nn.Parameter(0.5 * radii)
        optimizer = None
        try:
            optimizer = CoLA(
                [weight], lr=0.01, momentum=0.9, constraint=Circle(radii), fused=fused, seed=5
            )
            for _ in range(STEPS):
                weight.grad = -torch.ones(20)
                optimizer.step()
        except RuntimeError as refusal:
            assert fused and "fused" in str(refusal)
            return
        found.append(weight.detach())
    torch.testing.assert_close(*found, rtol=0, atol=1e-5)
