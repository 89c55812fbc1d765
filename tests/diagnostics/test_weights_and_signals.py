"""Distributions of weights, gradient norms and layer products against known numbers."""

import math

import pytest
import torch
from torch import nn

from colangevin import Orthogonal, constrain_
from colangevin.diagnostics import (
    fluctuation_temperature,
    gradient_norms,
    jacobian_spectrum,
    largest_weight,
    layer_products,
    loss_fluctuation,
    plot_signals,
    plot_weights,
    point_effects,
    weight_distributions,
)


def test_distributions_are_pooled_over_networks() -> None:
    models = [nn.Linear(2, 1), nn.Linear(2, 1)]
    for model, values in zip(models, ([0.001, 1.0], [-1.0, 0.5]), strict=True):
        model.weight.data.copy_(torch.tensor([values]))
    found = weight_distributions(models, "weight", bins=4)
    weight = found["weight"]
    assert list(found) == ["weight"]
    assert weight.counts.tolist() == [1, 0, 1, 2]
    assert (weight.total, weight.largest, weight.near_zero) == (4, 1.0, 0.25)
    assert weight.mean == pytest.approx(0.12525)
    assert float((weight.density * weight.edges.diff()).sum()) == pytest.approx(1.0)


def test_weights_beyond_the_limit_are_in_no_bin_but_in_the_total() -> None:
    model = nn.Linear(2, 1, bias=False)
    model.weight.data.copy_(torch.tensor([[0.1, 5.0]]))
    found = weight_distributions(model, limit=1.0, bins=2)["weight"]
    assert (int(found.counts.sum()), found.total, found.largest) == (1, 2, 5.0)


@pytest.mark.parametrize("count", [1, 4])
def test_the_legend_does_not_cover_the_histogram(count: int) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5, 4.2), layout="constrained")
    axes = figure.subplots()
    found = weight_distributions(nn.Linear(50, 20), "weight", limit=0.4)["weight"]
    plot_weights({f"step {step}": found for step in range(count)}, axes)
    FigureCanvasAgg(figure).draw()
    top = axes.transData.transform((0.0, float(found.density.max())))[1]
    assert axes.get_legend().get_window_extent().y0 > top


def test_distributions_refuse() -> None:
    model = nn.Linear(2, 1)
    with pytest.raises(ValueError, match="at least one network"):
        weight_distributions([])
    message = r"same names, got weight, bias in the first and weight in networks\[1\]"
    with pytest.raises(ValueError, match=message):
        weight_distributions([model, nn.Linear(2, 1, bias=False)])
    message = r"weight of the same shape, got \(1, 2\) in the first and \(1, 3\) in networks\[2\]"
    with pytest.raises(ValueError, match=message):
        weight_distributions([model, model, nn.Linear(3, 1)])
    model.weight.data[0, 0] = math.nan
    with pytest.raises(ValueError, match="weight must be finite"):
        weight_distributions(model)


@pytest.mark.parametrize("place", [0, 1])
def test_the_largest_weight_does_not_hide_nan(place: int) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight.data[0, 1] = -7.0
    assert largest_weight(model) == 7.0
    model[place].weight.data[0, 0] = math.nan
    assert math.isnan(largest_weight(model))


def deep(depth: int, gain: float) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(6, 6, bias=False) for _ in range(depth)]).double()
    for layer in model:
        layer.weight.data.mul_(gain)
    return model


def test_products_of_linear_layers_are_the_jacobian() -> None:
    model = deep(3, 1.0)
    products = layer_products(model)
    whole = model[2].weight @ model[1].weight @ model[0].weight
    torch.testing.assert_close(products[-1].singular_values, torch.linalg.svdvals(whole.detach()))
    points = torch.randn(4, 6, dtype=torch.float64)
    spectrum = jacobian_spectrum(model, points)
    torch.testing.assert_close(spectrum, products[-1].singular_values.expand(4, 6))


