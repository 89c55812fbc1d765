"""Parameters that share a group move as they would alone, whenever each of them first moves."""

import pytest
import torch
from torch import Tensor, nn

from colangevin import CoLA
from registry import CASES, RUNS, Case, Run, ids, normals

ALONE = [case for case in CASES if len(case.shapes) == 1]


def copies(case: Case) -> list[nn.Parameter]:
    return [nn.Parameter(case.weights(seed=seed)[0]) for seed in range(3)]


def gradient(weight: Tensor, index: int) -> Tensor:
    return weight.detach() - normals(20 + index)(weight)


@pytest.mark.parametrize("run", RUNS, ids=ids)
@pytest.mark.parametrize("case", ALONE, ids=ids)
def test_three_parameters_in_a_group_move_as_each_alone(case: Case, run: Run) -> None:
    """The second gets its first gradient in the third call, the first none in the fifth."""
    options = run.options(step_size=0.05, friction=1.0)
    together, alone = copies(case), copies(case)
    shared = CoLA(together, constraint=case.make(), **options)
    single = [CoLA([w], constraint=case.make(), **options) for w in alone]
    start = [w.detach().clone() for w in alone]
    for call in range(8):
        skipped = {1} if call < 2 else {0} if call == 4 else set()
        for index in range(3):
            for w in (together[index], alone[index]):
                w.grad = None if index in skipped else gradient(w, index)
        shared.step()
        for optimizer in single:
            optimizer.step()
        for w, twin in zip(together, alone, strict=True):
            torch.testing.assert_close(w, twin, rtol=0.0, atol=1e-12)
    for w, before in zip(alone, start, strict=True):
        assert (w - before).abs().max() > 1e-4
    (violation,) = shared.violation()
    assert violation.residual <= 1e-12
    assert violation.cotangency <= 1e-12
