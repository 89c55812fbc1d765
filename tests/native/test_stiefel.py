"""Steps of small matrices against ``Orthogonal``, and what happens to those that fail."""

import math
from array import array
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from colangevin import Orthogonal, State
from colangevin.integrators.pieces import advance
from colangevin.integrators.scheme import Action, Drift, Impulse, Overdamped
from colangevin.native import Stack, field, lay_out, load, reason, stack, step_matrices
from colangevin.native.stiefel import DONE, FAILED, FAR, is_small
from native.steps import SEED, flatten, noise
from registry import ids

DTYPES = [torch.float32, torch.float64]
# The kernel ends the iteration for each matrix, ``advance`` for all of them at once: positions
# agree to the tolerance of the constraint, momenta to this over the step.
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-13}
SHAPES = [
    (3, 64, 32),
    (3, 32, 64),
    (2, 5, 5),
    (2, 7, 1),
    (2, 1, 7),
    (1, 1, 1),
    (4, 27, 17),
    (2, 17, 100),
    (1, 96, 96),
    (0, 4, 2),
]


@pytest.fixture(autouse=True)
def stiefel() -> None:
    if load("stiefel") is None or load() is None:
        pytest.skip(f"no kernels: {reason('stiefel') or reason()}")


def weights(shape: tuple[int, int, int], dtype: torch.dtype, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    raw = torch.randn(shape, dtype=torch.float64, generator=generator)
    if not raw.numel():
        return raw.to(dtype)
    constraint = Orthogonal(batch_dims=1, scale=scale)
    return (
        constraint.from_batch(constraint.place(constraint.to_batch(raw)), raw.shape)
        .to(dtype)
        .contiguous()
    )


def random(like: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    made = torch.randn(like.shape, dtype=torch.float64, generator=generator)
    return (made / math.sqrt(max(1, like.shape[-1]))).to(like.dtype)


def numbers_of(
    actions: Sequence[Action], weight_decay: float = 0.0, scale: float = 1.0, dtype: object = None
) -> tuple[list[int], list[float]]:
    kinds, values = flatten(actions)
    tolerance = 1e-14 if dtype == torch.float64 else 5e-7
    return kinds, [weight_decay, scale, tolerance, 40, *values]


def step(
    stacks: Sequence[Stack], gradients: Sequence[Tensor], kinds: Sequence[int], numbers: list[float]
) -> tuple[list[int], list[int]]:
    """Iterations and outcomes of all matrices."""
    own, dtype = lay_out(stacks), gradients[0].dtype
    found = step_matrices(dtype, own, array("q", kinds), array("d", numbers), gradients)
    return found[::2].tolist(), found[1::2].tolist()


def run(
    x: Tensor, v: Tensor, g: Tensor, actions: Sequence[Action], made: int = 0, **numbers: float
) -> tuple[list[int], list[int]]:
    own = stack(x, v, rows=x.shape[1], columns=x.shape[2], ordinal=3)
    own.seed, own.step = SEED, made
    return step([own], [g], *numbers_of(actions, dtype=x.dtype, **numbers))


def check(
    found: tuple[Tensor, Tensor],
    start: tuple[Tensor, Tensor, Tensor],
    actions: Sequence[Action],
    weight_decay: float,
    scale: float,
) -> None:
    """Noise is numbered in the order of the memory, whatever the layout of the batch is."""
    x, v, g = start
    constraint = Orthogonal(batch_dims=1, scale=scale)
    make = noise(3, 0)
    state = State(constraint.to_batch(x), constraint.to_batch(v)).map(torch.clone)
    gradient = constraint.to_batch(g + weight_decay * x)
    wanted = advance(
        constraint, state, gradient, actions, lambda like: constraint.to_batch(make(x))
    )
    assert wanted.momentum is not None
    limit = TOLERANCE[x.dtype]
    assert (constraint.to_batch(found[0]) - wanted.position).abs().max() < limit * scale
    # What the multiplier leaves in the normal space is no part of the momentum.
    closed = [
        constraint.close(wanted._replace(momentum=momentum)).momentum
        for momentum in (wanted.momentum, constraint.to_batch(found[1]))
    ]
    assert closed[0] is not None and closed[1] is not None
    assert (closed[0] - closed[1]).abs().max() < 1000 * limit


MOVES = (Impulse(0.9, 1.0, 0.1), Drift(-0.01), Overdamped(0.01, 0.01))
QUIET = (Drift(-0.02), Impulse(0.9, 1.0, None), Drift(-0.02), Overdamped(0.01, None))


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_step_is_that_of_orthogonal(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    """With noise, of which every draw has its own, and without."""
    for actions, weight_decay, scale in ((MOVES, 0.3, 1.0), (QUIET, 0.0, 1.5)):
        x = weights(shape, dtype, scale)
        v, g = random(x, 1), random(x, 2)
        start = (x.clone(), v.clone(), g)
        iterations, outcomes = run(x, v, g, actions, weight_decay=weight_decay, scale=scale)
        assert outcomes == [DONE] * shape[0]
        if shape[0]:
            check((x, v), start, actions, weight_decay, scale)
            small = Orthogonal(batch_dims=1, scale=scale).residual(
                State(Orthogonal(batch_dims=1).to_batch(x))
            )
            assert small.abs().max() < (2e-6 if dtype == torch.float32 else 1e-13)
            assert min(iterations) >= 1


def test_many_steps_stay_on_the_manifold() -> None:
    x = weights((4, 64, 32), torch.float32)
    v, g = torch.zeros_like(x), random(x, 2)
    for made in range(300):
        run(x, v, g, (Impulse(0.9, 1.0, 0.1), Drift(-0.01)), made)
    off = x.mT @ x - torch.eye(32)
    assert off.abs().max() < 2e-6


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
def test_threads_neighbours_and_stacks_change_no_bit(dtype: torch.dtype) -> None:
    """One stack with two threads against a matrix at a time."""
    whole = weights((40, 64, 32), dtype)
    v, g = random(whole, 1), random(whole, 2)
    x1, v1 = whole.clone(), v.clone()
    torch.set_num_threads(2)
    try:
        together = run(x1, v1, g, MOVES)
    finally:
        torch.set_num_threads(1)
    x2, v2, each = whole.clone(), v.clone(), []
    for i in range(40):
        each.append(stack(x2[i], v2[i], rows=64, columns=32, ordinal=3))
        each[i].seed, each[i].first = SEED, i * 64 * 32
    alone = step(each, list(g), *numbers_of(MOVES, dtype=dtype))
    assert torch.equal(x1, x2) and torch.equal(v1, v2)
    assert together == alone


class TestFailures:
    @pytest.mark.parametrize("shape", [(5, 8, 3), (5, 3, 8)], ids=str)
    @pytest.mark.parametrize("value", [math.nan, math.inf, 1e30, 1e3])
    @pytest.mark.parametrize("kind", [(Drift(-1.0),), (Overdamped(1.0, None),)])
    def test_who_fails_is_left_alone_and_leaves_others_alone(
        self, kind: tuple[Action, ...], value: float, shape: tuple[int, int, int]
    ) -> None:
        x = weights(shape, torch.float32)
        v, g = 0.01 * random(x, 1), 0.01 * random(x, 2)
        calm = (x.clone(), v.clone())
        run(*calm, g, (Impulse(0.5, 1.0, None), *kind))
        g[2, 1, 1] = value
        start = (x.clone(), v.clone())
        _, outcomes = run(x, v, g, (Impulse(0.5, 1.0, None), *kind))
        assert outcomes.pop(2) in (FAILED, FAR)
        assert outcomes == [DONE] * 4
        for new, old, other in zip((x, v), start, calm, strict=True):
            assert torch.equal(new[2], old[2])
            rest = torch.arange(5) != 2
            assert torch.equal(new[rest], other[rest])

    def test_far_proposals_are_told_apart(self) -> None:
        """An entry of Q̄ᵀQ̄ is beyond 2: ``Orthogonal`` then polishes what it has found."""
        for factor, outcome in ((0.4, DONE), (0.5, FAR)):
            x = weights((1, 4, 1), torch.float64)
            old = x.clone()
            found = run(x, torch.zeros_like(x), -factor * old, (Overdamped(1.0, None),))
            assert found[1] == [outcome]
            assert (x - old).abs().max() < 1e-14

    def test_too_few_iterations(self) -> None:
        x = weights((2, 8, 3), torch.float64)
        old = x.clone()
        own = stack(x, None, rows=8, columns=3, ordinal=0)
        numbers = [0.0, 1.0, 1e-14, 1.0, 0.1, 0.0, 0.0]
        assert step([own], [random(x, 1)], [3], numbers) == ([1, 1], [FAILED] * 2)
        assert torch.equal(x, old)


def test_stacks_that_do_not_fit() -> None:
    for arguments, message in (
        ((torch.zeros(3, 2), None, 4, 2), "position must be matrices of 4 × 2, got 6 entries"),
        ((torch.zeros(0), None, 0, 2), "rows must be at least 1, got 0"),
        ((torch.zeros(2, 2), torch.zeros(2, 2).T, 2, 2), "momentum must be a plain contiguous"),
    ):
        position, momentum, rows, columns = arguments
        with pytest.raises(ValueError, match=message):
            stack(position, momentum, rows=rows, columns=columns, ordinal=0)


def test_numbers_and_gradients_must_fit() -> None:
    own, slope = stack(torch.eye(2), None, rows=2, columns=2, ordinal=0), torch.zeros(2, 2)
    with pytest.raises(ValueError, match="numbers must be 7 or more, got 6"):
        step([own], [slope], [3], [0.0] * 6)
    with pytest.raises(ValueError, match="momentum is needed"):
        step([own], [slope], [2], [0.0] * 7)
    with pytest.raises(ValueError, match="a gradient must be"):
        step([own], [slope[:1]], [3], [0.0] * 7)


def test_stacks_have_rows_counts_and_results_of_their_own() -> None:
    """Two stacks at once against one at a time; addresses of gradients may be filled in."""
    numbers = [numbers_of(MOVES, decay, dtype=torch.float64)[1] for decay in (0.0, 0.5)]
    kinds, found = numbers_of(MOVES)[0], []
    for together in (True, False):
        xs = [weights((count, 6, 3), torch.float64) for count in (1, 2)]
        vs, gs = ([random(x, seed) for x in xs] for seed in (1, 2))
        gs[1][1] *= 1e3
        each = []
        for row, (x, v) in enumerate(zip(xs, vs, strict=True)):
            own = stack(x, v, rows=6, columns=3, ordinal=row)
            own.row, own.seed, own.step, own.draw = row * together, row, row, row
            own.gradient = gs[row].data_ptr()
            each.append(own)
        if together:
            rows, values = lay_out(each), array("d", numbers[0] + numbers[1])
            results = step_matrices(torch.float64, rows, array("q", kinds), values)
            assert len(set(rows[field(Stack, "result")])) == 2
            outcomes = results[1::2].tolist()
        else:
            pairs = zip(each, gs, numbers, strict=True)
            first, second = (step([own], [g], kinds, value)[1] for own, g, value in pairs)
            outcomes = first + second
        found.append((xs, vs, outcomes))
    assert found[0][2] == found[1][2] and found[0][2][:2] == [DONE] * 2 != found[0][2][1:]
    for one, other in zip(found[0][0] + found[0][1], found[1][0] + found[1][1], strict=True):
        assert torch.equal(one, other)


def test_only_small_matrices() -> None:
    assert is_small(128, 512) and is_small(512, 128)
    assert not is_small(129, 129) and not is_small(128, 513)