def test_orthogonal_layers_keep_singular_values_and_gradients() -> None:
    model = deep(12, 0.3)
    inputs, targets = torch.randn(9, 6).double(), torch.randn(9, 6).double()

    def loss() -> torch.Tensor:
        return (model(inputs) * targets).sum()

    before = gradient_norms(model, loss)
    assert max(before.values()) < 1e-6  # a product of twelve small matrices
    assert layer_products(model)[-1].condition > 1e3
    constrain_(model, {nn.Linear: Orthogonal()})
    products = layer_products(model)
    ones = torch.ones(6, dtype=torch.float64)
    torch.testing.assert_close(products[-1].singular_values, ones, rtol=0, atol=1e-6)
    after = gradient_norms(model, loss)
    assert min(after.values()) > 0.5
    assert max(after.values()) == pytest.approx(min(after.values()))  # a matrix, turned
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_condition_of_singular_products_is_infinite() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].weight.data = torch.diag(torch.tensor([1.0, 0.0]))
    model[1].weight.data.zero_()
    assert [product.condition for product in layer_products(model)] == [math.inf, math.inf]


def test_signals_refuse() -> None:
    with pytest.raises(ValueError, match=r"1.weight takes 4 inputs, but 0.weight before it has 3"):
        layer_products(nn.Sequential(nn.Linear(2, 3), nn.Linear(4, 1)))
    with pytest.raises(ValueError, match="must be a matrix"):
        layer_products(nn.Conv2d(1, 1, 3), nn.Conv2d)
    with pytest.raises(TypeError, match="loss must return one number"):
        gradient_norms(nn.Linear(1, 1), lambda: 3.0)
    with pytest.raises(ValueError, match="at least one point"):
        jacobian_spectrum(nn.Linear(1, 1), torch.zeros(0, 1))
    model, other = nn.Linear(1, 1), nn.Linear(1, 1)
    for loss in (lambda: other.weight.sum(), lambda: torch.tensor(1.0)):
        with pytest.raises(ValueError, match="loss must depend on one of weight"):
            gradient_norms(model, loss)
    with pytest.raises(ValueError, match="inputs must be finite"):
        jacobian_spectrum(model, torch.tensor([[math.nan]]))
    model.weight.data.fill_(math.nan)
    with pytest.raises(ValueError, match="weight must be finite"):
        layer_products(model)
    with pytest.raises(ValueError, match="derivatives of the model must be finite"):
        jacobian_spectrum(model, torch.ones(1, 1))


def test_a_picture_of_every_kind_of_signals() -> None:
    from matplotlib.figure import Figure

    model = deep(3, 1.0)
    norms = gradient_norms(model, lambda: model(torch.ones(1, 6).double()).sum())
    for signals, lines in (
        (norms, 1),
        ({"one": norms, "two": norms}, 2),
        (layer_products(model), 3),
        (jacobian_spectrum(model, torch.randn(4, 6).double()), 4),
    ):
        axes = Figure().subplots()
        plot_signals(signals, axes)
        assert (len(axes.lines), axes.get_yscale()) == (lines, "log")


def test_the_jacobian_of_batchnorm_in_evaluation_mode() -> None:
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.BatchNorm1d(3, eps=0.0)).double()
    model[1].running_var.copy_(torch.tensor([4.0, 9.0, 16.0]))
    model.train()
    scaled = torch.diag(1 / torch.tensor([2.0, 3.0, 4.0]).double()) @ model[0].weight.detach()
    found = jacobian_spectrum(model, torch.randn(2, 3).double())
    torch.testing.assert_close(found, torch.linalg.svdvals(scaled).expand(2, 3))
    assert model.training
    assert model[1].num_batches_tracked == 0


