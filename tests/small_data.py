"""Small files in the formats of the datasets, for experiments that read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

CIFAR_BATCHES = ("data_batch_1", "data_batch_2", "test_batch")


def write_cifar(root: Path, images: int = 40) -> None:
    """Images whose brightness tells their class; batches 3 to 5 are not there."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for number, name in enumerate(CIFAR_BATCHES):
        generator = torch.Generator().manual_seed(number)
        labels = torch.randint(10, (images, 1), generator=generator)
        noise = torch.randint(40, (images, 3072), generator=generator)
        content = torch.cat([labels, 20 * labels + noise], dim=1).to(torch.uint8)
        (folder / f"{name}.bin").write_bytes(content.numpy().tobytes())


def write_texts(root: Path, words: int = 30) -> None:
    """Texts in which a word is followed by one of two."""
    for folder, name in (("ptb", "ptb.{}.txt"), ("wikitext-2", "wiki.{}.tokens")):
        (root / folder).mkdir(parents=True)
        for number, (part, length) in enumerate((("train", 1500), ("valid", 600), ("test", 50))):
            generator = torch.Generator().manual_seed(number)
            jumps = 1 + torch.randint(2, (length,), generator=generator)
            text = " ".join(f"w{int(n) % words}" for n in jumps.cumsum(0))
            (root / folder / name.format(part)).write_text(text, encoding="utf-8")


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
