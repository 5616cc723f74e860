"""Ctrl-C that leaves things right: the current step ends, the state is kept, then the run stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(Exception):
    """Raised by the loop at a step boundary after the user asked to stop."""

    asked: bool = False


@contextmanager
def watch_interrupt() -> Iterator[Interrupted]:
    """Turn the first SIGINT or SIGTERM into a request; a second one interrupts at once."""
    request = Interrupted()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if request.asked:
            raise KeyboardInterrupt
        request.asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
