"""Smoke runs of experiments on small data, each made once for all tests that look at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import small_data
from colangevin.lab.data import ImageData, Table
from colangevin.lab.experiments.registry import EXPERIMENTS
from colangevin.lab.models import MobileNetV2
from colangevin.lab.runner import datasets
from colangevin.lab.runner.records import Records
from colangevin.lab.runner.running import reproduce


def table(count: int, columns: int) -> Table:
    """Rows of numbers and a target that is nearly linear in them."""
    generator = torch.Generator().manual_seed(columns)
    inputs = torch.randn(count, columns, generator=generator, dtype=torch.float64)
    return Table(inputs, inputs.sum(dim=1) + 0.1 * inputs[:, 0] ** 2)


def noise(seed: int) -> ImageData:
    """60 images to train on and 20 to test on, of which nothing can be learnt."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (80, 28, 28), dtype=torch.uint8, generator=generator)
    labels = torch.randint(10, (80,), generator=generator)
    return ImageData(images[:60], labels[:60], images[60:], labels[60:])


@contextmanager
def small_files() -> Iterator[None]:
    """Every dataset that is not among the files is a small one, and any file is taken."""
    tables = {"airfoil": table(60, 5), "yacht": table(40, 6)}
    loaders = {"uci": tables, "mnist": noise(1), "minilm": small_data.minilm()}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        loaders["mobilenet"] = MobileNetV2().state_dict()
    with small_data.any_hash(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("colangevin.lab.runner.tasks.processors", lambda: 1)
        for name, found in loaders.items():
            patch.setitem(datasets.LOADERS, name, lambda directory, found=found: found)
        yield


NEEDS = dict.fromkeys(("spiral-curvature", "spiral-gradients"), ("spiral-classifiers",))
"""Experiments that use what another one has trained, where it is in the same directory."""


class Smoke:
    """Runs experiments at the smallest scale; each once in a process.

    Attributes:
        data: the directory of small files.
    """

    def __init__(self, folder: Path) -> None:
        self.data, self._out = folder / "data", folder / "out"
        small_data.write_idx(self.data / "fashion-mnist", 400)
        small_data.write_cifar(self.data)
        small_data.write_texts(self.data)
        small_data.write_sentences(self.data)
        self._done: dict[tuple[str, int | None], Records] = {}

    def __call__(self, name: str, runs: int | None = None) -> Records:
        """Its records."""
        if (name, runs) not in self._done:
            for needed in NEEDS.get(name, ()):
                self(needed, runs)
            out = self._out / str(runs)
            with small_files():
                found = reproduce(
                    EXPERIMENTS[name], "smoke", runs=runs, data=self.data, out=out, jobs=1
                )
            self._done[name, runs] = found
        return self._done[name, runs]
