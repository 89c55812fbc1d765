"""The library follows the literal transcription of the formulas, step for step.

``reference`` runs every word literally, from left to right. A call of ``step()`` instead ends
where the next gradient is due: ``close_call`` brings the literal state there.
"""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import reference as ref
from colangevin import CoLA, State
from colangevin.constraints.base import Draw
from colangevin.integrators import advance
from colangevin.native import fill
from colangevin.random import key_of
from colangevin.random import normals as counter_normals
from registry import CASES, RUNS, Case, Run, ids, normals
from twins import TWINS, Twin, twin_of

STEPS = 1000
TOLERANCE = 1e-10
FRICTION = 0.2
OVERDAMPED_STEP, STEP = 0.02, 0.05


def size_of(run: Run) -> float:
    return OVERDAMPED_STEP if run.overdamped else STEP


class Loss:
    """Gradient K∘w − C of a quadratic plus a linear loss, with fixed random K and C."""

    def __init__(self, weights: list[Tensor]) -> None:
        draw = normals(11)
        self.quadratic = [1.0 + 0.5 * draw(w) for w in weights]
        self.linear = [draw(w) for w in weights]

    def gradients(self, weights: list[Tensor]) -> list[Tensor]:
        terms = zip(self.quadratic, weights, self.linear, strict=True)
        return [k * w - c for k, w, c in terms]


class Literal:
    """The systems of a twin, run word by word."""

    def __init__(self, case: Case, run: Run, weights: list[Tensor], temperature: float) -> None:
        self.twin, self.run, self.h = twin_of(case), run, size_of(run)
        if temperature == 0.0 and self.twin.cold is not None:
            self.twin = replace(self.twin, pieces=self.twin.cold)
        self.states = self.twin.states(weights)
        self.temperature = temperature / self.twin.unit**2
        loss = Loss(weights)
        self.quadratic = self.twin.lay(loss.quadratic)
        self.linear = [c / self.twin.unit for c in self.twin.lay(loss.linear)]
        # At rest and without noise the letters before the first B of AOAB do nothing.
        self.noise = self.waiting = [ref.zero_noise] * len(self.states)

    def gradient(self, index: int, q: Tensor) -> Tensor:
        return self.quadratic[index] * q - self.linear[index]

    def step(self, noise: list[ref.NoiseFn] | None = None) -> None:
        if noise is not None:
            lagging = self.run.word == "AOAB" and not self.run.delayed
            self.waiting, self.noise = noise, (self.waiting if lagging else noise)
        self.states = [self._step(i, state) for i, state in enumerate(self.states)]

    def _step(self, i: int, state: ref.State) -> ref.State:
        pieces, noise = self.twin.pieces[i], self.noise[i]

        def gradient(q: Tensor) -> Tensor:
            return self.gradient(i, q)

        if self.run.overdamped:
            return ref.run_overdamped(pieces, state, gradient, self.h, self.temperature, noise)
        return ref.run_word(
            self.run.word,
            pieces,
            state,
            gradient,
            self.h,
            FRICTION,
            self.temperature,
            noise,
            self.run.delayed,
        )

    def closed(self) -> list[ref.State]:
        return [self._close(i, state) for i, state in enumerate(self.states)]

    def _close(self, i: int, state: ref.State) -> ref.State:
        """Where the call of ``step()`` ends."""
        pieces = self.twin.pieces[i]
        if self.run.overdamped or self.run.delayed:
            return state
        if self.run.word == "ABO":
            return pieces.a(state, self.h)
        if self.run.word == "AOAB":
            state = pieces.a(state, self.h / 2)
            noise = self.waiting[i](state)
            state = pieces.o(state, self.h, FRICTION, self.temperature, noise)
            return pieces.a(state, self.h / 2)
        if self.run.word == "BAOAB":  # its closing half kick waits for the next call
            return pieces.b(state, self.gradient(i, pieces.position(state)), -self.h / 2)
        return state


