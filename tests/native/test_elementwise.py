"""The kernel's steps against ``advance``, and what they must not depend on."""

from __future__ import annotations

import math
import shutil
from array import array
from pathlib import Path

import pytest
import torch
from torch import Tensor

from colangevin import Circle, State
from colangevin.integrators.scheme import Action, Drift, Impulse, Overdamped
from colangevin.native import Segment, building, library, segment
from colangevin.native.memory import kernel
from native.steps import Piece, expected, flatten, piece, run, segment_of, step
from registry import RUNS, Run, ids

pytestmark = pytest.mark.usefixtures("kernels")

GEOMETRIES = ["free", "circle", "radii"]
SIZES = [0, 1, 31, 32, 33, 1023]
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-13}
SHORT = 4.0
"""Among many proposals of an overdamped step some are short, and their projection enlarges
rounding."""
DTYPES = [torch.float32, torch.float64]


def check(
    item: Piece,
    actions: tuple[Action, ...],
    before: Piece,
    step: int,
    draw: int = 0,
    slack: float = 1.0,
) -> None:
    wanted = expected(before, actions, step, draw)
    pairs = zip(points(item.state, item.radius), points(wanted, item.radius), strict=True)
    for found, value in pairs:
        if found is not None and value is not None and value.numel():
            scale = max(1.0, float(value.abs().max()))
            assert (found - value).abs().max() <= slack * TOLERANCE[found.dtype] * scale


def points(state: State, radius: float | Tensor) -> tuple[Tensor | None, ...]:
    """(θ, ξ) in the place of an angle: from −π to π is no way at all."""
    x, v, angle, *rest = state.tensors
    pair = (None, None) if angle is None else (radius * angle.sin(), radius * angle.cos())
    return (x, v, *pair, *rest)


def actions_of(word: Run, temperature: float, first: bool = False) -> tuple[Action, ...]:
    return word.dynamics(0.1, 2.0, temperature).actions(first)


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
@pytest.mark.parametrize("word", RUNS, ids=ids)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_segments_of_all_sizes_at_once(geometry: str, word: Run, dtype: torch.dtype) -> None:
    """Twice, the second time with another count of steps and another first draw."""
    for temperature, weight_decay in ((0.0, 0.0), (0.5, 0.3)):
        sizes = enumerate(SIZES)
        pieces = [piece(geometry, size, dtype, index, weight_decay) for index, size in sizes]
        for made in (0, 5):
            actions = actions_of(word, temperature, first=made == 0)
            before = [item.copy() for item in pieces]
            run(pieces, actions, made, draw=made)
            for item, old in zip(pieces, before, strict=True):
                check(item, actions, old, made, draw=made)


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_segment_of_many_blocks(geometry: str, dtype: torch.dtype) -> None:
    for word in (RUNS[0], RUNS[3]):  # overdamped, and BAOAB
        item = piece(geometry, 100_003, dtype, 1, 0.1)
        before, actions = item.copy(), actions_of(word, 0.5)
        run([item], actions, 3)
        check(item, actions, before, 3, slack=SHORT)


def states(item: Piece) -> list[Tensor]:
    return [tensor for tensor in item.state if tensor is not None]


def same(one: Piece, two: Piece) -> bool:
    return all(torch.equal(a, b) for a, b in zip(states(one), states(two), strict=True))


ALL: tuple[Action, ...] = (
    Impulse(0.9, 1.0, 0.1),
    Drift(-0.1),
    Impulse(0.9, None, 0.2),
    Drift(-0.2),
    Impulse(0.5, 0.5, None),
    Overdamped(0.1, 0.1),
    Drift(-0.1),
    Overdamped(0.1, None),
)


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_threads_change_no_bit(geometry: str, dtype: torch.dtype) -> None:
    """One huge segment between tiny ones, and hundreds of tiny ones."""
    for sizes in ([5, 200_001, 700], [317] * 300):
        one = [piece(geometry, size, dtype, i, 0.1) for i, size in enumerate(sizes)]
        two = [item.copy() for item in one]
        run(one, ALL, 2)
        torch.set_num_threads(2)
        try:
            run(two, ALL, 2)
        finally:
            torch.set_num_threads(1)
        assert all(same(a, b) for a, b in zip(one, two, strict=True))


def processor() -> set[str]:
    """The names of its instructions, where Linux says them."""
    found = Path("/proc/cpuinfo")
    return set(found.read_text().split()) if found.exists() else set()


