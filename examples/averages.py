"""EMA and SWA: averages leave a manifold, and are put back on it.

python examples/averages.py
"""

import copy
import logging

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import colangevin as cl

logging.getLogger("colangevin").setLevel(logging.ERROR)
STEPS = 200
GEOMETRIES = {
    "Circle": cl.Circle(radius=0.3),
    "Sphere": cl.Sphere(radius=1.0),
    "Sphere, equality": cl.Sphere(radius=1.0, equality=True),
    "Orthogonal": cl.Orthogonal(),
    "General": cl.General(lambda row: row.square().sum() - 1.0, batch_dims=1),
}


def run(constraint: cl.Constraint) -> tuple[list[str], bool]:
    rules = {"0.weight": constraint}
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = cl.CoLA(
        cl.parameter_groups(model, rules), lr=0.05, momentum=0.9, temperature=1e-4, seed=0
    )
    averages = [
        AveragedModel(model),
        AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.98)).requires_grad_(False),
    ]
    inputs = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    for _ in range(STEPS):
        optimizer.zero_grad()
        (model(inputs).squeeze(1) - inputs.sum(dim=1).sin()).square().mean().backward()
        optimizer.step()
        for average in averages:
            average.update_parameters(model)
    found = []
    for average in averages:
        before = violation(average.module, rules)
        result = copy.deepcopy(average.module)  # the running average goes on as it is
        cl.constrain_(result, rules, frozen=True)
        found.append((before, violation(result, rules)))
    return [f"{before:.3f}" for before, _ in found], all(after < 1e-5 for _, after in found)


def violation(model: nn.Module, rules: dict[str, cl.Constraint]) -> float:
    """How far the weight is off, relative to its scale."""
    constraint = rules["0.weight"].bind([model[0].weight.shape])
    return constraint.excess(constraint.to_batch(model[0].weight.detach()))


def main() -> None:
    for name, constraint in GEOMETRIES.items():
        (swa, ema), repaired = run(constraint)
        print(f"{name}: SWA off by {swa}, EMA by {ema}; put back to 1e-5: {repaired}")


if __name__ == "__main__":
    main()