def assert_equal(left: list[Tensor], right: list[Tensor]) -> None:
    for x, y in zip(left, right, strict=True):
        torch.testing.assert_close(x, y, rtol=0.0, atol=TOLERANCE)


def follow(case: Case, run: Run, steps: int, checks: int, **more: object) -> None:
    """Run the optimizer and the reference side by side at temperature 0."""
    start = case.weights()
    literal, loss = Literal(case, run, start, 0.0), Loss(start)
    weights = [nn.Parameter(w.clone()) for w in start]
    options = {**run.options(size_of(run), FRICTION), **more}
    optimizer = CoLA(weights, constraint=case.make(), **options)
    for step in range(1, steps + 1):
        for w, gradient in zip(weights, loss.gradients([*weights]), strict=True):
            w.grad = gradient.detach()
        optimizer.step()
        literal.step()
        if step % (steps // checks) == 0:
            found = literal.twin.lay([w.detach() for w in weights])
            assert_equal(found, [literal.twin.main(i, s) for i, s in enumerate(literal.closed())])
    moved = max(float((w.detach() - w0).abs().max()) for w, w0 in zip(weights, start, strict=True))
    assert moved > 1e-2


def test_no_kind_of_the_library_is_skipped() -> None:
    kinds = {"Unconstrained", "Massive", "Circle", "Sphere", "Orthogonal", "General"}
    kinds |= {"Box", "NonNegative", "Simplex", "Spectral", "DiagonalGram"}
    assert kinds <= {kind.__name__ for kind in TWINS}
    assert kinds <= {type(case.make()).__name__ for case in CASES}


@pytest.mark.parametrize("run", RUNS, ids=ids)
@pytest.mark.parametrize("case", CASES, ids=ids)
def test_the_optimizer_follows_the_reference(case: Case, run: Run) -> None:
    follow(case, run, case.steps(STEPS), checks=5)


def test_a_general_constraint_follows_the_reference_for_as_long() -> None:
    case = next(case for case in CASES if case.name == "general_joint")
    follow(case, RUNS[1], STEPS, checks=5)


def reference_noise(
    twin: Twin, run: Run, noise: list[Tensor], slack: Tensor | None
) -> list[ref.NoiseFn]:
    """One function a system that hands it its share of the noise."""
    mains = twin.lay(noise)
    if twin.angular is not None and not run.overdamped:
        radius, (only,) = twin.angular, mains
        return [lambda s: ref.circle_noise(s[0], s[1], only, radius)]
    parts = [None] * len(mains) if slack is None else slack_parts(twin, mains, slack)
    packed = [twin.pack(main, part) for main, part in zip(mains, parts, strict=True)]
    return [lambda s, share=share: share for share in packed]


def slack_parts(twin: Twin, mains: list[Tensor], slack: Tensor) -> list[Tensor]:
    if twin.flat or len(mains) > 1:
        return list(slack)
    return [slack.reshape(mains[0].shape if twin.angular is not None else slack.shape)]


def at_rest(case: Case) -> State:
    """The start of a case as the integrators take it."""
    constraint = case.bound()
    position = case.join(constraint, case.weights())
    slack = constraint.lift(position)
    bare = slack is None or constraint.elementwise
    slack_momentum = None if bare else torch.zeros_like(slack)
    return State(position, torch.zeros_like(position), slack, slack_momentum)


@pytest.mark.parametrize("run", RUNS, ids=ids)
@pytest.mark.parametrize("case", CASES, ids=ids)
def test_positions_slacks_and_momenta_follow_the_reference_under_noise(
    case: Case, run: Run
) -> None:
    """The same normals go to both: 50 steps of the integrators at a temperature above 0."""
    temperature, h = 0.05, size_of(run)
    start = case.weights()
    literal, loss, constraint = Literal(case, run, start, temperature), Loss(start), case.bound()
    state = at_rest(case)
    slack = state.slack
    dynamics, fresh = run.dynamics(h, FRICTION, temperature), normals(12)
    for step in range(case.steps(50)):
        noise = [fresh(w) for w in start]
        slack_noise = None if slack is None else fresh(slack)
        queue = [case.join(constraint, noise), slack_noise]
        gradient = case.join(constraint, loss.gradients(case.split(constraint, state.position)))
        actions = dynamics.actions(first=step == 0)
        state = advance(constraint, state, gradient, actions, lambda like, q=queue: q.pop(0))
        literal.step(reference_noise(literal.twin, run, noise, slack_noise))
    compare(case, literal, constraint.close(state), h)


def compare(case: Case, literal: Literal, state: State, h: float) -> None:
    constraint, twin = case.bound(), literal.twin
    closed = list(enumerate(literal.closed()))
    found = twin.lay(case.split(constraint, state.position))
    assert_equal(found, [twin.main(i, s) for i, s in closed])
    if state.slack is not None:
        expected = torch.cat([twin.slacks(i, s) for i, s in closed])
        angular = twin.angular is not None  # a circle keeps φ: ξ = r cos φ
        slack = twin.angular * state.slack.view(found[0].shape).cos() if angular else state.slack
        assert_equal([slack.reshape(-1)], [expected])
    if literal.run.overdamped:
        return
    assert state.momentum is not None
    momentum = [-h * v for v in case.split(constraint, state.momentum)]  # v = −p/h
    if twin.angular is not None:
        ((_, s),) = closed
        assert_equal(momentum, [ref.circle_angular_speed(*s, twin.angular)])
    else:
        assert_equal(twin.lay(momentum), [twin.main(i, s, momentum=True) for i, s in closed])


def numbers_of(seed: int, place: int, step: int, number: int, size: int) -> Tensor:
    """From the C kernels where there are any: they round otherwise than torch."""
    out = torch.empty(1, size)
    if fill(out, [seed], place, step, number):
        return out[0]
    return counter_normals([key_of(seed, place, step, number)], size)[0]


def drawn_again(case: Case, state: State, seed: int, step: int) -> Draw:
    """The noise of an optimizer: a function of seed, parameter, step, draw and index."""
    constraint, draws = case.bound(), itertools.count()

    def draw(like: Tensor) -> Tensor:
        number = next(draws)
        shapes = case.shapes if like.shape == state.position.shape else (like.shape,)
        parts = [
            numbers_of(seed, place, step, number, math.prod(shape))
            for place, shape in enumerate(shapes)
        ]
        if like.shape != state.position.shape:
            return parts[0].view(like.shape).to(like)
        pairs = zip(parts, shapes, strict=True)
        return case.join(constraint, [part.view(shape).to(like) for part, shape in pairs])

    return draw


@pytest.mark.parametrize("run", RUNS, ids=ids)
@pytest.mark.parametrize("case", CASES, ids=ids)
def test_the_optimizer_makes_the_moves_of_the_integrators_under_noise(case: Case, run: Run) -> None:
    """With its own normals, drawn a second time from the same seed."""
    temperature, h = 0.05, size_of(run)
    start = case.weights()
    weights = [nn.Parameter(w.clone()) for w in start]
    optimizer = CoLA(
        weights,
        constraint=case.make(),
        temperature=temperature,
        seed=3,
        **run.options(h, FRICTION),
    )
    loss, constraint = Loss(start), case.bound()
    state, dynamics = at_rest(case), run.dynamics(h, FRICTION, temperature)
    for step in range(5):
        gradients = loss.gradients(case.split(constraint, state.position))
        for w, gradient in zip(weights, gradients, strict=True):
            w.grad = gradient
        optimizer.step()
        actions = dynamics.actions(first=step == 0)
        draw = drawn_again(case, state, seed=3, step=step)
        state = advance(constraint, state, case.join(constraint, gradients), actions, draw)
        assert_equal([w.detach() for w in weights], case.split(constraint, state.position))
