"""Checkpoints of ensembles: those of other constraints, and those that are damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl

POINTS = torch.randn(20, 2, generator=torch.Generator().manual_seed(1))
TARGETS = POINTS @ torch.tensor([[1.0, 0.0], [0.5, 1.0]])
SETTINGS: dict[str, Any] = {"batch_size": 10}


def made(constraint: cl.Constraint) -> cl.Ensemble:
    rules = {"weight": constraint}
    return cl.Ensemble(lambda: nn.Linear(2, 2), [1, 2], rules, lr=0.1, momentum=0.9, compile=False)


def mse(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean()


def fit(ensemble: cl.Ensemble, path: Path, epochs: int) -> Any:
    return ensemble.fit(mse, POINTS, TARGETS, epochs=epochs, checkpoint=path, **SETTINGS)


def weights(ensemble: cl.Ensemble) -> list[Tensor]:
    members = [ensemble.member(i) for i in range(len(ensemble.seeds))]
    return [p.detach().clone() for member in members for p in member.parameters()]


def refused(ensemble: cl.Ensemble, path: Path, match: str) -> None:
    before = weights(ensemble)
    with pytest.raises(ValueError, match=match):
        fit(ensemble, path, 2)
    assert all(torch.equal(a, b) for a, b in zip(weights(ensemble), before, strict=True))
    assert ensemble.steps == ensemble.epochs == 0


@pytest.mark.parametrize(
    "one, other",
    [
        (cl.Circle(2.0), cl.Circle(1.0)),
        (cl.Circle(torch.full((2, 2), 2.0)), cl.Circle(torch.full((2, 2), 1.0))),
        (cl.Sphere(2.0), cl.Sphere(1.0)),
        (cl.Sphere(2.0, equality=True), cl.Sphere(1.0, equality=True)),
        (cl.Sphere(2.0, dim=0), cl.Sphere(2.0, dim=1)),
        (cl.Orthogonal(scale=2.0), cl.Orthogonal(scale=1.0)),
        (cl.Circle(2.0), cl.Sphere(2.0)),
    ],
    ids=["circle", "radii", "sphere", "unit-norm", "dim", "scale", "kind"],
)
def test_a_checkpoint_of_another_constraint_is_refused(
    tmp_path: Path, one: cl.Constraint, other: cl.Constraint
) -> None:
    path = tmp_path / "run.pt"
    fit(made(one), path, 1)
    refused(made(other), path, r"constraint|radius|scale|dim|shapes")
    assert fit(made(one), path, 2).epochs == [1, 2]


def test_a_radius_of_one_member_counts(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"

    def sweep(radii: tuple[float, float]) -> cl.Ensemble:
        rules = {"weight": [cl.Circle(r) for r in radii]}
        return cl.Ensemble(lambda: nn.Linear(2, 2), [1, 2], rules, lr=0.1, compile=False)

    fit(sweep((1.0, 2.0)), path, 1)
    refused(sweep((1.0, 3.0)), path, r"constraint|radius")


DAMAGES = {
    "noise": lambda whole: bytes(range(256)) * 10,
    "nothing": lambda whole: b"",
    "text": lambda whole: b"epoch,loss\n1,0.5\n",
    "half of it": lambda whole: whole[: len(whole) // 2],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "run.pt"
    fit(made(cl.Circle(2.0)), path, 1)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    refused(made(cl.Circle(2.0)), path, r"run\.pt")


@pytest.mark.parametrize("content", [[1, 2], {"a": 1}, 3.0, {"ensemble": {}, "sizes": {}}])
def test_a_file_of_something_else_is_named(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "run.pt"
    torch.save(content, path)
    refused(made(cl.Circle(2.0)), path, r"run\.pt")
