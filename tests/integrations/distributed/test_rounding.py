"""``rounding="stochastic"`` of weights that lie in several processes."""

from __future__ import annotations

import pytest
import rounding_cases as cases
import torch
from world import World


@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_the_path_is_that_without_shards(two: World, three: World, momentum: float) -> None:
    """The chances count the indices of the whole weight."""
    for world in (two, three):
        for plain, cut, kept in world.run(cases.path, momentum):
            assert not kept
            for name, weight in plain.items():
                # Sums over processes have other last bits, which may turn a rounding.
                same = (cut[name] == weight).float().mean()
                exact = name not in ("columns", "orthogonal")
                assert float(same) == 1.0 if exact else float(same) > 0.9, name
                torch.testing.assert_close(cut[name], weight, rtol=0.01, atol=0.01)
