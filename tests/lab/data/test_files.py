"""Finding, fetching and checking data files."""

import functools
import gzip
import hashlib
import importlib.util
import io
import tarfile
import threading
import zipfile
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from colangevin.errors import DataError
from colangevin.lab.data import files
from colangevin.lab.data.sources import SOURCES, Source

needs_pooch = pytest.mark.skipif(
    importlib.util.find_spec("pooch") is None, reason="downloads need pooch"
)

CONTENT = b"no it was n't black monday\n"


def md5(content):
    return hashlib.md5(content).hexdigest()


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder, keeps quiet, and notes what was asked for."""

    requests: ClassVar[list] = []

    def do_GET(self):
        self.requests.append((self.path, self.headers["User-Agent"]))
        super().do_GET()

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    """A folder and the address at which it is served on this machine."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = type("Handler", (Handler,), {"requests": []})
    http = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{http.server_address[1]}/", handler.requests
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A dataset of the tests' own, at an address where nothing answers (port 9, discard)."""
    serve(monkeypatch, "http://127.0.0.1:9/")


def put(folder, dataset="small", name="a.txt", content=CONTENT):
    path = folder / dataset / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def serve(monkeypatch, *addresses, **options):
    options.setdefault("md5", {"a.txt": md5(CONTENT)})
    monkeypatch.setitem(SOURCES, "small", Source(addresses=addresses, **options))


def test_directory_comes_before_environment_and_environment_before_cache(tmp_path, monkeypatch):
    mine, theirs = put(tmp_path / "mine"), put(tmp_path / "theirs")
    monkeypatch.setenv("COLA_DATA", str(tmp_path / "theirs"))
    assert files.locate("small", "a.txt", tmp_path / "mine") == mine
    assert files.locate("small", "a.txt") == theirs
    mine.unlink()
    assert files.locate("small", "a.txt", tmp_path / "mine") == theirs


def test_wrong_hash_names_the_file_and_both_hashes(tmp_path):
    path = put(tmp_path, content=CONTENT[:-5])
    with pytest.raises(DataError) as caught:
        files.locate("small", "a.txt", tmp_path)
    message = str(caught.value)
    for part in (str(path), md5(CONTENT), md5(CONTENT[:-5]), f"{len(CONTENT) - 5} bytes"):
        assert part in message
    assert "\n" not in message
    assert files.locate("small", "a.txt", tmp_path, verify=False) == path


def test_damage_after_a_first_good_look_is_noticed(tmp_path):
    path = put(tmp_path)
    files.locate("small", "a.txt", tmp_path)
    path.write_bytes(CONTENT + b"more")
    with pytest.raises(DataError, match="damaged"):
        files.locate("small", "a.txt", tmp_path)


def test_a_good_file_is_read_only_once(tmp_path, monkeypatch):
    put(tmp_path)
    files.locate("small", "a.txt", tmp_path)
    monkeypatch.setattr(files, "_read", lambda path: pytest.fail("read again"))
    files.locate("small", "a.txt", tmp_path)


def test_unpacked_file_is_found_and_checked(tmp_path, monkeypatch):
    packed = gzip.compress(CONTENT)
    unpacked = {"a": md5(CONTENT)}
    serve(monkeypatch, "http://127.0.0.1:9/", md5={"a.gz": md5(packed)}, unpacked=unpacked)
    path = put(tmp_path, name="a")
    assert files.locate("small", "a.gz", tmp_path) == path
    path.write_bytes(CONTENT[1:])
    with pytest.raises(DataError, match=f"expected {md5(CONTENT)}"):
        files.locate("small", "a.gz", tmp_path)
    beside = put(tmp_path, name="a.gz", content=packed)
    assert files.locate("small", "a.gz", tmp_path) == beside


