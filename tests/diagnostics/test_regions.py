"""Decision regions of classifiers whose regions are known."""

import math

import pytest
import torch
from torch import Tensor, nn

from colangevin.diagnostics import RegionCourse, accuracy_by_radius, decision_regions, plot_regions


def thirds(points: Tensor) -> Tensor:
    """Three classes by the angle."""
    angles = 2 * math.pi * torch.arange(3) / 3
    return 5 * points @ torch.stack([angles.cos(), angles.sin()])


def test_three_classes_by_the_angle() -> None:
    regions = decision_regions(thirds, extent=1.0, grid=101)
    y, x = torch.meshgrid(torch.linspace(-1, 1, 101), torch.linspace(-1, 1, 101), indexing="ij")
    expected = ((torch.atan2(y, x) / (2 * math.pi / 3)).round() % 3).long()
    inner = x.square() + y.square() > 0.01  # rounding at the edges aside
    assert float((regions.labels == expected)[inner].double().mean()) > 0.995
    assert regions.classes == 3


@pytest.mark.parametrize("outputs", [1, 2])
def test_two_classes_have_one_logit_or_two(outputs: int) -> None:
    def half(points: Tensor) -> Tensor:
        logits = points[:, 1:]
        return logits if outputs == 1 else torch.cat([torch.zeros_like(logits), logits], dim=1)

    regions = decision_regions(half, extent=(0.0, 1.0, -1.0, 1.0), grid=4)
    assert regions.labels.tolist() == [[0] * 4] * 2 + [[1] * 4] * 2
    expected = torch.sigmoid(torch.tensor(1.0))
    assert float(regions.certainty[0, 0]) == pytest.approx(float(expected))


def test_probabilities_of_several_are_averaged() -> None:
    def sure(logit: float):
        return lambda points: torch.full((len(points), 1), logit)

    regions = decision_regions([sure(2.0), sure(2.0), sure(-9.0)], grid=2)
    mean = (2 * torch.sigmoid(torch.tensor(2.0)) + torch.sigmoid(torch.tensor(-9.0))) / 3
    assert bool((regions.labels == 1).all())
    assert float(regions.certainty[0, 0]) == pytest.approx(float(mean), abs=1e-6)


def test_batchnorm_is_in_evaluation_mode() -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    model.train()
    decision_regions(model, grid=5)
    assert model[1].num_batches_tracked == 0
    assert model.training
    assert model[1].training


def test_course_of_a_boundary_that_moves() -> None:
    course = RegionCourse(extent=1.0, grid=5)  # columns at −1, −0.5, 0, 0.5, 1
    for step, place in ((0, -0.7), (10, 0.2), (20, -0.2), (30, -0.2)):
        course.record(step, lambda points, place=place: points[:, 0] - place)
    # the column at −0.5 settles at step 10; that at 0 went to 0 at step 10 and back at 20
    assert course.settled()[0].tolist() == [0, 10, 20, 0, 0]
    assert course.changes == pytest.approx({10: 0.4, 20: 0.2, 30: 0.0})
    with pytest.raises(ValueError, match="later than 30"):
        course.record(30, thirds)
    for step in (math.nan, 40.5):
        with pytest.raises(TypeError, match=f"step must be an integer, got {step}"):
            course.record(step, thirds)
    assert list(course.frames) == [0, 10, 20, 30]
    with pytest.raises(ValueError, match="there are none"):
        RegionCourse().settled()


def test_accuracy_by_radius_of_a_disc() -> None:
    angles = torch.linspace(0, 6, 40)
    radii = torch.tensor([0.5, 1.5]).repeat(20)
    inputs = torch.stack([radii * angles.cos(), radii * angles.sin()], dim=1)
    labels = (radii > 1).long()

    def everything_is_outside(points: Tensor) -> Tensor:
        return torch.ones(len(points))

    edges = [0.0, 1.0, 2.0, 3.0]
    found = accuracy_by_radius(everything_is_outside, inputs, labels, edges)
    assert found[:2].tolist() == [0.0, 1.0]
    assert found[2].isnan()
    with pytest.raises(ValueError, match="increasing"):
        accuracy_by_radius(thirds, inputs, labels, [1.0, 0.5])
    with pytest.raises(ValueError, match="labels"):
        accuracy_by_radius(thirds, inputs, labels[:3], edges)
    floats = accuracy_by_radius(everything_is_outside, inputs, labels.double(), edges)
    torch.testing.assert_close(floats, found, equal_nan=True)
    for wrong in (math.nan, 0.5, -1.0, 7.0):
        with pytest.raises(ValueError, match=f"labels must be classes 0 to 1, got {wrong}"):
            accuracy_by_radius(everything_is_outside, inputs, labels * 0 + wrong, edges)
    with pytest.raises(ValueError, match="classes 0 to 2, got 7"):
        accuracy_by_radius(thirds, inputs, labels * 0 + 7, edges)
    with pytest.raises(ValueError, match=r"inputs must be \[points, 2\]"):
        accuracy_by_radius(everything_is_outside, torch.randn(40, 3), labels, edges)
    with pytest.raises(ValueError, match="inputs must be finite"):
        accuracy_by_radius(everything_is_outside, inputs * math.nan, labels, edges)


def test_regions_refuse() -> None:
    with pytest.raises(ValueError, match="at least one"):
        decision_regions([])
    with pytest.raises(ValueError, match="finite logits"):
        decision_regions(lambda points: points[:, 0] / 0)
    with pytest.raises(ValueError, match="must return"):
        decision_regions(lambda points: torch.zeros(3))
    with pytest.raises(ValueError, match="must return"):
        decision_regions(lambda points: torch.zeros(len(points), 0))
    for extent in ((1.0, 0.0, 0.0, 1.0), (0.0, 1.0, 2.0), (0.0, 1.0), (0.0, math.inf, 0.0, 1.0)):
        with pytest.raises(ValueError, match=r"a number or \(left, right, bottom, top\)"):
            decision_regions(thirds, extent=extent)
    with pytest.raises(TypeError, match="extent must be a number"):
        decision_regions(thirds, extent=((0.0, 1.0), (0.0, 1.0), 1.0, 2.0))
    with pytest.raises(ValueError, match=r"same classes, got \[3, 2\]"):
        decision_regions([thirds, lambda points: points[:, 0]], grid=3)


def test_a_picture_has_the_colours_of_the_labels() -> None:
    import matplotlib
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    regions = decision_regions(lambda points: 50 * points[:, 0], extent=1.0, grid=4)
    point = torch.tensor([[0.0, 0.5]])
    plot_regions(regions, axes, point, torch.tensor([1]))
    for label in (-1, regions.classes):
        with pytest.raises(ValueError, match=f"labels must be classes 0 to .*, got {label}"):
            plot_regions(regions, axes, point, torch.tensor([label]))
    picture = axes.images[0].get_array()
    colors = matplotlib.colormaps["tab10"]([0, 1])[:, :3]
    for column, label in ((0, 0), (3, 1)):
        strong = 1 - 0.7 * (1 - colors[label])
        assert picture[0, column].tolist() == pytest.approx(strong.tolist(), abs=1e-3)
