"""A step that is written over its state is the step that leaves the state alone."""

import pytest
import torch

from colangevin.integrators.dynamics import advance
from registry import CASES, RUNS, Case, Run, ids, normals


@pytest.mark.parametrize("temperature", [0.0, 0.1])
@pytest.mark.parametrize("run", RUNS, ids=ids)
@pytest.mark.parametrize("case", CASES, ids=ids)
def test_in_place_and_in_new_memory_are_the_same_step(
    case: Case, run: Run, temperature: float
) -> None:
    constraint, state = case.state()
    gradient = torch.randn(state.position.shape, dtype=torch.float64, generator=seeded())
    actions = run.dynamics(0.1, 1.0, temperature).actions(first=False)
    if run.overdamped:
        state = state._replace(momentum=None, slack_momentum=None)
    before = state.map(torch.clone)
    expected = advance(constraint, state, gradient, actions, normals(3))
    for old, kept in zip(before.tensors, state.tensors, strict=True):
        assert old is None or torch.equal(old, kept), "the pure step has changed its input"
    found = advance(constraint, state, gradient, actions, normals(3), in_place=True)
    for old, new, right in zip(state.tensors, found.tensors, expected.tensors, strict=True):
        if right is not None:
            torch.testing.assert_close(new, right, rtol=0.0, atol=1e-14)
            assert old is None or old.data_ptr() == new.data_ptr()
    assert found.outcome == expected.outcome


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(2)
