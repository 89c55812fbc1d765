"""``radius="initial"`` with weights that lie in several processes."""

from __future__ import annotations

from pathlib import Path

import initial_cases as cases
import torch
from world import World


def test_the_path_is_that_without_shards(two: World, three: World) -> None:
    for world in (two, three):
        for plain, cut in world.run(cases.path):
            for name, weight in plain.items():
                torch.testing.assert_close(cut[name], weight, rtol=0.0, atol=1e-10)


def test_a_distributed_checkpoint_carries_the_radii(two: World, tmp_path: Path) -> None:
    for through, resumed, shapes in two.run(cases.resumed, str(tmp_path)):
        assert shapes == [(5,), (1,)]
        for name, weight in through.items():
            assert torch.equal(resumed[name], weight), name
