import pytest
import torch

from colangevin.lab.data import Blobs, Circles, Noise


def test_circles_have_their_radii() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs, labels = Circles(scale=2.0, inner=0.25, noise=0.01).sample(400, generator=generator)
    radii = inputs.norm(dim=1)
    assert float((radii[labels == 0] - 2.0).abs().max()) < 0.05
    assert float((radii[labels == 1] - 0.5).abs().max()) < 0.05
    assert float(inputs[labels == 0].mean(dim=0).norm()) < 0.3  # all round


def test_blobs_lie_on_a_ring_with_classes_in_turn() -> None:
    inputs, labels = Blobs(blobs=4, scale=3.0, noise=0.0).sample(8)
    assert labels.tolist() == [0, 1, 0, 1] * 2
    torch.testing.assert_close(inputs[1], torch.tensor([0.0, 3.0]), atol=1e-6, rtol=0)
    torch.testing.assert_close(inputs[2], torch.tensor([-3.0, 0.0]), atol=1e-6, rtol=0)


def test_noise_has_nothing_to_learn() -> None:
    inputs, labels = Noise(scale=1.5).sample(4000, generator=torch.Generator().manual_seed(1))
    assert 1.4 < float(inputs.abs().max()) <= 1.5
    table = torch.cat([inputs, labels.float().unsqueeze(1)], dim=1)
    assert float(torch.corrcoef(table.T)[2, :2].abs().max()) < 4 / 4000**0.5


@pytest.mark.parametrize("kind", [Circles, Blobs, Noise])
def test_a_generator_repeats_the_points(kind: type[Circles]) -> None:
    first, second = (kind().sample(9, generator=torch.Generator().manual_seed(5)) for _ in "ab")
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])


def test_bad_arguments_are_refused() -> None:
    for make in (lambda: Circles(inner=0.0), lambda: Blobs(blobs=1), lambda: Noise(scale=-1.0)):
        with pytest.raises(ValueError, match="must be"):
            make()
    with pytest.raises(ValueError, match="points"):
        Noise().sample(0)
