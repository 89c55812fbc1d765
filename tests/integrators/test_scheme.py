"""Scheme words: what is read, what is refused, and what a call of ``step()`` makes of them."""

import itertools
import math

import pytest
import torch

from colangevin import State, Unconstrained
from colangevin.integrators import Dynamics, advance, impulse, parse
from colangevin.integrators.scheme import Drift, Move, Run, Scheme, coefficients
from registry import normals

WORDS = ["OBA", "BOA", "ABO", "AOB", "BAOAB", "OBABO", "ABOA", "AOAB", "BAOA", "OBAO", "OOBAA"]
OTHERS = ["", "O", "OB", "BA", "OBC", "oba", "OBA ", "O-B-A", "OBAX", "1"]
TWO_GRADIENTS = ["ABABO", "BABAO", "OABAB", "ABOAB", "BOABAB"]


def letters_of(moves: tuple[Move, ...]) -> Run:
    """The letters of moves, each with its share."""
    runs = [(("A", move.step),) if isinstance(move, Drift) else move for move in moves]
    return tuple(itertools.chain(*runs))


def spell(moves: tuple[Move, ...]) -> str:
    """The letters of moves, with the share of each."""
    return " ".join(f"{letter}{fraction:g}" for letter, fraction in letters_of(moves))


def shares(moves: tuple[Move, ...], letter: str) -> float:
    return sum(fraction for found, fraction in letters_of(moves) if found == letter)


@pytest.mark.parametrize("word", OTHERS)
def test_other_letters_and_missing_ones_are_refused(word: str) -> None:
    with pytest.raises(ValueError, match="scheme must be a word over the letters A, B and O"):
        parse(word)