@pytest.mark.skipif(
    not {"avx2", "fma", "avx512f", "avx512dq"} <= processor() or shutil.which("gcc") is None,
    reason="the processor has one set of instructions, or there is no gcc",
)
def test_instructions_change_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(kernel.cache_clear)
    monkeypatch.setattr(building, "packaged", lambda name: "absent.so")
    monkeypatch.setenv("COLANGEVIN_CACHE", str(tmp_path / "cache"))
    start = [
        [piece(geometry, size, dtype, i, 0.1) for i, size in enumerate(SIZES)]
        for geometry in GEOMETRIES
        for dtype in DTYPES
    ]
    found: list[list[Piece]] = []
    functions = []
    for flag in ("-mavx512f", "-mno-avx512f"):
        monkeypatch.setenv("CC", f"gcc {flag}")
        monkeypatch.setattr(library, "_found", {})
        assert library.load() is not None, library.reason()
        kernel.cache_clear()
        functions.append(kernel("kernels", "cola_step"))
        copies = [[item.copy() for item in pieces] for pieces in start]
        for pieces in copies:
            run(pieces, ALL, 2)
        found.append([item for pieces in copies for item in pieces])
    assert functions[0] is not functions[1]
    assert all(same(a, b) for a, b in zip(*found, strict=True))
    assert not same(found[0][-1], start[-1][-1])


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_parameter_in_two_pieces_moves_as_a_whole(geometry: str, dtype: torch.dtype) -> None:
    """Wherever it is cut, also where memory is not aligned."""
    start, whole = (piece(geometry, 5000, dtype, 4) for _ in range(2))
    run([whole], ALL, 7)
    kinds, numbers = flatten(ALL)
    radius = 0.0 if geometry == "radii" else whole.radius
    for cut in (1, 17, 512, 1000, 4999):
        parts, slices = start.copy(), (slice(0, cut), slice(cut, 5000))
        segments = [segment_of(parts, part) for part in slices]
        gradients = [whole.gradient[part] for part in slices]
        step(segments, gradients, kinds, [0.0, radius, 0.0, *numbers], made=7)
        assert same(whole, parts)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("geometry", ["free", "circle"])
def test_members_move_as_if_alone(geometry: str, turned: bool) -> None:
    """Three stacked matrices, each with its seed and its row, after a parameter of one."""
    seeds, (kinds, values) = array("q", [5, -6, 7]), flatten(ALL)
    owns = [seeds[m : m + 1] for m in range(3)]
    rows = [[0.1 * m, 0.4, 0.0, *(value / (1 + m) for value in values)] for m in range(3)]
    one, two = (piece(geometry, 1050, torch.float32, 2) for _ in range(2))
    slope = one.gradient.view(3, 50, 7)
    slope = slope.mT.contiguous().mT if turned else slope

    def part(item: Piece, first: int, last: int, own: array[int]) -> Segment:
        x, v, y, _ = (None if t is None else t[first:last] for t in item.state.tensors)
        assert x is not None
        return segment(geometry, x, v, y, seeds=own, ordinal=2, members=len(own))

    before = piece(geometry, 30, torch.float32, 2)
    segments = [part(before, 0, 30, owns[0]), part(one, 0, 1050, seeds)]
    step(segments, [before.gradient, slope], kinds, rows[0] + rows[1] + rows[2], 4, 2)
    for m, own in enumerate(owns):
        ends = (350 * m, 350 * m + 350)
        step([part(two, *ends, own)], [two.gradient[slice(*ends)]], kinds, rows[m], 4, 2)
    assert same(one, two)


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
@pytest.mark.parametrize("radius", [0.1, 0.7, 1e-4, 1e4])
def test_no_weight_exceeds_its_radius(radius: float, dtype: torch.dtype) -> None:
    """In float32 0.1 is rounded up."""
    item = piece("circle", 1000, dtype, 0)
    item.constraint = Circle(radius)
    angle = torch.linspace(-4, 4, 1000, dtype=torch.float64)
    item.state.position.copy_(radius * angle.sin())
    assert item.state.slack is not None
    item.state.slack.copy_(torch.remainder(angle + math.pi, 2 * math.pi) - math.pi)
    for made in range(50):
        run([item], (Impulse(0.9, 1.0, 0.5), Drift(-0.1), Overdamped(0.1, 0.1)), made)
        assert item.state.position.double().abs().max() <= radius
        assert item.state.slack.cos().abs().min() > 0
        assert off_circle(item) < 2 * TOLERANCE[dtype]


def off_circle(item: Piece) -> float:
    """How far θ is from r sin φ, relative to r."""
    assert item.state.slack is not None
    assert item.state.slack.abs().max() <= math.pi + 1e-6
    return float((item.state.position / item.radius - item.state.slack.sin()).abs().max())


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
def test_a_weight_pressed_against_its_bound_can_leave(dtype: torch.dtype) -> None:
    item = piece("circle", 64, dtype, 0)
    item.gradient = torch.full((64,), -5.0, dtype=dtype)
    overdamped = (Overdamped(0.1, None),)
    for made in range(100):
        run([item], overdamped, made)
    assert (item.state.position > 0.999 * item.radius).all()
    item.gradient = -item.gradient
    for made in range(100):
        run([item], overdamped, made)
    assert (item.state.position < 0).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
