"""The files of a job on their way between two machines that share no disk."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from colangevin.lab.runner.job_log import checkpoint_path
from colangevin.lab.runner.writing import replacing

Parcel: TypeAlias = "dict[str, bytes | None]"
"""Contents by path below the output directory; None for a file that was deleted."""


def pack_for(directory: Path, job: str) -> Parcel:
    """What a job reads: its record and checkpoint, and networks that a job of its name has left.

    Args:
        directory: the experiment's output directory.
        job: name of the job.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as out:
        ...     Path(out, "walks").mkdir()
        ...     _ = Path(out, "walks", "wide.json").write_text("{}")
        ...     pack_for(Path(out, "walks"), "wide")
        {'walks/wide.json': b'{}'}
    """
    out = directory.parent
    wanted = [directory / f"{job}.json", checkpoint_path(directory, job)]
    wanted += sorted(out.glob(f"*/{job}.weights.pt"))
    found = [path for path in wanted if path.exists()]
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in found}


def unpack_into(out: Path, parcel: Parcel) -> None:
    """Write what a parcel has; whenever this is interrupted, what is there can be resumed.

    A checkpoint has the record inside itself, so it is written first. It is deleted last, when the
    record of the complete job is there.

    Args:
        out: the directory of all experiments.
        parcel: what :meth:`Folder.changes` returned.
    """
    for name in sorted(parcel, key=lambda name: (parcel[name] is None, name.endswith(".json"))):
        content = parcel[name]
        path = out / name
        if content is None:
            path.unlink(missing_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(content)


class Folder:
    """An output directory of one job, on the machine where the job runs.

    Args:
        out: an empty folder, in the place of the directory of all experiments.
        experiment: name of the experiment.
        parcel: what the job finds there.

    Attributes:
        directory: the experiment's directory.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as out:
        ...     folder = Folder(Path(out), "walks", {"walks/wide.checkpoint.pt": b"old"})
        ...     _ = (folder.directory / "wide.json").write_text("{}")
        ...     (folder.directory / "wide.checkpoint.pt").unlink()
        ...     folder.changes(), folder.changes()
        ({'walks/wide.json': b'{}', 'walks/wide.checkpoint.pt': None}, {})
    """

    def __init__(self, out: Path, experiment: str, parcel: Parcel) -> None:
        self.directory = out / experiment
        self.directory.mkdir(parents=True)
        unpack_into(out, parcel)
        self._seen = self._look()

    def changes(self) -> Parcel:
        """What the job has written and deleted since the last time."""
        before, self._seen = self._seen, self._look()
        changed = [path for path, mark in self._seen.items() if before.get(path) != mark]
        parcel: Parcel = {self._name(path): path.read_bytes() for path in changed}
        return {**parcel, **{self._name(path): None for path in before if path not in self._seen}}

    def _name(self, path: Path) -> str:
        return path.relative_to(self.directory.parent).as_posix()

    def _look(self) -> dict[Path, tuple[int, int, int]]:
        """Files are replaced as a whole: a new one has another number and time."""
        found = {}
        for path in sorted(self.directory.iterdir()):
            if path.is_file() and not path.name.startswith("."):
                about = path.stat()
                found[path] = (about.st_ino, about.st_mtime_ns, about.st_size)
        return found
