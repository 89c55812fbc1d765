"""Stretches of a call: together they are the call."""

import pytest
import torch

from colangevin.constraints import State, Unconstrained
from colangevin.integrators import Dynamics, advance, parse
from colangevin.integrators.recipe import stretch
from colangevin.integrators.scheme import Drift, Impulse, Overdamped

WORDS = [("OBA", False), ("ABO", False), ("BAOAB", False), ("AOAB", False), ("AOAB", True)]


def joined(actions, parts):
    return [a for index in range(parts) for a in stretch(actions, index, parts)]


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 5, 10])
@pytest.mark.parametrize(("word", "delayed"), WORDS)
def test_one_after_the_other_they_are_the_call(word, delayed, parts):
    actions = Dynamics(0.04, 0.9, 1e-3, parse(word, delayed)).actions(first=False)
    pieces = joined(actions, parts)
    instants = [a for a in pieces if isinstance(a, Impulse)]
    assert instants == [a for a in actions if isinstance(a, Impulse)]
    generator = torch.Generator().manual_seed(0)
    noise = {}

    def draw(like):
        return noise.setdefault("r", torch.randn(like.shape, generator=generator).double())

    start = State(torch.zeros(3).double(), torch.ones(3).double())
    gradient = torch.arange(3.0).double()
    whole = advance(Unconstrained(), start.map(torch.clone), gradient, actions, draw)
    walked = advance(Unconstrained(), start, gradient, pieces, draw)
    torch.testing.assert_close(walked.position, whole.position, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(walked.momentum, whole.momentum, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("parts", [2, 3, 5])
@pytest.mark.parametrize(("word", "delayed"), WORDS)
def test_every_stretch_has_the_same_length(word, delayed, parts):
    actions = Dynamics(0.04, 0.9, 0.0, parse(word, delayed)).actions(first=False)
    for index in range(parts):
        drifts = [a.step for a in stretch(actions, index, parts) if isinstance(a, Drift)]
        assert sum(drifts) == pytest.approx(-0.04 / parts, rel=1e-12)


def test_the_middle_of_a_word_comes_in_the_middle_of_the_way():
    actions = Dynamics(0.06, 0.9, 0.0, parse("BAOAB")).actions(first=False)
    kinds = [[type(a).__name__ for a in stretch(actions, index, 3)] for index in range(3)]
    assert kinds == [["Impulse", "Drift"], ["Drift", "Impulse", "Drift"], ["Drift"]]


def test_overdamped_stretches_share_the_variance():
    (whole,) = Dynamics(0.1, 0.0, 0.5, parse("OBA")).actions(first=False)
    pieces = joined((whole,), 4)
    assert all(isinstance(piece, Overdamped) for piece in pieces)
    assert sum(piece.step for piece in pieces) == pytest.approx(whole.step)
    assert sum(piece.scale**2 for piece in pieces) == pytest.approx(whole.scale**2)


def test_a_step_of_length_0_acts_at_once():
    actions = (Impulse(0.9, 1.0, None), Drift(-0.0))
    assert stretch(actions, 0, 3) == actions[:1]
    assert stretch(actions, 1, 3) == stretch(actions, 2, 3) == ()


@pytest.mark.parametrize("parts", [2, 3, 5])
@pytest.mark.parametrize("word", ["BACDEDCAB", "BAFEFAB", "BAOAB"])
def test_moves_without_numbers_are_cut_alike(word, parts):
    moves = parse(word).moves
    pieces = joined(moves, parts)
    assert [m for m in pieces if not isinstance(m, Drift)] == [
        m for m in moves if not isinstance(m, Drift)
    ]
    assert sum(m.step for m in pieces if isinstance(m, Drift)) == pytest.approx(1.0)