@pytest.mark.parametrize("geometry", ["circle", "radii"])
def test_a_huge_gradient_is_survived(geometry: str, dtype: torch.dtype) -> None:
    item = piece(geometry, 100, dtype, 0)
    calm, wild = item.gradient, item.gradient.clone()
    wild[::3] = 1e21
    wild[1::3] = -1e30
    other = item.copy()
    for made in range(5):
        item.gradient = wild if made == 0 else calm
        run([item], (Impulse(0.9, 1.0, None), Drift(-0.1)), made)
        run([other], (Impulse(0.9, 1.0, None), Drift(-0.1)), made)
        assert all(tensor.isfinite().all() for tensor in states(item))
    assert off_circle(item) < TOLERANCE[dtype]
    for tensor, undisturbed in zip(states(item), states(other), strict=True):
        assert torch.equal(tensor[2::3], undisturbed[2::3])


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
@pytest.mark.parametrize("geometry", ["circle", "radii"])
def test_a_huge_overdamped_proposal_is_projected_to_its_bound(
    geometry: str, dtype: torch.dtype
) -> None:
    item = piece(geometry, 100, dtype, 0)
    item.gradient[::2] = 1e30
    item.gradient[1::2] = -1e38
    run([item], (Overdamped(0.1, None),), 0)
    assert torch.equal(item.state.position.sign(), -item.gradient.sign())
    assert ((item.state.position / item.radius).abs() - 1).abs().max() < 1e-6


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
def test_the_bound_is_kept_wherever_the_block_needs_it(dtype: torch.dtype) -> None:
    """One weight of many thousand is turned to its bound."""
    for place in (0, 1, 511, 512, 1023, 2999):
        item = piece("circle", 3000, dtype, 0)
        item.state.position.fill_(0.0)
        item.state.slack.zero_()
        item.state.momentum.zero_()
        item.state.momentum[place] = math.pi / 2
        run([item], (Drift(1.0),), 0)
        assert item.state.position.double().abs().max() <= item.radius
        floor = math.sqrt(torch.finfo(dtype).eps)
        assert float(item.state.slack[place].cos().abs()) >= 0.99 * floor
        assert int((item.state.position != 0).sum()) == 1


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
@pytest.mark.parametrize("geometry", ["circle", "radii"])
@pytest.mark.parametrize("together", [True, False])
def test_the_angle_is_what_counts(geometry: str, dtype: torch.dtype, together: bool) -> None:
    """What was written to weights alone is lost with the next drift, as in ``advance``."""
    item = piece(geometry, 600, dtype, 0)
    ratio = torch.linspace(-0.9, 0.9, 600, dtype=dtype)
    ratio[::100] = torch.tensor([0.0, 2.0, -3.0, 1e20, 1.0, -1.0], dtype=dtype)
    other = item.copy()
    item.state.position.copy_(ratio * item.radius)
    before = item.copy()
    moves = (Impulse(1.0, 1.0, None), Drift(-1e-3)) if together else (Drift(-1e-3),)
    run([item], moves, 0)
    run([other], moves, 0)
    assert same(item, other)
    check(item, moves, before, 0)


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_nan_stays_and_stays_alone(geometry: str, dtype: torch.dtype) -> None:
    item = piece(geometry, 70, dtype, 0)
    clean = item.copy()
    (item.state.position if geometry == "free" else item.state.slack)[33] = math.nan
    run([item], ALL, 0)
    run([clean], ALL, 0)
    others = torch.arange(70) != 33
    assert item.state.position[33].isnan()
    for tensor, value in zip(states(item), states(clean), strict=True):
        assert torch.equal(tensor[others], value[others])


def test_rotations_are_right_for_all_angles() -> None:
    """Of float64, whose sine and cosine are the kernel's own."""
    item = piece("circle", 20_000, torch.float64, 0)
    item.state.momentum.copy_(torch.linspace(-60.0, 60.0, 20_000, dtype=torch.float64))
    item.state.momentum[:8] = torch.tensor([1e3, -1e4, 1e5, 9e5, -9e5, 0.0, 1e-300, 5e-9])
    before = item.copy()
    run([item], (Drift(1.0),), 0)
    r, start, angle = before.radius, before.state.slack, before.state.momentum
    x, y = r * start.sin(), r * start.cos()
    assert (item.state.position - (x * angle.cos() + y * angle.sin())).abs().max() < 1e-15
    slack = r * item.state.slack.cos()
    assert (slack - (y * angle.cos() - x * angle.sin())).abs().max() < 1e-8  # not at ±π/2
