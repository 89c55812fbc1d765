"""Scheme words: from "BAOAB" to the moves that one call of ``step()`` makes.

A letter that occurs k times takes 1/k of the step each time. There is one gradient per call,
the one at the position where the call starts. So a B that comes after an A waits, with all
that follows it, for the next call, whose gradient is the right one.

Langevin words use A, B and O. Those of adaptive Langevin (2.59) use A, B, E and either C and D
or, in the place of these two, F.

A move of a word is a ``Drift``, or a run of the letters between two drifts with the share of
each. With the friction of a group a run becomes an ``Impulse``; its learning rate and temperature
are two more factors (``Dynamics``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from torch import Tensor

from colangevin.constraints.base import Scalar

LANGEVIN = "ABO"
ADAPTIVE = ("ABCDE", "ABEF")


class Drift(NamedTuple):
    """A for this time: a share of the step in a word, −h² times that in the units of SGD.

    Where it is ``cold``, at τ = 0, walls stop what runs into them; otherwise they reflect it.
    """

    step: Scalar
    cold: bool | Tensor = False

    def __repr__(self) -> str:
        own = f"step={self.step}"
        return f"Drift({own})" if self.cold is False else f"Drift({own}, cold={self.cold})"


class Impulse(NamedTuple):
    """B and O with the weights of old momentum, gradient and noise; None leaves a part out."""

    decay: Scalar
    weight: Scalar | None
    scale: Scalar | None


class Overdamped(NamedTuple):
    """The Euler–Maruyama step with the weights of gradient and noise (None: no noise).

    ``cold`` as of a ``Drift``.
    """

    step: Scalar
    scale: Scalar | None
    cold: bool | Tensor = False


Run: TypeAlias = "tuple[tuple[str, float], ...]"
"""Letters that change the momentum alone, B, O, C, D and F, or one E, with their shares."""

Move: TypeAlias = "Drift | Run"
"""What a word does, in shares of the step."""

Action: TypeAlias = "Drift | Impulse | Overdamped"
"""What a call does, with its numbers."""

NOTHING = Impulse(1.0, None, None)
"""O without friction, as in Verlet's method."""


class Scheme(NamedTuple):
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
        return _has_limit(self.moves)


@lru_cache(maxsize=64)
def _has_limit(moves: tuple[Move, ...]) -> bool:
    start = next(i for i, move in enumerate(moves) if has_letter(move, "O"))
    effect, kick, shares = 0.0, 0.0, [0.0]
    for move in moves[start:] + moves[:start]:
        if isinstance(move, Drift):
            effect += float(move.step) * kick
            shares[-1] += float(move.step)
        elif has_letter(move, "O"):
            kick = coefficients(move, 0.0)[1]
            shares.append(0.0)
        else:
            kick += coefficients(move, 0.0)[1]
    return effect > 0.0 and abs(2.0 * effect - sum(s * s for s in shares)) < 1e-9


def has_letter(move: Move, letters: str) -> bool:
    """Whether a move is a run with one of some letters.

    Example:
        >>> has_letter((("O", 1.0), ("B", 1.0)), "O"), has_letter(Drift(1.0), "O")
        (True, False)
    """
    return not isinstance(move, Drift) and any(letter in letters for letter, _ in move)


def coefficients(run: Run, decay: float) -> tuple[float, float, float]:
    """Weights of old momentum, kick and noise: p ← c p + Π(weight · kick + noise · R).

    Args:
        run: of B and O.
        decay: e^{−γh} for the whole step.

    Example:
        >>> coefficients((("O", 1.0), ("B", 1.0)), 0.5)
        (0.5, 1.0, 0.8660254037844386)
    """
    momentum, weight, variance = 1.0, 0.0, 0.0
    for letter, fraction in run:
        if letter == "B":
            weight += fraction
        else:
            share = decay**fraction
            momentum, weight = momentum * share, weight * share
            variance = variance * share**2 + (1.0 - share**2)
    return momentum, weight, variance**0.5


@lru_cache(maxsize=64)
def damped(scheme: Scheme, first: bool, decay: float) -> tuple[Drift | Impulse, ...]:
    """The moves of a call at a friction, in physical units with h = τ = 1.

    In the limit of infinite friction the momentum is nothing but the last O's noise: a first call
    that draws it makes (2.56) hold from the first step on.

    Args:
        scheme: a Langevin word.
        first: whether the parameters have not been moved before.
        decay: e^{−γh}.

    Example:
        >>> damped(parse("OBA"), False, 0.5)
        (Impulse(decay=0.5, weight=1.0, scale=0.8660254037844386), Drift(step=1.0))
    """
    moves = scheme.first if first else scheme.moves
    opening, *rest = scheme.moves
    if first and decay == 0.0 and not isinstance(opening, Drift):
        moves = ((("O", 1.0), *opening), *rest)
    made: list[Drift | Impulse] = []
    for move in moves:
        if isinstance(move, Drift):
            made.append(move)
            continue
        momentum, weight, scale = coefficients(move, decay)
        made.append(Impulse(momentum, weight or None, scale or None))
    return tuple(move for move in made if move != NOTHING)


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
        >>> parse("BAOAB").moves
        ((('B', 0.5), ('B', 0.5)), Drift(step=0.5), (('O', 1.0),), Drift(step=0.5))
    """
    _check(word)
    shares = [(letter, 1.0 / word.count(letter)) for letter in word]
    if delayed_gradient:
        moves = _gather(shares)
        return Scheme(word, moves, moves)
    waiting = _first_late_kick(word)
    now, later = shares[:waiting], shares[waiting:]
    letters = word[waiting:] + word[:waiting]
    if "B" in letters[letters.index("A") :]:
        raise ValueError(
            f"scheme {word!r} needs two gradients a step: between two calls every B must come "
            "before the first A"
        )
    call = _gather(later + now)
    # Where the word opens with its kick, the first call must not run the waiting part.
    if "B" not in word[:waiting]:
        return Scheme(word, call, call)
    return Scheme(word, _gather(now), call, _gather(later))


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


def _gather(shares: Sequence[tuple[str, float]]) -> tuple[Move, ...]:
    """Join the letters between two A or E into one run."""
    moves: list[Move] = []
    run: list[tuple[str, float]] = []
    for letter, fraction in shares:
        if letter not in "AE":
            run.append((letter, fraction))
            continue
        if run:
            moves.append(tuple(run))
            run = []
        moves.append(Drift(fraction) if letter == "A" else ((letter, fraction),))
    if run:
        moves.append(tuple(run))
    return tuple(moves)
