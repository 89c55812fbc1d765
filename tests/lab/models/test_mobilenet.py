"""MobileNetV2: the shapes and names that torchvision's weights have."""

import pytest
import torch
from torch import nn

from colangevin.lab.models import MobileNetV2


def test_names_and_sizes_are_those_of_torchvision():
    with torch.device("meta"):
        model = MobileNetV2()
    state = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    assert sum(p.numel() for p in model.parameters()) == 3_504_872
    assert len(state) == 314
    known = {
        "features.0.0.weight": (32, 3, 3, 3),
        "features.1.conv.0.0.weight": (32, 1, 3, 3),
        "features.1.conv.1.weight": (16, 32, 1, 1),
        "features.2.conv.1.1.running_var": (96,),
        "features.17.conv.3.bias": (320,),
        "features.18.0.weight": (1280, 320, 1, 1),
        "classifier.1.weight": (1000, 1280),
    }
    assert known.items() <= state.items()


def test_there_are_53_layers_and_the_classifier_is_the_last():
    with torch.device("meta"):
        model = MobileNetV2()
    layers = [m for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    assert len(layers) == 53
    assert layers[-1] is model.classifier[1]


def test_images_shrink_by_32():
    model = MobileNetV2(classes=4).eval()
    with torch.no_grad():
        assert model.features(torch.zeros(1, 3, 64, 64)).shape == (1, 1280, 2, 2)
        assert model(torch.zeros(2, 3, 64, 64)).shape == (2, 4)


@pytest.mark.parametrize(
    ("arguments", "message"), [({"classes": 0}, "classes"), ({"dropout": 1.5}, "dropout")]
)
def test_bad_sizes(arguments, message):
    with pytest.raises(ValueError, match=message):
        MobileNetV2(**arguments)
