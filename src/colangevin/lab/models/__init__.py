"""Networks for the experiments."""

from colangevin.lab.models.dense import mlp
from colangevin.lab.models.mobilenet import MobileNetV2
from colangevin.lab.models.residual import ResNet, resnet
from colangevin.lab.models.transformer import TransformerLM

__all__ = ["MobileNetV2", "ResNet", "TransformerLM", "mlp", "resnet"]
