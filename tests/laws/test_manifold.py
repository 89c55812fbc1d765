"""After many steps with random gradients the weights are on the manifold, the momentum cotangent.

``scripts/long_run.py`` does the same with 100,000 steps.
"""

import pytest
import torch
from torch import nn

from colangevin import CoLA
from registry import CASES, RUNS, TOLERANCE, Case, Run, ids


@pytest.mark.parametrize("dtype", TOLERANCE, ids=ids)
@pytest.mark.parametrize("run", RUNS, ids=ids)
@pytest.mark.parametrize("case", CASES, ids=ids)
def test_random_gradients_keep_the_weights_on_the_manifold(
    case: Case, run: Run, dtype: torch.dtype
) -> None:
    weights = [nn.Parameter(w) for w in case.weights(dtype)]
    start = [w.detach().clone() for w in weights]
    generator = torch.Generator().manual_seed(1)
    optimizer = CoLA(
        weights,
        constraint=case.make(),
        seed=2,
        **run.options(step_size=0.03 if run.overdamped else 0.1, friction=1.0),
    )
    for temperature in (0.0, 0.02):
        optimizer.param_groups[0]["temperature"] = temperature
        for _ in range(case.steps(150)):
            for w in weights:
                w.grad = torch.randn(w.shape, dtype=dtype, generator=generator)
            optimizer.step()
        (violation,) = optimizer.violation()
        assert violation.residual <= TOLERANCE[dtype]
        assert violation.cotangency <= TOLERANCE[dtype]
        assert case.violated(*[w.detach().double() for w in weights]) <= TOLERANCE[dtype]
        for w, before in zip(weights, start, strict=True):
            assert (w - before).abs().max() > 1e-2 * before.abs().max()
