"""Where draws are kept: in memory, or in a folder of safetensors files that grows as they come.

A folder holds ``trace.json`` (names, shapes, settings), ``draws-….safetensors`` (tensors
[chains, draws, ...] by name, one file per stretch), ``fixed.safetensors`` (what is not sampled) and
``state.pt`` (where the chains are). A file is written beside its place and then renamed: first the
draws, then the state, then the description with their count. Whenever the process is killed, what
is there is whole, and there are at least as many draws as state and description say.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

Row: TypeAlias = "Mapping[str, Tensor]"

FORMAT = "colangevin-trace"
VERSION = 3
STRETCHES = 20
"""A sampling writes at least so many files."""
LARGEST = 1 << 25
"""Bytes of a file, roughly."""
BLOCK = 1 << 21
"""Numbers that are looked at together."""
DESCRIPTION = {
    "parameters": dict,
    "kept": list,
    "observables": list,
    "fixed": list,
    "settings": dict,
    "draws": int,
}
"""What ``trace.json`` has at least."""
STATE = ("chains", "tuning", "start", "draws", "last")
"""What ``state.pt`` has at least."""


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

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Memory:
        """Draws that there are already."""
        made = cls(next(iter(tensors.values())).shape[1])
        made._tensors, made.draws = dict(tensors), made.capacity
        return made

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

    def shape(self, name: str) -> torch.Size:
        """[chains, draws, ...]."""
        return self[name].shape

    def blocks(self, name: str) -> Iterator[Tensor]:
        """The draws of all numbers, some numbers at a time: [chains, draws, numbers]."""
        yield from split(self[name])

    def clear(self) -> None:
        """Forget the draws, not their shapes."""
        self.draws = 0


class Folder:
    """Draws on disk.

    Args:
        path: the folder.
        capacity: draws per file.
        draws: how many there are at least.
        cut: whether files beyond them are deleted, to be written anew.

    Raises:
        ImportError: without safetensors.
        ValueError: if draws are missing; no file has been changed.
    """

    def __init__(self, path: Path, capacity: int, draws: int = 0, cut: bool = False) -> None:
        library()
        self.path = path
        self._pending = Memory(capacity)
        self._files, self._saved = files_of(path)
        if self._saved < draws:
            raise ValueError(
                f"{path} lacks draws: {draws} were written, {self._saved} are there. Files were "
                "deleted, or not copied"
            )
        if cut and draws not in {self._saved, *(start for start, _ in self._files)}:
            raise ValueError(f"{path} is damaged: no file ends with draw {draws}, as state.pt says")
        while cut and self._saved > draws:
            start, file = self._files.pop()
            file.unlink()
            self._saved = start

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

    def shape(self, name: str) -> torch.Size:
        """[chains, draws, ...]."""
        if not self._files:
            return self._pending.shape(name)
        chains, _, *rest = _shape(self._files[0][1], name)
        return torch.Size([chains, self.draws, *rest])

    def blocks(self, name: str) -> Iterator[Tensor]:
        """The draws of all numbers, some numbers at a time: [chains, draws, numbers]."""
        shape = self.shape(name)
        if len(shape) < 3 or self._pending.draws:
            yield from split(self[name])
            return
        share = max(1, BLOCK // max(1, math.prod(shape[:2]) * math.prod(shape[3:])))
        for start in range(0, shape[2], share):
            yield from split(self._rows(name, slice(start, start + share)))

    def _rows(self, name: str, rows: slice) -> Tensor:
        """A part of a tensor, cut along its first dimension."""
        found = []
        for _, file in self._files:
            with library().safe_open(file, framework="pt") as opened:
                found.append(opened.get_slice(name)[:, :, rows])
        return torch.cat(found, dim=1)


class First:
    """The first draws of a store, which stays as it is."""

    def __init__(self, store: Memory | Folder, draws: int) -> None:
        self._store, self.draws = store, draws

    @property
    def names(self) -> list[str]:
        """What is kept."""
        return self._store.names

    def __getitem__(self, name: str) -> Tensor:
        return self._store[name][:, : self.draws]

    def shape(self, name: str) -> torch.Size:
        """[chains, draws, ...]."""
        chains, _, *rest = self._store.shape(name)
        return torch.Size([chains, self.draws, *rest])

    def blocks(self, name: str) -> Iterator[Tensor]:
        """The draws of all numbers, some numbers at a time: [chains, draws, numbers]."""
        for block in self._store.blocks(name):
            yield block[:, : self.draws]


Store: TypeAlias = "Memory | Folder | First"


def split(samples: Tensor) -> Iterator[Tensor]:
    """[chains, draws, ...] as pieces [chains, draws, numbers], none of which is large."""
    flat = samples.flatten(2) if samples.dim() > 2 else samples.unsqueeze(2)
    share = max(1, BLOCK // max(1, flat.shape[0] * flat.shape[1]))
    yield from flat.split(share, dim=2)


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


def files_of(path: Path) -> tuple[list[tuple[int, Path]], int]:
    """The files of draws with their first draws, and how many draws they have together.

    Raises:
        ValueError: for a file that is missing, damaged or foreign.
    """
    found, start = [], 0
    for file in sorted(path.glob("draws-*.safetensors")):
        number = file.stem.removeprefix("draws-")
        if not number.isdecimal():
            raise ValueError(
                f"{file} is no file of a trace, those are named as draws-{0:08d}.safetensors; "
                "move it elsewhere"
            )
        if int(number) != start:
            raise ValueError(
                f"{path} lacks draws: {file.name} should begin with draw {start}. A file was "
                "deleted, or not copied"
            )
        found.append((start, file))
        start += _length(file)
    return found, start


def _length(file: Path) -> int:
    return _shape(file)[1]


def _shape(file: Path, name: str | None = None) -> list[int]:
    """The shape of a tensor of a file, [chains, draws, ...]."""
    try:
        with library().safe_open(file, framework="pt") as opened:
            key = next(iter(opened.keys())) if name is None else name
            shape = [int(size) for size in opened.get_slice(key).get_shape()]
    except Exception as error:  # safetensors has its own kind of error
        raise ValueError(f"{file} is damaged, or no file of a trace: {error}") from None
    if len(shape) < 2 or shape[1] < 1:
        raise ValueError(f"{file} is no file of a trace: {shape} is no shape of draws")
    return shape


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Whatever goes wrong inside, the file is damaged.

    Raises:
        ValueError: naming the file.
    """
    try:
        yield
    except Exception as error:  # readers raise whatever they stumble over
        words = f"{type(error).__name__}: {str(error)[:200]}"
        raise ValueError(f"{file} is damaged ({words})") from error


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
    with reading(file):
        found: Any = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"{file} is damaged: it should be an object, not {type(found).__name__}")
    if found.get("format") != FORMAT or found.get("version") != VERSION:
        raise ValueError(f"{file} is no trace of this version of colangevin")
    for name, kind in DESCRIPTION.items():
        if not isinstance(found.get(name), kind):
            raise ValueError(
                f"{file} is damaged: {name!r} should be a {kind.__name__}, got {found.get(name)!r}"
            )
    if not isinstance(found["settings"].get("temperatures"), list):
        raise ValueError(f"{file} is damaged: its settings lack 'temperatures'")
    return found


def read_state(path: Path) -> dict[str, Any] | None:
    """Read where the chains of a trace are; None if there is nothing yet.

    Raises:
        ValueError: if it is damaged, or lost.
    """
    file = path / "state.pt"
    if not file.exists():
        if any(path.glob("draws-*.safetensors")):
            raise ValueError(
                f"{path} has draws but no {file.name}, so that they cannot be continued; take "
                "another path"
            )
        return None
    with reading(file):
        found: dict[str, Any] = torch.load(file, weights_only=True)
        lacking = [name for name in STATE if name not in found]
    if lacking:
        raise ValueError(f"{file} is damaged: it lacks {', '.join(lacking)}")
    return found
