"""A copy of an ensemble has memory of its own."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import nn

import colangevin as cl

RULES = {
    "free": {},
    "circle": {"weight": cl.Circle(0.5)},
    "orthogonal": {"weight": cl.Orthogonal()},
}
INPUTS, TARGETS = torch.randn(20, 3), torch.randn(20, 2)


def linear() -> nn.Module:
    return nn.Linear(3, 2)


def pickled(ensemble: cl.Ensemble) -> cl.Ensemble:
    return pickle.loads(pickle.dumps(ensemble))


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("method", [copy.deepcopy, pickled])
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_copy_moves_by_itself(
    rules: dict[str, cl.Constraint], method: Callable[..., cl.Ensemble], steps: int
) -> None:
    """Kernels know addresses: a step of the copy moved the original."""

    def step(ensemble: cl.Ensemble) -> None:
        ensemble.step(nn.functional.mse_loss, INPUTS, TARGETS, shared=True)

    original = cl.Ensemble(linear, [1, 2], rules, lr=0.05, momentum=0.9, temperature=1e-4)
    for _ in range(steps):
        step(original)
    before = original.parameters["weight"].clone()
    other = method(original)
    for _ in range(3):
        step(other)
    assert torch.equal(original.parameters["weight"], before)
    for _ in range(3):
        step(original)
    assert torch.equal(original.parameters["weight"], other.parameters["weight"])
    assert not torch.equal(original.parameters["weight"], before)
