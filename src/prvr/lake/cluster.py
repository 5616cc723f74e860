"""Add videos on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prvr.library import Adder, AddReport, Library


@contextmanager
def connected(address: str) -> Iterator[Any]:
    raise NotImplementedError
    yield None


def add_on_cluster(lib: Library, adder: Adder, files: Sequence[Path], address: str, workers: int | None) -> AddReport:
    raise NotImplementedError
