"""A real browser for the tests of the explorer's page."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CANDIDATES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = [path for name in CANDIDATES if (path := shutil.which(name))]
    if not found:
        pytest.skip(f"no browser: none of {', '.join(CANDIDATES)} is on the PATH")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=found[0], args=["--no-sandbox"])
        try:
            yield chromium
        finally:
            chromium.close()


class Page:
    """A page of the explorer, with everything that its console has said."""

    def __init__(self, chromium: Any, address: str, **options: Any) -> None:
        self.context = chromium.new_context(
            **{"viewport": {"width": 1280, "height": 900}, **options}
        )
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.console: list[str] = []
        self.page.on("console", lambda message: self.console.append(message.text))
        self.page.on("pageerror", lambda error: self.console.append(str(error)))
        self.page.on("request", lambda request: self._check(request.url, address))
        self.elsewhere: list[str] = []
        self.page.goto(address)
        self.page.wait_for_selector("body[data-ready=yes][data-steps]")

    def _check(self, url: str, address: str) -> None:
        own = address.split("#")[0]
        if not url.startswith((own, "blob:", "data:")):
            self.elsewhere.append(url)

    def wait(self, condition: str, value: Any = None) -> None:
        """Wait until a JavaScript expression holds."""
        self.page.wait_for_function(f"(value) => {condition}", arg=value)

    def data(self, name: str) -> str:
        found: str = self.page.evaluate("(name) => document.body.dataset[name]", name)
        return found

    def score(self, letter: str, name: str) -> float:
        return float(self.page.evaluate(f"document.getElementById('run-{letter}').dataset.{name}"))

    def choose(self, control: str, value: str) -> None:
        self.page.select_option(f"#{control}", value)

    def fill(self, control: str, value: float) -> None:
        self.page.fill(f"#{control}", str(value))
        self.page.press(f"#{control}", "Enter")

    def paused(self) -> None:
        self.wait("document.body.dataset.state === 'paused'")

    def address(self) -> str:
        return str(self.page.evaluate("location.href"))

    def close(self) -> None:
        """Close the page; nothing may have been said or fetched from elsewhere."""
        self.context.close()
        assert self.console == []
        assert self.elsewhere == []