def test_effects_of_points_on_a_linear_regression() -> None:
    """∇(w·x − y)² = 2(w·x − y)(x, 1)."""
    model = nn.Linear(2, 1).double()
    inputs, targets = torch.randn(7, 2).double(), torch.randn(7, 1).double()
    residual = (model(inputs) - targets).detach().squeeze(1)
    expected = 2 * residual.abs() * (inputs.square().sum(dim=1) + 1).sqrt()
    effects = point_effects(model, nn.functional.mse_loss, inputs, targets, step=0.5)
    torch.testing.assert_close(effects, 0.5 * expected)
    only = point_effects(model, nn.functional.mse_loss, inputs, targets, "bias")
    torch.testing.assert_close(only, 2 * residual.abs())
    with pytest.raises(ValueError, match="as many points"):
        point_effects(model, nn.functional.mse_loss, inputs, targets[:3])
    with pytest.raises(ValueError, match="inputs must be finite"):
        point_effects(model, nn.functional.mse_loss, inputs * math.nan, targets)
    with pytest.raises(ValueError, match="targets must be finite"):
        point_effects(model, nn.functional.mse_loss, inputs, targets / 0)
    with pytest.raises(TypeError, match="one number as a tensor"):
        point_effects(model, lambda o, y: (o - y).expand(1, 2), inputs, targets)


@pytest.mark.parametrize("degrees", [1, 2, 10])
def test_temperature_of_a_basin_under_a_trend(degrees: int) -> None:
    """The deviation of τ χ²/2 is τ √(d/2), to within √((2 + 12/d)/4n) of itself in n draws."""
    temperature, draws = 3e-4, 20_000
    generator = torch.Generator().manual_seed(degrees)
    normals = torch.randn(draws, degrees, generator=generator, dtype=torch.float64)
    losses = 0.7 - 0.2 * torch.linspace(0, 1, draws) + temperature / 2 * normals.square().sum(dim=1)
    found = fluctuation_temperature(losses, degrees)
    assert found == pytest.approx(temperature, rel=4 * math.sqrt((2 + 12 / degrees) / 4 / draws))


def test_fluctuations_refuse() -> None:
    with pytest.raises(ValueError, match="at least 50 numbers"):
        loss_fluctuation(torch.zeros(49))
    with pytest.raises(ValueError, match="finite"):
        loss_fluctuation(torch.full((60,), math.nan))
    with pytest.raises(ValueError, match="degrees must be at least 1"):
        fluctuation_temperature(torch.rand(60), 0)


@pytest.mark.parametrize("steps", [3, 80, 300])
@pytest.mark.parametrize("noise", [0.0, 1e-5, 1e-4])
def test_a_loss_that_still_falls_has_no_temperature(steps: int, noise: float) -> None:
    """The deviation is that of the fall, which a straight line does not remove."""
    generator = torch.Generator().manual_seed(0)
    falling = 0.139 + 0.0065 * torch.exp(-torch.arange(400.0) / steps)
    losses = falling + noise * torch.randn(400, generator=generator)
    with pytest.raises(ValueError, match="must fluctuate evenly about a straight trend"):
        fluctuation_temperature(losses)


def swinging(draws: int, memory: float, degrees: int = 4) -> torch.Tensor:
    """Losses Σx²/2 of directions x with variance 1 and the correlation memory^k over k steps."""
    generator = torch.Generator().manual_seed(1)
    normals = torch.randn(draws, degrees, generator=generator, dtype=torch.float64)
    places = [normals[0]]
    for kick in normals[1:]:
        places.append(memory * places[-1] + math.sqrt(1 - memory**2) * kick)
    return torch.stack(places).square().sum(dim=1) / 2


def test_slow_fluctuations_need_a_long_series() -> None:
    """Squares have the correlation memory^2k: m draws count as m (1 − memory²)/(1 + memory²)."""
    losses, memory, degrees = swinging(20_000, 0.95), 0.95, 4
    counting = len(losses) * (1 - memory**2) / (1 + memory**2)
    error = math.sqrt((2 + 12 / degrees) / 4 / counting)
    assert fluctuation_temperature(losses, degrees) == pytest.approx(1.0, rel=4 * error)
    with pytest.raises(ValueError, match="Give more losses, or later ones"):
        fluctuation_temperature(losses[:60], degrees)


def test_constant_losses_do_not_fluctuate() -> None:
    assert loss_fluctuation(torch.full((60,), 0.3)) == pytest.approx(0.0, abs=1e-7)
