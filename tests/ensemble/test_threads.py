"""Small steps of an ensemble use one thread, and the user's threads come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.ensemble.gradients import Gradients


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def watched(seen: set[int]) -> Callable[[Tensor, Tensor], Tensor]:
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        seen.add(torch.get_num_threads())
        return (outputs - targets).square().mean()

    return loss


@pytest.mark.parametrize("width, threads", [(2, 1), (512, 2)])
def test_threads_are_chosen_by_the_work(width: int, threads: int) -> None:
    ensemble = cl.Ensemble(lambda: nn.Linear(width, width), (1, 2), lr=0.1, compile=False)
    points = torch.randn(64, width)
    trained: set[int] = set()
    ensemble.fit(watched(trained), points, points, epochs=2, batch_size=64)
    assert trained == {threads} and torch.get_num_threads() == 2
    evaluated: set[int] = set()
    ensemble.evaluate(watched(evaluated), points, points)
    assert evaluated == {threads} and torch.get_num_threads() == 2
    stepped: set[int] = set()
    ensemble.step(watched(stepped), points, points, shared=True)
    assert stepped == {threads} and torch.get_num_threads() == 2


def test_layers_without_a_count_are_no_little_work() -> None:
    found = Gradients(nn.LSTM(64, 300, batch_first=True), None, compile=None, seed=0)
    with found.threads(torch.zeros(64, 5, 64), 1, shared=True):
        assert torch.get_num_threads() == 2


def test_threads_come_back_after_an_error() -> None:
    ensemble = cl.Ensemble(lambda: nn.Linear(2, 1), (1, 2), lr=0.1, compile=False)
    with pytest.raises(RuntimeError):
        ensemble.step(nn.functional.mse_loss, torch.zeros(2, 4, 3), torch.zeros(2, 4, 1))
    assert torch.get_num_threads() == 2


class Noisy(nn.Module):
    """Draws numbers in every mode, and counts in a buffer while it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.norm = nn.BatchNorm1d(2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(self.norm(inputs)) + 0.1 * torch.randn(len(inputs), 1)


def test_measuring_the_work_changes_nothing() -> None:
    points = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
    found = []
    for threads in (1, 2):  # with one there is nothing to choose, and nothing is measured
        torch.set_num_threads(threads)
        torch.manual_seed(3)
        ensemble = cl.Ensemble(Noisy, (1, 2), lr=0.1, compile=False)
        ensemble.fit(nn.functional.mse_loss, points, points[:, :1], epochs=2, batch_size=4)
        member = ensemble.member(1)
        found.append([*member.state_dict().values(), torch.rand(3)])
    assert all(map(torch.equal, *found))


def test_layers_that_are_in_evaluation_mode_stay_there() -> None:
    def network() -> nn.Module:
        made = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
        made[0].eval()
        return made

    ensemble = cl.Ensemble(network, (1, 2), lr=0.1, compile=False)
    points = torch.randn(8, 2) + 5
    ensemble.evaluate(lambda y, t: y.mean(), points, points)
    ensemble.fit(nn.functional.mse_loss, points, points[:, :1], epochs=2, batch_size=4)
    assert ensemble.member(0)[0].running_mean.tolist() == [0.0, 0.0]
    assert not ensemble.member(0)[0].training and ensemble.member(0)[1].training
