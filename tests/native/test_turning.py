"""Narrow matrices with rows and columns exchanged."""

import pytest
import torch

from colangevin.native import turned


@pytest.mark.parametrize("shape", [(3, 500, 2), (3, 2, 37), (2, 17, 3), (4, 19), (5, 1), (0, 3, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_every_shape(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    matrices = torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
    found = turned(matrices)
    assert torch.equal(found, matrices.mT)
    assert found.is_contiguous()


def test_any_memory_is_read_rightly() -> None:
    wide = torch.arange(12.0).reshape(2, 6)
    assert torch.equal(turned(wide.T), wide)
    assert torch.equal(turned(wide[:, ::2]), wide[:, ::2].T)
    assert not turned(torch.nn.Parameter(wide)).requires_grad
