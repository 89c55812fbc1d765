"""``cola explore``: the server of the explorer, and a browser for it."""

from __future__ import annotations

import contextlib
import socket
import threading
import warnings
import webbrowser
from types import FrameType

from rich.console import Console

from colangevin.errors import ProjectionWarning
from colangevin.lab.cli.complaint import BAD_ARGUMENT, INTERRUPTED, complain

HOST = "127.0.0.1"
MOST_CONNECTIONS = 100


def run_explore(port: int, browser: bool) -> int:
    """Serve the page until Ctrl-C; return the exit code."""
    try:
        import uvicorn

        from colangevin.lab.explorer.pages import Registry
        from colangevin.lab.explorer.server import make_app
    except ModuleNotFoundError as error:
        wanted = f'the package {error.name}: pip install "colangevin[explore]"'
        complain("explore", ModuleNotFoundError(f"it needs {wanted}"))
        return BAD_ARGUMENT
    try:
        listening = _listen(port)
    except (OSError, ValueError) as error:
        complain("explore", error)
        return BAD_ARGUMENT
    address = f"http://{HOST}:{listening.getsockname()[1]}/"
    registry = Registry()

    class Server(uvicorn.Server):
        """Ends the pages' streams first: the server waits for open connections."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            registry.end()
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        make_app(registry),
        log_level="warning",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    # Connections are accepted from now on, so a browser that comes early waits, and finds a page.
    threading.Thread(target=_warm_up, daemon=True).start()
    Console().print(f"Open {address} (Ctrl-C ends)", highlight=False)
    if browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    server = Server(config)
    # Ctrl-C comes once more when the server has ended, except where the shell ignores it.
    with listening, contextlib.suppress(KeyboardInterrupt):
        # The page shows how well constraints hold; the terminal need not repeat it.
        warnings.filterwarnings("ignore", category=ProjectionWarning)
        server.run(sockets=[listening])
    return INTERRUPTED if server.should_exit else 0


def _listen(port: int) -> socket.socket:
    """A socket on this machine's own address alone.

    Raises:
        ValueError, OSError: if there is no such port, or it is in use.
    """
    if not 0 <= port <= 65535:
        raise ValueError(f"port must be from 0 to 65535 (0: any that is free), got {port}")
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError as error:
        listening.close()
        reason = (error.strerror or str(error)).lower()
        raise OSError(f"port {port} of {HOST}: {reason}; give another one by --port") from None
    listening.listen(128)
    return listening


def _warm_up() -> None:
    """Import torch while the reader looks at the page."""
    import colangevin.lab.explorer.readings  # noqa: F401
