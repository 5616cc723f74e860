"""Wait for something that another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0  # seconds: far more than anything takes, also on a busy machine


def until(holds: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until a condition holds; fail if it does not within ``seconds``."""
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "it never came to be"
        time.sleep(0.02)
