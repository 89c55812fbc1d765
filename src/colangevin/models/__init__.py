"""Networks for the experiments."""

from colangevin.models.mlp import mlp
from colangevin.models.mobilenet import MobileNetV2
from colangevin.models.resnet import ResNet, resnet
from colangevin.models.transformer import TransformerLM

__all__ = ["MobileNetV2", "ResNet", "TransformerLM", "mlp", "resnet"]
