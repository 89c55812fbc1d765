"""Scripts of benchmarks/: published rules are written out right, and pages have what was stored."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from colangevin.optimizers.directions.polar import tangent_polar

ROOT = Path(__file__).parents[1]


def script(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"))


def test_polar_express_is_the_polar_factor() -> None:
    torch.manual_seed(0)
    for shape in ((12, 5), (5, 12)):
        matrix = torch.randn(shape)
        left, _, right = torch.linalg.svd(matrix, full_matrices=False)
        found = script("manifold_muon")["polar_express"](matrix)
        torch.testing.assert_close(found, left @ right, atol=1e-4, rtol=0)


def test_the_published_rule_and_ours_have_one_aim() -> None:
    """With enough rounds the dual ascent comes to the tangent vector that is found here at once."""
    torch.manual_seed(0)
    weight = torch.linalg.qr(torch.randn(40, 6))[0]
    slope = torch.randn(40, 6)
    slope = slope / slope.norm()
    there = script("manifold_muon")["dual_ascent"](weight, slope, rounds=600, rate=0.05)
    here = tangent_polar(weight[None], slope[None])[0]
    assert float((weight.T @ there + there.T @ weight).abs().max()) < 1e-4
    torch.testing.assert_close(there, here, atol=2e-3, rtol=0)


def test_the_published_optimizer_stays_on_the_manifold() -> None:
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.linalg.qr(torch.randn(8, 3))[0])]
    weights.append(torch.nn.Parameter(torch.linalg.qr(torch.randn(8, 3))[0].T.contiguous()))
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    before = [weight.detach().clone() for weight in weights]
    script("manifold_muon")["Published"](weights, lr=0.1).step()
    for weight, old in zip(weights, before, strict=True):
        tall = weight.detach() if len(weight) > 3 else weight.detach().T
        torch.testing.assert_close(tall.T @ tall, torch.eye(3), atol=1e-5, rtol=0)
        assert not torch.equal(weight.detach(), old)


def test_the_guide_has_the_table_of_the_record() -> None:
    own = script("orthogonal_depth")
    found = own["table"](json.loads(own["RECORD"].read_text(encoding="utf-8")))
    assert found in own["PAGE"].read_text(encoding="utf-8")


@pytest.mark.parametrize("direction", ["gradient", "sign", "adam"])
def test_the_page_has_the_counts_of_free_weights(direction: str) -> None:
    own = script("accelerators")
    found = own["asked_by"](direction, own["GEOMETRIES"]["free"], own["shapes"]())
    lines = own["PAGE"].read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith("| free |")]
    column = 2 + own["DIRECTIONS"].index(direction)
    assert row.split("|")[column].strip() == str(found.operations)
    assert found.waits == 0
