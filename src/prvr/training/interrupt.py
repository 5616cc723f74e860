"""Stopping with Ctrl-C: the current step ends, the state is saved, then the run stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from prvr.errors import Interrupted


@contextmanager
def watch_interrupt() -> Iterator[Interrupted]:
    """Turn the first SIGINT or SIGTERM into a request to stop; a second one interrupts at once.

    The request's argument is the number of the signal. The command line makes its exit code of it: 130 or 143.
    """
    request = Interrupted()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def receive(number: int, frame: FrameType | None) -> None:
        if request.requested:
            usual = before[signal.Signals(number)]
            if callable(usual):  # the command line's, which knows SIGTERM from Ctrl-C
                usual(number, frame)
            raise KeyboardInterrupt
        request.requested, request.args = True, (number,)

    for number in before:
        signal.signal(number, receive)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Hold back Ctrl-C, and other signals that interrupt, until the block has ended; they arrive then."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def receive(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    # What is ignored stays so: a process that is started in the block inherits it.
    before = {number: signal.signal(number, receive) for number in numbers if callable(signal.getsignal(number))}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for arrival in arrived:
            signal.raise_signal(arrival)
