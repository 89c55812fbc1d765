"""Data sets: spirals, curves, poker hands and an endgame, made here; others from files."""

from colangevin.lab.data.augment import channel_statistics, normalise, random_crop, random_flip
from colangevin.lab.data.chess import endgame
from colangevin.lab.data.cifar import cifar10
from colangevin.lab.data.corpora import (
    Bytes,
    Corpus,
    Vocabulary,
    batchify,
    penn_treebank,
    wikitext2,
    wikitext2_bytes,
    windows,
)
from colangevin.lab.data.idx import ImageData, fashion_mnist, mnist
from colangevin.lab.data.movie_reviews import Sentences, sst2
from colangevin.lab.data.planar import (
    FOUR_TURNS,
    TWO_TURNS,
    Blobs,
    Circles,
    Noise,
    Spiral,
    Trigonometric,
)
from colangevin.lab.data.poker import draw_hands, name_hands
from colangevin.lab.data.regression_tables import UCI_TABLES, Table, uci
from colangevin.lab.data.word_pieces import WordPieces

__all__ = [
    "FOUR_TURNS",
    "TWO_TURNS",
    "UCI_TABLES",
    "Blobs",
    "Bytes",
    "Circles",
    "Corpus",
    "ImageData",
    "Noise",
    "Sentences",
    "Spiral",
    "Table",
    "Trigonometric",
    "Vocabulary",
    "WordPieces",
    "batchify",
    "channel_statistics",
    "cifar10",
    "draw_hands",
    "endgame",
    "fashion_mnist",
    "mnist",
    "name_hands",
    "normalise",
    "penn_treebank",
    "random_crop",
    "random_flip",
    "sst2",
    "uci",
    "wikitext2",
    "wikitext2_bytes",
    "windows",
]
