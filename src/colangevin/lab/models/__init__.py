"""Networks for the experiments."""

from colangevin.lab.models.dense import mlp
from colangevin.lab.models.digits import RowReader, VisionTransformer, digit_cnn
from colangevin.lab.models.encoder import SentenceClassifier, SentenceEncoder
from colangevin.lab.models.gpt import GPT
from colangevin.lab.models.mobilenet import MobileNetV2
from colangevin.lab.models.residual import ResNet, resnet
from colangevin.lab.models.transformer import TransformerLM
from colangevin.lab.models.vgg import VGG11
from colangevin.lab.models.wide import WideResNet

__all__ = [
    "GPT",
    "VGG11",
    "MobileNetV2",
    "ResNet",
    "RowReader",
    "SentenceClassifier",
    "SentenceEncoder",
    "TransformerLM",
    "VisionTransformer",
    "WideResNet",
    "digit_cnn",
    "mlp",
    "resnet",
]
