"""Scheme words: from "BAOAB" to the moves that one call of ``step()`` makes.

A letter that occurs k times takes 1/k of the step each time. There is one gradient per call,
the one at the position where the call starts. So a B that comes after an A waits, with all
that follows it, for the next call, whose gradient is the right one.

Langevin words use A, B and O. Those of adaptive Langevin (2.59) use A, B, E and either C and D
or, in the place of these two, F.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

LANGEVIN = "ABO"
ADAPTIVE = ("ABCDE", "ABEF")


class Piece(NamedTuple):
    """One letter of a word with its share of the step."""

    letter: str
    fraction: float


class Drift(NamedTuple):
    """A for this share of the step."""

    fraction: float


class Feedback(NamedTuple):
    """E for this share of the step."""

    fraction: float


class Impulse(NamedTuple):
    """A run of letters that change the momentum alone: B, O, C, D and F."""

    pieces: tuple[Piece, ...]

    @property
    def draws(self) -> bool:
        """Whether there is an O among the pieces."""
        return any(letter == "O" for letter, _ in self.pieces)

    def coefficients(self, decay: float) -> tuple[float, float, float]:
        """Weights of old momentum, kick and noise: p ← c p + Π(weight · kick + noise · R).

        Args:
            decay: e^{−γh} for the whole step.

        Example:
            >>> Impulse((Piece("O", 1.0), Piece("B", 1.0))).coefficients(0.5)
            (0.5, 1.0, 0.8660254037844386)
        """
        return _coefficients(self.pieces, decay)


@lru_cache(maxsize=64)
def _coefficients(pieces: tuple[Piece, ...], decay: float) -> tuple[float, float, float]:
    momentum, weight, variance = 1.0, 0.0, 0.0
    for letter, fraction in pieces:
        if letter == "B":
            weight += fraction
        else:
            share = decay**fraction
            momentum, weight = momentum * share, weight * share
            variance = variance * share**2 + (1.0 - share**2)
    return momentum, weight, variance**0.5


Move: TypeAlias = "Drift | Impulse | Feedback"


@dataclass(frozen=True)
class Scheme:
    """A word, read.

    Attributes:
        word: the letters.
        first: the moves of a parameter's first call.
        moves: the moves of every later call.
        waiting: what ``moves`` has before ``first``; empty where the two are equal.
    """

    word: str
    first: tuple[Move, ...]
    moves: tuple[Move, ...]
    waiting: tuple[Move, ...] = ()

    @property
    def adaptive(self) -> bool:
        """Whether the word is one of adaptive Langevin, with a friction that varies."""
        return "E" in self.word

    @property
    def has_limit(self) -> bool:
        """Whether a Langevin word at infinite friction still samples its temperature.

        There every O redraws the momentum. A call then moves by h²·kick of the gradient and
        by h·sqrt(τ)·share of each draw, and the temperature is right if 2 · kick = Σ share².
        BAOAB, AOAB and ABOBA pass; OBA and ABO sample another temperature, and words such as
        OABO lose the kick altogether: for them the overdamped step is meant.
        """
        runs = [isinstance(move, Impulse) and move.draws for move in self.moves]
        start = runs.index(True)
        effect, kick, shares = 0.0, 0.0, [0.0]
        for move in self.moves[start:] + self.moves[:start]:
            if isinstance(move, Drift):
                effect += move.fraction * kick
                shares[-1] += move.fraction
                continue
            assert isinstance(move, Impulse)  # a Langevin word has no E
            if move.draws:
                kick = move.coefficients(0.0)[1]
                shares.append(0.0)
            else:
                kick += move.coefficients(0.0)[1]
        return effect > 0.0 and abs(2.0 * effect - sum(s * s for s in shares)) < 1e-9


@lru_cache
def parse(word: str, delayed_gradient: bool = False) -> Scheme:
    """Read a scheme word.

    Args:
        word: letters A, B and O, each at least once, or A, B, C, D and E, or A, B, E and F.
        delayed_gradient: run the word literally, with the gradient from the call's start
            wherever a B stands.

    Raises:
        ValueError: if the word has other letters, lacks one, or needs two gradients per step.

    Example:
        >>> parse("BAOAB").moves  # doctest: +NORMALIZE_WHITESPACE
        (Impulse(pieces=(Piece(letter='B', fraction=0.5), Piece(letter='B', fraction=0.5))),
         Drift(fraction=0.5), Impulse(pieces=(Piece(letter='O', fraction=1.0),)),
         Drift(fraction=0.5))
    """
    _check(word)
    pieces = [Piece(letter, 1.0 / word.count(letter)) for letter in word]
    if delayed_gradient:
        moves = _gather(pieces)
        return Scheme(word, moves, moves)
    waiting = _first_late_kick(word)
    now, later = pieces[:waiting], pieces[waiting:]
    call = later + now
    letters = "".join(piece.letter for piece in call)
    if "B" in letters[letters.index("A") :]:
        raise ValueError(
            f"scheme {word!r} needs two gradients a step: between two calls every B must come "
            "before the first A"
        )
    # Where the word opens with its kick, the first call must not run the waiting part.
    opens = any(piece.letter == "B" for piece in now)
    if not opens:
        return Scheme(word, _gather(call), _gather(call))
    return Scheme(word, _gather(now), _gather(call), _gather(later))


def _check(word: str) -> None:
    if not isinstance(word, str) or set(word) not in (set(LANGEVIN), *map(set, ADAPTIVE)):
        raise ValueError(
            "scheme must be a word over the letters A, B and O with each at least once (such as "
            "'OBA', 'ABO', 'BAOAB', 'AOAB'), or for the adaptive thermostat over A, B, C, D and E "
            f"or A, B, E and F (such as 'BACDEDCAB', 'BAFEFAB'), got {word!r}"
        )


def _first_late_kick(word: str) -> int:
    """Index of the first B that stands after an A (the word's length if there is none)."""
    late = word.find("B", word.index("A"))
    return len(word) if late < 0 else late


def _gather(pieces: Sequence[Piece]) -> tuple[Move, ...]:
    """Join the letters between two A or E, which change the momentum alone, into one impulse."""
    moves: list[Move] = []
    run: list[Piece] = []
    for piece in pieces:
        if piece.letter not in "AE":
            run.append(piece)
            continue
        if run:
            moves.append(Impulse(tuple(run)))
            run = []
        moves.append((Drift if piece.letter == "A" else Feedback)(piece.fraction))
    if run:
        moves.append(Impulse(tuple(run)))
    return tuple(moves)
