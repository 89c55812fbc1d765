"""One thread for little work, and the user's number of them afterwards."""

from collections.abc import Iterator

import pytest
import torch

from colangevin.threads import LITTLE, multiply_adds_of, threads_for


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_little_work_has_one_thread_and_gives_the_others_back() -> None:
    with threads_for(LITTLE - 1):
        assert torch.get_num_threads() == 1
        with threads_for(10 * LITTLE):  # inside, the outer choice holds
            assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3
    with threads_for(LITTLE):
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_threads_are_given_back_after_an_error() -> None:
    with pytest.raises(KeyError), threads_for(1):
        raise KeyError
    assert torch.get_num_threads() == 3


def test_the_users_one_thread_stays() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with threads_for(1):
        torch.set_num_threads(2)  # the user's own, from a callback
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_convolutions_count_with_all_their_places() -> None:
    layer, images = torch.nn.Conv2d(1, 4, 3), torch.zeros(10, 1, 8, 8)
    assert multiply_adds_of(lambda: layer(images)) == 10 * 36 * 36
