"""Rows of spheres against ``Sphere``, and what their bits must not depend on."""

from __future__ import annotations

import math
import shutil
from array import array
from pathlib import Path

import pytest
import torch
from torch import Tensor

from colangevin import Sphere, State
from colangevin.integrators.pieces import advance
from colangevin.integrators.scheme import Action, Drift, Impulse, Overdamped
from colangevin.native import building, lay_out, library, segment, step_elements
from colangevin.native.memory import kernel
from native.steps import SEED, SEEDS, flatten, noise
from registry import RUNS, Run, ids

pytestmark = pytest.mark.usefixtures("kernels")

DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-13}
SHAPES = [(5, 1), (7, 2), (300, 3), (3, 17), (9, 256), (2, 511), (3, 512), (2, 1500), (1, 5000)]
"""Many rows in a block, one, and rows of several blocks."""
RADIUS = 0.7
ALL: tuple[Action, ...] = (
    Impulse(0.9, 1.0, 0.1),
    Drift(-0.1),
    Impulse(0.9, None, 0.2),
    Drift(-0.2),
    Overdamped(0.05, 0.05),
    Drift(-0.1),
    Overdamped(0.05, None),
)


class Rows:
    """Rows on a sphere, or in its ball, with momenta and gradients."""

    def __init__(
        self, shape: tuple[int, int], dtype: torch.dtype, equality: bool, radii: bool = False
    ) -> None:
        draw = torch.Generator().manual_seed(sum(shape))

        def randn(*size: int) -> Tensor:
            return torch.randn(size, dtype=torch.float64, generator=draw)

        radius: float | Tensor = RADIUS
        if radii:
            radius = (0.5 + randn(shape[0]).abs()).to(dtype).double()
        self.sphere = Sphere(radius, equality=equality)
        position = self.sphere.place(randn(*shape))
        state = State(position, slack=self.sphere.lift(position))
        made = self.sphere.sample_momentum(state, 1.0, lambda like: randn(*like.shape))
        self.state = made.map(lambda tensor: tensor.to(dtype).contiguous())
        self.gradient = randn(*shape).to(dtype) / math.sqrt(shape[1])
        self.length = shape[1]

    def copy(self) -> Rows:
        made = object.__new__(Rows)
        made.__dict__.update(self.__dict__, state=self.state.map(torch.clone))
        return made

    def run(self, actions: tuple[Action, ...], made: int = 0, decay: float = 0.0) -> None:
        x, v, y, w = self.state.tensors
        radius = self.sphere.radius
        radii = radius.to(self.gradient.dtype) if isinstance(radius, Tensor) else None
        own = segment(
            *("sphere", x, v, y),  # type: ignore[arg-type]
            seeds=SEEDS,
            ordinal=4,
            radius=radii,
            length=self.length,
            slack_momentum=w,
        )
        own.step = made
        kinds, values = flatten(actions)
        head = [decay, radius if isinstance(radius, float) else 0.0, 0.0]
        table = array("q", kinds), array("d", [*head, *values])
        step_elements(self.gradient.dtype, lay_out([own]), *table, [self.gradient])

    def expected(self, actions: tuple[Action, ...], made: int = 0, decay: float = 0.0) -> State:
        """In float64, with the noise of the dtype."""
        draws = noise(4, made)
        state = self.state.map(lambda tensor: tensor.to(torch.float64, copy=True))
        slope = (self.gradient + decay * self.state.position).double()
        dtype = self.gradient.dtype
        return advance(
            self.sphere, state, slope, actions, lambda like: draws(like.to(dtype)).double()
        )

    def check(self, wanted: State) -> None:
        for found, value in zip(self.state.tensors, wanted.tensors, strict=True):
            assert (found is None) == (value is None)
            if found is not None and value is not None:
                scale = max(1.0, float(value.abs().max()))
                assert float((found - value).abs().max()) <= TOLERANCE[found.dtype] * scale


def same(one: Rows, two: Rows) -> bool:
    pairs = zip(one.state.tensors, two.state.tensors, strict=True)
    return all(a is b or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs)


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("equality", [True, False])
def test_a_step_is_that_of_sphere(
    shape: tuple[int, int], equality: bool, dtype: torch.dtype
) -> None:
    if equality and shape[1] == 1:
        return  # it cannot move
    for word in RUNS:
        for temperature, decay in ((0.0, 0.0), (0.02, 0.3)):
            late = word.delayed  # then Python adds the weight decay
            actions = word.dynamics(0.1, 2.0, temperature).actions(False)
            rows = Rows(shape, dtype, equality, radii=word.overdamped)
            wanted = rows.expected(actions, 3, 0.0 if late else decay)
            rows.run(actions, 3, 0.0 if late else decay)
            rows.check(wanted)
            residual = rows.sphere.residual(rows.state).abs().max()
            assert residual < (1e-6 if dtype == torch.float32 else 1e-14)


@pytest.mark.parametrize("equality", [True, False])
def test_many_steps_stay_on_the_sphere(equality: bool) -> None:
    rows = Rows((5, 40), torch.float32, equality)
    for made in range(2000):
        rows.run((Impulse(0.99, 1.0, 0.1), Drift(-0.3)), made)
    assert rows.sphere.residual(rows.state).abs().max() < 1e-6
    assert rows.sphere.cotangency(rows.state).abs().max() < 1e-6


