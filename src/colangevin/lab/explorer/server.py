"""The server of the page: Starlette, server-sent events, and files that are in the package.

Nothing here imports torch: the page is there within a second, and torch follows.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from colangevin.lab.explorer import spec as specs
from colangevin.lab.explorer.guard import Guard
from colangevin.lab.explorer.opening import packed_record
from colangevin.lab.explorer.pages import Registry, TooMany
from colangevin.lab.explorer.presets import PRESETS
from colangevin.lab.explorer.session import Closed, Event, Session

TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
MOST_BYTES = 64 * 1024
"""Of a request's body."""
PATIENCE = 30.0
"""Seconds that a command may take: the first waits until torch is there."""
HEARTBEAT = 2.0


class Refused(Exception):
    """A request that gets an error: its status and what is wrong."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def choices() -> dict[str, Any]:
    """What can be chosen, for the page's controls."""
    return {
        "sections": {
            name: {
                key: {"type": type(field).__name__.lower(), **asdict(field)}
                for key, field in fields.items()
            }
            for name, fields in specs.SECTIONS.items()
            if name != "b"
        },
        "used": specs.USED,
        "data_uses": specs.DATA_USES,
        "live": specs.LIVE,
        "presets": {name: asdict(preset) for name, preset in PRESETS.items()},
        "default": specs.parse({}).plain(),
    }


async def body_of(request: Request) -> Any:
    """The JSON of a request.

    Raises:
        Refused: if it is too long, of another type, or no JSON.
    """
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
        raise Refused(415, "the body must be application/json")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise Refused(413, f"the body must have at most {MOST_BYTES} bytes")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(400, "the body must be JSON") from None


class Server:
    """The routes, and the sessions behind them."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        folder = files("colangevin.lab.explorer").joinpath("static")
        self._files = {
            file.name: (file.read_bytes(), TYPES[file.name.rsplit(".", 1)[-1]])
            for file in folder.iterdir()
            if file.name.rsplit(".", 1)[-1] in TYPES
        }
        self._choices = json.dumps(choices()).encode()
        self._wakers: dict[Session, set[asyncio.Event]] = {}

    # --- files ----------------------------------------------------------------------------

    async def file(self, request: Request) -> Response:
        """One of the package's own files, which are in memory."""
        name = request.path_params.get("name", "index.html")
        if name not in self._files:
            raise Refused(404, "there is no such file")
        content, kind = self._files[name]
        return Response(content, media_type=kind)

    async def opening(self, request: Request) -> Response:
        """The recorded run of a preset."""
        name = request.path_params["name"]
        if name not in PRESETS:
            raise Refused(404, "there is no such preset")
        headers = {"content-encoding": "gzip"}
        return Response(packed_record(name), media_type="application/json", headers=headers)

    async def choices(self, request: Request) -> Response:
        """What can be chosen."""
        return Response(self._choices, media_type="application/json")

    # --- sessions -------------------------------------------------------------------------

    def _session(self, request: Request) -> Session:
        session = self.registry.find(request.path_params["session"])
        if session is None:
            raise Refused(404, "there is no such session: load the page again")
        return session

    async def open(self, request: Request) -> Response:
        """Begin a session."""
        given = await body_of(request)
        loop, wakers = asyncio.get_running_loop(), set[asyncio.Event]()

        def wake() -> None:
            for waker in list(wakers):
                waker.set()

        def notify() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(wake)

        try:
            name, session = self.registry.open(specs.parse(given), notify)
        except ValueError as error:
            raise Refused(400, str(error)) from None
        except TooMany as error:
            raise Refused(503, str(error)) from None
        self._wakers[session] = wakers
        return JSONResponse({"session": name}, 201)

    async def close(self, request: Request) -> Response:
        """End a session: the page says goodbye."""
        self.registry.close(request.path_params["session"])
        return Response(status_code=204)

    async def command(self, request: Request) -> Response:
        """Play, pause, step, reset, change, look, pace."""
        session, given = self._session(request), await body_of(request)
        return JSONResponse(await self._answer(session.command(given)))

    async def code(self, request: Request) -> Response:
        """The training as a program."""
        text = await self._answer(self._session(request).code())
        return Response(text, media_type="text/x-python; charset=utf-8")

    async def record(self, request: Request) -> Response:
        """The training as a record."""
        return JSONResponse(await self._answer(self._session(request).record()))

    async def _answer(self, future: Any) -> Any:
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), PATIENCE)
        except (ValueError, TypeError) as error:
            raise Refused(400, str(error)) from None
        except Closed as error:
            raise Refused(410, str(error)) from None
        except asyncio.TimeoutError:
            raise Refused(503, "the training did not answer in time") from None

    # --- events ---------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        """The stream of frames; the session ends some seconds after the last one is closed."""
        session = self._session(request)
        return StreamingResponse(self._stream(session), media_type="text/event-stream")

    async def _stream(self, session: Session) -> AsyncIterator[str]:
        waker, sent, told = asyncio.Event(), 0, 0
        waker.set()
        wakers = self._wakers.setdefault(session, set())
        wakers.add(waker)
        session.listeners += 1
        try:
            while session.alive:
                try:
                    await asyncio.wait_for(waker.wait(), HEARTBEAT)
                except asyncio.TimeoutError:
                    yield ": still there\n\n"
                waker.clear()
                problem, frame = session.problem, session.frame
                if problem is not None and problem.serial > told:
                    told = problem.serial
                    yield _text(problem)
                # The latest frame wins: a slow page misses some, and none waits in a queue.
                if frame is not None and frame.serial > max(sent, told):
                    sent = frame.serial
                    yield _text(frame)
                    session.taken = sent
        finally:
            wakers.discard(waker)
            session.listeners -= 1
            session.left = time.monotonic()

    # --- life -----------------------------------------------------------------------------

    @asynccontextmanager
    async def life(self, app: Starlette) -> AsyncIterator[None]:
        """Sweep lonely sessions while the server lives; end all at its end."""

        async def sweep() -> None:
            while True:
                await asyncio.sleep(min(1.0, self.registry.grace))
                self.registry.sweep()
                for session in [s for s in self._wakers if not s.alive]:
                    del self._wakers[session]

        task = asyncio.create_task(sweep())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.to_thread(self.registry.close_all)


def _text(event: Event) -> str:
    return f"event: {event.name}\ndata: {event.text}\n\n"


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, Refused) else 400
    return JSONResponse({"error": str(error)}, status)


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)


def make_app(registry: Registry | None = None) -> Starlette:
    """The application.

    Args:
        registry: the sessions; a new one if not given.
    """
    server = Server(Registry() if registry is None else registry)
    one = "/sessions/{session}"
    routes = [
        Route("/", server.file),
        Route("/static/{name}", server.file),
        Route("/choices", server.choices),
        Route("/openings/{name}", server.opening),
        Route("/sessions", server.open, methods=["POST"]),
        Route(f"{one}/close", server.close, methods=["POST"]),
        Route(f"{one}/commands", server.command, methods=["POST"]),
        Route(f"{one}/events", server.events),
        Route(f"{one}/code", server.code),
        Route(f"{one}/record", server.record),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard)],
        exception_handlers={Refused: _refused, ClientDisconnect: _gone},
        lifespan=server.life,
    )
