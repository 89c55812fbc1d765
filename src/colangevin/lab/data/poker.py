"""Poker hands, drawn and named by the rules of the game: ten attributes, ten classes.

The sources use the file of the UCI repository: 25,010 hands to train with and 1,000,000 to test.
Its attributes are the suit (1 to 4) and the rank (1 to 13, the ace is 1) of five cards in the
order in which they were dealt. Hands that are drawn here have the exact chances of the game; the
file has 10 hands of the two rarest classes among its training hands, where chance gives 0.4.
"""

from __future__ import annotations

import torch
from torch import Tensor

from colangevin import checks

HANDS = (
    "nothing",
    "one pair",
    "two pairs",
    "three of a kind",
    "straight",
    "flush",
    "full house",
    "four of a kind",
    "straight flush",
    "royal flush",
)
"""The classes, by number."""
CARDS, SUITS, RANKS = 5, 4, 13


def name_hands(hands: Tensor) -> Tensor:
    """The class of each hand.

    Args:
        hands: integers [hands, 10]: suit and rank of each of five cards.

    Returns:
        Integers [hands]: places in ``HANDS``.

    Raises:
        ValueError: for another shape, or a suit or rank that there is not.

    Example:
        >>> royal = [1, 10, 1, 11, 1, 13, 1, 12, 1, 1]
        >>> pair = [1, 4, 2, 4, 3, 9, 1, 13, 1, 1]
        >>> [HANDS[label] for label in name_hands(torch.tensor([royal, pair])).tolist()]
        ['royal flush', 'one pair']
    """
    if hands.dim() != 2 or hands.shape[1] != 2 * CARDS:
        raise ValueError(f"hands must have the shape [hands, 10], got {list(hands.shape)}")
    suits, ranks = hands[:, 0::2], hands[:, 1::2].sort(dim=1).values
    for name, values, most in (("suits", suits, SUITS), ("ranks", ranks, RANKS)):
        if values.numel() and not bool(((values >= 1) & (values <= most)).all()):
            raise ValueError(f"{name} must lie between 1 and {most}")
    equal = (ranks[:, :, None] == ranks[:, None, :]).sum(dim=(1, 2))  # Σ of squared counts
    high = (ranks == torch.tensor([1, 10, 11, 12, 13])).all(dim=1)
    straight = (ranks.diff(dim=1) == 1).all(dim=1) | high
    flush = (suits == suits[:, :1]).all(dim=1)
    labels = torch.zeros(len(hands), dtype=torch.long)
    # 1+1+1+1+1, 4+1+1+1, 4+4+1, 9+1+1, 9+4, 16+1
    for squares, label in ((7, 1), (9, 2), (11, 3), (13, 6), (17, 7)):
        labels[equal == squares] = label
    labels[straight] = 4
    labels[flush] = 5
    labels[straight & flush] = 8
    labels[high & flush] = 9
    return labels


def draw_hands(count: int, *, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Deal hands, each from a whole deck.

    Args:
        count: how many.
        generator: source of the random numbers; None takes torch's own.

    Returns:
        Integers [count, 10], suits and ranks by turns, and the classes [count].

    Example:
        >>> hands, labels = draw_hands(1000)
        >>> bool((labels == name_hands(hands)).all())
        True
    """
    checks.count("count", count)
    keys = torch.rand(count, SUITS * RANKS, generator=generator)
    cards = keys.topk(CARDS, dim=1).indices
    hands = torch.stack([cards // RANKS + 1, cards % RANKS + 1], dim=2).flatten(1)
    return hands, name_hands(hands)
