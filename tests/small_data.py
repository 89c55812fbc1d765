"""Small files in the formats of the datasets, for experiments that read them."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from colangevin.lab.data import WordPieces
from colangevin.lab.data.pretrained import Minilm
from colangevin.lab.runner import job_log

CIFAR_BATCHES = ("data_batch_1", "data_batch_2", "test_batch")


def write_cifar(root: Path, images: int = 40, more: Sequence[str] = ()) -> None:
    """Images whose brightness tells their class; batches 3 to 5 are there as ``more`` alone."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for number, name in enumerate((*CIFAR_BATCHES, *more)):
        generator = torch.Generator().manual_seed(number)
        labels = torch.randint(10, (images, 1), generator=generator)
        noise = torch.randint(40, (images, 3072), generator=generator)
        content = torch.cat([labels, 20 * labels + noise], dim=1).to(torch.uint8)
        (folder / f"{name}.bin").write_bytes(content.numpy().tobytes())


def write_idx(folder: Path, images: int = 40) -> None:
    """Images of 28 by 28 pixels whose brightness tells their class, as those of MNIST."""
    folder.mkdir(parents=True)
    for number, prefix in enumerate(("train", "t10k")):
        generator = torch.Generator().manual_seed(number)
        labels = torch.randint(10, (images,), generator=generator)
        noise = torch.randint(40, (images, 28, 28), generator=generator)
        parts = (("images-idx3", 20 * labels[:, None, None] + noise), ("labels-idx1", labels))
        for kind, array in parts:
            sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
            content = bytes([0, 0, 8, array.dim()]) + sizes + array.byte().numpy().tobytes()
            (folder / f"{prefix}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))


def write_texts(root: Path, words: int = 30) -> None:
    """Texts in which a word is followed by one of two."""
    for folder, name in (("ptb", "ptb.{}.txt"), ("wikitext-2", "wiki.{}.tokens")):
        (root / folder).mkdir(parents=True)
        for number, (part, length) in enumerate((("train", 1500), ("valid", 600), ("test", 50))):
            generator = torch.Generator().manual_seed(number)
            jumps = 1 + torch.randint(2, (length,), generator=generator)
            text = " ".join(f"w{int(n) % words}" for n in jumps.cumsum(0))
            (root / folder / name.format(part)).write_text(text, encoding="utf-8")


def write_sentences(root: Path, count: int = 24) -> None:
    """Reviews of one word that tells the label, and some that do not."""
    folder = root / "SST-2"
    folder.mkdir(parents=True)
    for part in ("train", "dev"):
        rows = [f"the {'good' if i % 2 else 'bad'} w{i % 5} \t{i % 2}" for i in range(count)]
        text = "\n".join(["sentence\tlabel", *rows, ""])
        (folder / f"{part}.tsv").write_text(text, encoding="utf-8")


def minilm() -> Minilm:
    """A tiny encoder of two layers with random weights, under the published names."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "good", "bad", "w", *"01234", "##0", "##1"]
    generator = torch.Generator().manual_seed(0)
    size, hidden = 64, 16
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(words), size),
        "embeddings.position_embeddings.weight": (20, size),
        "embeddings.token_type_embeddings.weight": (2, size),
        "embeddings.LayerNorm.weight": (size,),
        "embeddings.LayerNorm.bias": (size,),
        "embeddings.position_ids": (1, 20),
        "pooler.dense.weight": (size, size),
    }
    inner = [(f"attention.self.{part}", size, size) for part in ("query", "key", "value")]
    inner += [("attention.output.dense", size, size), ("intermediate.dense", hidden, size)]
    inner += [("output.dense", size, hidden)]
    for layer in ("encoder.layer.0.", "encoder.layer.1."):
        for name, outputs, inputs in inner:
            shapes[f"{layer}{name}.weight"], shapes[f"{layer}{name}.bias"] = (
                (outputs, inputs),
                (outputs,),
            )
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"{layer}{name}.weight"] = shapes[f"{layer}{name}.bias"] = (size,)
    weights = {
        name: 0.2 * torch.randn(shape, generator=generator) for name, shape in shapes.items()
    }
    return Minilm(weights, WordPieces({word: number for number, word in enumerate(words)}))


@contextmanager
def any_hash() -> Iterator[None]:
    """Take files that are not the official ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("colangevin.lab.data.files._md5", lambda path, expected: expected)
        yield


def stop_after(calls: int):
    """A progress that wants an end at its last call."""
    seen = []

    def progress(done: float) -> bool:
        seen.append(done)
        return len(seen) < calls

    return progress


def killed_after(calls: int):
    """A progress that ends the process, as it were, at its last call."""
    going = stop_after(calls)

    def progress(done: float) -> bool:
        if not going(done):
            raise ProcessLookupError("killed")
        return True

    return progress


def save_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save at every call of ``Log.advance``, however long it takes."""
    monkeypatch.setattr(job_log, "SAVE_SECONDS", -1.0)
    monkeypatch.setattr(job_log, "SAVE_SHARE", math.inf)
