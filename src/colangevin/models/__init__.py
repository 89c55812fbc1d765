"""Networks for the experiments."""

from colangevin.models.mlp import mlp
from colangevin.models.resnet import ResNet, resnet
from colangevin.models.transformer import TransformerLM

__all__ = ["ResNet", "TransformerLM", "mlp", "resnet"]
