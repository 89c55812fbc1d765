import torch

from colangevin.lab.data import endgame
from colangevin.lab.data.chess import DRAW, FAR, solve

UCI = [27, 78, 246, 81, 198, 471, 592, 683, 1433, 1712, 1985, 2854, 3597, 4194, 4553, 2166, 390]
"""Positions of the file of the UCI repository by moves, 0 to 16; 2,796 more are draws."""


def square(name: str) -> int:
    return 8 * (int(name[1]) - 1) + "abcdefgh".index(name[0])


def moves(king: str, rook: str, black: str) -> int:
    return int(solve()[square(king), square(rook), square(black)])


def test_the_classes_are_as_frequent_as_in_the_published_file():
    positions, labels = endgame()
    assert torch.bincount(labels).tolist() == [*UCI, 2796]
    assert len(positions) == len(positions.unique(dim=0)) == 28_056


def test_known_positions():
    assert moves("b6", "d8", "b8") == 0
    assert moves("a1", "b3", "c2") == FAR  # the rook is lost
    assert moves("b6", "b7", "a8") == FAR  # stalemate
    assert moves("b6", "h1", "a8") == 1  # the king has to go to b8


def test_turned_and_reflected_boards_have_the_same_answers():
    board = solve().view(8, 8, 8, 8, 8, 8)
    turned = board.flip(0, 2, 4)
    across = board.permute(1, 0, 3, 2, 5, 4)
    assert torch.equal(board, turned)
    assert torch.equal(board, across)


def test_the_corner_holds_every_position_once():
    """Each position with kings apart is a turn or reflection of one of the corner."""
    positions, labels = endgame()
    files, ranks = positions[:, 0], positions[:, 1]
    assert bool(((files <= 4) & (ranks <= files)).all())
    assert int((labels == DRAW).sum()) == 2796
