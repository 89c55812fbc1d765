"""Where draws are kept: in memory, or in a folder of safetensors files that grows as they come.

A folder holds ``trace.json`` (names, shapes, settings), ``draws-….safetensors`` (tensors
[chains, draws, ...] by name, one file per stretch), ``fixed.safetensors`` (what is not sampled) and
``state.pt`` (where the chains are). A file is written beside its place and then renamed, and the
state after the draws: whenever the process is killed, what is there is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

Row: TypeAlias = "Mapping[str, Tensor]"

FORMAT = "colangevin-trace"
VERSION = 1
STRETCHES = 20
"""A sampling writes at least so many files."""
LARGEST = 1 << 25
"""Bytes of a file, roughly."""


def size_of(row: Row) -> int:
    """Bytes of one draw of all chains."""
    return sum(tensor.numel() * tensor.element_size() for tensor in row.values())


class Memory:
    """Draws in memory: a tensor [chains, capacity, ...] by name.

    Example:
        >>> memory = Memory(capacity=5)
        >>> memory.append({"w": torch.zeros(2, 3)})
        >>> memory["w"].shape
        torch.Size([2, 1, 3])
    """

    def __init__(self, capacity: int) -> None:
        self.capacity, self.draws = capacity, 0
        self._tensors: dict[str, Tensor] = {}

    @property
    def names(self) -> list[str]:
        """What is kept."""
        return list(self._tensors)

    def append(self, row: Row) -> None:
        """Add a draw, [chains, ...] by name."""
        for name, tensor in row.items():
            if name not in self._tensors:
                shape = (tensor.shape[0], self.capacity, *tensor.shape[1:])
                self._tensors[name] = torch.empty(shape, dtype=tensor.dtype)
            self._tensors[name][:, self.draws] = tensor.detach().cpu()
        self.draws += 1

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name][:, : self.draws]

    def clear(self) -> None:
        """Forget the draws, not their shapes."""
        self.draws = 0


class Folder:
    """Draws on disk.

    Args:
        path: the folder.
        capacity: draws per file.
        draws: how many are there already; files beyond them are overwritten.

    Raises:
        ImportError: without safetensors.
    """

    def __init__(self, path: Path, capacity: int, draws: int | None = None) -> None:
        library()
        self.path = path
        self._pending = Memory(capacity)
        found = files_of(path)
        if draws is not None:
            for start, file in found:
                if start >= draws:
                    file.unlink()
        self._files = files_of(path)
        self._saved = sum(_length(file) for _, file in self._files)

    @property
    def draws(self) -> int:
        """Draws that are kept, those not written yet included."""
        return self._saved + self._pending.draws

    @property
    def saved(self) -> int:
        """Draws that are on disk."""
        return self._saved

    @property
    def full(self) -> bool:
        """Whether it is time to write."""
        return self._pending.draws >= self._pending.capacity

    @property
    def names(self) -> list[str]:
        """What is kept."""
        if self._pending.names or not self._files:
            return self._pending.names
        with library().safe_open(self._files[0][1], framework="pt") as opened:
            return list(opened.keys())

    def append(self, row: Row) -> None:
        """Add a draw; ``flush`` writes."""
        self._pending.append(row)

    def flush(self, state: Mapping[str, Any]) -> None:
        """Write what is pending, and then the state of the chains.

        Raises:
            OSError: saying what is safe, for instance if the disk is full.
        """
        count = self._pending.draws
        target = self.path / f"draws-{self._saved:08d}.safetensors"
        if count:
            tensors = {name: self._pending[name].contiguous() for name in self._pending.names}
            self._write(target, lambda part: library("torch").save_file(tensors, part))
            self._files.append((self._saved, target))
            self._saved += count
            self._pending.clear()
        self._write(self.path / "state.pt", lambda part: torch.save(dict(state), part))

    def _write(self, target: Path, save: Any) -> None:
        part = target.with_name(target.name + ".part")
        try:
            save(part)
            os.replace(part, target)
        except Exception as error:  # safetensors has its own kind of error
            part.unlink(missing_ok=True)
            raise OSError(
                f"{target} could not be written ({error}); {self._saved} draws are safe in "
                f"{self.path}, {self._pending.draws} more are in the trace of this error. Make "
                "room and call sample again with the same path to go on"
            ) from error

    def __getitem__(self, name: str) -> Tensor:
        found = []
        for _, file in self._files:
            with library().safe_open(file, framework="pt") as opened:
                found.append(opened.get_tensor(name))
        if self._pending.draws:
            found.append(self._pending[name])
        if not found:
            raise KeyError(name)
        return torch.cat(found, dim=1)


def library(part: str = "") -> Any:
    """The module ``safetensors``, or a part of it.

    Raises:
        ImportError: naming the extra that brings it.
    """
    try:
        if part:
            import safetensors.torch

            return safetensors.torch
        import safetensors
    except ImportError:
        raise ImportError(
            "a trace on disk needs safetensors: pip install 'colangevin[sampling]'"
        ) from None
    return safetensors


def files_of(path: Path) -> list[tuple[int, Path]]:
    """The files of draws that follow each other from draw 0 on, with their first draws."""
    found, start = [], 0
    for file in sorted(path.glob("draws-*.safetensors")):
        if int(file.stem.split("-")[1]) != start:
            break
        found.append((start, file))
        start += _length(file)
    return found


def _length(file: Path) -> int:
    try:
        with library().safe_open(file, framework="pt") as opened:
            return int(opened.get_slice(next(iter(opened.keys()))).get_shape()[1])
    except Exception as error:
        raise ValueError(f"{file} is damaged, or no file of a trace: {error}") from None


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write values so that there is always a whole file."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(values, indent=1), encoding="utf-8")
    os.replace(part, path)


def read_json(path: Path) -> dict[str, Any]:
    """Read the description of a trace.

    Raises:
        FileNotFoundError, ValueError: if there is none, or it is something else.
    """
    file = path / "trace.json"
    if not file.exists():
        raise FileNotFoundError(f"{path} has no trace: there is no {file.name}")
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from None
    if found.get("format") != FORMAT or found.get("version", 0) > VERSION:
        raise ValueError(f"{file} is no trace of this version of colangevin")
    return found
