"""The sessions of a server: a bounded number, and none without a page."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from colangevin.lab.explorer.session import Session
from colangevin.lab.explorer.spec import Spec

MOST_SESSIONS = 4
"""A browser has six connections to one server, and each page keeps one of them open."""
GRACE = 4.0
"""Seconds after which a session without a page ends; a page that is loaded again needs one."""
FIRST = 15.0
"""Seconds that a new session waits for its page, besides: a busy machine takes some."""


class TooMany(Exception):
    """There are as many sessions as there may be."""


class Registry:
    """All sessions by their name, which nobody can guess."""

    def __init__(
        self, most: int = MOST_SESSIONS, grace: float = GRACE, first: float = FIRST
    ) -> None:
        self.most, self.grace, self.first = most, grace, first
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, spec: Spec, notify: Callable[[], None] = lambda: None) -> tuple[str, Session]:
        """Begin a session.

        Raises:
            TooMany: if there are too many already.
        """
        self.sweep()
        if len(self._sessions) >= self.most:
            raise TooMany(
                f"{self.most} pages train at the same time already: close one of them, then "
                "load this page again"
            )
        name = secrets.token_urlsafe(16)
        session = self._sessions[name] = Session(spec, notify)
        session.left += self.first
        return name, session

    def find(self, name: str) -> Session | None:
        """The session of this name."""
        return self._sessions.get(name)

    def close(self, name: str) -> None:
        """End a session, if it is there."""
        session = self._sessions.pop(name, None)
        if session is not None:
            session.close()

    def sweep(self) -> None:
        """End the sessions that no page listens to."""
        now = time.monotonic()
        for name, session in list(self._sessions.items()):
            lonely = session.listeners == 0 and now - session.left > self.grace
            if lonely or not session.alive:
                self.close(name)

    def end(self) -> None:
        """End all sessions, and allow no new ones."""
        self.most = 0
        for name in list(self._sessions):
            self.close(name)

    def close_all(self) -> None:
        """End all sessions and wait for their threads."""
        sessions = list(self._sessions.values())
        for name in list(self._sessions):
            self.close(name)
        for session in sessions:
            session.join()
