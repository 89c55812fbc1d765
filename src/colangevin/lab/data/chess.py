"""The chess endgame of king and rook against king, solved backwards from the mates.

The sources use the file of the UCI repository (28,056 positions with Black to move, and in how
many moves White wins). It can be computed: a position is lost for Black in as many moves as the
best of Black's moves makes White need, and White needs one more than after the best of White's.
Squares are numbered from 0 (a1) to 63 (h8): eight times the rank, plus the file.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

DRAW = 17
"""The class of positions that White does not win; the others are the numbers of moves, 0 to 16."""
CLASSES = 18
FAR = 100
SQUARES = torch.arange(64)
FILES, LEVELS = SQUARES % 8, SQUARES // 8
ACROSS = FILES[:, None] - FILES
UP = LEVELS[:, None] - LEVELS
DISTANCE = torch.maximum(ACROSS.abs(), UP.abs())
NEAR = DISTANCE <= 1
"""Squares that a king touches, with its own."""


def _aligned() -> Tensor:
    return ((ACROSS == 0) | (UP == 0)) & (DISTANCE > 0)


def _between() -> Tensor:
    """[64, 64, 64]: whether the third square is strictly between the first two, on a line."""
    first, last, third = SQUARES[:, None, None], SQUARES[:, None], SQUARES
    inside = DISTANCE[first, third] + DISTANCE[third, last] == DISTANCE[first, last]
    on = _aligned()[first, last] & _aligned()[first, third] & _aligned()[third, last]
    return inside & on


@cache
def solve() -> Tensor:
    """The moves that White needs with Black to move: [white king, white rook, black king].

    ``FAR`` is a draw. Places without a meaning (two pieces on a square, kings that touch) are
    ``FAR``, too.

    Example:
        >>> b6, d8, b8 = 41, 59, 57  # a mate on the last rank
        >>> int(solve()[b6, d8, b8])
        0
    """
    between, aligned = _between(), _aligned()
    distinct = (SQUARES[:, None, None] != SQUARES[:, None]) & (SQUARES[:, None] != SQUARES)
    legal = distinct & ~NEAR[:, None, :]
    attacked = aligned[None] & ~between.permute(2, 0, 1)  # the white king is in the way, [k, r, s]
    safe = ~attacked & ~NEAR[:, None, :]
    # A rook's move from r to t is stopped by a piece on its way or on t.
    stopped = between | (SQUARES[:, None] == SQUARES)
    none = torch.full((64, 64, 64), FAR, dtype=torch.int8)
    black = none
    while True:
        white = _after_white(torch.where(legal, black, none), aligned, stopped)
        answers = torch.where(safe, torch.where(distinct, white, none), -torch.ones_like(none))
        lost = [answers[:, :, _neighbours(square)].amax(dim=2) for square in range(64)]
        worst = torch.stack(lost, dim=2)
        stuck = torch.where(attacked, torch.zeros_like(none), none)  # mate, or stalemate
        found = torch.where(legal, torch.where(worst < 0, stuck, worst), none)
        if torch.equal(found, black):
            return found
        black = found


def _neighbours(square: int) -> Tensor:
    return SQUARES[NEAR[square] & (square != SQUARES)]


def _after_white(black: Tensor, aligned: Tensor, stopped: Tensor) -> Tensor:
    """One more than the least that White can reach by a move of king or rook."""
    king = torch.stack([black[_neighbours(square)].amin(dim=0) for square in range(64)])
    moves = []
    for rook in range(64):
        targets = SQUARES[aligned[rook]]
        way = stopped[rook, targets]  # [t, s]
        open_way = ~(way[:, :, None] | way[:, None, :])  # by either king
        reached = black[:, targets].transpose(0, 1)  # [t, white king, black king]
        moves.append(reached.masked_fill(~open_way, FAR).amin(dim=0))
    return (torch.minimum(king, torch.stack(moves, dim=1)) + 1).clamp(max=FAR)


@cache
def endgame() -> tuple[Tensor, Tensor]:
    """All positions but for turns and reflections of the board, and their classes.

    Returns:
        Integers [28056, 6], file and rank from 1 to 8 of white king, white rook and black king;
        and the classes [28056], 0 to 16 moves or ``DRAW``.

    Example:
        >>> positions, labels = endgame()
        >>> len(positions), int((labels == 16).sum())
        (28056, 390)
    """
    moves = solve()
    above = LEVELS > FILES
    corner = (FILES < 4) & ~above
    king = corner[:, None, None] & ~NEAR[:, None, :]
    diagonal = FILES == LEVELS
    # A king on the diagonal lets the board be reflected in it: then the next piece is not above.
    first = ~(diagonal[:, None, None] & above)
    second = ~(diagonal[:, None, None] & diagonal & above[:, None])
    distinct = (SQUARES[:, None, None] != SQUARES[:, None]) & (SQUARES[:, None] != SQUARES)
    places = (king & first & second & distinct).nonzero()
    positions = torch.stack([FILES[places], LEVELS[places]], dim=2).flatten(1) + 1
    found = moves[tuple(places.T)].long()
    return positions, torch.where(found == FAR, DRAW, found)
