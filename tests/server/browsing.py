"""What tests of the page share."""

from __future__ import annotations

import time
from typing import Any

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


def look_for(page: Any, words: str) -> None:
    page.fill("#query", words)
    page.press("#query", "Enter")


def until(page: Any, condition: str) -> None:
    """Asked from outside: the page's policy lets nobody evaluate strings inside."""
    ends = time.monotonic() + 20
    while not page.evaluate(condition):
        assert time.monotonic() < ends, condition
        page.wait_for_timeout(30)
