"""A clock that knows what its seconds were spent on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch


@dataclass
class Clock:
    """Seconds by what they were spent on."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, what: str) -> Iterator[None]:
        _settle()
        started = time.perf_counter()
        yield
        _settle()
        self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - started


def _settle() -> None:
    """Wait for a GPU, so that a clock reads work and not the asking for it."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
