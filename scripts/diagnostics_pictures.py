"""Draw the pictures of docs/diagnostics.md: every diagnostic on networks trained here.

About a minute on one core:

    python scripts/diagnostics_pictures.py            # or only: paths, boundaries, signals
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import colangevin as cl
from colangevin import diagnostics as cd
from colangevin.lab.data import Spiral

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SPIRAL = Spiral(turns=2.0, scale=2.0, noise=0.02)


Record = Callable[[int], None]


def loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Binary cross entropy of logits [points, 1]."""
    return binary_cross_entropy_with_logits(outputs[:, 0], labels.float())


def network(seed: int, nodes: int = 100, normalised: bool = False) -> nn.Sequential:
    """A network with one hidden layer."""
    torch.manual_seed(seed)
    middle = [nn.BatchNorm1d(nodes)] if normalised else []
    return nn.Sequential(nn.Linear(2, nodes), *middle, nn.ReLU(), nn.Linear(nodes, 1))


def copy(model: nn.Module) -> dict[str, Tensor]:
    """A state dict that stays as it is."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    steps: int,
    record: Record = lambda step: None,
) -> None:
    """Train on 500 points in batches of 5 %."""
    inputs, labels = SPIRAL.sample(500, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    record(0)
    for step in range(1, steps + 1):
        batch = torch.randint(len(inputs), (25,), generator=generator)
        optimizer.zero_grad()
        loss(model(inputs[batch]), labels[batch]).backward()
        optimizer.step()
        record(step)


def adlala(model: nn.Module) -> cl.AdLaLa:
    """The thesis's setting for two turns."""
    parts = cl.partition(model, by="output")
    return cl.AdLaLa(
        parts, 0.25, coupling=0.1, driving_noise=0.01, temperature=1e-4, friction=0.5, seed=0
    )


def paths() -> Figure:
    """Lines of the whole network and by layer, the two ways with BatchNorm, and a surface."""
    inputs, labels = SPIRAL.sample(500, generator=torch.Generator().manual_seed(2))
    figure = Figure(figsize=(15, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    model = network(0, 20)
    start = copy(model)
    train(model, adlala(model), 8_000)
    first = copy(model)
    lines = {"all": cd.Line(start, first)}
    lines |= {name: cd.Line(start, first, f"{name}.*") for name in ("0", "2")}
    cd.plot_paths(cd.loss_paths(model, lines, loss, inputs, labels), left)
    left.set_title("whole network and by layer")
    model.load_state_dict(start)
    train(model, torch.optim.Adam(model.parameters(), lr=0.005), 8_000)
    surface = cd.loss_surface(
        model, start, first, copy(model), lambda m: loss(m(inputs), labels), points=31
    )
    cd.plot_surface(surface, right)
    right.set_title("AdLaLa (first) and Adam (second)")
    model = network(0, 50, normalised=True)
    start = copy(model)
    train(model, torch.optim.Adam(model.parameters(), lr=0.005), 3_000)
    end = copy(model)
    found = {
        name: cd.loss_path(
            model, start, end, lambda m: loss(m(inputs), labels), statistics=statistics
        )
        for name, statistics in (("interpolated", None), ("measured anew", [inputs]))
    }
    cd.plot_paths(found, middle)
    middle.set_title("BatchNorm statistics")
    return figure


def boundaries() -> Figure:
    """Regions, when they settled, effects of points, weights over time."""
    inputs, labels = SPIRAL.sample(500, generator=torch.Generator().manual_seed(0))
    figure = Figure(figsize=(18, 4.2), layout="constrained")
    axes = figure.subplots(1, 4)
    model = network(0)
    course = cd.RegionCourse(extent=2.2, grid=120)
    weights = {}

    def record(step: int) -> None:
        if step % 200 == 0:
            course.record(step, model)
        if step in (0, 50, 1_000, 6_000):
            weights[f"step {step}"] = cd.weight_distributions(model, "0.weight", limit=4.0)[
                "0.weight"
            ]

    train(model, adlala(model), 6_000, record)
    cd.plot_regions(cd.decision_regions(model, 2.2), axes[0], inputs, labels)
    axes[0].set_title("decision regions")
    cd.plot_course(course, axes[1])
    axes[1].set_title("when the class settled")
    cd.plot_effects(inputs, cd.point_effects(model, loss, inputs, labels), axes[2])
    axes[2].set_title("effect of each point")
    cd.plot_weights(weights, axes[3])
    axes[3].set_title("input weights over time")
    return figure


def signals() -> Figure:
    """Gradients with and without orthogonality, products, agreement, fluctuations."""
    figure = Figure(figsize=(18, 4.2), layout="constrained")
    axes = figure.subplots(1, 4)
    torch.manual_seed(0)
    widths = [2] + [30] * 9
    layers = [part for i, o in pairwise(widths) for part in (nn.Linear(i, o), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(30, 1))
    inputs, labels = SPIRAL.sample(200, generator=torch.Generator().manual_seed(0))
    norms = {"torch's weights": cd.gradient_norms(model, lambda: loss(model(inputs), labels))}
    before = cd.layer_products(model)
    cl.constrain_(model, {nn.Linear: cl.Orthogonal()})
    norms["orthogonal weights"] = cd.gradient_norms(model, lambda: loss(model(inputs), labels))
    cd.plot_signals(norms, axes[0])
    axes[0].set_title("gradients by layer")
    cd.plot_signals(before, axes[1])
    axes[1].set_title("products of torch's weights")
    labelled = []
    grid = torch.cartesian_prod(torch.linspace(-2, 2, 15), torch.linspace(-2, 2, 15)).flip(1)
    for seed in range(9):
        one = network(seed)
        train(one, torch.optim.Adam(one.parameters(), lr=0.01), 1_500)
        labelled.append((one(grid)[:, 0] > 0).long())
    cd.plot_agreement(cd.agreement_map(torch.stack(labelled), 15), axes[2])
    axes[2].set_title("agreement of nine networks")
    series = regression()
    print(f"fluctuations of a regression at 1e-3: {cd.fluctuation_temperature(series, 10):.2e}")
    cd.plot_fluctuations(series, axes[3], degrees=10)
    axes[3].set_title("fluctuations of a regression's loss")
    return figure


def regression() -> Tensor:
    """Losses of a linear regression with 10 weights, sampled at 1e-3, after a burn-in."""
    torch.manual_seed(0)
    inputs, model = torch.randn(500, 9), nn.Linear(9, 1)
    targets = inputs.sum(dim=1, keepdim=True) + torch.randn(500, 1)
    optimizer = cl.CoLA(
        model.parameters(), step_size=0.3, friction=1.0, temperature=1e-3, scheme="BAOAB", seed=0
    )
    series = []
    for _ in range(5_500):
        optimizer.zero_grad()
        value = (model(inputs) - targets).square().mean() / 2
        value.backward()
        optimizer.step()
        series.append(float(value.detach()))
    return torch.tensor(series[500:])


PICTURES = {"paths": paths, "boundaries": boundaries, "signals": signals}


def main() -> None:
    """Draw the pictures that are named, or all of them."""
    torch.set_num_threads(1)
    for name, draw in PICTURES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        target = IMAGES / f"diagnostics-{name}.png"
        draw().savefig(target, dpi=80, facecolor="white", metadata={"Software": None})
        print(target)


if __name__ == "__main__":
    main()
