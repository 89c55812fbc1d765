"""How the kernels are found and compiled, and that nothing of it can hurt."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from colangevin.native import building, cache, library

PROBE = """
from colangevin.native import library
found = library.load()
print(found._name if found is not None else None)
"""
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no compiled kernels of the package's own."""
    monkeypatch.setattr(building, "packaged", lambda name: "absent.so")
    monkeypatch.setenv("COLANGEVIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    return tmp_path / "cache"


def look(monkeypatch: pytest.MonkeyPatch, **variables: str) -> tuple[str | None, str | None]:
    """What a new process finds: the file of the kernels, and the reason why there is none."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(library, "_found", {})
    found = library.load()
    return None if found is None else found._name, library.reason()


def replace(path: Path, content: bytes) -> None:
    """Another file of that name: to write over a library that is loaded would end this process."""
    path.unlink()
    path.write_bytes(content)
    path.chmod(0o700)


@needs_compiler
def test_compiled_once_and_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, reason = look(monkeypatch)
    assert Path(str(name)).parent == folder and reason is None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == [Path(str(name)).name]
    made = Path(str(name)).stat().st_mtime_ns
    assert look(monkeypatch) == (name, None)
    assert Path(str(name)).stat().st_mtime_ns == made


@needs_compiler
def test_two_processes_at_once(folder: Path) -> None:
    if (building.FOLDER / "_kernels.so").exists():
        pytest.skip("the package has compiled kernels, and a new process finds them")
    command = [sys.executable, "-c", PROBE]
    both = [subprocess.Popen(command, text=True, stdout=subprocess.PIPE) for _ in range(2)]
    names = {process.communicate(timeout=120)[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert names == {str(path) for path in folder.iterdir()}
    assert len(names) == 1


def test_no_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, reason = look(monkeypatch, PATH="")
    assert name is None and reason
    assert "no C compiler (cc, gcc, clang) was found" in reason


def test_a_compiler_that_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, reason = look(monkeypatch, CC="false")
    assert name is None and reason and "false failed with exit code 1" in reason


@needs_compiler
def test_what_fails_its_trial_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could be an instruction that the processor does not know."""
    name, reason = look(monkeypatch, CC=f"{COMPILER} -Dcola_step=elsewhere")
    assert name is None and reason and "the compiled kernels failed" in reason
    assert not list(folder.iterdir())


def test_turned_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, reason = look(monkeypatch, COLANGEVIN_NATIVE="0")
    assert name is None and reason and "COLANGEVIN_NATIVE=0" in reason
    assert not folder.exists()


@needs_compiler
@pytest.mark.parametrize("mode", [0o777, 0o720, 0o500])
def test_a_folder_that_others_may_write_to_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    if mode == 0o500 and os.getuid() == 0:
        pytest.skip("the superuser may write everywhere")
    folder.mkdir()
    folder.chmod(mode)
    name, reason = look(monkeypatch)
    assert Path(str(name)).parent != folder and reason is None
    assert not list(folder.iterdir())
    assert not Path(str(name)).exists()  # nor does a private folder stay


@needs_compiler
def test_unsafe_files_are_not_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _ = look(monkeypatch)
    Path(str(name)).chmod(0o722)
    other, reason = look(monkeypatch)
    assert other != name and reason is None


@needs_compiler
def test_a_damaged_file_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _ = look(monkeypatch)
    path = Path(str(name))
    replace(path, b"nothing")
    assert look(monkeypatch) == (name, None)
    assert path.stat().st_size > 1000


@needs_compiler
def test_a_cut_file_does_not_end_the_process(folder: Path) -> None:
    """A power failure may leave one. To load it ended every process by SIGBUS."""
    if (building.FOLDER / "_kernels.so").exists():
        pytest.skip("the package has compiled kernels, and a new process finds them")
    command = [sys.executable, "-c", PROBE]
    whole = subprocess.run(command, text=True, capture_output=True, timeout=120).stdout.strip()
    path = Path(whole)
    content = path.read_bytes()
    path.write_bytes(content[:20000])
    again = subprocess.run(command, text=True, capture_output=True, timeout=120)
    assert (again.returncode, Path(again.stdout.strip()).read_bytes()) == (0, content)
    assert list(folder.iterdir()) == [path]


@needs_compiler
def test_one_changed_byte_is_seen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _ = look(monkeypatch)
    path = Path(str(name))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    replace(path, content)
    beginning = path.name.rpartition("-")[0]
    assert cache.find(folder, beginning) is None and not path.exists()


def test_a_compiler_that_cannot_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, reason = look(monkeypatch, CC='gcc "x')
    assert name is None and reason and "CC='gcc \"x' cannot be read" in reason


def test_what_belongs_to_others_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLANGEVIN_CACHE", str(tmp_path / "cache"))
    assert cache.folder() == tmp_path / "cache"
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(building.BuildError, match="belongs to another user"):
        cache.folder()


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLANGEVIN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "colangevin"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.folder() == tmp_path / ".cache" / "colangevin"


def test_the_name_changes_with_what_the_file_depends_on() -> None:
    names = {
        cache.stem(((command,), version), name)
        for name in building.LIBRARIES
        for command in ("cc", "other")
        for version in ("gcc 12", "gcc 13", "clang 15")
    }
    assert len(names) == 12


@needs_compiler
@pytest.mark.parametrize("name", building.LIBRARIES)
def test_the_portable_library_passes_its_trial(tmp_path: Path, name: str) -> None:
    """It chooses its instructions when it runs."""
    path = tmp_path / building.packaged(name)
    building.build(building.find_compiler(), name, path, portable=True)
    library._try(path, name)


@pytest.mark.usefixtures("kernels")
def test_a_forked_process_does_not_wait_for_threads() -> None:
    code = """
import os, torch
from colangevin.native import fill
torch.set_num_threads(2)
out = torch.empty(1, 1 << 20)
fill(out, [1], 0, 0)
child = os.fork()
if child == 0:
    again = torch.empty(1, 1 << 20)
    fill(again, [1], 0, 0)
    os._exit(0 if again.data_ptr() and bytes(again.numpy()) == bytes(out.numpy()) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
