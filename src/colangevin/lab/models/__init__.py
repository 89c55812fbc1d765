"""Networks for the experiments."""

from colangevin.lab.models.mlp import mlp
from colangevin.lab.models.mobilenet import MobileNetV2
from colangevin.lab.models.resnet import ResNet, resnet
from colangevin.lab.models.transformer import TransformerLM

__all__ = ["MobileNetV2", "ResNet", "TransformerLM", "mlp", "resnet"]
