"""Add videos on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from prvr.library import Adder, AddReport, Library
from prvr.media import VideoFile


@contextmanager
def connected(address: str) -> Iterator[Any]:
    raise NotImplementedError
    yield None


def add_on_cluster(
    lib: Library, adder: Adder, files: Sequence[VideoFile], address: str, workers: int | None
) -> AddReport:
    raise NotImplementedError
