from itertools import chain, combinations

import numpy as np
import pytest
import torch

from colangevin.lab.data import draw_hands, name_hands
from colangevin.lab.data.poker import HANDS

COUNTS = [1_302_540, 1_098_240, 123_552, 54_912, 10_200, 5_108, 3_744, 624, 36, 4]
"""Hands of each class among the 2,598,960 of the game."""


def hand(text: str) -> torch.Tensor:
    """From cards such as 'SA H10': a letter for the suit, then the rank."""
    ranks = {"A": 1, "J": 11, "Q": 12, "K": 13}
    cards = [
        ("HSDC".index(card[0]) + 1, int(ranks.get(card[1:]) or card[1:])) for card in text.split()
    ]
    return torch.tensor([number for card in cards for number in card])


@pytest.mark.parametrize(
    ("cards", "name"),
    [
        ("HA SK D9 C7 H2", "nothing"),
        ("HQ SK DA C2 H3", "nothing"),  # a straight does not go round
        ("HA SA D9 C7 H2", "one pair"),
        ("H9 SA D9 CA H2", "two pairs"),
        ("H9 S9 D9 CA H2", "three of a kind"),
        ("HA S2 D3 C4 H5", "straight"),
        ("HA SK DQ CJ H10", "straight"),
        ("S2 S4 S6 S8 SK", "flush"),
        ("H9 S9 D9 CA HA", "full house"),
        ("H9 S9 D9 C9 HA", "four of a kind"),
        ("DA D2 D3 D4 D5", "straight flush"),
        ("C9 CK CQ CJ C10", "straight flush"),
        ("CA CK CQ CJ C10", "royal flush"),
    ],
)
def test_known_hands(cards, name):
    hands = hand(cards).view(1, 10)
    turned = hands.view(5, 2).flip(0).reshape(1, 10)
    assert HANDS[int(name_hands(hands))] == HANDS[int(name_hands(turned))] == name


def test_all_hands_of_the_game():
    every = chain.from_iterable(combinations(range(52), 5))
    cards = torch.from_numpy(np.fromiter(every, dtype=np.int64)).view(-1, 5)
    assert len(cards) == sum(COUNTS)
    labels = torch.cat(
        [
            name_hands(torch.stack([part // 13 + 1, part % 13 + 1], dim=2).flatten(1))
            for part in cards.split(200_000)
        ]
    )
    assert torch.bincount(labels).tolist() == COUNTS


def test_hands_have_the_chances_of_the_game_and_no_card_twice():
    hands, labels = draw_hands(100_000, generator=torch.Generator().manual_seed(3))
    cards = (14 * hands[:, 0::2] + hands[:, 1::2]).sort(dim=1).values
    assert bool((cards.diff(dim=1) > 0).all())
    chances = torch.tensor(COUNTS[:5], dtype=torch.float64) / sum(COUNTS)
    found = torch.bincount(labels, minlength=10)[:5] / 100_000
    errors = (chances * (1 - chances) / 100_000).sqrt()
    assert bool(((found - chances).abs() < 4.5 * errors).all())


def test_other_hands_are_refused():
    with pytest.raises(ValueError, match="shape"):
        name_hands(torch.ones(3, 8, dtype=torch.long))
    with pytest.raises(ValueError, match="ranks must lie between 1 and 13"):
        name_hands(torch.full((1, 10), 0) + torch.tensor([1, 14] * 5))
    with pytest.raises(ValueError, match="suits must lie between 1 and 4"):
        name_hands(torch.tensor([[0, 1] * 5]))
    with pytest.raises(ValueError, match="count"):
        draw_hands(0)
