"""What the rest of the library relies on in a geometry besides its formulas: shapes and order."""

import pytest
import torch
from torch import Size

from colangevin.constraints.contract import check_contract
from registry import CASES, Case, ids, normals

ALONE = [case for case in CASES if len(case.shapes) == 1]


@pytest.mark.parametrize("case", ALONE, ids=ids)
def test_the_layout_keeps_its_contract(case: Case) -> None:
    check_contract(case.bound(), Size(case.shapes[0]))


@pytest.mark.parametrize("case", ALONE, ids=ids)
def test_a_weight_comes_back_from_its_batch(case: Case) -> None:
    constraint, shape = case.bound(), Size(case.shapes[0])
    weight = normals(1)(torch.empty(shape))
    assert torch.equal(constraint.from_batch(constraint.to_batch(weight), shape), weight)


@pytest.mark.parametrize("case", ALONE, ids=ids)
def test_a_stack_is_laid_out_as_its_weights_one_after_the_other(case: Case) -> None:
    constraint, shape = case.bound(), Size(case.shapes[0])
    if constraint.elementwise:
        return  # its methods get the stack itself
    weights = [normals(seed)(torch.empty(shape)) for seed in (1, 2, 3)]
    batches = [constraint.to_batch(weight) for weight in weights]
    stack = constraint.to_batch(torch.stack(weights), 1)
    stack = stack.flatten(0, stack.dim() - batches[0].dim())
    assert torch.equal(stack, torch.cat(batches))


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_what_is_said_of_copies_has_the_copies_first(case: Case) -> None:
    constraint, state = case.state()
    copies = state.position.shape[0]
    for found in (constraint.residual(state), constraint.kinetic_terms(state)):
        assert found.shape[0] == copies
    if state.slack is not None:
        expected = state.position.shape if constraint.elementwise else (copies,)
        assert state.slack.shape[: len(expected)] == expected
