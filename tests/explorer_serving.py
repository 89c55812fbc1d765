"""A server of the explorer in a thread, and a client that reads its events."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from colangevin.lab.cli.explore_command import _listen
from colangevin.lab.explorer.pages import Registry
from colangevin.lab.explorer.server import make_app

SMALL: dict[str, Any] = {
    "network": {"depth": 1, "width": 8},
    "data": {"train": 20, "test": 20},
    "a": {"method": "cola", "h": 0.1, "input": "circle"},
}


class Running:
    """A server that runs."""

    def __init__(self, port: int, registry: Registry) -> None:
        self.port, self.registry = port, registry
        self.address = f"http://127.0.0.1:{port}/"

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        connection = self.connect()
        content = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        own = {"content-type": "application/json"} if content is not None else {}
        connection.request(method, path, content, {**own, **(headers or {})})
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    def open(self, spec: Any = None) -> str:
        status, body = self.request("POST", "/sessions", SMALL if spec is None else spec)
        assert status == 201, body
        return f"/sessions/{json.loads(body)['session']}"

    def command(self, session: str, what: str, **more: Any) -> Any:
        status, body = self.request("POST", f"{session}/commands", {"do": what, **more})
        assert status == 200, body
        return json.loads(body)

    @contextmanager
    def events(self, session: str) -> Iterator[Iterator[tuple[str, Any]]]:
        """The events of a session, until the block ends and the connection is closed."""
        connection = self.connect()
        connection.request("GET", f"{session}/events")
        answer = connection.getresponse()
        assert answer.status == 200

        def read() -> Iterator[tuple[str, Any]]:
            name = ""
            while line := answer.readline().decode():
                if line.startswith("event: "):
                    name = line[7:].strip()
                elif line.startswith("data: "):
                    yield name, json.loads(line[6:])

        try:
            yield read()
        finally:
            answer.close()
            connection.close()


@contextmanager
def server(grace: float = 0.5, most: int = 4, first: float = 15.0) -> Iterator[Running]:
    registry = Registry(most=most, grace=grace, first=first)
    listening = _listen(0)
    config = uvicorn.Config(make_app(registry), log_level="error", timeout_graceful_shutdown=1)
    serving = uvicorn.Server(config)
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield Running(listening.getsockname()[1], registry)
    finally:
        serving.should_exit = True
        thread.join(10)
        listening.close()


def wait_for(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return False


def threads() -> list[threading.Thread]:
    """The training threads of this process."""
    return [thread for thread in threading.enumerate() if thread.name == "cola-explore"]