@needs_pooch
def test_missing_file_says_where_to_put_it(tmp_path):
    with pytest.raises(DataError) as caught:
        files.locate("small", "a.txt", tmp_path, download=False)
    message = str(caught.value)
    for part in (
        "small/a.txt",
        str(tmp_path / "small" / "a.txt"),
        md5(CONTENT),
        "127.0.0.1:9",
        "is switched off",
    ):
        assert part in message


@needs_pooch
def test_missing_file_without_a_directory_points_to_the_variable():
    with pytest.raises(DataError, match=r"at \$COLA_DATA/small/a\.txt"):
        files.locate("small", "a.txt", download=False)


def test_without_pooch_the_error_says_how_to_install_it(tmp_path, monkeypatch):
    present = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pooch" else present(name)
    )
    with pytest.raises(DataError, match=r'small/a\.txt is missing.*pip install "\.\[cli,data\]"'):
        files.locate("small", "a.txt", tmp_path)


def test_directory_that_does_not_exist_is_refused(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"data directory .*nowhere does not exist"):
        files.locate("small", "a.txt", tmp_path / "nowhere")
    monkeypatch.setenv("COLA_DATA", str(tmp_path / "nothing"))
    with pytest.raises(DataError, match=r"COLA_DATA .*nothing does not exist"):
        files.locate("small", "a.txt")
    (tmp_path / "nothing").touch()
    with pytest.raises(DataError, match=r"COLA_DATA .*nothing is a file, not a directory"):
        files.locate("small", "a.txt")
    monkeypatch.setenv("COLA_DATA", str(tmp_path))
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)
    with pytest.raises(DataError, match=r"COLA_DATA .* cannot be read: permission denied"):
        files.locate("small", "a.txt")


def test_unknown_dataset_and_unknown_file():
    with pytest.raises(DataError, match=r"unknown dataset 'imagenet'.*mnist"):
        files.locate("imagenet", "a.txt")
    with pytest.raises(DataError, match=r"small has no file 'b.txt'; it has a.txt"):
        files.find("small", "b.txt")


@needs_pooch
def test_download_fills_the_cache_once(server, tmp_path, monkeypatch, capfd):
    folder, address, requests = server
    serve(monkeypatch, address)
    (folder / "a.txt").write_bytes(CONTENT)
    path = files.locate("small", "a.txt")
    assert path == tmp_path / "cache" / "colangevin" / "small" / "a.txt"
    assert path.read_bytes() == CONTENT
    if importlib.util.find_spec("tqdm"):
        assert "100%" in capfd.readouterr().err
    assert files.locate("small", "a.txt", download=False) == path
    assert [name for name, _ in requests] == ["/a.txt"]
    # A host refuses the default agent of the HTTP library.
    assert "colangevin" in requests[0][1]


@needs_pooch
def test_damaged_cache_is_fetched_anew(server, tmp_path, monkeypatch):
    folder, address, requests = server
    serve(monkeypatch, address)
    (folder / "a.txt").write_bytes(CONTENT)
    put(tmp_path / "cache" / "colangevin", content=CONTENT[:3])
    assert files.locate("small", "a.txt").read_bytes() == CONTENT
    assert len(requests) == 1


@needs_pooch
def test_second_address_is_tried(server, monkeypatch):
    folder, address, requests = server
    serve(monkeypatch, address + "gone/", address)
    (folder / "a.txt").write_bytes(CONTENT)
    assert files.locate("small", "a.txt").read_bytes() == CONTENT
    assert [name for name, _ in requests] == ["/gone/a.txt", "/a.txt"]


@pytest.mark.parametrize("served", [b"something else", CONTENT[:-1]], ids=["wrong", "truncated"])
@needs_pooch
def test_download_with_another_hash_is_refused(server, tmp_path, monkeypatch, served):
    folder, address, _ = server
    serve(monkeypatch, address)
    (folder / "a.txt").write_bytes(served)
    with pytest.raises(DataError) as caught:
        files.locate("small", "a.txt")
    message = str(caught.value)
    assert f"It is at {address}a.txt" in message and md5(CONTENT) in message
    assert f"{address.split('/')[2]} failed" in message
    assert md5(served) in message
    assert "\n" not in message
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


