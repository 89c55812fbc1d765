"""A step may write over its state; on a copy it is the same step, and leaves the state alone."""

import pytest
import torch

from colangevin import Constraint, State
from colangevin.integrators import advance
from registry import CASES, RUNS, Case, Run, ids, normals


def pure(function):
    """A method that gives a copy of the state, and of a proposal, to the method below it."""

    def on_copies(self, state, *rest):
        given = [t.clone() if isinstance(t, torch.Tensor) else t for t in rest]
        return function(self, state.map(torch.clone), *given)

    return on_copies


def assert_same(found: State, expected: State) -> None:
    for new, right in zip(found.tensors, expected.tensors, strict=True):
        assert (new is None) == (right is None)
        if right is not None:
            torch.testing.assert_close(new, right, rtol=0.0, atol=1e-14)
            assert bool(new.isfinite().all())
    assert found.outcome == expected.outcome


@pytest.mark.parametrize("temperature", [0.0, 0.1])
@pytest.mark.parametrize("run", RUNS, ids=ids)
@pytest.mark.parametrize("case", CASES, ids=ids)
def test_a_step_on_a_copy_is_the_step(case: Case, run: Run, temperature: float) -> None:
    """Whether or not ``drift`` and ``project`` share memory with what they are given."""
    constraint, state = case.state()
    gradient = normals(2)(state.position)
    actions = run.dynamics(0.1, 1.0, temperature).actions(first=False)
    if run.overdamped:
        state = state._replace(momentum=None, slack_momentum=None)
    before = state.map(torch.clone)
    kind = type(constraint)
    methods = {name: pure(getattr(kind, name)) for name in ("drift", "project")}
    aloof: Constraint = constraint._with()
    object.__setattr__(aloof, "__class__", type(kind.__name__, (kind,), methods))
    expected = advance(aloof, state.map(torch.clone), gradient, actions, normals(3))
    copied = advance(constraint, state.map(torch.clone), gradient, actions, normals(3))
    for old, kept in zip(before.tensors, state.tensors, strict=True):
        assert old is None or torch.equal(old, kept)
    assert_same(copied, expected)
    assert_same(advance(constraint, state, gradient, actions, normals(3)), expected)