@pytest.mark.parametrize("word", [None, 3, ("O", "B", "A")])
def test_what_is_no_word_is_refused(word: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        parse(word)


@pytest.mark.parametrize("word", TWO_GRADIENTS)
def test_two_gradients_a_step_are_refused_unless_delayed(word: str) -> None:
    with pytest.raises(ValueError, match="two gradients a step"):
        parse(word)
    assert spell(parse(word, delayed_gradient=True).moves)


@pytest.mark.parametrize(
    ("word", "first", "later"),
    [
        ("OBA", "O1 B1 A1", "O1 B1 A1"),
        ("ABO", "B1 O1 A1", "B1 O1 A1"),
        ("AOAB", "B1 A0.5 O1 A0.5", "B1 A0.5 O1 A0.5"),
        ("BAOAB", "B0.5 A0.5 O1 A0.5", "B0.5 B0.5 A0.5 O1 A0.5"),
        ("BABO", "B0.5 A1", "B0.5 O1 B0.5 A1"),
        ("OBABO", "O0.5 B0.5 A1", "B0.5 O0.5 O0.5 B0.5 A1"),
    ],
)
def test_a_late_kick_waits_for_the_next_gradient(word: str, first: str, later: str) -> None:
    scheme = parse(word)
    assert (spell(scheme.first), spell(scheme.moves)) == (first, later)


def test_a_delayed_word_runs_as_it_is_written() -> None:
    scheme = parse("AOAB", delayed_gradient=True)
    assert scheme.first == scheme.moves
    assert spell(scheme.moves) == "A0.5 O1 A0.5 B1"


@pytest.mark.parametrize("delayed", [False, True])
def test_the_fractions_of_each_letter_sum_to_one(delayed: bool) -> None:
    """Over every word of up to six letters that is read at all."""
    read: list[Scheme] = []
    for length in range(3, 7):
        for letters in itertools.product("ABO", repeat=length):
            try:
                read.append(parse("".join(letters), delayed))
            except ValueError:
                continue
    assert len(read) > 100
    for scheme in read:
        for letter in "ABO":
            assert shares(scheme.moves, letter) == pytest.approx(1.0)
            assert shares(scheme.first, letter) <= 1.0 + 1e-12
        if not delayed:
            assert "B" not in spell(scheme.moves).partition("A")[2]


@pytest.mark.parametrize("run", ["B", "O", "BO", "OB", "BOB", "OBO", "BBO", "OOB", "OBOB"])
def test_an_impulse_is_its_letters_one_after_the_other(run: str) -> None:
    """In mean exactly; the variances of its O's add up to that of its one normal."""
    decay, h, tau = 0.6, 0.3, 0.7
    pieces = tuple((letter, 1.0 / run.count(letter)) for letter in run)
    constraint, fresh = Unconstrained(), normals(0)
    state = State(fresh(torch.empty(3, dtype=torch.float64)), fresh(torch.empty(3).double()))
    gradient = fresh(state.position)
    literal, variance = state.map(torch.clone), 0.0
    for letter, fraction in pieces:
        if letter == "B":
            literal = impulse(constraint, literal, gradient, 1.0, -h * fraction, 0.0, None)
        else:
            share = decay**fraction
            literal = impulse(constraint, literal, None, share, 0.0, 0.0, None)
            variance = variance * share**2 + tau * (1.0 - share**2)
    old, weight, scale = coefficients(pieces, decay)
    joined = impulse(constraint, state, gradient, old, -h * weight, 0.0, None)
    torch.testing.assert_close(joined.momentum, literal.momentum, rtol=0.0, atol=1e-15)
    assert tau * scale**2 == pytest.approx(variance)


@pytest.mark.parametrize("word", WORDS)
def test_actions_are_the_moves_in_the_units_of_sgd(word: str) -> None:
    """v = −p/h: the same trajectory as physical pieces with the step h."""
    h, friction, tau = 0.2, 0.7, 0.3
    scheme, constraint = parse(word), Unconstrained()
    dynamics = Dynamics(h * h, math.exp(-friction * h), tau, scheme)
    start = normals(1)(torch.empty(4, dtype=torch.float64))
    sgd = State(start.clone(), torch.zeros_like(start))
    physical = State(start.clone(), torch.zeros_like(start))
    draws = [normals(2), normals(2)]
    for call in range(5):
        gradient = torch.sin(sgd.position)
        sgd = advance(constraint, sgd, gradient, dynamics.actions(first=call == 0), draws[0])
        for move in scheme.first if call == 0 else scheme.moves:
            if isinstance(move, Drift):
                physical = constraint.drift(physical, h * move.step)
            else:
                old, weight, scale = coefficients(move, math.exp(-friction * h))
                noise = (scale * math.sqrt(tau), draws[1] if scale else None)
                physical = impulse(constraint, physical, gradient, old, -h * weight, *noise)
    torch.testing.assert_close(sgd.position, physical.position, rtol=0.0, atol=1e-13)
    torch.testing.assert_close(-h * sgd.momentum, physical.momentum, rtol=0.0, atol=1e-13)
    assert (sgd.position - start).abs().max() > 1e-2


def test_without_temperature_nothing_is_drawn() -> None:
    def refuse(like: torch.Tensor) -> torch.Tensor:
        raise AssertionError("drawn")

    state = State(torch.ones(2), torch.ones(2))
    for word in WORDS:
        actions = Dynamics(0.1, 0.5, 0.0, parse(word)).actions(first=False)
        advance(Unconstrained(), state, torch.ones(2), actions, refuse)


def test_at_a_step_of_zero_nothing_moves() -> None:
    """The end of a schedule, noise or not."""
    state = State(torch.ones(2), torch.ones(2))
    for word in WORDS:
        actions = Dynamics(0.0, 0.5, 1.0, parse(word)).actions(first=False)
        copy = state.map(torch.clone)
        moved = advance(Unconstrained(), copy, torch.ones(2), actions, normals(0))
        assert torch.equal(moved.position, state.position)
        assert bool(moved.momentum.isfinite().all())


def test_overdamped_means_euler_maruyama() -> None:
    (action,) = Dynamics(0.1, 0.0, 0.3, parse("OBA")).actions(first=False)
    assert action.step == 0.1
    assert action.scale == pytest.approx(math.sqrt(2 * 0.3 * 0.1))
    split = Dynamics(0.1, 0.0, 0.3, parse("BAOAB"))
    assert not split.is_overdamped
