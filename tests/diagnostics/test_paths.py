"""Loss paths against closed forms: a quadratic, double wells, linear networks, BatchNorm."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from colangevin.diagnostics import (
    Line,
    LossPath,
    loss_path,
    loss_paths,
    loss_surface,
    plot_paths,
    relative_distance,
)


def states(*values: list[float]) -> list[dict[str, Tensor]]:
    return [{"weight": torch.tensor([value], dtype=torch.float64)} for value in values]


def linear(size: int = 2) -> nn.Module:
    return nn.Linear(size, 1, bias=False).double()


def normalised(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    model(torch.randn(32, 3) * (1 + seed))  # running statistics of its own
    return model


def clones(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def quadratic(model: nn.Module) -> Tensor:
    weight = model.get_parameter("weight")
    return (weight * weight.new_tensor([1.0, 3.0]) * weight).sum() / 2


def test_a_quadratic_has_its_parabola() -> None:
    start, end = states([2.0, 1.0], [0.0, 0.0])
    path = loss_path(linear(), start, end, quadratic, points=11)
    expected = 3.5 * (1 - torch.linspace(0, 1, 11, dtype=torch.float64)) ** 2
    torch.testing.assert_close(path.losses, expected)
    assert path.shape == "monotone"
    assert path.barrier.height == 0.0
    assert math.isnan(path.barrier.alpha)


@pytest.mark.parametrize("turned", [False, True])
def test_the_barrier_of_a_tilted_double_well(turned: bool) -> None:
    """(w² − 1)² + 0.1 (1 − w) from w = −1 to 1: the rise is from the higher well to the hill."""

    def well(model: nn.Module) -> Tensor:
        w = model.get_parameter("weight")[0, 0]
        return (w**2 - 1) ** 2 + 0.1 * (1 - w)

    ends = states([-1.0], [1.0])
    start, end = ends[::-1] if turned else ends
    path = loss_path(linear(1), start, end, well, points=2001)
    w = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    heights = (w**2 - 1) ** 2 + 0.1 * (1 - w)
    top = int(heights.argmax())
    valley = heights[:top].min()
    assert path.shape == "barrier"
    assert path.barrier.height == pytest.approx(float(heights[top] - valley))
    place = float((w[top] + 1) / 2)
    assert path.barrier.alpha == pytest.approx(1 - place if turned else place)


@pytest.mark.parametrize(
    ("heights", "shape"),
    [
        (lambda a: 1 - a, "monotone"),
        (lambda a: a, "monotone"),
        (lambda a: 1 - a**12, "plateau"),
        (lambda a: (1 - a) ** 12, "monotone"),  # falls at once, then is flat
        (lambda a: 0 * a + 2, "plateau"),
        (lambda a: 1 - a + 0.002 * torch.sin(200 * a), "monotone"),  # below the tolerance
        (lambda a: 1 - a + 0.3 * torch.exp(-100 * (a - 0.5) ** 2), "barrier"),
        (lambda a: torch.where(a == 0.5, torch.inf, 1 - a), "not finite"),
        (lambda a: torch.where(a == 0.5, torch.nan, 1 - a), "not finite"),
        (lambda a: 1 + 1e-7 * torch.sin(200 * a), "plateau"),  # like rounding
        (lambda a: 1 + 1e-5 * torch.sin(200 * a), "barrier"),
        (lambda a: (1 - 1e-4 * a).float(), "monotone"),
        (lambda a: (5 - a * 4).long() % 4, "barrier"),  # counts are numbers, too
    ],
)
def test_shapes(heights: Callable[[Tensor], Tensor], shape: str) -> None:
    alphas = torch.linspace(0, 1, 51, dtype=torch.float64)
    assert LossPath(alphas, heights(alphas)).shape == shape


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_is_no_barrier(dtype: torch.dtype) -> None:
    """A shift of all logits changes no softmax: what rises is the rounding alone."""
    torch.manual_seed(0)
    model = nn.Linear(2, 3).to(dtype)
    inputs, labels = torch.randn(60, 2).to(dtype), torch.randint(3, (60,))
    start = clones(model)
    end = {**start, "bias": start["bias"] + 3.7}
    cross_entropy = nn.functional.cross_entropy
    path = loss_path(model, start, end, lambda m: cross_entropy(m(inputs), labels))
    many = loss_paths(model, {"a": (start, end)}, cross_entropy, inputs, labels)["a"]
    for found in (path, many):
        assert found.losses.dtype == torch.float64
        assert found.barrier.height > 0
        assert found.shape == "plateau"


def test_losses_keep_their_precision() -> None:
    model = nn.Linear(1, 1)
    path = loss_path(model, clones(model), clones(model), lambda _: 1 / 3, points=2)
    assert path.losses.tolist() == [1 / 3] * 2


def test_a_picture_of_losses_that_are_not_finite() -> None:
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    plot_paths(LossPath(torch.linspace(0, 1, 3), torch.tensor([1.0, math.nan, 0.0])), axes)
    assert axes.get_legend_handles_labels()[1] == ["not finite"]


def test_only_what_is_named_moves_and_the_rest_stays_at_the_end() -> None:
    model, other = normalised(0), normalised(1)
    start, end = clones(model), clones(other)
    seen = []

    def note(current: nn.Module) -> float:
        seen.append(clones(current))
        return 0.0

    loss_path(model, start, end, note, points=3, only=("0.*", "1.running_mean"))
    moved = {"0.weight", "0.bias", "1.running_mean"}
    for name in start:
        middle = (start[name] + end[name]) / 2 if name in moved else end[name]
        torch.testing.assert_close(seen[1][name], middle)
        first = start[name] if name in moved else end[name]
        torch.testing.assert_close(seen[0][name], first)


def test_a_module_means_its_buffers_too() -> None:
    model, other = normalised(0), normalised(1)
    start, end = clones(model), clones(other)
    means = []
    loss_path(
        model,
        start,
        end,
        lambda m: means.append(m.get_buffer("1.running_mean").clone()) or 0.0,
        points=2,
        only=model[1],
    )
    torch.testing.assert_close(means[0], start["1.running_mean"])


def test_statistics_are_interpolated_or_measured_anew() -> None:
    model, other = normalised(0), normalised(1)
    start, end = clones(model), clones(other)
    inputs = torch.randn(64, 3)
    found: dict[str, list[Tensor]] = {"mixed": [], "anew": []}
    for key, statistics in (("mixed", None), ("anew", [inputs])):
        loss_path(
            model,
            start,
            end,
            lambda m, key=key: found[key].append(m.get_buffer("1.running_mean").clone()) or 0.0,
            points=3,
            statistics=statistics,
        )
    middle = (start["1.running_mean"] + end["1.running_mean"]) / 2
    torch.testing.assert_close(found["mixed"][1], middle)
    weight = (start["0.weight"] + end["0.weight"]) / 2
    bias = (start["0.bias"] + end["0.bias"]) / 2
    torch.testing.assert_close(found["anew"][1], (inputs @ weight.T + bias).mean(dim=0))


def test_the_model_is_as_before_even_after_an_error() -> None:
    model = normalised(0)
    model.train()
    model[1].eval()
    before = clones(model)
    other = clones(normalised(1))
    with pytest.raises(RuntimeError, match="stop"):
        loss_path(model, before, other, lambda m: (_ for _ in ()).throw(RuntimeError("stop")))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert model.training
    assert not model[1].training


def test_lines_at_once_are_the_same_as_one_by_one() -> None:
    model = normalised(0)
    ends = [clones(normalised(seed)) for seed in range(3)]
    inputs, targets = torch.randn(20, 3), torch.randn(20, 1)

    def loss(outputs: Tensor, wanted: Tensor) -> dict[str, Tensor]:
        error = (outputs - wanted).square().mean()
        return {"far": error.sqrt(), "loss": error}

    lines = {
        "all": (ends[0], ends[1]),
        "last": Line(ends[2], ends[1], "3.*"),
        "block": Line(ends[2], ends[1], ("0.*", "1.*")),
    }
    together = loss_paths(model, lines, loss, inputs, targets, points=7, at_once=4)
    for name, line in lines.items():
        alone = loss_path(
            model, line[0], line[1], lambda m: loss(m(inputs), targets), 7, Line(*line).only
        )
        torch.testing.assert_close(together[name].losses, alone.losses, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(together[name].values["far"], alone.values["far"])


def test_statistics_of_lines_at_once_are_those_of_one_by_one() -> None:
    model = normalised(0)
    before = clones(model)
    ends = [clones(normalised(seed)) for seed in (1, 2)]
    inputs, targets = torch.randn(20, 3), torch.randn(20, 1)
    loss, batches = nn.functional.mse_loss, [torch.randn(30, 3), torch.randn(30, 3)]
    lines = {"all": Line(*ends), "last": Line(*ends, "3.*")}
    together = loss_paths(model, lines, loss, inputs, targets, 5, at_once=3, statistics=batches)
    mixed = loss_paths(model, lines, loss, inputs, targets, 5)
    for name, line in lines.items():
        alone = loss_path(
            model, *ends, lambda m: loss(m(inputs), targets), 5, line.only, statistics=batches
        )
        torch.testing.assert_close(together[name].losses, alone.losses, rtol=1e-5, atol=1e-6)
        assert not torch.allclose(together[name].losses, mixed[name].losses, rtol=1e-2)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_a_surface_of_a_quadratic_and_its_edges() -> None:
    origin, first, second = states([1.0, 1.0], [0.0, 0.5], [0.5, 0.0])
    surface = loss_surface(linear(), origin, first, second, quadratic, points=5)
    for a in range(5):
        for b in range(5):
            alpha, beta = a / 4, b / 4
            one = torch.tensor([1 - alpha, 1 - 0.5 * alpha])
            two = torch.tensor([1 - 0.5 * alpha, 1 - alpha])
            x, y = (beta * one + (1 - beta) * two).tolist()
            assert surface.losses[a, b] == pytest.approx((x * x + 3 * y * y) / 2)
    edge = loss_path(linear(), origin, first, quadratic, points=5)
    torch.testing.assert_close(surface.losses[:, -1], edge.losses)


def test_relative_distance_counts_parameters_and_not_buffers() -> None:
    model = nn.Sequential(nn.Linear(2, 1, bias=False), nn.BatchNorm1d(1))
    start = {**clones(model), "0.weight": torch.tensor([[3.0, 4.0]])}
    end = {**start, "0.weight": torch.tensor([[0.0, 0.0]]), "1.running_mean": torch.tensor([9.0])}
    assert relative_distance(model, start, end, "0.weight") == pytest.approx(1.0)
    assert relative_distance(model, start, end) == pytest.approx(5 / math.sqrt(26))
    with pytest.raises(ValueError, match="not be 0"):
        relative_distance(model, end, start, "0.weight")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: {"other": s["weight"]}, "start.* must have the names.*lacks weight"),
        (lambda s: {**s, "more": s["weight"]}, "has also more"),
        (lambda s: {"weight": torch.zeros(1, 3)}, r"shape \(1, 2\).*got \(1, 3\)"),
        (lambda s: {"weight": torch.tensor([[math.nan, 1.0]])}, "finite numbers"),
    ],
)
def test_other_states_are_refused(change: Callable[..., object], message: str) -> None:
    start, end = states([2.0, 1.0], [0.0, 0.0])
    with pytest.raises(ValueError, match=message):
        loss_path(linear(), change(start), end, quadratic)
    with pytest.raises(ValueError, match=message):
        loss_paths(
            linear(), {"a": (change(start), end)}, quadratic, start["weight"], start["weight"]
        )


def test_wrong_arguments_are_refused_before_anything_is_evaluated() -> None:
    start, end = states([2.0, 1.0], [0.0, 0.0])
    model = linear()
    with pytest.raises(ValueError, match="points must be at least 2"):
        loss_path(model, start, end, quadratic, points=1)
    with pytest.raises(ValueError, match="only: the pattern 'wieght' matches no"):
        loss_path(model, start, end, quadratic, only="wieght")
    with pytest.raises(TypeError, match="evaluate must be a function"):
        loss_path(model, start, end, 3.0)
    with pytest.raises(TypeError, match="must return numbers"):
        loss_path(model, start, end, lambda m: "low")
    with pytest.raises(TypeError, match="start must be a state dict"):
        loss_path(model, model, end, quadratic)
    with pytest.raises(TypeError, match="statistics must be batches"):
        loss_path(model, start, end, quadratic, statistics=torch.zeros(3, 2))
    with pytest.raises(ValueError, match="at least one batch"):
        loss_path(model, start, end, quadratic, statistics=[])
    line, data = (start, end), (torch.zeros(3, 2).double(), torch.zeros(3, 1).double())
    mse = nn.functional.mse_loss
    with pytest.raises(ValueError, match="at least one line"):
        loss_paths(model, {}, mse, *data)
    with pytest.raises(TypeError, match="lines must be lines by name, as a dict, got list"):
        loss_paths(model, [line], mse, *data)
    with pytest.raises(
        TypeError, match=r"lines\['a'\] must be Line\(start, end, only\), got 1 entries"
    ):
        loss_paths(model, {"a": (start,)}, mse, *data)
    for tolerance in (-1.0, math.nan):
        with pytest.raises(ValueError, match="tolerance must"):
            loss_paths(model, {"a": line}, mse, *data, tolerance=tolerance)
    with pytest.raises(ValueError, match="at least one batch"):
        loss_paths(model, {"a": line}, mse, *data, statistics=[])
    for loss, got in ((lambda o, y: (o - y)[:, 0], r"shape \(3,\)"), (lambda o, y: 1.0, "1.0")):
        with pytest.raises(TypeError, match=f"one number as a tensor, got {got} for 'loss'"):
            loss_paths(model, {"a": line}, loss, *data)
