"""Data sets: spirals and trigonometric curves, made here; images and texts, from files."""

from colangevin.data.augment import channel_statistics, normalise, random_crop, random_flip
from colangevin.data.cifar import cifar10
from colangevin.data.idx import ImageData, fashion_mnist, mnist
from colangevin.data.spirals import FOUR_TURNS, TWO_TURNS, Spiral
from colangevin.data.text import Corpus, Vocabulary, batchify, penn_treebank, wikitext2, windows
from colangevin.data.trigonometric import Trigonometric

__all__ = [
    "FOUR_TURNS",
    "TWO_TURNS",
    "Corpus",
    "ImageData",
    "Spiral",
    "Trigonometric",
    "Vocabulary",
    "batchify",
    "channel_statistics",
    "cifar10",
    "fashion_mnist",
    "mnist",
    "normalise",
    "penn_treebank",
    "random_crop",
    "random_flip",
    "wikitext2",
    "windows",
]
