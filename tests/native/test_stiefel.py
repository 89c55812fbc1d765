"""Steps of small matrices against ``Orthogonal``, and what happens to those that fail."""

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from colangevin import Orthogonal, State
from colangevin.integrators.pieces import advance
from colangevin.integrators.scheme import Action, Drift, Impulse, Overdamped
from colangevin.native import Stacks, load, reason
from colangevin.native.stiefel import DONE, FAILED, FAR, Result, is_small
from native.steps import SEED, flatten, noise
from registry import RUNS, Run, ids

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


def run(
    x: Tensor, v: Tensor, g: Tensor, actions: Sequence[Action], step: int = 0, **numbers: float
) -> Result:
    stacks = Stacks(x.dtype)
    stacks.add(x, v, rows=x.shape[1], columns=x.shape[2], ordinal=3, seed=SEED)
    kinds, values = numbers_of(actions, dtype=x.dtype, **numbers)
    return stacks.run([g], kinds, values, steps=[step])


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


@pytest.mark.parametrize("dtype", DTYPES, ids=ids)
@pytest.mark.parametrize("temperature", [0.0, 1e-3])
@pytest.mark.parametrize("word", RUNS, ids=ids)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_step_is_that_of_orthogonal(
    shape: tuple[int, int, int], word: Run, temperature: float, dtype: torch.dtype
) -> None:
    weight_decay, scale = (0.3, 1.0) if temperature else (0.0, 1.5)
    x = weights(shape, dtype, scale)
    v, g = random(x, 1), random(x, 2)
    start = (x.clone(), v.clone(), g)
    actions = word.dynamics(0.05, 2.0, temperature).actions(first=False)
    result = run(x, v, g, actions, weight_decay=weight_decay, scale=scale)
    assert list(result.outcomes) == [DONE] * shape[0]
    if shape[0]:
        check((x, v), start, actions, weight_decay, scale)
        small = Orthogonal(batch_dims=1, scale=scale).residual(
            State(Orthogonal(batch_dims=1).to_batch(x))
        )
        assert small.abs().max() < (2e-6 if dtype == torch.float32 else 1e-13)
        assert min(result.iterations) >= 1


def test_many_steps_stay_on_the_manifold() -> None:
    x = weights((4, 64, 32), torch.float32)
    v, g = torch.zeros_like(x), random(x, 2)
    for step in range(300):
        run(x, v, g, (Impulse(0.9, 1.0, 0.1), Drift(-0.01)), step)
    off = x.mT @ x - torch.eye(32)
    assert off.abs().max() < 2e-6


MOVES = (Impulse(0.9, 1.0, 0.1), Drift(-0.01), Overdamped(0.01, 0.01))


@pytest.mark.parametrize("shape", [(3, 20, 9), (3, 9, 20)], ids=str)
def test_every_draw_has_noise_of_its_own(shape: tuple[int, int, int]) -> None:
    x = weights(shape, torch.float64)
    v, g = random(x, 1), random(x, 2)
    start = (x.clone(), v.clone(), g)
    run(x, v, g, MOVES)
    check((x, v), start, MOVES, 0.0, 1.0)


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
    x2, v2 = whole.clone(), v.clone()
    stacks = Stacks(dtype)
    for i in range(40):
        place = {"rows": 64, "columns": 32, "ordinal": 3, "seed": SEED, "first": i * 64 * 32}
        stacks.add(x2[i], v2[i], **place)
    kinds, values = numbers_of(MOVES, dtype=dtype)
    alone = stacks.run(list(g), kinds, values, steps=[0] * 40)
    assert torch.equal(x1, x2) and torch.equal(v1, v2)
    assert list(together.iterations) == list(alone.iterations)


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
        result = run(x, v, g, (Impulse(0.5, 1.0, None), *kind))
        assert result.outcomes[2] in (FAILED, FAR)
        assert [o for i, o in enumerate(result.outcomes) if i != 2] == [DONE] * 4
        for new, old, other in zip((x, v), start, calm, strict=True):
            assert torch.equal(new[2], old[2])
            rest = torch.arange(5) != 2
            assert torch.equal(new[rest], other[rest])

    def test_far_proposals_are_told_apart(self) -> None:
        """An entry of Q̄ᵀQ̄ is beyond 2: ``Orthogonal`` then polishes what it has found."""
        for factor, outcome in ((0.4, DONE), (0.5, FAR)):
            x = weights((1, 4, 1), torch.float64)
            old = x.clone()
            result = run(x, torch.zeros_like(x), -factor * old, (Overdamped(1.0, None),))
            assert list(result.outcomes) == [outcome]
            assert (x - old).abs().max() < 1e-14

    def test_too_few_iterations(self) -> None:
        x = weights((2, 8, 3), torch.float64)
        stacks = Stacks(torch.float64)
        stacks.add(x, None, rows=8, columns=3, ordinal=0)
        old = x.clone()
        numbers = [0.0, 1.0, 1e-14, 1.0, 0.1, 0.0, 0.0]
        result = stacks.run([random(x, 1)], [3], numbers, steps=[0])
        assert list(result.outcomes) == [FAILED] * 2 and list(result.iterations) == [1, 1]
        assert torch.equal(x, old)


class TestTable:
    def test_shapes_must_fit(self) -> None:
        stacks = Stacks(torch.float32)
        with pytest.raises(ValueError, match="position must be matrices of 4 × 2, got 6 entries"):
            stacks.add(torch.zeros(3, 2), None, rows=4, columns=2, ordinal=0)
        with pytest.raises(ValueError, match="rows must be at least 1, got 0"):
            stacks.add(torch.zeros(0), None, rows=0, columns=2, ordinal=0)
        with pytest.raises(ValueError, match="momentum must be a plain contiguous"):
            stacks.add(torch.zeros(2, 2), torch.zeros(2, 2).T, rows=2, columns=2, ordinal=0)
        assert len(stacks) == 0

    def test_numbers_must_fit(self) -> None:
        stacks = Stacks(torch.float32)
        stacks.add(torch.eye(2), None, rows=2, columns=2, ordinal=0)
        with pytest.raises(ValueError, match="numbers must be 7 or more, got 6"):
            stacks.run([torch.zeros(2, 2)], [3], [0.0] * 6, steps=[0])
        with pytest.raises(ValueError, match="momentum is needed"):
            stacks.run([torch.zeros(2, 2)], [2], [0.0] * 7, steps=[0])

    def test_stacks_may_be_added_between_steps(self) -> None:
        stacks = Stacks(torch.float32)
        numbers = [0.0, 1.0, 5e-7, 40.0, 0.1, 0.0, 0.0]
        for count in (1, 2, 3):
            stacks.add(torch.eye(2).repeat(count, 1, 1), None, rows=2, columns=2, ordinal=count)
            gradients = [torch.ones(k, 2, 2) for k in range(1, count + 1)]
            result = stacks.run(gradients, [3], numbers, steps=[0] * count)
            assert list(result.outcomes) == [DONE] * (count * (count + 1) // 2)

    def test_only_small_matrices(self) -> None:
        assert is_small(128, 512) and is_small(512, 128)
        assert not is_small(129, 129) and not is_small(128, 513)
