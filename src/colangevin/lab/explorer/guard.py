"""Who may talk to the server: pages that it has served itself, on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost")
SAME = ("same-origin", "none")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def refusal(headers: dict[str, str], path: str) -> str | None:
    """Why a request is refused; None if it is not.

    A page of another site can send requests to this machine. Its browser names it in Origin or
    Sec-Fetch-Site. A name of another host that leads to this machine stands in Host.

    Example:
        >>> refusal({"host": "127.0.0.1:8000"}, "/")
        >>> refusal({"host": "evil.example"}, "/")
        'Host must be 127.0.0.1 or localhost'
    """
    host = headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        name = None
    if name not in HOSTS:
        return f"Host must be {' or '.join(HOSTS)}"
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return "Origin must be this server"
    site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode")
    if site not in SAME and not (path == "/" and mode == "navigate"):
        return "requests from other sites are refused"
    return None


class Guard:
    """Refuses requests of others, and sets the headers of every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: object) -> None:
            assert isinstance(message, dict)
            if message["type"] == "http.response.start":
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *extra]
            await send(message)

        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        reason = refusal(headers, scope["path"])
        if reason is not None:
            await JSONResponse({"error": reason}, 403)(scope, receive, guarded)
            return
        await self.app(scope, receive, guarded)
