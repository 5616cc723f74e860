"""Helpers for tests of the page."""

from __future__ import annotations

import time
from typing import Any

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE = 60  # seconds: far more than anything here takes
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


def search_for(page: Any, query: str) -> None:
    page.fill("#query", query)
    page.press("#query", "Enter")


def place(page: Any) -> str:
    """The page's address as the page itself sees it; Playwright hears of a change a little later."""
    return str(page.evaluate("location.href"))


def until(page: Any, condition: str) -> None:
    """Wait for a JavaScript condition. The page's policy forbids Playwright's own `wait_for_function`."""
    ends = time.monotonic() + PATIENCE
    while not page.evaluate(condition):
        assert time.monotonic() < ends, condition
        page.wait_for_timeout(30)
