"""The spectrum of a Hessian against the Hessian itself, and equation (5.6)."""

import pytest
import torch
from torch import nn

from colangevin.diagnostics import hessian_spectrum, multirate_speed_up


def problem() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    return model, torch.randn(40, 3).double(), torch.randint(2, (40,))


def eigenvalues(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    sizes = [p.numel() for p in model.parameters()]
    names = [name for name, _ in model.named_parameters()]
    shapes = [p.shape for p in model.parameters()]

    def loss(flat: torch.Tensor) -> torch.Tensor:
        parts = zip(names, flat.split(sizes), shapes, strict=True)
        weights = {name: part.view(shape) for name, part, shape in parts}
        outputs = torch.func.functional_call(model, weights, inputs)
        return nn.functional.cross_entropy(outputs, labels)

    start = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    return torch.linalg.eigvalsh(torch.func.hessian(loss)(start))


def test_ends_trace_and_shares_are_those_of_the_hessian() -> None:
    model, inputs, labels = problem()
    true = eigenvalues(model, inputs, labels)
    draws = 200
    found = hessian_spectrum(
        model,
        lambda: nn.functional.cross_entropy(model(inputs), labels),
        steps=len(true),
        draws=draws,
    )
    assert found.size == len(true)
    assert found.largest == pytest.approx(float(true.max()), abs=1e-9)
    assert found.smallest == pytest.approx(float(true.min()), abs=1e-9)
    assert torch.allclose(found.weights.sum(dim=1), torch.ones(draws).double())
    traces = (found.nodes * found.weights).sum(dim=1) * found.size
    error = float(traces.std()) / draws**0.5
    assert abs(found.trace - float(true.sum())) < 4 * error
    low, high = -0.01, 0.01
    share, error = found.share(low, high)
    assert 0 < error < 0.05
    assert abs(share - float(((true >= low) & (true <= high)).double().mean())) < 4 * error


def test_the_density_integrates_to_one() -> None:
    model, inputs, labels = problem()
    found = hessian_spectrum(model, lambda: nn.functional.cross_entropy(model(inputs), labels), 10)
    places = torch.linspace(found.smallest - 1, found.largest + 1, 4001, dtype=torch.float64)
    total = torch.trapezoid(found.density(places, 0.05), places)
    assert float(total) == pytest.approx(1.0, abs=1e-6)


def test_weights_and_gradients_are_left_alone() -> None:
    model, inputs, labels = problem()
    before = [p.detach().clone() for p in model.parameters()]
    hessian_spectrum(model, lambda: nn.functional.cross_entropy(model(inputs), labels), 5, 2)
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))


def test_a_parameter_without_part_in_the_loss_has_the_eigenvalue_0() -> None:
    used, unused = (torch.ones(2, requires_grad=True) for _ in range(2))
    found = hessian_spectrum([used, unused], lambda: used.square().sum(), steps=4, draws=3)
    assert found.largest == pytest.approx(2.0)
    assert found.smallest == pytest.approx(0.0, abs=1e-6)
    assert found.nodes.shape == (3, 2)  # the loss has two different eigenvalues


def test_bad_input_is_named() -> None:
    weight = torch.ones(2)
    with pytest.raises(ValueError, match="parameters that need a gradient"):
        hessian_spectrum([weight], lambda: weight.sum())
    with pytest.raises(ValueError, match="steps"):
        hessian_spectrum([weight.requires_grad_()], lambda: weight.sum(), steps=0)


def test_speed_up_counts_backward_passes() -> None:
    layers, fast, k = 12, 2, 5
    full = k * layers
    multirate = layers + (k - 1) * fast
    assert multirate_speed_up(layers, fast, k) == pytest.approx(full / multirate)
    assert multirate_speed_up(layers, layers, k) == 1.0
    with pytest.raises(ValueError, match="fast_layers must be at most layers, 12, got 13"):
        multirate_speed_up(12, 13, 5)
    with pytest.raises(ValueError, match="k"):
        multirate_speed_up(12, 2, 0)