@needs_pooch
def test_download_cut_off_on_the_way_is_refused(server, monkeypatch):
    folder, address, _ = server
    serve(monkeypatch, address)
    (folder / "a.txt").write_bytes(CONTENT)
    monkeypatch.setattr(Handler, "copyfile", lambda self, source, out: out.write(source.read(9)))
    with pytest.raises(DataError, match=r"a\.txt is missing; .*failed"):
        files.locate("small", "a.txt")


@needs_pooch
def test_no_server_at_all():
    with pytest.raises(DataError, match=r"http://127\.0\.0\.1:9/a\.txt .* 127\.0\.0\.1:9 failed"):
        files.locate("small", "a.txt")


@needs_pooch
def test_what_is_useful_comes_first_and_the_connection_in_few_words(tmp_path, monkeypatch):
    serve(monkeypatch, "http://127.0.0.1:9/", "http://localhost:9/")
    monkeypatch.setenv("COLA_DATA", str(tmp_path))
    with pytest.raises(DataError) as caught:
        files.locate("small", "a.txt")
    message = str(caught.value)
    start = f"small/a.txt is missing; looked in COLA_DATA ({tmp_path}), the cache ("
    assert message.startswith(start)
    put, failed = (
        message.index(f"Put it at {tmp_path / 'small' / 'a.txt'}"),
        message.index("failed"),
    )
    assert put < failed and "--data or COLA_DATA" in message
    assert message.count("Connection refused") == 2 and "Max retries" not in message
    assert len(message) < 700
    monkeypatch.delenv("COLA_DATA")
    with pytest.raises(DataError, match=r"looked in COLA_DATA \(not set\), the cache \("):
        files.locate("small", "a.txt", download=False)


def tarred(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return "all.tar.gz", buffer.getvalue()


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return "all.zip", buffer.getvalue()


def serve_archive(server, monkeypatch, pack, members):
    folder, address, requests = server
    name, content = pack(members)
    (folder / name).write_bytes(content)
    hashes = {"a.txt": md5(CONTENT), "b.txt": md5(b"b")}
    serve(monkeypatch, address, md5=hashes, archive=name, archive_md5=md5(content))
    return requests


@pytest.mark.parametrize("pack", [tarred, zipped])
@needs_pooch
def test_archive_is_fetched_once_and_only_its_data_kept(server, tmp_path, monkeypatch, pack):
    members = {"small/a.txt": CONTENT, "small/b.txt": b"b", "../evil": b"evil", "small/x": b"x"}
    requests = serve_archive(server, monkeypatch, pack, members)
    assert files.locate("small", "a.txt").read_bytes() == CONTENT
    assert files.locate("small", "b.txt").read_bytes() == b"b"
    assert len(requests) == 1
    kept = [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert sorted(kept) == ["a.txt", "b.txt"]


@pytest.mark.parametrize("pack", [tarred, zipped])
@pytest.mark.parametrize(
    "members", [{"small/a.txt": b"damaged", "small/b.txt": b"b"}, {"small/b.txt": b"b"}]
)
@needs_pooch
def test_archive_with_a_bad_member_is_refused(server, monkeypatch, pack, members):
    serve_archive(server, monkeypatch, pack, members)
    with pytest.raises(DataError, match=r"small/a\.txt is missing; .*failed .*a\.txt"):
        files.locate("small", "a.txt")


def test_read_unpacks_and_refuses_damage(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(CONTENT))
    assert files.read(path) == CONTENT
    path.write_bytes(gzip.compress(CONTENT)[:-9])
    with pytest.raises(DataError, match=r"a\.gz is not a whole gzip file"):
        files.read(path)
    path.write_bytes(CONTENT)
    with pytest.raises(DataError, match=r"a\.gz is not a whole gzip file"):
        files.read(path)
    with pytest.raises(DataError, match=r"b cannot be read: No such file"):
        files.read(tmp_path / "b")