@pytest.mark.parametrize("turns", [0.3, 2.0, 3.0, 4.0, 7.0, -5.0])
def test_a_great_circle_may_go_round(turns: float) -> None:
    """Angles beyond π, which are brought back to it."""
    rows = Rows((6, 9), torch.float64, True)
    speed = rows.state.momentum.norm(dim=1, keepdim=True)  # type: ignore[union-attr]
    rows.state.momentum.mul_(RADIUS / speed)  # type: ignore[union-attr]
    wanted = rows.expected((Drift(turns),))
    rows.run((Drift(turns),))
    rows.check(wanted)


def test_threads_change_no_bit() -> None:
    for shape in ((4000, 50), (3, 60_000)):
        for equality in (True, False):
            one = Rows(shape, torch.float32, equality)
            two = one.copy()
            one.run(ALL, 2)
            torch.set_num_threads(2)
            try:
                two.run(ALL, 2)
            finally:
                torch.set_num_threads(1)
            assert same(one, two)


def has_avx512() -> bool:
    path = Path("/proc/cpuinfo")
    return shutil.which("gcc") is not None and path.exists() and "avx512f" in path.read_text()


@pytest.mark.skipif(not has_avx512(), reason="needs gcc and a processor with AVX-512")
def test_instructions_change_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(kernel.cache_clear)
    monkeypatch.setattr(building, "packaged", lambda name: "absent.so")
    monkeypatch.setenv("COLANGEVIN_CACHE", str(tmp_path / "cache"))
    start = [Rows(shape, dtype, False) for shape in SHAPES for dtype in DTYPES]
    found = []
    for flag in ("-mavx512f", "-mno-avx512f"):
        monkeypatch.setenv("CC", f"gcc {flag}")
        monkeypatch.setattr(library, "_found", {})
        assert library.load() is not None, library.reason()
        kernel.cache_clear()
        copies = [rows.copy() for rows in start]
        for rows in copies:
            rows.run(ALL, 2)
        found.append(copies)
    assert all(same(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
def test_nan_stays_in_its_row(dtype: torch.dtype) -> None:
    rows = Rows((6, 30), dtype, False)
    clean = rows.copy()
    rows.state.position[2, 5] = math.nan
    rows.run(ALL)
    clean.run(ALL)
    others = torch.arange(6) != 2
    assert rows.state.position[2].isnan().all()
    for found, value in zip(rows.state.tensors, clean.state.tensors, strict=True):
        assert found is not None and value is not None and torch.equal(found[others], value[others])


@pytest.mark.parametrize("word", RUNS[:2], ids=ids)
def test_a_huge_gradient_is_survived(word: Run) -> None:
    rows = Rows((4, 20), torch.float32, True)
    rows.gradient[1, 3] = 1e30
    rows.run(word.dynamics(0.1, 2.0, 0.0).actions(False))
    assert all(tensor is None or bool(tensor.isfinite().all()) for tensor in rows.state.tensors)
    assert rows.sphere.residual(rows.state).abs().max() < 1e-6


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
def test_a_row_pressed_against_its_bound_can_leave(dtype: torch.dtype) -> None:
    """Its slack is held away from 0, as in the formulas."""
    rows = Rows((4, 6), dtype, False)
    least = math.sqrt(torch.finfo(dtype).eps) * RADIUS
    rows.gradient = -1e9 * rows.state.position
    for made in range(5):
        rows.run((Overdamped(0.1, None),), made)
    assert rows.state.slack is not None
    torch.testing.assert_close(rows.state.slack, torch.full_like(rows.state.slack, least))
    for made in range(200):
        rows.gradient = rows.state.position.clone()
        rows.run((Overdamped(0.1, None),), made)
    assert bool((rows.state.slack > 0.1 * RADIUS).all())


@pytest.mark.parametrize("length", [3, 700])
def test_members_have_their_seeds_numbers_and_slacks(length: int) -> None:
    rows, apart = (Rows((6, length), torch.float32, False) for _ in range(2))
    seeds, (kinds, values) = array("q", [SEED, 5, -6]), flatten(ALL[:2])
    numbers = [[0.0, RADIUS + m, 0.0, *values] for m in range(3)]
    kinds_ = array("q", kinds)

    def part(item: Rows, first: int, last: int, own: array[int]) -> object:
        x, v, y, w = (None if t is None else t[first:last] for t in item.state.tensors)
        return segment(
            *("sphere", x, v, y),  # type: ignore[arg-type]
            seeds=own,
            ordinal=2,
            members=len(own),
            length=length,
            slack_momentum=w,
        )

    table = lay_out([part(rows, 0, 6, seeds)])  # type: ignore[list-item]
    every = array("d", [number for own in numbers for number in own])
    step_elements(torch.float32, table, kinds_, every, [rows.gradient])
    for m in range(3):
        ends = slice(2 * m, 2 * m + 2)
        own = seeds[m : m + 1]
        table = lay_out([part(apart, 2 * m, 2 * m + 2, own)])  # type: ignore[list-item]
        slope = apart.gradient[ends]
        step_elements(torch.float32, table, kinds_, array("d", numbers[m]), [slope])
    assert same(rows, apart)
