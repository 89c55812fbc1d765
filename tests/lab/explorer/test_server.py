"""The server: whom it answers, what it refuses, and that nothing stays behind."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra explore is not installed")
pytest.importorskip("uvicorn", reason="the extra explore is not installed")

from starlette.testclient import TestClient

from colangevin.lab.cli.explore_command import run_explore
from colangevin.lab.explorer import opening
from colangevin.lab.explorer.pages import Registry
from colangevin.lab.explorer.presets import PRESETS
from colangevin.lab.explorer.server import MOST_BYTES, make_app
from explorer_serving import SMALL, Running, server, threads, wait_for


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(make_app(Registry(most=3)), base_url="http://127.0.0.1:8765") as client:
        yield client
    assert wait_for(lambda: not threads())


@pytest.fixture(scope="module")
def serving() -> Iterator[Running]:
    with server() as found:
        yield found


@pytest.fixture
def running(serving: Running) -> Iterator[Running]:
    yield serving
    serving.registry.close_all()
    assert wait_for(lambda: not threads())


# --- whom it answers ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "evil.example:8765"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "[::1"},
        {"host": "0.0.0.0:8765"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "https://127.0.0.1:8765"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    ],
)
@pytest.mark.parametrize("path", ["/choices", "/sessions"])
def test_others_are_refused(client: TestClient, headers: dict[str, str], path: str) -> None:
    method = "POST" if path == "/sessions" else "GET"
    answer = client.request(method, path, headers=headers, **_json({}, method))
    assert answer.status_code == 403
    assert "error" in answer.json()
    assert not threads()


def _json(content: Any, method: str) -> dict[str, Any]:
    return {"json": content} if method == "POST" else {}


def test_its_own_page_is_answered(client: TestClient) -> None:
    own = {"origin": "http://127.0.0.1:8765", "sec-fetch-site": "same-origin"}
    assert client.get("/choices", headers=own).status_code == 200
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=link).status_code == 200
    assert client.get("/choices", headers=link).status_code == 403


def test_answers_forbid_content_from_elsewhere(client: TestClient) -> None:
    headers = client.get("/").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


# --- files ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/static/server.py",
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/etc/passwd",
        "/static/",
    ],
)
def test_no_other_file_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_the_page_uses_nothing_from_elsewhere(client: TestClient) -> None:
    static = Path(__file__).parents[3] / "src" / "colangevin" / "lab" / "explorer" / "static"
    names = sorted(path.name for path in static.iterdir())
    assert {"index.html", "style.css", "main.js"} <= set(names)
    for name in names:
        answer = client.get(f"/static/{name}")
        assert answer.status_code == 200
        text = answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text


def test_choices_have_all_controls_and_presets(client: TestClient) -> None:
    choices = client.get("/choices").json()
    assert set(choices["sections"]) == {"data", "network", "training", "a"}
    assert set(choices["presets"]) == set(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_a_recorded_run(client: TestClient, name: str) -> None:
    answer = client.get(f"/openings/{name}")
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.json() == opening.read(name)
    assert len(opening.packed_record(name)) < 150_000
    assert client.get("/openings/nothing").status_code == 404


# --- bad requests ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[" * 50_000, 400),
        (b"NaN", 400),
        (b'{"a": {"h": NaN}}', 400),
        (b'{"a": {"h": 1e999}}', 400),
        (b'{"network": {"width": 100000}}', 400),
        (b'{"data": {"train": -3}}', 400),
        (b"{}" + b" " * MOST_BYTES, 413),
    ],
)
def test_garbage_gets_an_error(client: TestClient, body: bytes, status: int) -> None:
    answer = client.post("/sessions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert answer.json()["error"]
    assert not threads()


def test_forms_are_refused(client: TestClient) -> None:
    # A page of another site can send forms, and no browser asks first.
    assert client.post("/sessions", content="{}").status_code == 415
    assert client.post("/sessions", data={"a": "b"}).status_code == 415


@pytest.mark.parametrize("path", ["events", "code", "record", "commands"])
def test_an_unknown_session_is_not_found(client: TestClient, path: str) -> None:
    method = "POST" if path == "commands" else "GET"
    answer = client.request(method, f"/sessions/x/{path}", **_json({}, method))
    assert answer.status_code == 404


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(client: TestClient, method: str) -> None:
    assert client.request(method, "/sessions").status_code == 405


@pytest.mark.parametrize(
    "command",
    [
        [],
        {},
        {"do": 3},
        {"do": "open", "path": "/etc/passwd"},
        {"do": "__init__"},
        {"do": "play", "until": -1},
        {"do": "play", "until": 10**9},
        {"do": "step", "count": 1.5},
        {"do": "step", "count": 10**6},
        {"do": "reset", "spec": 3},
        {"do": "reset", "spec": {"network": {"width": 0}}},
        {"do": "reset", "changes": "x"},
        {"do": "change", "run": "b", "values": {"h": 0.1}},
        {"do": "change", "run": "a", "values": {"h": "x"}},
        {"do": "change", "run": "a", "values": []},
        {"do": "change", "run": "a", "values": {"method": "sgd"}},
        {"do": "look", "member": 7},
        {"do": "look", "member": -1},
        {"do": "look", "member": -2},
        {"do": "look", "layer": "../x"},
        {"do": "pace", "steps": True},
    ],
)
def test_bad_commands_change_nothing(client: TestClient, command: Any) -> None:
    session = f"/sessions/{client.post('/sessions', json=SMALL).json()['session']}"
    answer = client.post(f"{session}/commands", json=command)
    assert answer.status_code == 400
    assert answer.json()["error"]
    assert client.post(f"{session}/commands", json={"do": "step"}).json()["steps"] == 1
    record = client.get(f"{session}/record").json()
    assert (record["steps"], record["changes"]) == (1, [])


def test_fifty_pages_get_an_error_and_no_crash(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answers = [client.post("/sessions", json=SMALL) for _ in range(50)]
    assert [answer.status_code for answer in answers] == [201] * 3 + [503] * 47
    assert "close one of them" in answers[-1].json()["error"]
    assert len(threads()) == 3
    assert client.get("/").status_code == 200
    assert list(tmp_path.iterdir()) == []  # nothing is written
    client.post(f"/sessions/{answers[0].json()['session']}/close")
    assert wait_for(lambda: len(threads()) == 2)
    assert client.post("/sessions", json=SMALL).status_code == 201


# --- a session ------------------------------------------------------------------------------


def test_frames_come_while_it_plays_and_stop_when_it_pauses(running: Running) -> None:
    session = running.open()
    with running.events(session) as events:
        assert next(events)[0] == "problem"
        assert next(events)[1]["steps"] == 0
        running.command(session, "play")
        steps = [next(events)[1]["steps"] for _ in range(5)]
        assert steps == sorted(steps)
        assert steps[-1] > steps[0] > 0
        paused = running.command(session, "pause")["steps"]
        frame: dict[str, Any] = {"state": "playing"}
        while frame["state"] == "playing":
            frame = next(events)[1]
        assert frame["steps"] == paused
        assert running.command(session, "step", count=5)["steps"] == paused + 5


def test_a_slow_page_gets_the_latest_frame(running: Running) -> None:
    session = running.open()
    with running.events(session) as events:
        next(events), next(events)
        for _ in range(30):
            running.command(session, "step")
        seen = [0]
        while seen[-1] < 30:
            seen.append(next(events)[1]["steps"])
    assert len(seen) <= 31


def test_a_script_repeats_the_changes(running: Running) -> None:
    session = running.open()
    running.command(session, "step", count=10)
    running.command(session, "change", run="a", values={"h": 0.02, "input_radius": 0.3})
    running.command(session, "step", count=10)
    first = json.loads(running.request("GET", f"{session}/record")[1])
    code = running.request("GET", f"{session}/code")[1]
    again = {"spec": first["start"], "changes": first["changes"]}
    running.command(session, "reset", **again)
    running.command(session, "step", count=20)
    second = json.loads(running.request("GET", f"{session}/record")[1])
    assert first["history"][-1] == second["history"][-1]
    assert second["changes"] == first["changes"]
    assert running.request("GET", f"{session}/code")[1] == code


def test_play_until_a_step_ends_there(running: Running) -> None:
    session = running.open()
    with running.events(session) as events:
        running.command(session, "play", until=123)
        frame: dict[str, Any] = {}
        while frame.get("state") != "paused" or not frame["steps"]:
            frame = next(events)[1]
        assert frame["steps"] == 123


def test_the_thread_ends_when_the_page_closes(running: Running) -> None:
    before = len(threads())
    session = running.open()
    with running.events(session) as events:
        running.command(session, "play")
        next(events)
        assert len(threads()) == before + 1
    assert wait_for(lambda: running.registry.find(session.split("/")[-1]) is None, 5.0)
    assert wait_for(lambda: len(threads()) <= before, 5.0)
    assert running.request("POST", f"{session}/commands", {"do": "play"})[0] in (404, 410)


def test_a_page_that_never_listens_ends_too() -> None:
    with server(first=0.1) as running:
        running.open()
        assert len(threads()) >= 1
        assert wait_for(lambda: not threads(), 5.0)


def test_the_record_has_a_bounded_number_of_rows(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("colangevin.lab.explorer.session.MOST_ROWS", 10)
    session = running.open()
    for _ in range(40):
        running.command(session, "step")
    record = json.loads(running.request("GET", f"{session}/record")[1])
    steps = [row["step"] for row in record["history"]]
    assert len(steps) <= 11
    assert steps[-1] >= 32
    assert steps == sorted(steps)


def test_an_unforeseen_error_reaches_the_page(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = running.open()
    with running.events(session) as events:
        next(events), next(events)
        monkeypatch.setattr("colangevin.lab.explorer.runs.Training.step", lambda self: [][0])
        running.command(session, "play")
        frame = next(events)[1]
        assert frame["state"] == "failed"
        assert "IndexError" in frame["message"]
    assert running.request("GET", "/")[0] == 200


def test_ctrl_c_ends_the_program_without_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "colangevin", "explore", "--port", "0", "--no-browser"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
    assert found is not None
    running = Running(int(found[1]), Registry())
    session = running.open()
    with running.events(session) as events:
        next(events), next(events)
        running.command(session, "play")
        process.send_signal(signal.SIGINT)
        assert [name for name, _ in events][-1:] in ([], ["frame"])  # the stream ends
    _, errors = process.communicate(timeout=20)
    assert errors == ""
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_an_error_in_words(
    serving: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_explore(serving.port, browser=False) == 2
    assert "--port" in capsys.readouterr().err
    assert run_explore(70_000, browser=False) == 2
    assert "65535" in capsys.readouterr().err
